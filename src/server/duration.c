#include "server/duration.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct unit {
    const char *name;
    double ms;
};

/* Longer names first where one begins with another. */
static const struct unit units[] = {
    {"ms", 1},     {"us", 1e-3}, {"\xc2\xb5s", 1e-3}, {"ns", 1e-6},
    {"h", 3600e3}, {"m", 60e3},  {"s", 1e3},
};

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

enum status duration_parse(const char *text, int64_t *out_ms) {
    if (strcmp(text, "0") == 0) {
        *out_ms = 0;
        return STATUS_OK;
    }
    if (*text == '\0') {
        return STATUS_INVALID;
    }
    double total_ms = 0;
    while (*text != '\0') {
        double number = 0;
        double scale = 1;
        size_t digits = 0;
        for (; is_digit(*text); text++, digits++) {
            number = number * 10 + (*text - '0');
        }
        if (*text == '.') {
            for (text++; is_digit(*text); text++, digits++) {
                scale /= 10;
                number += (*text - '0') * scale;
            }
        }
        const struct unit *unit = NULL;
        for (size_t i = 0; i < sizeof units / sizeof units[0] && unit == NULL; i++) {
            if (strncmp(text, units[i].name, strlen(units[i].name)) == 0) {
                unit = &units[i];
            }
        }
        if (digits == 0 || unit == NULL) {
            return STATUS_INVALID;
        }
        text += strlen(unit->name);
        total_ms += number * unit->ms;
        if (total_ms > (double)DURATION_MS_MAX) {
            return STATUS_INVALID;
        }
    }
    /* 0.1 s is not a whole number of binary fractions: round what is meant as whole. */
    *out_ms = (int64_t)(total_ms + 1e-6);
    return STATUS_OK;
}
