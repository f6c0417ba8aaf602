#include "client/resp_codec.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum { NUMBER_SIZE_MAX = 32 };

/* ---- commands ---- */

static void put_line(struct buffer *out, char kind, uint64_t number) {
    char line[NUMBER_SIZE_MAX];
    int size = snprintf(line, sizeof line, "%c%" PRIu64 "\r\n", kind, number);
    buffer_append(out, line, (size_t)size);
}

void resp_put_count(struct buffer *out, size_t n_words) {
    put_line(out, '*', n_words);
}

void resp_put_word(struct buffer *out, struct bytes word) {
    put_line(out, '$', word.size);
    buffer_append(out, word.data, word.size);
    buffer_append(out, "\r\n", 2);
}

void resp_put_number(struct buffer *out, int64_t number) {
    char text[NUMBER_SIZE_MAX];
    int size = snprintf(text, sizeof text, "%" PRId64, number);
    resp_put_word(out, bytes_of(text, (size_t)size));
}

void resp_put_texts(struct buffer *out, const char *first, ...) {
    size_t n_words = 0;
    va_list list;
    va_list again;
    va_start(list, first);
    va_copy(again, list);
    for (const char *word = first; word != NULL; word = va_arg(list, const char *)) {
        n_words++;
    }
    resp_put_count(out, n_words);
    for (const char *word = first; word != NULL; word = va_arg(again, const char *)) {
        resp_put_word(out, bytes_from_text(word));
    }
    va_end(again);
    va_end(list);
}

/* ---- replies ---- */

/* The line at `position` without its end; false: it is not whole yet. */
static bool find_line(struct bytes input, size_t position, struct bytes *out_line) {
    const uint8_t *from = input.data + position;
    const uint8_t *end = memchr(from, '\n', input.size - position);
    if (end == NULL) {
        return false;
    }
    *out_line = bytes_of(from, (size_t)(end - from));
    return true;
}

/* A whole number behind the kind, and "\r" behind it. */
static bool line_number(struct bytes line, int64_t *out_number) {
    bool is_negative = line.size > 1 && line.data[1] == '-';
    size_t first = is_negative ? 2 : 1;
    uint64_t number = 0;
    if (line.size < first + 2 || line.size > first + 20 || line.data[line.size - 1] != '\r') {
        return false;
    }
    for (size_t i = first; i + 1 < line.size; i++) {
        if (line.data[i] < '0' || line.data[i] > '9' || number > (uint64_t)INT64_MAX / 10) {
            return false;
        }
        number = number * 10 + (uint64_t)(line.data[i] - '0');
    }
    if (number > (uint64_t)INT64_MAX) {
        return false;
    }
    *out_number = is_negative ? -(int64_t)number : (int64_t)number;
    return true;
}

/* One item has ended, and perhaps the arrays that it was the last of. True: the reply too. */
static bool end_item(struct resp_scanner *scanner) {
    while (scanner->depth > 0) {
        scanner->left[scanner->depth - 1]--;
        if (scanner->left[scanner->depth - 1] > 0) {
            return false;
        }
        scanner->depth--;
    }
    return true;
}

static enum resp_result scan_array(struct resp_scanner *scanner, int64_t n_items, bool *out_ends) {
    *out_ends = n_items <= 0;
    if (n_items < -1 || n_items > RESP_ITEMS_MAX) {
        return RESP_BAD;
    }
    if (n_items > 0) {
        if (scanner->depth == RESP_DEPTH_MAX) {
            return RESP_BAD;
        }
        scanner->left[scanner->depth++] = (uint64_t)n_items;
    }
    return RESP_WHOLE;
}

/* One element: a line, and what a bulk string has behind it. */
static enum resp_result scan_element(struct resp_scanner *scanner, struct bytes input,
                                     bool *out_ends) {
    struct bytes line;
    int64_t number;
    *out_ends = true;
    if (!find_line(input, scanner->position, &line)) {
        return input.size - scanner->position > RESP_LINE_SIZE_MAX ? RESP_BAD : RESP_MORE;
    }
    size_t next = scanner->position + line.size + 1;
    if (line.size < 2 || line.size > RESP_LINE_SIZE_MAX || line.data[line.size - 1] != '\r') {
        return RESP_BAD;
    }
    enum resp_result result = RESP_WHOLE;
    switch (line.data[0]) {
    case '+':
    case '-':
        break;
    case ':':
        result = line_number(line, &number) ? RESP_WHOLE : RESP_BAD;
        break;
    case '$':
        if (!line_number(line, &number) || number < -1 || number > RESP_REPLY_SIZE_MAX) {
            return RESP_BAD;
        }
        if (number >= 0) {
            next += (size_t)number + 2;
            if (next > input.size) {
                return RESP_MORE;
            }
            result = memcmp(input.data + next - 2, "\r\n", 2) == 0 ? RESP_WHOLE : RESP_BAD;
        }
        break;
    case '*':
        result = line_number(line, &number) ? scan_array(scanner, number, out_ends) : RESP_BAD;
        break;
    default:
        result = RESP_BAD;
    }
    scanner->position = next;
    return result;
}

enum resp_result resp_scan(struct resp_scanner *scanner, struct bytes input) {
    for (;;) {
        bool ends;
        if (input.size > RESP_REPLY_SIZE_MAX && scanner->position > RESP_REPLY_SIZE_MAX) {
            return RESP_BAD;
        }
        if (scanner->position >= input.size) {
            return RESP_MORE;
        }
        enum resp_result result = scan_element(scanner, input, &ends);
        if (result != RESP_WHOLE) {
            return result;
        }
        if (ends && end_item(scanner)) {
            return RESP_WHOLE;
        }
    }
}

/* The scanner has looked at the sizes and the depth. */
static bool read_element(struct bytes whole, size_t *position, struct resp_reply *out) {
    struct bytes line;
    *out = (struct resp_reply){0};
    if (*position >= whole.size || !find_line(whole, *position, &line) || line.size < 2) {
        return false;
    }
    *position += line.size + 1;
    if (line.data[0] == '+' || line.data[0] == '-') {
        out->kind = line.data[0] == '+' ? RESP_STATUS : RESP_ERROR;
        out->text = bytes_of(line.data + 1, line.size - 2);
        return true;
    }
    if (!line_number(line, &out->integer)) {
        return false;
    }
    if (line.data[0] == ':') {
        out->kind = RESP_INTEGER;
        return true;
    }
    if (out->integer < 0) {
        out->kind = RESP_NULL;
        return true;
    }
    if (line.data[0] == '*') {
        out->kind = RESP_ARRAY;
        return (size_t)out->integer <= whole.size - *position;
    }
    if ((size_t)out->integer + 2 > whole.size - *position) {
        return false;
    }
    out->kind = RESP_BULK;
    out->text = bytes_of(whole.data + *position, (size_t)out->integer);
    *position += (size_t)out->integer + 2;
    return true;
}

static bool read_at(struct bytes whole, size_t *position, struct arena *arena, size_t depth,
                    struct resp_reply *out) {
    if (!read_element(whole, position, out)) {
        return false;
    }
    if (out->kind != RESP_ARRAY || out->integer == 0) {
        return true;
    }
    if (depth == RESP_DEPTH_MAX) {
        return false;
    }
    out->n_items = (size_t)out->integer;
    out->items = arena_calloc(arena, out->n_items, sizeof *out->items);
    for (size_t i = 0; i < out->n_items; i++) {
        if (!read_at(whole, position, arena, depth + 1, &out->items[i])) {
            return false;
        }
    }
    return true;
}

bool resp_read(struct bytes whole, struct arena *arena, struct resp_reply *out_reply) {
    size_t position = 0;
    return read_at(whole, &position, arena, 0, out_reply) && position == whole.size;
}
