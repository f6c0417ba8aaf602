/*
 * What one run of a check has found: a health, and a text for people. The text is bounded, and
 * valid UTF-8 without control characters whatever the checked program has sent, so that every
 * protocol can carry it.
 */
#ifndef LEASED_CHECKS_CHECK_RESULT_H
#define LEASED_CHECKS_CHECK_RESULT_H

#include "base/bytes.h"
#include "registry/registry_model.h"

enum { CHECK_OUTPUT_SIZE_MAX = 1024 };

struct check_result {
    enum registry_health health;
    size_t output_size;
    char output[CHECK_OUTPUT_SIZE_MAX];
};

/* The text that came so far is dropped. */
void check_result_set(struct check_result *result, enum registry_health health, const char *text);
/* Appends what still fits. Bytes that are no UTF-8 become '?', control characters spaces; lines
 * stay lines. */
void check_result_add(struct check_result *result, struct bytes text);
void check_result_add_text(struct check_result *result, const char *text);
void check_result_add_number(struct check_result *result, int64_t number);

static inline struct bytes check_result_output(const struct check_result *result) {
    return bytes_of(result->output, result->output_size);
}

#endif
