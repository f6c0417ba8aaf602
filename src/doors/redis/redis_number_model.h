/*
 * Numbers as Redis reads and writes them in arguments and values. Pure, as rules use it: nothing
 * depends on the locale, which the program never sets.
 */
#ifndef LEASED_DOORS_REDIS_REDIS_NUMBER_MODEL_H
#define LEASED_DOORS_REDIS_REDIS_NUMBER_MODEL_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    REDIS_NUMBER_INTEGER_SIZE = 24,
    /* The largest long double has 4,933 digits before its point. */
    REDIS_NUMBER_FLOAT_SIZE = 5 * 1024
};

/* Decimal, without sign '+', leading zeros or spaces; false when it is none, or too large. */
bool redis_number_integer(struct bytes text, int64_t *out_value);
/* Also "inf", "-inf" and hexadecimal; false when it is none, or not a number. */
bool redis_number_double(struct bytes text, double *out_value);
bool redis_number_float(struct bytes text, long double *out_value);
bool redis_number_is_finite(long double value);

/* Both give the size of the text. */
size_t redis_number_integer_text(int64_t value, char out_text[REDIS_NUMBER_INTEGER_SIZE]);
/* Seventeen digits behind the point, without zeros at the end. */
size_t redis_number_float_text(long double value, char out_text[REDIS_NUMBER_FLOAT_SIZE]);

#endif
