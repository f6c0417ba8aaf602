/*
 * Durations as people and etcd's flags write them: "10s", "1500ms", "1.5h", "1h30m", "2h0m0s". They
 * are computed exactly, without floating point.
 */
#ifndef LEASED_BASE_DURATION_H
#define LEASED_BASE_DURATION_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* 31,688 years: more than any lease lasts, and sums stay far from overflow. */
#define DURATION_MS_MAX INT64_C(1000000000000000)

enum { DURATION_TEXT_SIZE_MAX = 32 };

/* The unit of a bare number, in milliseconds. */
enum duration_bare {
    DURATION_BARE_REFUSED = 0, /* only "0" needs no unit */
    DURATION_BARE_SECONDS = 1000,
    DURATION_BARE_HOURS = 3600 * 1000
};

/* Numbers with units (d, h, m, s, ms, us, ns), added up. Parts of a millisecond are dropped from
 * the sum. STATUS_MALFORMED: not a duration. STATUS_INVALID: over DURATION_MS_MAX. */
enum status duration_parse(const char *text, enum duration_bare bare, int64_t *out_ms);

/* The shortest text that duration_parse() reads back to the same value; "-" before a negative one.
 * Gives `room`. */
const char *duration_format(int64_t ms, char room[DURATION_TEXT_SIZE_MAX]);

#endif
