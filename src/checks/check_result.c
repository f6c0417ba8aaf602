#include "checks/check_result.h"

#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>

void check_result_add(struct check_result *result, struct bytes text) {
    while (text.size > 0) {
        size_t size = utf8_character_size(text);
        size_t step = size > 0 ? size : 1;
        if (step > CHECK_OUTPUT_SIZE_MAX - result->output_size) {
            return;
        }
        char *room = result->output + result->output_size;
        memcpy(room, text.data, step);
        if (size == 0) {
            *room = '?';
        } else if (size == 1 && (*room < ' ' || *room == 0x7f) && *room != '\n' && *room != '\t') {
            *room = ' ';
        }
        result->output_size += step;
        text = bytes_of(text.data + step, text.size - step);
    }
}

void check_result_add_text(struct check_result *result, const char *text) {
    check_result_add(result, bytes_from_text(text));
}

void check_result_add_number(struct check_result *result, int64_t number) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, number);
    check_result_add_text(result, text);
}

void check_result_set(struct check_result *result, enum registry_health health, const char *text) {
    result->health = health;
    result->output_size = 0;
    check_result_add_text(result, text);
}
