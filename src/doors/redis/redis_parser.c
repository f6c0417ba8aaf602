#include "doors/redis/redis_parser.h"

#include "doors/redis/redis_number_model.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { ARGV_FIRST = 8, LINE_SIZE_MAX = 32 /* of a count or a size */ };

struct arguments {
    struct arena *arena;
    struct bytes *at;
    size_t n;
    size_t capacity;
};

static void add(struct arguments *arguments, struct bytes argument) {
    if (arguments->n == arguments->capacity) {
        size_t capacity = arguments->capacity == 0 ? ARGV_FIRST : 2 * arguments->capacity;
        struct bytes *at = arena_alloc(arguments->arena, capacity * sizeof at[0]);
        if (arguments->n > 0) {
            memcpy(at, arguments->at, arguments->n * sizeof at[0]);
        }
        arguments->at = at;
        arguments->capacity = capacity;
    }
    arguments->at[arguments->n++] = argument;
}

/* --- Arrays of bulk strings. --- */

/* The number in a line "*3\r\n" or "$5\r\n"; the letter has been looked at. */
static enum redis_parse_result get_count(struct bytes bytes, size_t *at, int64_t *out_count) {
    size_t left = bytes.size - *at;
    const uint8_t *start = bytes.data + *at;
    const uint8_t *end = memchr(start, '\r', left < LINE_SIZE_MAX ? left : LINE_SIZE_MAX);
    if (end == NULL) {
        return left >= LINE_SIZE_MAX ? REDIS_PARSE_ERROR : REDIS_PARSE_MORE;
    }
    size_t size = (size_t)(end - start);
    if (left < size + 2) {
        return REDIS_PARSE_MORE;
    }
    if (!redis_number_integer(bytes_of(start + 1, size - 1), out_count)) {
        return REDIS_PARSE_ERROR;
    }
    *at += size + 2;
    return REDIS_PARSE_OK;
}

static enum redis_parse_result fail(struct redis_parsed *parsed, const char *error) {
    parsed->error = error;
    return REDIS_PARSE_ERROR;
}

static enum redis_parse_result get_bulk(struct bytes bytes, size_t *at,
                                        const struct redis_parser_limits *limits,
                                        struct arguments *arguments, struct redis_parsed *parsed) {
    int64_t size;
    if (*at >= bytes.size) {
        return REDIS_PARSE_MORE;
    }
    if (bytes.data[*at] != '$') {
        return fail(parsed, "Protocol error: expected '$'");
    }
    enum redis_parse_result result = get_count(bytes, at, &size);
    if (result == REDIS_PARSE_ERROR ||
        (result == REDIS_PARSE_OK && (size < 0 || (uint64_t)size > limits->bulk_max))) {
        return fail(parsed, "Protocol error: invalid bulk length");
    }
    if (result != REDIS_PARSE_OK || bytes.size - *at < (size_t)size + 2) {
        return REDIS_PARSE_MORE;
    }
    /* As Redis, which does not look at what ends it. */
    add(arguments, bytes_of(bytes.data + *at, (size_t)size));
    *at += (size_t)size + 2;
    return REDIS_PARSE_OK;
}

static enum redis_parse_result parse_array(struct bytes bytes,
                                           const struct redis_parser_limits *limits,
                                           struct arguments *arguments,
                                           struct redis_parsed *parsed) {
    size_t at = 0;
    int64_t n;
    enum redis_parse_result result = get_count(bytes, &at, &n);
    if (result == REDIS_PARSE_ERROR ||
        (result == REDIS_PARSE_OK && n > (int64_t)limits->arguments_max)) {
        return fail(parsed, "Protocol error: invalid multibulk length");
    }
    for (int64_t i = 0; i < n && result == REDIS_PARSE_OK; i++) {
        result = get_bulk(bytes, &at, limits, arguments, parsed);
    }
    parsed->size = at;
    return result;
}

/* --- Requests in pieces. --- */

/* The size of an argument, or the number of them. */
static enum redis_parse_result scan_count(struct redis_scan *scan, struct bytes bytes, int64_t most,
                                          const char *wrong, int64_t *out_count,
                                          const char **out_error) {
    enum redis_parse_result result = get_count(bytes, &scan->at, out_count);
    if (result == REDIS_PARSE_ERROR || (result == REDIS_PARSE_OK && *out_count > most)) {
        *out_error = wrong;
        return REDIS_PARSE_ERROR;
    }
    return result;
}

static enum redis_parse_result scan_bulk(struct redis_scan *scan, struct bytes bytes,
                                         const struct redis_parser_limits *limits,
                                         const char **out_error) {
    static const char wrong[] = "Protocol error: invalid bulk length";
    int64_t size;
    if (scan->at == bytes.size) {
        return REDIS_PARSE_MORE;
    }
    if (bytes.data[scan->at] != '$') {
        *out_error = "Protocol error: expected '$'";
        return REDIS_PARSE_ERROR;
    }
    enum redis_parse_result result =
        scan_count(scan, bytes, REDIS_BULK_SIZE_MAX, wrong, &size, out_error);
    if (result != REDIS_PARSE_OK) {
        return result;
    }
    scan->size += (uint64_t)size;
    if (size < 0 || scan->size > REDIS_BULK_SIZE_MAX) {
        *out_error = wrong;
        return REDIS_PARSE_ERROR;
    }
    scan->is_too_large = scan->is_too_large || scan->size > limits->bulk_max;
    scan->bytes_left = (uint64_t)size + 2;
    scan->n_left--;
    return REDIS_PARSE_OK;
}

enum redis_parse_result redis_scan(struct redis_scan *scan, struct bytes bytes,
                                   const struct redis_parser_limits *limits,
                                   const char **out_error) {
    if (scan->is_too_large) {
        scan->at = 0; /* what came before was passed over */
    }
    if (!scan->is_begun) {
        enum redis_parse_result result =
            scan_count(scan, bytes, (int64_t)limits->arguments_max,
                       "Protocol error: invalid multibulk length", &scan->n_left, out_error);
        if (result != REDIS_PARSE_OK) {
            return result;
        }
        scan->is_begun = true;
    }
    for (;;) {
        size_t left = bytes.size - scan->at;
        size_t taken = scan->bytes_left < left ? (size_t)scan->bytes_left : left;
        scan->at += taken;
        scan->bytes_left -= taken;
        if (scan->bytes_left > 0) {
            return REDIS_PARSE_MORE;
        }
        if (scan->n_left <= 0) {
            return REDIS_PARSE_OK;
        }
        enum redis_parse_result result = scan_bulk(scan, bytes, limits, out_error);
        if (result != REDIS_PARSE_OK) {
            return result;
        }
    }
}

/* --- Inline commands: words, which may be quoted. --- */

static unsigned hex_digit(uint8_t byte) {
    if (byte >= '0' && byte <= '9') {
        return byte - (unsigned)'0';
    }
    byte |= 32;
    return byte >= 'a' && byte <= 'f' ? byte - (unsigned)'a' + 10 : 16;
}

/* What a backslash at line[*at] means between double quotes. */
static uint8_t unescape(struct bytes line, size_t *at) {
    static const char letters[] = "nrtba";
    static const char meanings[] = "\n\r\t\b\a";
    uint8_t letter = line.data[++*at];
    if (letter == 'x' && *at + 2 < line.size && hex_digit(line.data[*at + 1]) < 16 &&
        hex_digit(line.data[*at + 2]) < 16) {
        *at += 2;
        return (uint8_t)(16 * hex_digit(line.data[*at - 1]) + hex_digit(line.data[*at]));
    }
    const char *found = letter == 0 ? NULL : strchr(letters, letter);
    return found == NULL ? letter : (uint8_t)meanings[found - letters];
}

static bool is_space(uint8_t byte) {
    return byte == ' ' || (byte >= '\t' && byte <= '\r') || byte == 0;
}

/* A word that begins at line[*at]; without quotes it is shorter, so all words of a line fit into
 * `words`, which is as long. False: its quotes are not balanced. */
static bool get_word(struct bytes line, size_t *at, uint8_t *words, struct arguments *arguments) {
    uint8_t *word = words + *at;
    size_t size = 0;
    uint8_t quote = 0;
    size_t i = *at;
    for (; i < line.size; i++) {
        uint8_t byte = line.data[i];
        if (quote == 0 && is_space(byte)) {
            break;
        }
        if (quote == 0 && (byte == '"' || byte == '\'')) {
            quote = byte;
        } else if (quote != 0 && byte == quote) {
            quote = 0;
            if (i + 1 < line.size && !is_space(line.data[i + 1])) {
                return false;
            }
        } else if (quote == '"' && byte == '\\' && i + 1 < line.size) {
            word[size++] = unescape(line, &i);
        } else if (quote == '\'' && byte == '\\' && i + 1 < line.size && line.data[i + 1] == '\'') {
            word[size++] = line.data[++i];
        } else {
            word[size++] = byte;
        }
    }
    *at = i;
    add(arguments, bytes_of(word, size));
    return quote == 0;
}

static enum redis_parse_result parse_inline(struct bytes bytes, struct arguments *arguments,
                                            struct redis_parsed *parsed) {
    const uint8_t *end = memchr(bytes.data, '\n', bytes.size);
    if (end == NULL) {
        return bytes.size > REDIS_INLINE_SIZE_MAX
                   ? fail(parsed, "Protocol error: too big inline request")
                   : REDIS_PARSE_MORE;
    }
    struct bytes line = bytes_of(bytes.data, (size_t)(end - bytes.data));
    parsed->size = line.size + 1;
    line.size -= line.size > 0 && line.data[line.size - 1] == '\r';
    if (line.size > REDIS_INLINE_SIZE_MAX) {
        return fail(parsed, "Protocol error: too big inline request");
    }
    uint8_t *words = arena_alloc(arguments->arena, line.size);
    for (size_t at = 0; at < line.size;) {
        if (is_space(line.data[at])) {
            at++;
        } else if (!get_word(line, &at, words, arguments)) {
            return fail(parsed, "Protocol error: unbalanced quotes in request");
        }
    }
    return REDIS_PARSE_OK;
}

enum redis_parse_result redis_parse(struct bytes bytes, const struct redis_parser_limits *limits,
                                    struct arena *arena, struct redis_parsed *out_parsed) {
    struct arguments arguments = {.arena = arena};
    *out_parsed = (struct redis_parsed){0};
    if (bytes.size == 0) {
        return REDIS_PARSE_MORE;
    }
    enum redis_parse_result result = bytes.data[0] == '*'
                                         ? parse_array(bytes, limits, &arguments, out_parsed)
                                         : parse_inline(bytes, &arguments, out_parsed);
    out_parsed->argv = arguments.at;
    out_parsed->argc = arguments.n;
    return result;
}
