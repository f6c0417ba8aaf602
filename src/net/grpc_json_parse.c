/* Numbers and base64 out of the texts of tokens. */
#include "net/grpc_json_token.h"

bool json_parse_whole(struct bytes text, int64_t min, uint64_t max, uint64_t *out_value) {
    bool is_negative = text.size > 0 && text.data[0] == '-';
    uint64_t value = 0;
    size_t at = is_negative;
    if (at == text.size) {
        return false;
    }
    for (; at < text.size; at++) {
        unsigned digit = (unsigned)text.data[at] - '0';
        if (digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digit, &value)) {
            return false;
        }
    }
    if (is_negative ? value > 0 - (uint64_t)min : value > max) {
        return false;
    }
    *out_value = is_negative ? 0 - value : value;
    return true;
}

/* 64: none of the alphabets'. */
static unsigned sextet(uint8_t character) {
    if (character >= 'A' && character <= 'Z') {
        return (unsigned)character - 'A';
    }
    if (character >= 'a' && character <= 'z') {
        return (unsigned)character - 'a' + 26;
    }
    if (character >= '0' && character <= '9') {
        return (unsigned)character - '0' + 52;
    }
    if (character == '+' || character == '-') {
        return 62;
    }
    return character == '/' || character == '_' ? 63 : 64;
}

/* What may follow the last character: the padding of its group, or nothing. */
static bool is_padding(struct bytes rest, size_t n_in_group) {
    size_t n = 0;
    for (size_t i = 0; i < rest.size; i++) {
        if (rest.data[i] == '=') {
            n++;
        } else if (rest.data[i] != '\n' && rest.data[i] != '\r') {
            return false;
        }
    }
    return n == 0 || (n_in_group >= 2 && n == 4 - n_in_group);
}

bool json_parse_base64(struct bytes text, struct buffer *out) {
    uint8_t *to = buffer_reserve(out, text.size / 4 * 3 + 3);
    uint32_t group = 0;
    size_t n_in_group = 0;
    size_t at = 0;
    for (; at < text.size; at++) {
        if (text.data[at] == '\n' || text.data[at] == '\r') {
            continue;
        }
        unsigned value = sextet(text.data[at]);
        if (value == 64) {
            break;
        }
        group = group << 6 | value;
        if (++n_in_group == 4) {
            *to++ = (uint8_t)(group >> 16);
            *to++ = (uint8_t)(group >> 8);
            *to++ = (uint8_t)group;
            group = 0;
            n_in_group = 0;
        }
    }
    if (n_in_group == 1 || !is_padding(bytes_of(text.data + at, text.size - at), n_in_group)) {
        return false;
    }
    if (n_in_group == 2) {
        *to++ = (uint8_t)(group >> 4);
    } else if (n_in_group == 3) {
        *to++ = (uint8_t)(group >> 10);
        *to++ = (uint8_t)(group >> 2);
    }
    out->size = (size_t)(to - out->data);
    return true;
}
