#include "doors/consul/consul_json.h"

#include "base/duration.h"
#include "base/utf8.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>

/* --- Writing. --- */

void consul_json_init(struct consul_json *json, struct buffer *out) {
    *json = (struct consul_json){.out = out};
}

static void put_text(struct buffer *out, const char *text) {
    buffer_append(out, text, strlen(text));
}

static void begin_value(struct consul_json *json) {
    if (json->needs_comma) {
        buffer_put_u8(json->out, ',');
    }
    json->needs_comma = true;
}

void consul_json_begin(struct consul_json *json, char bracket) {
    begin_value(json);
    buffer_put_u8(json->out, (uint8_t)bracket);
    json->needs_comma = false;
}

void consul_json_end(struct consul_json *json, char bracket) {
    buffer_put_u8(json->out, (uint8_t)bracket);
    json->needs_comma = true;
}

static void put_escaped(struct buffer *out, uint8_t character) {
    char text[8];
    switch (character) {
    case '"':
        put_text(out, "\\\"");
        return;
    case '\\':
        put_text(out, "\\\\");
        return;
    case '\n':
        put_text(out, "\\n");
        return;
    case '\r':
        put_text(out, "\\r");
        return;
    case '\t':
        put_text(out, "\\t");
        return;
    default:
        snprintf(text, sizeof text, "\\u%04x", character);
        put_text(out, text);
    }
}

static bool is_escaped(uint8_t character) {
    return character < 0x20 || character == '"' || character == '\\' || character == '<' ||
           character == '>' || character == '&';
}

static void put_string(struct buffer *out, struct bytes text) {
    buffer_put_u8(out, '"');
    while (text.size > 0) {
        size_t size = utf8_character_size(text);
        if (size == 0) {
            put_text(out, "\\ufffd");
            size = 1;
        } else if (size == 1 && is_escaped(text.data[0])) {
            put_escaped(out, text.data[0]);
        } else {
            buffer_append(out, text.data, size);
        }
        text = bytes_of(text.data + size, text.size - size);
    }
    buffer_put_u8(out, '"');
}

void consul_json_key(struct consul_json *json, struct bytes name) {
    begin_value(json);
    put_string(json->out, name);
    buffer_put_u8(json->out, ':');
    json->needs_comma = false;
}

void consul_json_name(struct consul_json *json, const char *name) {
    consul_json_key(json, bytes_from_text(name));
}

void consul_json_text(struct consul_json *json, struct bytes text) {
    begin_value(json);
    put_string(json->out, text);
}

void consul_json_number(struct consul_json *json, int64_t number) {
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, number);
    consul_json_raw(json, bytes_from_text(text));
}

void consul_json_unsigned(struct consul_json *json, uint64_t number) {
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, number);
    consul_json_raw(json, bytes_from_text(text));
}

void consul_json_bool(struct consul_json *json, bool is_true) {
    consul_json_raw(json, bytes_from_text(is_true ? "true" : "false"));
}

void consul_json_null(struct consul_json *json) {
    consul_json_raw(json, bytes_from_text("null"));
}

static const char digits64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void consul_json_base64(struct consul_json *json, struct bytes bytes) {
    if (bytes.size == 0) {
        consul_json_null(json);
        return;
    }
    begin_value(json);
    uint8_t *out = buffer_reserve(json->out, (bytes.size + 2) / 3 * 4 + 2);
    uint8_t *start = out;
    *out++ = '"';
    for (size_t i = 0; i < bytes.size; i += 3) {
        size_t left = bytes.size - i;
        uint32_t bits = (uint32_t)bytes.data[i] << 16;
        bits |= left > 1 ? (uint32_t)bytes.data[i + 1] << 8 : 0;
        bits |= left > 2 ? bytes.data[i + 2] : 0;
        *out++ = (uint8_t)digits64[bits >> 18];
        *out++ = (uint8_t)digits64[bits >> 12 & 63];
        *out++ = left > 1 ? (uint8_t)digits64[bits >> 6 & 63] : '=';
        *out++ = left > 2 ? (uint8_t)digits64[bits & 63] : '=';
    }
    *out++ = '"';
    json->out->size += (size_t)(out - start);
}

void consul_json_raw(struct consul_json *json, struct bytes text) {
    begin_value(json);
    buffer_append(json->out, text.data, text.size);
}

void consul_json_set_text(struct consul_json *json, const char *name, struct bytes text) {
    consul_json_name(json, name);
    consul_json_text(json, text);
}

void consul_json_set_chars(struct consul_json *json, const char *name, const char *text) {
    consul_json_set_text(json, name, bytes_from_text(text));
}

void consul_json_set_number(struct consul_json *json, const char *name, int64_t number) {
    consul_json_name(json, name);
    consul_json_number(json, number);
}

void consul_json_set_bool(struct consul_json *json, const char *name, bool is_true) {
    consul_json_name(json, name);
    consul_json_bool(json, is_true);
}

/* --- Reading. --- */

/* Values are looked at before a worker could do it: so many take some milliseconds. */
enum { DEPTH_MAX = 32, VALUES_MAX = 8192 };

/* jansson recurses, and so does what is done with its values. */
static bool is_modest(struct bytes body) {
    size_t depth = 0;
    size_t n_values = 0;
    bool is_in_string = false;
    for (size_t i = 0; i < body.size; i++) {
        uint8_t c = body.data[i];
        if (is_in_string) {
            i += c == '\\' ? 1 : 0;
            is_in_string = c != '"';
        } else if (c == '"') {
            is_in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > DEPTH_MAX) {
                return false;
            }
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        } else if (c == ',' && ++n_values > VALUES_MAX) {
            return false;
        }
    }
    return true;
}

json_t *consul_json_parse(struct bytes body, char *out_why, size_t why_size) {
    json_error_t error;
    if (!is_modest(body)) {
        snprintf(out_why, why_size, "exceeded max depth, or too many values");
        return NULL;
    }
    json_t *value =
        json_loadb((const char *)body.data, body.size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (value == NULL) {
        snprintf(out_why, why_size, "%s", body.size == 0 ? "EOF" : error.text);
    }
    return value;
}

static bool is_same_name(const char *given, const char *wanted) {
    for (;;) {
        while (*given == '_') {
            given++;
        }
        if (tolower((unsigned char)*given) != tolower((unsigned char)*wanted)) {
            return false;
        }
        if (*given == 0) {
            return true;
        }
        given++;
        wanted++;
    }
}

json_t *consul_json_find(const json_t *object, const char *name) {
    const char *key;
    json_t *value;
    if (!json_is_object(object)) {
        return NULL;
    }
    value = json_object_get(object, name);
    if (value != NULL) {
        return json_is_null(value) ? NULL : value;
    }
    json_t *all = (json_t *)(uintptr_t)object; /* jansson's iterator takes no constant one */
    json_object_foreach(all, key, value) {
        if (is_same_name(key, name)) {
            return json_is_null(value) ? NULL : value;
        }
    }
    return NULL;
}

bool consul_json_get_text(const json_t *object, const char *name, struct bytes *out_text) {
    const json_t *value = consul_json_find(object, name);
    if (value == NULL) {
        return true;
    }
    if (!json_is_string(value)) {
        return false;
    }
    *out_text = bytes_of(json_string_value(value), json_string_length(value));
    return true;
}

bool consul_json_get_bool(const json_t *object, const char *name, bool *out_value) {
    const json_t *value = consul_json_find(object, name);
    if (value == NULL) {
        return true;
    }
    *out_value = json_is_true(value);
    return json_is_boolean(value);
}

bool consul_json_get_number(const json_t *object, const char *name, int64_t *out_value) {
    const json_t *value = consul_json_find(object, name);
    if (value == NULL) {
        return true;
    }
    *out_value = json_integer_value(value);
    return json_is_integer(value);
}

bool consul_json_get_texts(const json_t *object, const char *name, struct arena *arena,
                           const struct bytes **out_texts, size_t *out_n) {
    const json_t *value = consul_json_find(object, name);
    if (value == NULL) {
        return true;
    }
    size_t n = json_array_size(value);
    struct bytes *texts = arena_calloc(arena, n, sizeof *texts);
    for (size_t i = 0; i < n; i++) {
        const json_t *text = json_array_get(value, i);
        if (!json_is_string(text)) {
            return false;
        }
        texts[i] = bytes_of(json_string_value(text), json_string_length(text));
    }
    *out_texts = texts;
    *out_n = n;
    return json_is_array(value);
}

bool consul_duration_read(struct bytes text, int64_t *out_ms) {
    char copy[DURATION_TEXT_SIZE_MAX];
    bool is_negative = text.size > 0 && text.data[0] == '-';
    bool is_signed = is_negative || (text.size > 0 && text.data[0] == '+');
    if (text.size == 0 || text.size >= sizeof copy) {
        return false;
    }
    memcpy(copy, text.data, text.size);
    copy[text.size] = 0;
    int64_t ms = 0;
    if (strchr(copy, 'd') != NULL || strlen(copy) != text.size ||
        duration_parse(copy + is_signed, DURATION_BARE_REFUSED, &ms) != STATUS_OK) {
        return false;
    }
    *out_ms = is_negative ? -ms : ms;
    return true;
}

bool consul_json_get_duration(const json_t *object, const char *name, int64_t *out_ms) {
    const json_t *value = consul_json_find(object, name);
    if (value == NULL) {
        return true;
    }
    if (json_is_integer(value)) {
        *out_ms = json_integer_value(value) / 1000000;
        return true;
    }
    struct bytes text = {0};
    if (!consul_json_get_text(object, name, &text)) {
        return false;
    }
    if (text.size == 0) {
        return true;
    }
    return consul_duration_read(text, out_ms);
}

const char *consul_duration_text(int64_t ms, char out[48]) {
    if (ms < 1000) {
        snprintf(out, 48, ms == 0 ? "0s" : "%" PRId64 "ms", ms);
        return out;
    }
    int64_t hours = ms / 3600000;
    int64_t minutes = ms / 60000 % 60;
    int64_t left = ms % 60000;
    int at = 0;
    if (hours > 0) {
        at += snprintf(out + at, (size_t)(48 - at), "%" PRId64 "h", hours);
    }
    if (ms >= 60000) {
        at += snprintf(out + at, (size_t)(48 - at), "%" PRId64 "m", minutes);
    }
    at += snprintf(out + at, (size_t)(48 - at), "%" PRId64, left / 1000);
    int64_t part = left % 1000;
    int places = part % 100 == 0 ? 1 : part % 10 == 0 ? 2 : 3;
    part /= places == 1 ? 100 : places == 2 ? 10 : 1;
    if (part != 0) {
        at += snprintf(out + at, (size_t)(48 - at), ".%0*" PRId64, places, part);
    }
    snprintf(out + at, (size_t)(48 - at), "s");
    return out;
}

bool consul_base64_decode(struct bytes text, struct arena *arena, struct bytes *out_bytes) {
    if (text.size % 4 != 0) {
        return false;
    }
    uint8_t *out = arena_alloc(arena, text.size / 4 * 3);
    size_t size = 0;
    for (size_t i = 0; i < text.size; i += 4) {
        uint32_t bits = 0;
        size_t n_padding = 0;
        for (size_t j = 0; j < 4; j++) {
            uint8_t c = text.data[i + j];
            const char *digit = c != 0 ? strchr(digits64, c) : NULL;
            bool is_padding = c == '=' && i + 4 == text.size && j >= 2;
            if (!is_padding && (digit == NULL || n_padding > 0)) {
                return false;
            }
            n_padding += is_padding ? 1 : 0;
            bits = bits << 6 | (is_padding ? 0 : (uint32_t)(digit - digits64));
        }
        out[size++] = (uint8_t)(bits >> 16);
        if (n_padding < 2) {
            out[size++] = (uint8_t)(bits >> 8);
        }
        if (n_padding < 1) {
            out[size++] = (uint8_t)bits;
        }
    }
    *out_bytes = bytes_of(out, size);
    return true;
}
