#include "net/http_target.h"

#include "net/http_fields.h"

#include <string.h>
#include <strings.h>

/* -1: not a digit. */
static int digit_of(uint8_t character) {
    if (character >= '0' && character <= '9') {
        return character - '0';
    }
    if (character >= 'a' && character <= 'f') {
        return character - 'a' + 10;
    }
    if (character >= 'A' && character <= 'F') {
        return character - 'A' + 10;
    }
    return -1;
}

bool http_target_decode(struct bytes text, bool with_plus, struct buffer *out) {
    if (text.size == 0) {
        return true;
    }
    /* Decoding never makes a text longer. */
    uint8_t *to = buffer_reserve(out, text.size);
    size_t size = 0;
    for (size_t i = 0; i < text.size; i++) {
        uint8_t character = text.data[i];
        if (character == '%') {
            int high = i + 2 < text.size ? digit_of(text.data[i + 1]) : -1;
            int low = i + 2 < text.size ? digit_of(text.data[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return false;
            }
            character = (uint8_t)(high << 4 | low);
            i += 2;
        } else if (character == '+' && with_plus) {
            character = ' ';
        }
        to[size++] = character;
    }
    out->size += size;
    return true;
}

/* Cuts `*text` at the first `separator` and returns what was before it. */
static struct bytes take_until(struct bytes *text, char separator) {
    const uint8_t *end = text->size > 0 ? memchr(text->data, separator, text->size) : NULL;
    struct bytes before = *text;
    if (end == NULL) {
        *text = bytes_of(text->data + text->size, 0);
        return before;
    }
    before.size = (size_t)(end - text->data);
    *text = bytes_of(end + 1, text->size - before.size - 1);
    return before;
}

void http_target_split(struct bytes target, struct bytes *out_path, struct bytes *out_query) {
    struct bytes rest = target;
    *out_path = take_until(&rest, '?');
    *out_query = rest;
}

bool http_target_parse_query(struct bytes query, struct buffer *out_fields) {
    struct buffer pair;
    buffer_init(&pair);
    bool is_valid = true;
    while (query.size > 0 && is_valid) {
        struct bytes value = take_until(&query, '&');
        if (value.size == 0) {
            continue;
        }
        struct bytes name = take_until(&value, '=');
        pair.size = 0;
        is_valid = http_target_decode(name, true, &pair);
        size_t name_size = pair.size;
        is_valid = is_valid && http_target_decode(value, true, &pair);
        if (is_valid) {
            http_fields_add(out_fields, bytes_of(pair.data, name_size),
                            bytes_of(pair.data + name_size, pair.size - name_size));
        }
    }
    buffer_clear(&pair);
    return is_valid;
}

bool http_target_split_absolute(struct bytes target, struct bytes *out_authority,
                                struct bytes *out_rest) {
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        size_t size = strlen(schemes[i]);
        if (target.size <= size || strncasecmp((const char *)target.data, schemes[i], size) != 0) {
            continue;
        }
        struct bytes rest = bytes_of(target.data + size, target.size - size);
        size_t n = 0;
        while (n < rest.size && rest.data[n] != '/' && rest.data[n] != '?') {
            n++;
        }
        /* "http://host?query" asks for "/?query", which no client sends. */
        if (n == 0 || (n < rest.size && rest.data[n] == '?')) {
            return false;
        }
        *out_authority = bytes_of(rest.data, n);
        *out_rest = n < rest.size ? bytes_of(rest.data + n, rest.size - n) : bytes_of("/", 1);
        return true;
    }
    return false;
}
