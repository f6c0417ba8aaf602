#include "cli/lease_id.h"

#include <inttypes.h>
#include <stdio.h>

#define DIGITS_MAX 16

enum status lease_id_parse(const char *text, int64_t *out_id) {
    uint64_t id = 0;
    int digits = 0;
    if (text[0] == '0' && (text[1] | 0x20) == 'x') {
        text += 2;
    }
    for (; *text != 0; text++, digits++) {
        char lower = (char)(*text | 0x20);
        uint64_t digit;
        if (*text >= '0' && *text <= '9') {
            digit = (uint64_t)(*text - '0');
        } else if (lower >= 'a' && lower <= 'f') {
            digit = (uint64_t)(lower - 'a') + 10;
        } else {
            return STATUS_MALFORMED;
        }
        if (digits == DIGITS_MAX) {
            return STATUS_MALFORMED;
        }
        id = id << 4 | digit;
    }
    if (digits == 0) {
        return STATUS_MALFORMED;
    }
    *out_id = (int64_t)id;
    return STATUS_OK;
}

const char *lease_id_format(int64_t id, char room[LEASE_ID_TEXT_SIZE_MAX]) {
    snprintf(room, LEASE_ID_TEXT_SIZE_MAX, "%" PRIx64, (uint64_t)id);
    return room;
}
