/*
 * Where the bytes of a snapshot go while it is written: a file, a stream, a buffer. So the whole of
 * it need not be in memory.
 */
#ifndef LEASED_CORE_SNAPSHOT_SINK_H
#define LEASED_CORE_SNAPSHOT_SINK_H

#include "base/bytes.h"

/* Bytes are handed over when this many are gathered; one entry may make it more. */
enum { SNAPSHOT_SINK_SIZE = 256 * 1024 };

struct snapshot_sink {
    /* The next bytes, in order, never none; borrowed for the call. From the thread that writes the
     * snapshot. */
    void (*write)(void *data, struct bytes bytes);
    void *data;
};

#endif
