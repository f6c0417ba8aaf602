#include "doors/redis/redis_number_model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_SIZE_MAX = 255 };

bool redis_number_integer(struct bytes text, int64_t *out_value) {
    bool is_negative = text.size > 0 && text.data[0] == '-';
    size_t i = is_negative;
    uint64_t value = 0;
    uint64_t most = is_negative ? UINT64_C(1) << 63 : INT64_MAX;
    if (text.size <= i || text.size - i > 19 ||
        (text.data[i] == '0' && (text.size > 1 || is_negative))) {
        if (!(text.size == 1 && text.data[0] == '0')) {
            return false;
        }
    }
    for (; i < text.size; i++) {
        unsigned digit = (unsigned)text.data[i] - '0';
        if (digit > 9 || value > (most - digit) / 10) {
            return false;
        }
        value = 10 * value + digit;
    }
    *out_value = is_negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

/* A text that strtod() takes to its end, with a zero behind it. */
static bool terminate(struct bytes text, char out_text[TEXT_SIZE_MAX + 1]) {
    if (text.size == 0 || text.size > TEXT_SIZE_MAX || memchr(text.data, 0, text.size) != NULL ||
        strchr(" \t\n\v\f\r", text.data[0]) != NULL) {
        return false;
    }
    memcpy(out_text, text.data, text.size);
    out_text[text.size] = 0;
    return true;
}

bool redis_number_double(struct bytes text, double *out_value) {
    char copy[TEXT_SIZE_MAX + 1];
    char *end;
    if (!terminate(text, copy)) {
        return false;
    }
    double value = strtod(copy, &end);
    if (*end != 0 || isnan(value)) {
        return false;
    }
    *out_value = value;
    return true;
}

bool redis_number_float(struct bytes text, long double *out_value) {
    char copy[TEXT_SIZE_MAX + 1];
    char *end;
    if (!terminate(text, copy)) {
        return false;
    }
    long double value = strtold(copy, &end);
    if (*end != 0 || isnan(value)) {
        return false;
    }
    *out_value = value;
    return true;
}

bool redis_number_is_finite(long double value) {
    return isfinite(value);
}

size_t redis_number_integer_text(int64_t value, char out_text[REDIS_NUMBER_INTEGER_SIZE]) {
    return (size_t)snprintf(out_text, REDIS_NUMBER_INTEGER_SIZE, "%" PRId64, value);
}

size_t redis_number_float_text(long double value, char out_text[REDIS_NUMBER_FLOAT_SIZE]) {
    size_t size = (size_t)snprintf(out_text, REDIS_NUMBER_FLOAT_SIZE, "%.17Lf", value);
    if (memchr(out_text, '.', size) != NULL) {
        while (out_text[size - 1] == '0') {
            size--;
        }
        size -= out_text[size - 1] == '.';
    }
    if (size == 2 && memcmp(out_text, "-0", 2) == 0) {
        out_text[0] = '0';
        size = 1;
    }
    return size;
}
