#include "registry/registry_text_model.h"

#include "base/utf8.h"

/* --- Texts. --- */

/* U+0000 to U+001F, U+007F to U+009F. */
static bool is_control(const uint8_t *text, size_t n) {
    return (n == 1 && (text[0] < 0x20 || text[0] == 0x7f)) ||
           (n == 2 && text[0] == 0xc2 && text[1] < 0xa0);
}

static bool is_text(struct bytes text, bool may_have_controls) {
    for (size_t i = 0; i < text.size;) {
        size_t n = utf8_character_size(bytes_of(text.data + i, text.size - i));
        if (n == 0 || text.data[i] == 0 || (!may_have_controls && is_control(text.data + i, n))) {
            return false;
        }
        i += n;
    }
    return true;
}

bool registry_text_is_valid(struct bytes text, size_t size_max) {
    return text.size <= size_max && is_text(text, true);
}

bool registry_word_is_valid(struct bytes word) {
    return word.size <= REGISTRY_NAME_SIZE_MAX && is_text(word, false);
}

bool registry_name_is_valid(struct bytes name) {
    return name.size > 0 && registry_word_is_valid(name);
}

bool registry_pairs_are_valid(const struct registry_pair *pairs, size_t n, bool may_repeat) {
    bool are_valid = n <= REGISTRY_PAIRS_MAX;
    for (size_t i = 0; i < n && are_valid; i++) {
        are_valid = pairs[i].key.size > 0 &&
                    registry_text_is_valid(pairs[i].key, REGISTRY_NAME_SIZE_MAX) &&
                    registry_text_is_valid(pairs[i].value, REGISTRY_TEXT_SIZE_MAX);
        for (size_t j = 0; j < i && are_valid && !may_repeat; j++) {
            are_valid = !bytes_equal(pairs[i].key, pairs[j].key);
        }
    }
    return are_valid;
}

/* --- Reading. --- */

bool registry_is_read(const struct reader *reader) {
    return !reader->failed && reader_left(reader) == 0;
}

size_t registry_get_count(struct reader *reader, size_t size, size_t max) {
    uint64_t n = reader_get_varint(reader);
    if (n > max || n > reader_left(reader) / size) {
        reader->failed = true;
        return 0;
    }
    return (size_t)n;
}

uint8_t registry_get_choice(struct reader *reader, uint8_t end) {
    uint8_t choice = reader_get_u8(reader);
    if (choice >= end) {
        reader->failed = true;
        return 0;
    }
    return choice;
}

bool registry_get_flag(struct reader *reader) {
    return registry_get_choice(reader, 2) == 1;
}

uint64_t registry_get_number(struct reader *reader, uint64_t max) {
    uint64_t number = reader_get_varint(reader);
    if (number > max) {
        reader->failed = true;
        return 0;
    }
    return number;
}

/* --- Pairs. --- */

void registry_put_pairs(struct buffer *out, const struct registry_pair *pairs, size_t n) {
    buffer_put_varint(out, n);
    for (size_t i = 0; i < n; i++) {
        buffer_put_bytes(out, pairs[i].key);
        buffer_put_bytes(out, pairs[i].value);
    }
}

const struct registry_pair *registry_get_pairs(struct reader *reader, struct arena *arena,
                                               size_t *out_n) {
    size_t n = registry_get_count(reader, 2, REGISTRY_PAIRS_MAX);
    struct registry_pair *pairs = arena_calloc(arena, n, sizeof *pairs);
    for (size_t i = 0; i < n; i++) {
        pairs[i].key = reader_get_bytes(reader);
        pairs[i].value = reader_get_bytes(reader);
    }
    *out_n = n;
    return pairs;
}
