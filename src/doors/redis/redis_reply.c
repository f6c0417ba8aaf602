#include "doors/redis/redis_reply.h"

#include <math.h>
#include <stdio.h> /* snprintf */
#include <stdlib.h>

enum { HEADER_SIZE_MAX = 24 }; /* a type, the digits of 64 bits with their sign, the line end */

/* --- Builders. --- */

static void put_header(struct buffer *out, char type, int64_t number) {
    char text[HEADER_SIZE_MAX];
    size_t at = sizeof text;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    text[--at] = '\n';
    text[--at] = '\r';
    do {
        text[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest > 0);
    if (number < 0) {
        text[--at] = '-';
    }
    text[--at] = type;
    buffer_append(out, text + at, sizeof text - at);
}

static void put_line(struct buffer *out, char type, struct bytes text) {
    uint8_t *to = buffer_reserve(out, text.size + 3);
    *to++ = (uint8_t)type;
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.data[i];
        *to++ = byte == '\r' || byte == '\n' ? ' ' : byte;
    }
    *to++ = '\r';
    *to = '\n';
    out->size += text.size + 3;
}

void redis_reply_null(struct buffer *out) {
    buffer_append(out, "_\r\n", 3);
}

void redis_reply_null_array(struct buffer *out) {
    buffer_append(out, "*-1\r\n", 5);
}

void redis_reply_integer(struct buffer *out, int64_t value) {
    put_header(out, ':', value);
}

size_t redis_reply_double_text(double value, char out_text[REDIS_REPLY_DOUBLE_SIZE]) {
    if (isnan(value)) {
        memcpy(out_text, "nan", 4); /* never "-nan", whatever the sign bit is */
        return 3;
    }
    if (isinf(value)) {
        return (size_t)snprintf(out_text, REDIS_REPLY_DOUBLE_SIZE, "%s",
                                value > 0 ? "inf" : "-inf");
    }
    return (size_t)snprintf(out_text, REDIS_REPLY_DOUBLE_SIZE, "%.17g", value);
}

void redis_reply_double(struct buffer *out, double value) {
    char text[REDIS_REPLY_DOUBLE_SIZE];
    size_t size = redis_reply_double_text(value, text);
    put_line(out, ',', bytes_of(text, size));
}

void redis_reply_bool(struct buffer *out, bool value) {
    buffer_append(out, value ? "#t\r\n" : "#f\r\n", 4);
}

void redis_reply_simple(struct buffer *out, struct bytes text) {
    put_line(out, '+', text);
}

void redis_reply_error(struct buffer *out, struct bytes text) {
    put_line(out, '-', text);
}

void redis_reply_ok(struct buffer *out) {
    buffer_append(out, "+OK\r\n", 5);
}

void redis_reply_error_text(struct buffer *out, const char *text) {
    put_line(out, '-', bytes_from_text(text));
}

static void put_bulk(struct buffer *out, struct bytes value) {
    buffer_append(out, value.data, value.size);
    buffer_append(out, "\r\n", 2);
}

void redis_reply_bulk(struct buffer *out, struct bytes value) {
    put_header(out, '$', (int64_t)value.size);
    put_bulk(out, value);
}

void redis_reply_bulk_integer(struct buffer *out, int64_t value) {
    char text[HEADER_SIZE_MAX];
    int size = snprintf(text, sizeof text, "%lld", (long long)value);
    redis_reply_bulk(out, bytes_of(text, (size_t)size));
}

void redis_reply_verbatim(struct buffer *out, const char format[3], struct bytes value) {
    put_header(out, '=', (int64_t)value.size + 4);
    buffer_append(out, format, 3);
    buffer_put_u8(out, ':');
    put_bulk(out, value);
}

void redis_reply_big_number(struct buffer *out, struct bytes digits) {
    put_line(out, '(', digits);
}

void redis_reply_array(struct buffer *out, size_t n) {
    put_header(out, '*', (int64_t)n);
}

void redis_reply_map(struct buffer *out, size_t n_pairs) {
    put_header(out, '%', (int64_t)n_pairs);
}

void redis_reply_set(struct buffer *out, size_t n) {
    put_header(out, '~', (int64_t)n);
}

void redis_reply_push(struct buffer *out, size_t n) {
    put_header(out, '>', (int64_t)n);
}

void redis_reply_attribute(struct buffer *out, size_t n_pairs) {
    put_header(out, '|', (int64_t)n_pairs);
}

void redis_reply_pairs(struct buffer *out, size_t n_pairs) {
    put_header(out, '^', (int64_t)n_pairs);
}

void redis_reply_entries(struct buffer *out, size_t n_pairs) {
    put_header(out, '@', (int64_t)n_pairs);
}

/* --- Reader. --- */

void redis_reply_reader_init(struct redis_reply_reader *reader, struct bytes bytes) {
    reader->bytes = bytes;
    reader->position = 0;
    reader->depth = 0;
    reader->failed = false;
    reader->has_attribute = false;
}

static bool fail(struct redis_reply_reader *reader) {
    reader->failed = true;
    return false;
}

/* The rest of the line; passes over its end. */
static bool take_line(struct redis_reply_reader *reader, struct bytes *out_line) {
    const uint8_t *from = reader->bytes.data + reader->position;
    size_t left = reader->bytes.size - reader->position;
    const uint8_t *end = left == 0 ? NULL : memchr(from, '\r', left);
    if (end == NULL || (size_t)(end - from) + 1 >= left || end[1] != '\n') {
        return fail(reader);
    }
    *out_line = bytes_of(from, (size_t)(end - from));
    reader->position += out_line->size + 2;
    return true;
}

static bool parse_integer(struct bytes text, int64_t *out_value) {
    size_t at = 0;
    bool negative = text.size > 0 && text.data[0] == '-';
    uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : INT64_MAX;
    uint64_t value = 0;
    at += negative;
    if (at == text.size) {
        return false;
    }
    for (; at < text.size; at++) {
        unsigned digit = (unsigned)text.data[at] - '0';
        if (digit > 9 || value > (limit - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
    }
    *out_value = negative ? (int64_t)(0 - value) : (int64_t)value;
    return true;
}

static bool take_integer(struct redis_reply_reader *reader, int64_t *out_value) {
    struct bytes line;
    if (!take_line(reader, &line)) {
        return false;
    }
    return parse_integer(line, out_value) || fail(reader);
}

static bool take_double(struct redis_reply_reader *reader, struct redis_reply_value *value) {
    char text[64];
    char *end;
    if (!take_line(reader, &value->text)) {
        return false;
    }
    if (value->text.size == 0 || value->text.size >= sizeof text) {
        return fail(reader);
    }
    memcpy(text, value->text.data, value->text.size);
    text[value->text.size] = '\0';
    value->number = strtod(text, &end);
    return end == text + value->text.size || fail(reader);
}

/* Bytes of which the length stands before; -1 is null in RESP2. */
static bool take_sized(struct redis_reply_reader *reader, struct redis_reply_value *value) {
    int64_t size;
    if (!take_integer(reader, &size)) {
        return false;
    }
    if (size == -1 && value->type == REDIS_REPLY_BULK) {
        value->type = REDIS_REPLY_NULL;
        return true;
    }
    size_t left = reader->bytes.size - reader->position;
    if (size < 0 || left < 2 || (uint64_t)size > left - 2) {
        return fail(reader);
    }
    const uint8_t *from = reader->bytes.data + reader->position;
    if (from[size] != '\r' || from[size + 1] != '\n') {
        return fail(reader);
    }
    value->text = bytes_of(from, (size_t)size);
    reader->position += (size_t)size + 2;
    return true;
}

static bool take_verbatim(struct redis_reply_reader *reader, struct redis_reply_value *value) {
    if (!take_sized(reader, value)) {
        return false;
    }
    if (value->text.size < 4 || value->text.data[3] != ':') {
        return fail(reader);
    }
    memcpy(value->format, value->text.data, 3);
    value->text = bytes_of(value->text.data + 4, value->text.size - 4);
    return true;
}

static bool take_bool(struct redis_reply_reader *reader, struct redis_reply_value *value) {
    struct bytes line;
    if (!take_line(reader, &line)) {
        return false;
    }
    if (line.size != 1 || (line.data[0] != 't' && line.data[0] != 'f')) {
        return fail(reader);
    }
    value->boolean = line.data[0] == 't';
    return true;
}

static bool take_null(struct redis_reply_reader *reader) {
    struct bytes line;
    return take_line(reader, &line) && (line.size == 0 || fail(reader));
}

static bool take_aggregate(struct redis_reply_reader *reader, struct redis_reply_value *value) {
    int64_t n;
    bool is_pairs = value->type == REDIS_REPLY_MAP || value->type == REDIS_REPLY_ATTRIBUTE ||
                    value->type == REDIS_REPLY_PAIRS || value->type == REDIS_REPLY_ENTRIES;
    if (!take_integer(reader, &n)) {
        return false;
    }
    if (n == -1 && value->type == REDIS_REPLY_ARRAY) {
        value->type = REDIS_REPLY_NULL_ARRAY;
        return true;
    }
    /* No value is shorter than "_\r\n": a count that cannot be true fails before it is believed. */
    size_t values_max = (reader->bytes.size - reader->position) / 3;
    if (n < 0 || (uint64_t)n > values_max / (is_pairs ? 2 : 1)) {
        return fail(reader);
    }
    value->n = (size_t)n * (is_pairs ? 2 : 1);
    return true;
}

static bool take_value(struct redis_reply_reader *reader, struct redis_reply_value *value) {
    switch (value->type) {
    case REDIS_REPLY_NULL:
        return take_null(reader);
    case REDIS_REPLY_INTEGER:
        return take_integer(reader, &value->integer);
    case REDIS_REPLY_DOUBLE:
        return take_double(reader, value);
    case REDIS_REPLY_BOOL:
        return take_bool(reader, value);
    case REDIS_REPLY_SIMPLE:
    case REDIS_REPLY_ERROR:
    case REDIS_REPLY_BIG_NUMBER:
        return take_line(reader, &value->text);
    case REDIS_REPLY_BULK:
        return take_sized(reader, value);
    case REDIS_REPLY_VERBATIM:
        return take_verbatim(reader, value);
    default:
        return take_aggregate(reader, value);
    }
}

static bool type_of(char letter, enum redis_reply_type *out_type) {
    static const struct {
        char letter;
        enum redis_reply_type type;
    } types[] = {
        {'$', REDIS_REPLY_BULK},    {':', REDIS_REPLY_INTEGER},   {'*', REDIS_REPLY_ARRAY},
        {'+', REDIS_REPLY_SIMPLE},  {'_', REDIS_REPLY_NULL},      {'-', REDIS_REPLY_ERROR},
        {',', REDIS_REPLY_DOUBLE},  {'#', REDIS_REPLY_BOOL},      {'=', REDIS_REPLY_VERBATIM},
        {'%', REDIS_REPLY_MAP},     {'~', REDIS_REPLY_SET},       {'>', REDIS_REPLY_PUSH},
        {'^', REDIS_REPLY_PAIRS},   {'|', REDIS_REPLY_ATTRIBUTE}, {'(', REDIS_REPLY_BIG_NUMBER},
        {'@', REDIS_REPLY_ENTRIES},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        if (types[i].letter == letter) {
            *out_type = types[i].type;
            return true;
        }
    }
    return false;
}

/* A value has been read: everything around it that it was the last of is over. */
static void close_finished(struct redis_reply_reader *reader) {
    while (reader->depth > 0 && reader->open[reader->depth - 1].left == 0) {
        reader->depth--;
        if (reader->open[reader->depth].is_attribute) {
            reader->has_attribute = true;
            return; /* the value that it belongs to comes now, in the place that was counted */
        }
    }
}

static bool is_inside_attribute(const struct redis_reply_reader *reader) {
    for (unsigned i = 0; i < reader->depth; i++) {
        if (reader->open[i].is_attribute) {
            return true;
        }
    }
    return false;
}

bool redis_reply_next(struct redis_reply_reader *reader, struct redis_reply_value *out_value) {
    if (reader->failed) {
        return false;
    }
    if (reader->position == reader->bytes.size) {
        return reader->depth > 0 || reader->has_attribute ? fail(reader) : false;
    }
    memset(out_value, 0, sizeof *out_value);
    char letter = (char)reader->bytes.data[reader->position++];
    if (!type_of(letter, &out_value->type)) {
        return fail(reader);
    }
    out_value->depth = reader->depth;
    bool is_attribute = out_value->type == REDIS_REPLY_ATTRIBUTE;
    out_value->is_attribute = is_attribute || is_inside_attribute(reader);
    if (!take_value(reader, out_value)) {
        return false;
    }
    reader->has_attribute = is_attribute;
    if (!is_attribute && reader->depth > 0) {
        reader->open[reader->depth - 1].left--;
    }
    if (out_value->n > 0) {
        if (reader->depth == REDIS_REPLY_DEPTH_MAX) {
            return fail(reader);
        }
        reader->open[reader->depth].left = out_value->n;
        reader->open[reader->depth].is_attribute = is_attribute;
        reader->depth++;
    } else if (!is_attribute) {
        close_finished(reader);
    }
    return true;
}

bool redis_reply_is_complete(const struct redis_reply_reader *reader) {
    return !reader->failed && reader->depth == 0 && !reader->has_attribute;
}

bool redis_reply_skip(struct redis_reply_reader *reader, const struct redis_reply_value *value) {
    struct redis_reply_value inner;
    if (value->n == 0) {
        return !reader->failed;
    }
    unsigned depth = value->depth;
    while (reader->depth > depth) {
        if (!redis_reply_next(reader, &inner)) {
            return false;
        }
    }
    return true;
}

/* --- For clients. --- */

struct conversion {
    struct redis_reply_reader reader;
    struct buffer *out;
    enum redis_reply_type open[REDIS_REPLY_DEPTH_MAX]; /* what is open at each depth */
};

/* Whether the value is the first of two in what the client sees as an array of arrays of two: those
 * are of this type. */
static bool opens_pair(const struct conversion *conversion, const struct redis_reply_value *value,
                       enum redis_reply_type type) {
    return value->depth > 0 && conversion->open[value->depth - 1] == type &&
           conversion->reader.open[value->depth - 1].left % 2 == 1;
}

static bool put_resp3(struct conversion *conversion, const struct redis_reply_value *value,
                      struct bytes raw) {
    if (opens_pair(conversion, value, REDIS_REPLY_PAIRS)) {
        redis_reply_array(conversion->out, 2);
    }
    switch (value->type) {
    case REDIS_REPLY_NULL:
    case REDIS_REPLY_NULL_ARRAY:
        redis_reply_null(conversion->out);
        break;
    case REDIS_REPLY_PAIRS:
        redis_reply_array(conversion->out, value->n / 2);
        break;
    case REDIS_REPLY_ENTRIES:
        redis_reply_map(conversion->out, value->n / 2);
        break;
    case REDIS_REPLY_ATTRIBUTE:
        if (value->depth > 0 && conversion->open[value->depth - 1] == REDIS_REPLY_PAIRS) {
            return false; /* whether it is of the pair or of its first value, nobody knows */
        }
        /* fall through */
    default:
        buffer_append(conversion->out, raw.data, raw.size);
    }
    return true;
}

static bool put_resp2(struct conversion *conversion, const struct redis_reply_value *value,
                      struct bytes raw) {
    struct buffer *out = conversion->out;
    if (value->is_attribute) {
        return true;
    }
    if (opens_pair(conversion, value, REDIS_REPLY_ENTRIES)) {
        redis_reply_array(out, 2);
    }
    switch (value->type) {
    case REDIS_REPLY_NULL:
        buffer_append(out, "$-1\r\n", 5);
        break;
    case REDIS_REPLY_BOOL:
        redis_reply_integer(out, value->boolean);
        break;
    case REDIS_REPLY_DOUBLE:
    case REDIS_REPLY_VERBATIM:
    case REDIS_REPLY_BIG_NUMBER:
        redis_reply_bulk(out, value->text);
        break;
    case REDIS_REPLY_MAP:
    case REDIS_REPLY_SET:
    case REDIS_REPLY_PUSH:
    case REDIS_REPLY_PAIRS:
        redis_reply_array(out, value->n);
        break;
    case REDIS_REPLY_ENTRIES:
        redis_reply_array(out, value->n / 2);
        break;
    default:
        buffer_append(out, raw.data, raw.size);
    }
    return true;
}

static enum status convert(struct bytes bytes, struct buffer *out,
                           bool (*put)(struct conversion *, const struct redis_reply_value *,
                                       struct bytes)) {
    struct conversion conversion;
    struct redis_reply_value value;
    size_t size = out->size;
    size_t from = 0;
    bool is_right = true;
    conversion.out = out;
    redis_reply_reader_init(&conversion.reader, bytes);
    while (is_right && redis_reply_next(&conversion.reader, &value)) {
        struct bytes raw = bytes_of(bytes.data + from, conversion.reader.position - from);
        if (value.n > 0) {
            conversion.open[value.depth] = value.type;
        }
        is_right = put(&conversion, &value, raw);
        from = conversion.reader.position;
    }
    if (!is_right || conversion.reader.failed) {
        out->size = size;
        return STATUS_MALFORMED;
    }
    return STATUS_OK;
}

enum status redis_reply_to_resp2(struct bytes bytes, struct buffer *out) {
    return convert(bytes, out, put_resp2);
}

enum status redis_reply_to_resp3(struct bytes bytes, struct buffer *out) {
    return convert(bytes, out, put_resp3);
}
