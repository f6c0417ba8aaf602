#include "base/duration.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_SECOND INT64_C(1000000000)
#define NUMBER_MAX (DURATION_MS_MAX * 1000)
#define FRACTIONS_PER_UNIT INT64_C(1000000000) /* digits beyond the ninth are dropped */

/* From large to small. */
static const struct unit {
    const char *name;
    int64_t ns;
} units[] = {
    {"d", 86400 * NS_PER_SECOND},
    {"h", 3600 * NS_PER_SECOND},
    {"m", 60 * NS_PER_SECOND},
    {"s", NS_PER_SECOND},
    {"ms", NS_PER_MS},
    {"us", 1000},
    {"\xc2\xb5s", 1000},
    {"ns", 1},
};
#define N_UNITS (sizeof units / sizeof units[0])

/* What is left of 64 bits after the largest unit: a sum is checked after every number. */
typedef __int128 duration_ns;

struct number {
    int64_t whole;
    int64_t fraction; /* in FRACTIONS_PER_UNIT */
};

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static enum status parse_number(const char **text, struct number *out_number) {
    struct number number = {0};
    const char *at = *text;
    for (; is_digit(*at); at++) {
        if (number.whole > NUMBER_MAX / 10) {
            return STATUS_INVALID;
        }
        number.whole = number.whole * 10 + (*at - '0');
    }
    if (*at == '.') {
        at++;
        if (!is_digit(*at)) {
            return STATUS_MALFORMED;
        }
        for (int64_t scale = FRACTIONS_PER_UNIT / 10; is_digit(*at); at++, scale /= 10) {
            number.fraction += (*at - '0') * scale;
        }
    }
    if (at == *text) {
        return STATUS_MALFORMED;
    }
    *text = at;
    *out_number = number;
    return STATUS_OK;
}

/* The unit at `*text`; a name ends where the next number begins. */
static int64_t parse_unit(const char **text) {
    size_t size = strcspn(*text, "0123456789.");
    for (size_t i = 0; i < N_UNITS; i++) {
        if (strlen(units[i].name) == size && memcmp(units[i].name, *text, size) == 0) {
            *text += size;
            return units[i].ns;
        }
    }
    return 0;
}

enum status duration_parse(const char *text, enum duration_bare bare, int64_t *out_ms) {
    const char *start = text;
    duration_ns total = 0;
    do {
        struct number number;
        bool is_first = text == start;
        enum status status = parse_number(&text, &number);
        if (status != STATUS_OK) {
            return status;
        }
        bool is_bare = *text == '\0' && is_first;
        int64_t unit_ns = is_bare ? (int64_t)bare * NS_PER_MS : parse_unit(&text);
        bool is_zero = number.whole == 0 && number.fraction == 0;
        if (unit_ns == 0 && !(is_bare && is_zero)) {
            return STATUS_MALFORMED;
        }
        total += (duration_ns)number.whole * unit_ns;
        total += (duration_ns)number.fraction * unit_ns / FRACTIONS_PER_UNIT;
        if (total > (duration_ns)DURATION_MS_MAX * NS_PER_MS) {
            return STATUS_INVALID;
        }
    } while (*text != '\0');
    *out_ms = (int64_t)(total / NS_PER_MS);
    return STATUS_OK;
}

const char *duration_format(int64_t ms, char room[DURATION_TEXT_SIZE_MAX]) {
    if (ms == 0) {
        return strcpy(room, "0s");
    }
    size_t used = 0;
    uint64_t left = (uint64_t)ms;
    if (ms < 0) {
        room[used++] = '-';
        left = -left;
    }
    for (size_t i = 0; i < N_UNITS && left > 0; i++) {
        uint64_t unit_ms = (uint64_t)(units[i].ns / NS_PER_MS);
        uint64_t count = left / unit_ms;
        left %= unit_ms;
        if (count > 0) {
            used += (size_t)snprintf(room + used, DURATION_TEXT_SIZE_MAX - used, "%llu%s",
                                     (unsigned long long)count, units[i].name);
        }
    }
    return room;
}
