#include "net/grpc_timeout.h"

enum { TIMEOUT_DIGITS_MAX = 8 };

/* Nanoseconds of one unit; 0: no such unit. */
static uint64_t unit_ns(uint8_t unit) {
    switch (unit) {
    case 'H':
        return 3600ULL * 1000 * 1000 * 1000;
    case 'M':
        return 60ULL * 1000 * 1000 * 1000;
    case 'S':
        return 1000ULL * 1000 * 1000;
    case 'm':
        return 1000ULL * 1000;
    case 'u':
        return 1000;
    case 'n':
        return 1;
    default:
        return 0;
    }
}

bool grpc_timeout_parse(struct bytes text, uint64_t *out_timeout_ms) {
    if (text.size < 2 || text.size > TIMEOUT_DIGITS_MAX + 1) {
        return false;
    }
    uint64_t value = 0;
    for (size_t i = 0; i + 1 < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        value = value * 10 + (uint64_t)(text.data[i] - '0');
    }
    uint64_t ns = unit_ns(text.data[text.size - 1]);
    if (ns == 0) {
        return false;
    }
    const uint64_t ns_per_ms = 1000ULL * 1000;
    if (ns >= ns_per_ms) {
        /* Eight digits of hours in milliseconds fit easily; in nanoseconds they would not. */
        *out_timeout_ms = value * (ns / ns_per_ms);
    } else {
        *out_timeout_ms = (value * ns + ns_per_ms - 1) / ns_per_ms;
    }
    return true;
}
