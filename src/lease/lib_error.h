/* The sentence that lease_error() gives: one for each thread. */
#ifndef LEASED_LEASE_LIB_ERROR_H
#define LEASED_LEASE_LIB_ERROR_H

#include <lease.h>

/* Remembers the sentence and gives `status`. */
enum lease_status lib_error(enum lease_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
