#include "cli/human_duration.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define FRACTION_DIGITS_MAX 3

static const struct unit {
    const char *name;
    int64_t ms;
} units[] = {
    {"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1},
};
#define N_UNITS (sizeof units / sizeof units[0])
#define UNIT_SECOND 3

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* A number in thousandths, so that "1.5" needs no floating point. */
static enum status parse_number(const char **text, int64_t *out_thousandths) {
    const char *at = *text;
    int64_t whole = 0;
    if (!is_digit(*at)) {
        return STATUS_MALFORMED;
    }
    for (; is_digit(*at); at++) {
        whole = whole * 10 + (*at - '0');
        if (whole > HUMAN_DURATION_MS_MAX) {
            return STATUS_INVALID;
        }
    }
    int64_t fraction = 0;
    if (*at == '.') {
        int digits = 0;
        for (at++; is_digit(*at); at++, digits++) {
            if (digits == FRACTION_DIGITS_MAX) {
                return STATUS_MALFORMED;
            }
            fraction = fraction * 10 + (*at - '0');
        }
        if (digits == 0) {
            return STATUS_MALFORMED;
        }
        for (; digits < FRACTION_DIGITS_MAX; digits++) {
            fraction *= 10;
        }
    }
    *text = at;
    *out_thousandths = whole * 1000 + fraction;
    return STATUS_OK;
}

/* The unit at `*text`, looking only after the one used before. */
static const struct unit *parse_unit(const char **text, size_t *next_unit) {
    size_t size = 0;
    while ((*text)[size] >= 'a' && (*text)[size] <= 'z') {
        size++;
    }
    for (size_t i = *next_unit; i < N_UNITS; i++) {
        if (strlen(units[i].name) == size && memcmp(units[i].name, *text, size) == 0) {
            *text += size;
            *next_unit = i + 1;
            return &units[i];
        }
    }
    return NULL;
}

enum status human_duration_parse(const char *text, int64_t *out_ms) {
    int64_t total = 0;
    size_t next_unit = 0;
    do {
        int64_t thousandths;
        enum status status = parse_number(&text, &thousandths);
        if (status != STATUS_OK) {
            return status;
        }
        bool bare = *text == 0 && next_unit == 0;
        const struct unit *unit = bare ? &units[UNIT_SECOND] : parse_unit(&text, &next_unit);
        if (unit == NULL) {
            return STATUS_MALFORMED;
        }
        if (thousandths / 1000 > HUMAN_DURATION_MS_MAX / unit->ms) {
            return STATUS_INVALID;
        }
        int64_t fraction = thousandths % 1000 * unit->ms;
        if (fraction % 1000 != 0) {
            return STATUS_MALFORMED;
        }
        total += thousandths / 1000 * unit->ms + fraction / 1000;
        if (total > HUMAN_DURATION_MS_MAX) {
            return STATUS_INVALID;
        }
    } while (*text != 0);
    *out_ms = total;
    return STATUS_OK;
}

const char *human_duration_format(int64_t ms, char room[HUMAN_DURATION_TEXT_SIZE_MAX]) {
    if (ms == 0) {
        return strcpy(room, "0s");
    }
    size_t used = 0;
    uint64_t left = (uint64_t)ms;
    if (ms < 0) {
        room[used++] = '-';
        left = -left;
    }
    for (size_t i = 0; i < N_UNITS; i++) {
        uint64_t count = left / (uint64_t)units[i].ms;
        left %= (uint64_t)units[i].ms;
        if (count > 0) {
            used += (size_t)snprintf(room + used, HUMAN_DURATION_TEXT_SIZE_MAX - used, "%llu%s",
                                     (unsigned long long)count, units[i].name);
        }
    }
    return room;
}
