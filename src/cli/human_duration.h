/*
 * Durations as people type and read them: "10" (seconds), "10s", "1500ms", "1.5s", "5m", "1h30m".
 */
#ifndef LEASED_CLI_HUMAN_DURATION_H
#define LEASED_CLI_HUMAN_DURATION_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* More than any server takes, and far from the end of 64 bits. */
#define HUMAN_DURATION_MS_MAX INT64_C(1000000000000000)
#define HUMAN_DURATION_TEXT_SIZE_MAX 32

/* Units are ms, s, m, h, d, from large to small, each once; a bare number is seconds; at most three
 * digits may follow a decimal point. STATUS_MALFORMED: no duration, or finer than a millisecond.
 * STATUS_INVALID: over HUMAN_DURATION_MS_MAX. */
enum status human_duration_parse(const char *text, int64_t *out_ms);

/* The shortest text that human_duration_parse() reads back to the same value; "-" before a negative
 * one. Writes at most HUMAN_DURATION_TEXT_SIZE_MAX bytes and gives `room`. */
const char *human_duration_format(int64_t ms, char room[HUMAN_DURATION_TEXT_SIZE_MAX]);

#endif
