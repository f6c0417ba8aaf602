#include "doors/registry/registry_api_fields.h"

bool registry_api_fields_is_time(int64_t ms) {
    return ms >= 0 && ms <= REGISTRY_API_TIME_MS_MAX;
}

/* How often a field is there. */
static size_t count(struct bytes message, uint32_t field) {
    struct pb_reader reader;
    size_t n = 0;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        n += reader.field == field;
        pb_reader_skip(&reader);
    }
    return n;
}

bool registry_api_fields_texts(struct bytes message, uint32_t field, size_t max,
                               struct arena *arena, const struct bytes **out_texts, size_t *out_n) {
    size_t n = count(message, field);
    if (n > max) {
        return false;
    }
    struct bytes *texts = arena_calloc(arena, n, sizeof *texts);
    struct pb_reader reader;
    size_t i = 0;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == field && i < n) {
            texts[i++] = pb_reader_bytes(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    *out_texts = texts;
    *out_n = i;
    return !reader.failed;
}

static bool read_pair(struct bytes message, struct registry_pair *out_pair) {
    struct pb_reader reader;
    *out_pair = (struct registry_pair){{NULL, 0}, {NULL, 0}};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 1) {
            out_pair->key = pb_reader_bytes(&reader);
        } else if (reader.field == 2) {
            out_pair->value = pb_reader_bytes(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed;
}

bool registry_api_fields_pairs(struct bytes message, uint32_t field, struct arena *arena,
                               const struct registry_pair **out_pairs, size_t *out_n) {
    const struct bytes *messages = NULL;
    size_t n = 0;
    if (!registry_api_fields_texts(message, field, REGISTRY_PAIRS_MAX, arena, &messages, &n)) {
        return false;
    }
    struct registry_pair *pairs = arena_calloc(arena, n, sizeof *pairs);
    for (size_t i = 0; i < n; i++) {
        if (!read_pair(messages[i], &pairs[i])) {
            return false;
        }
    }
    *out_pairs = pairs;
    *out_n = n;
    return true;
}

uint16_t registry_api_fields_number16(struct pb_reader *reader) {
    uint64_t number = pb_reader_uint64(reader);
    reader->failed |= number > UINT16_MAX;
    return (uint16_t)number;
}

uint32_t registry_api_fields_number32(struct pb_reader *reader) {
    uint64_t number = pb_reader_uint64(reader);
    reader->failed |= number > UINT32_MAX;
    return (uint32_t)number;
}

uint8_t registry_api_fields_choice(struct pb_reader *reader, int32_t n) {
    int32_t value = pb_reader_enum(reader);
    reader->failed |= value < 0 || value >= n;
    return (uint8_t)value;
}
