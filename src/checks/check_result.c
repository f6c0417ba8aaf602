#include "checks/check_result.h"

#include <inttypes.h>
#include <stdio.h>

/* How many bytes the character at the front has; 0: it is none (RFC 3629, section 4). */
static size_t character_size(struct bytes text) {
    uint8_t first = text.data[0];
    size_t size = first < 0x80                    ? 1
                  : first >= 0xc2 && first < 0xe0 ? 2
                  : first >= 0xe0 && first < 0xf0 ? 3
                  : first >= 0xf0 && first < 0xf5 ? 4
                                                  : 0;
    if (size == 0 || size > text.size) {
        return 0;
    }
    for (size_t i = 1; i < size; i++) {
        if ((text.data[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    bool is_overlong =
        (first == 0xe0 && text.data[1] < 0xa0) || (first == 0xf0 && text.data[1] < 0x90);
    bool is_outside =
        (first == 0xed && text.data[1] >= 0xa0) || (first == 0xf4 && text.data[1] >= 0x90);
    return is_overlong || is_outside ? 0 : size;
}

void check_result_add(struct check_result *result, struct bytes text) {
    while (text.size > 0) {
        size_t size = character_size(text);
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
