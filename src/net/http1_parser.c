#include "net/http1_parser.h"

#include "net/http_fields.h"
#include "net/http_target.h"

#include <string.h>
#include <strings.h>

enum {
    START_LINE_MAX = HTTP_TARGET_SIZE_MAX + 64,
    CHUNK_LINE_MAX = 1024,
    CHUNK_DIGITS_MAX = 8,
    FIELD_NAME_MAX = 255,
    EMPTY_LINES_MAX = 4,
    KEPT_CAPACITY_MAX = 1024
};

void http1_parser_init(struct http1_parser *parser, size_t header_size_max) {
    *parser = (struct http1_parser){.header_size_max = header_size_max};
}

void http1_parser_clear(struct http1_parser *parser) {
    buffer_clear(&parser->line);
    http_request_clear(&parser->request);
}

bool http1_parser_keeps_alive(const struct http1_parser *parser) {
    return !parser->says_close && (parser->minor_version > 0 || parser->says_keep_alive);
}

static bool fail(struct http1_parser *parser, unsigned status, const char *text) {
    if (parser->state == HTTP1_START) {
        http_request_reset(&parser->request); /* of the one before */
    }
    parser->state = HTTP1_BROKEN;
    parser->request.refusal = status;
    parser->request.refusal_text = text;
    return false;
}

/* --- characters ---------------------------------------------------------------------------- */

/* RFC 9110, 5.6.2. */
static bool is_token(struct bytes text) {
    static const char others[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < text.size; i++) {
        uint8_t character = text.data[i];
        bool is_letter = (character >= 'a' && character <= 'z') ||
                         (character >= 'A' && character <= 'Z') ||
                         (character >= '0' && character <= '9');
        if (!is_letter && (character == 0 || strchr(others, character) == NULL)) {
            return false;
        }
    }
    return text.size > 0;
}

/* RFC 9110, 5.5: visible characters, bytes above ASCII, spaces and tabs. */
static bool is_value(struct bytes text) {
    for (size_t i = 0; i < text.size; i++) {
        if ((text.data[i] < 0x20 && text.data[i] != '\t') || text.data[i] == 0x7f) {
            return false;
        }
    }
    return true;
}

static bool is_visible(struct bytes text) {
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] <= 0x20 || text.data[i] >= 0x7f) {
            return false;
        }
    }
    return text.size > 0;
}

static bool is_host(struct bytes text) {
    for (size_t i = 0; i < text.size; i++) {
        if (strchr("/?#@\\\"<>{}|^`, ", text.data[i]) != NULL) {
            return false; /* also a zero, which ends the list */
        }
    }
    return text.size == 0 || is_visible(text);
}

static bool equals(struct bytes text, const char *other) {
    return text.size == strlen(other) &&
           strncasecmp((const char *)text.data, other, text.size) == 0;
}

static struct bytes trim(struct bytes text) {
    while (text.size > 0 && (text.data[0] == ' ' || text.data[0] == '\t')) {
        text.data++;
        text.size--;
    }
    while (text.size > 0 && (text.data[text.size - 1] == ' ' || text.data[text.size - 1] == '\t')) {
        text.size--;
    }
    return text;
}

static void take(struct bytes *input, size_t size) {
    input->data += size;
    input->size -= size;
}

/* --- lines --------------------------------------------------------------------------------- */

enum line_result { LINE_MORE, LINE_WHOLE, LINE_TOO_LONG, LINE_MALFORMED };

/* The next line without its end, valid until the next call. */
static enum line_result next_line(struct http1_parser *parser, struct bytes *input, size_t size_max,
                                  struct bytes *out_line) {
    struct buffer *kept = &parser->line;
    if (parser->is_line_used) {
        parser->is_line_used = false;
        kept->size = 0;
    }
    const uint8_t *end = input->size > 0 ? memchr(input->data, '\n', input->size) : NULL;
    size_t size = end != NULL ? (size_t)(end - input->data) + 1 : input->size;
    if (kept->size + size > size_max) {
        return LINE_TOO_LONG;
    }
    if (end == NULL) {
        buffer_append(kept, input->data, size);
        take(input, size);
        return LINE_MORE;
    }
    struct bytes line = bytes_of(input->data, size);
    if (kept->size > 0) {
        buffer_append(kept, input->data, size);
        parser->is_line_used = true;
        line = bytes_of(kept->data, kept->size);
    }
    take(input, size);
    /* A line ends with both characters, and neither is anywhere else (RFC 9112, 2.2). */
    if (line.size < 2 || line.data[line.size - 2] != '\r' ||
        memchr(line.data, '\r', line.size - 2) != NULL) {
        return LINE_MALFORMED;
    }
    *out_line = bytes_of(line.data, line.size - 2);
    return LINE_WHOLE;
}

/* --- the start line ------------------------------------------------------------------------ */

static bool parse_version(struct http1_parser *parser, struct bytes text) {
    if (text.size != 8 || memcmp(text.data, "HTTP/", 5) != 0 || text.data[6] != '.' ||
        text.data[5] < '0' || text.data[5] > '9' || text.data[7] < '0' || text.data[7] > '9') {
        return fail(parser, 400, "the request line is malformed\n");
    }
    if (text.data[5] != '1') {
        return fail(parser, 505, "this version of HTTP is not served\n");
    }
    parser->minor_version = (unsigned)(text.data[7] - '0');
    return true;
}

static bool parse_target(struct http1_parser *parser, struct bytes target) {
    struct http_request *request = &parser->request;
    if (!is_visible(target) || memchr(target.data, '#', target.size) != NULL) {
        return fail(parser, 400, "the target of the request is malformed\n");
    }
    if (target.data[0] != '/' && !equals(target, "*")) {
        struct bytes authority;
        if (!http_target_split_absolute(target, &authority, &target) || !is_host(authority)) {
            return fail(parser, 400, "the target of the request is malformed\n");
        }
        http_fields_add(&request->fields, bytes_from_text("host"), authority);
        parser->has_target_host = true;
    }
    http_request_set_target(request, target);
    if (request->refusal != 0) {
        return fail(parser, 414, NULL);
    }
    return true;
}

static bool parse_start_line(struct http1_parser *parser, struct bytes line) {
    const uint8_t *first = memchr(line.data, ' ', line.size);
    const uint8_t *last = memrchr(line.data, ' ', line.size);
    if (first == NULL || first == last) {
        return fail(parser, 400, "the request line is malformed\n");
    }
    struct bytes method = bytes_of(line.data, (size_t)(first - line.data));
    struct bytes target = bytes_of(first + 1, (size_t)(last - first) - 1);
    struct bytes version = bytes_of(last + 1, (size_t)(line.data + line.size - last) - 1);
    if (!is_token(method)) {
        return fail(parser, 400, "the request line is malformed\n");
    }
    if (!parse_version(parser, version)) {
        return false;
    }
    if (equals(method, "CONNECT") || !http_request_set_method(&parser->request, method)) {
        return fail(parser, 501, NULL);
    }
    return parse_target(parser, target);
}

static void begin_request(struct http1_parser *parser) {
    http_request_reset(&parser->request);
    parser->header_size = 0;
    parser->left = 0;
    parser->n_empty_lines = 0;
    parser->has_host = false;
    parser->has_target_host = false;
    parser->is_chunked = false;
    parser->says_close = false;
    parser->says_keep_alive = false;
}

/* False: MORE, or failed. */
static bool read_start_line(struct http1_parser *parser, struct bytes *input) {
    struct bytes line;
    switch (next_line(parser, input, START_LINE_MAX, &line)) {
    case LINE_MORE:
        return false;
    case LINE_TOO_LONG:
        return fail(parser, 414, NULL);
    case LINE_MALFORMED:
        return fail(parser, 400, "a line does not end with CR LF\n");
    case LINE_WHOLE:
        break;
    }
    /* RFC 9112, 2.2: an empty line behind the last request is harmless. */
    if (line.size == 0) {
        parser->n_empty_lines++;
        return parser->n_empty_lines <= EMPTY_LINES_MAX
                   ? true
                   : fail(parser, 400, "the request line is missing\n");
    }
    begin_request(parser);
    if (!parse_start_line(parser, line)) {
        return false;
    }
    parser->state = HTTP1_FIELDS;
    return true;
}

/* --- fields -------------------------------------------------------------------------------- */

static void parse_connection(struct http1_parser *parser, struct bytes value) {
    while (value.size > 0) {
        const uint8_t *comma = memchr(value.data, ',', value.size);
        size_t size = comma != NULL ? (size_t)(comma - value.data) : value.size;
        struct bytes option = trim(bytes_of(value.data, size));
        parser->says_close = parser->says_close || equals(option, "close");
        parser->says_keep_alive = parser->says_keep_alive || equals(option, "keep-alive");
        take(&value, comma != NULL ? size + 1 : size);
    }
}

/* Fields that change how the request is read. */
static bool interpret(struct http1_parser *parser, struct bytes name, struct bytes value) {
    struct http_request *request = &parser->request;
    if (equals(name, "host")) {
        if (parser->has_host || !is_host(value)) {
            return fail(parser, 400, "the host is malformed or given twice\n");
        }
        parser->has_host = true;
    } else if (equals(name, "content-length")) {
        if (request->has_length || !http_request_parse_length(value, &request->length)) {
            return fail(parser, 400, "content-length is malformed or given twice\n");
        }
        request->has_length = true;
    } else if (equals(name, "transfer-encoding")) {
        if (parser->is_chunked || parser->minor_version == 0 || !equals(value, "chunked")) {
            return fail(parser, 400, "the only transfer encoding is chunked, once\n");
        }
        parser->is_chunked = true;
    } else if (equals(name, "connection")) {
        parse_connection(parser, value);
    } else if (equals(name, "expect")) {
        if (!equals(value, "100-continue")) {
            return fail(parser, 417, NULL);
        }
        request->expects_continue = parser->minor_version > 0;
    } else if (equals(name, "content-type") && value.size >= 16 &&
               strncasecmp((const char *)value.data, "application/grpc", 16) == 0) {
        request->refusal = 505;
    }
    return true;
}

static bool split_field(struct http1_parser *parser, struct bytes line, struct bytes *out_name,
                        struct bytes *out_value) {
    if (line.data[0] == ' ' || line.data[0] == '\t') {
        return fail(parser, 400, "a header is folded over two lines\n");
    }
    const uint8_t *colon = memchr(line.data, ':', line.size);
    size_t name_size = colon != NULL ? (size_t)(colon - line.data) : line.size;
    *out_name = bytes_of(line.data, name_size);
    if (colon == NULL || !is_token(*out_name)) {
        return fail(parser, 400, "the name of a header is malformed\n");
    }
    *out_value = trim(bytes_of(colon + 1, line.size - name_size - 1));
    if (!is_value(*out_value)) {
        return fail(parser, 400, "the value of a header is malformed\n");
    }
    parser->header_size += out_name->size + out_value->size + HTTP_FIELD_OVERHEAD;
    if (parser->header_size > parser->header_size_max || name_size > FIELD_NAME_MAX ||
        out_value->size > HTTP_FIELD_PART_MAX) {
        return fail(parser, 431, NULL);
    }
    return true;
}

static bool add_field(struct http1_parser *parser, struct bytes line) {
    struct bytes name;
    struct bytes value;
    if (!split_field(parser, line, &name, &value) || !interpret(parser, name, value)) {
        return false;
    }
    if (parser->has_target_host && equals(name, "host")) {
        return true;
    }
    uint8_t lower[FIELD_NAME_MAX];
    for (size_t i = 0; i < name.size; i++) {
        uint8_t character = name.data[i];
        lower[i] = character >= 'A' && character <= 'Z' ? (uint8_t)(character | 0x20) : character;
    }
    http_fields_add(&parser->request.fields, bytes_of(lower, name.size), value);
    return true;
}

static bool end_head(struct http1_parser *parser) {
    struct http_request *request = &parser->request;
    if (!parser->has_host && parser->minor_version > 0) {
        return fail(parser, 400, "the header host is missing\n");
    }
    if (parser->is_chunked && request->has_length) {
        return fail(parser, 400, "content-length and transfer-encoding exclude each other\n");
    }
    if (parser->is_chunked) {
        parser->state = HTTP1_CHUNK_SIZE;
    } else if (request->has_length && request->length > 0) {
        parser->left = request->length;
        parser->state = HTTP1_LENGTH_BODY;
    } else {
        request->is_complete = true;
        parser->state = HTTP1_COMPLETE;
    }
    if (parser->line.capacity > KEPT_CAPACITY_MAX) {
        buffer_clear(&parser->line);
        parser->is_line_used = false;
    }
    return true;
}

/* One line of the headers, or of the trailers, which are checked and dropped. `*out_is_end`: it was
 * the empty one. False: MORE, or failed. */
static bool read_field(struct http1_parser *parser, struct bytes *input, bool *out_is_end) {
    struct bytes line;
    struct bytes name;
    struct bytes value;
    switch (next_line(parser, input, parser->header_size_max, &line)) {
    case LINE_MORE:
        return false;
    case LINE_TOO_LONG:
        return fail(parser, 431, NULL);
    case LINE_MALFORMED:
        return fail(parser, 400, "a line does not end with CR LF\n");
    case LINE_WHOLE:
        break;
    }
    *out_is_end = line.size == 0;
    if (line.size == 0) {
        return true;
    }
    return parser->state == HTTP1_TRAILERS ? split_field(parser, line, &name, &value)
                                           : add_field(parser, line);
}

/* --- chunks -------------------------------------------------------------------------------- */

static int hex_digit(uint8_t character) {
    if (character >= '0' && character <= '9') {
        return character - '0';
    }
    uint8_t lower = character | 0x20;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* RFC 9112, 7.1: digits, then nothing or an extension, which has no meaning here. */
static bool parse_chunk_size(struct http1_parser *parser, struct bytes line) {
    uint64_t size = 0;
    size_t n = 0;
    while (n < line.size && hex_digit(line.data[n]) >= 0) {
        size = n < CHUNK_DIGITS_MAX ? size << 4 | (uint64_t)hex_digit(line.data[n]) : size;
        n++;
    }
    struct bytes extension = bytes_of(line.data + n, line.size - n);
    if (n == 0 || !is_value(extension) || (extension.size > 0 && extension.data[0] != ';')) {
        return fail(parser, 400, "the size of a chunk is malformed\n");
    }
    parser->header_size += extension.size;
    if (n > CHUNK_DIGITS_MAX || parser->header_size > parser->header_size_max) {
        return fail(parser, 413, NULL);
    }
    parser->left = size;
    parser->state = size > 0 ? HTTP1_CHUNK_DATA : HTTP1_TRAILERS;
    return true;
}

static bool read_chunk_line(struct http1_parser *parser, struct bytes *input) {
    struct bytes line;
    switch (next_line(parser, input, CHUNK_LINE_MAX, &line)) {
    case LINE_MORE:
        return false;
    case LINE_TOO_LONG:
        return fail(parser, 400, "the size of a chunk is malformed\n");
    case LINE_MALFORMED:
        return fail(parser, 400, "a line does not end with CR LF\n");
    case LINE_WHOLE:
        break;
    }
    if (parser->state == HTTP1_CHUNK_SIZE) {
        return parse_chunk_size(parser, line);
    }
    if (line.size > 0) {
        return fail(parser, 400, "a chunk is longer than it says\n");
    }
    parser->state = HTTP1_CHUNK_SIZE;
    return true;
}

static struct bytes take_body(struct http1_parser *parser, struct bytes *input) {
    size_t size = parser->left < input->size ? (size_t)parser->left : input->size;
    struct bytes piece = bytes_of(input->data, size);
    take(input, size);
    parser->left -= size;
    if (parser->left == 0) {
        parser->state = parser->is_chunked ? HTTP1_CHUNK_END : HTTP1_COMPLETE;
    }
    return piece;
}

/* --- all of it ----------------------------------------------------------------------------- */

enum http1_event http1_parser_next(struct http1_parser *parser, struct bytes *input,
                                   struct bytes *out_body) {
    bool goes_on = true;
    while (goes_on) {
        bool is_end = false;
        switch (parser->state) {
        case HTTP1_START:
            goes_on = read_start_line(parser, input);
            break;
        case HTTP1_FIELDS:
            goes_on = read_field(parser, input, &is_end);
            if (is_end) {
                goes_on = end_head(parser);
                if (goes_on) {
                    return HTTP1_HEAD;
                }
            }
            break;
        case HTTP1_TRAILERS:
            goes_on = read_field(parser, input, &is_end);
            if (is_end) {
                parser->state = HTTP1_COMPLETE;
            }
            break;
        case HTTP1_CHUNK_SIZE:
        case HTTP1_CHUNK_END:
            goes_on = read_chunk_line(parser, input);
            break;
        case HTTP1_LENGTH_BODY:
        case HTTP1_CHUNK_DATA:
            if (input->size == 0) {
                return HTTP1_MORE;
            }
            *out_body = take_body(parser, input);
            return HTTP1_BODY;
        case HTTP1_COMPLETE:
            parser->state = HTTP1_START;
            return HTTP1_END;
        case HTTP1_BROKEN:
            return HTTP1_FAILED;
        }
    }
    return parser->state == HTTP1_BROKEN ? HTTP1_FAILED : HTTP1_MORE;
}
