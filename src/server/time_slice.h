/*
 * How long a thread of this process keeps a processor that others want as well. A server sleeps
 * and is woken for every request and every write to disk. Where programs that compute keep all
 * processors busy, Linux lets each of them finish its slice of about 3 ms first, unless the thread
 * that is woken asks for a shorter one. Its share of the processors stays the same.
 */
#ifndef LEASED_SERVER_TIME_SLICE_H
#define LEASED_SERVER_TIME_SLICE_H

#include <stdint.h>

/* The shortest that Linux takes. */
#define TIME_SLICE_NS UINT64_C(100000)

/* For this thread and those that it starts. Changes nothing before Linux 6.12, where it is not
 * permitted, and for policies of their own (real-time, idle). */
void time_slice_shorten(void);

#endif
