/*
 * Durations as etcd's flags write them: "500ms", "5s", "2h0m0s", "1.5h".
 */
#ifndef LEASED_SERVER_DURATION_H
#define LEASED_SERVER_DURATION_H

#include "base/status.h"

#include <stdint.h>

/* A century: more is a mistake, and sums stay far from overflow. */
#define DURATION_MS_MAX (INT64_C(100) * 366 * 24 * 3600 * 1000)

/* Numbers with units (h, m, s, ms, us, ns), largest to smallest by custom only; "0" needs none.
 * Parts of a millisecond are dropped from the sum. STATUS_INVALID. */
enum status duration_parse(const char *text, int64_t *out_ms);

#endif
