#include "registry/registry_keys.h"

#include "core/key_writer.h"
#include "core/reserved_keys.h"
#include "registry/registry_model.h"

#include <string.h>

enum { NUMBER_SIZE = 8, PLACE_SIZE = 2 };

static const char mirror_prefix[] = RESERVED_KEYS_PREFIX;

/* --- Writing. --- */

/* What comes after the part has at most `more` bytes. */
static struct key_writer part_of(struct arena *arena, struct bytes service, char part,
                                 size_t more) {
    struct key_writer writer = key_writer_of(arena, 3 + service.size + more);
    key_writer_put_byte(&writer, 's');
    key_writer_put_text(&writer, service);
    key_writer_put_byte(&writer, 0);
    key_writer_put_byte(&writer, (uint8_t)part);
    return writer;
}

struct bytes registry_key_service(struct arena *arena, struct bytes service) {
    struct key_writer writer = part_of(arena, service, 'g', 0);
    return key_writer_key(&writer);
}

struct bytes registry_key_instance(struct arena *arena, struct bytes service, struct bytes id) {
    struct key_writer writer = part_of(arena, service, 'i', id.size);
    key_writer_put_text(&writer, id);
    return key_writer_key(&writer);
}

struct bytes registry_key_check(struct arena *arena, struct bytes service, struct bytes id,
                                struct bytes check) {
    struct key_writer writer = part_of(arena, service, 'i', id.size + 1 + check.size);
    key_writer_put_text(&writer, id);
    key_writer_put_byte(&writer, 0);
    key_writer_put_text(&writer, check);
    return key_writer_key(&writer);
}

struct bytes registry_key_lost(struct arena *arena, struct bytes service, struct bytes id) {
    struct key_writer writer = part_of(arena, service, 'l', id.size);
    key_writer_put_text(&writer, id);
    return key_writer_key(&writer);
}

static struct key_writer named(struct arena *arena, char kind, struct bytes name, size_t more) {
    struct key_writer writer = key_writer_of(arena, 1 + name.size + more);
    key_writer_put_byte(&writer, (uint8_t)kind);
    key_writer_put_text(&writer, name);
    return writer;
}

struct bytes registry_key_name(struct arena *arena, struct bytes service) {
    struct key_writer writer = named(arena, 'n', service, 0);
    return key_writer_key(&writer);
}

struct bytes registry_key_index(struct arena *arena, struct bytes id, struct bytes service) {
    struct key_writer writer = named(arena, 'x', id, 1 + service.size);
    key_writer_put_byte(&writer, 0);
    key_writer_put_text(&writer, service);
    return key_writer_key(&writer);
}

struct bytes registry_key_deleted(void) {
    return bytes_of("d", 1);
}

struct bytes registry_key_event(struct arena *arena, uint64_t number) {
    struct key_writer writer = key_writer_of(arena, 1 + PLACE_SIZE);
    key_writer_put_byte(&writer, 'e');
    key_writer_put_number(&writer, number % REGISTRY_EVENTS_MAX, PLACE_SIZE);
    return key_writer_key(&writer);
}

struct bytes registry_key_event_count(void) {
    return bytes_of("c", 1);
}

struct bytes registry_key_runner(struct arena *arena, uint64_t member_id) {
    struct key_writer writer = key_writer_of(arena, 1 + NUMBER_SIZE);
    key_writer_put_byte(&writer, 'r');
    key_writer_put_number(&writer, member_id, NUMBER_SIZE);
    return key_writer_key(&writer);
}

/* Without slashes, so that two services never have the same key: "a/b" with "c", "a" with "b/c". */
static void put_escaped(struct key_writer *writer, struct bytes text) {
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == '/' || text.data[i] == '%') {
            key_writer_put_text(writer, bytes_from_text(text.data[i] == '/' ? "%2F" : "%25"));
        } else {
            key_writer_put_byte(writer, text.data[i]);
        }
    }
}

struct bytes registry_key_mirror(struct arena *arena, struct bytes service, struct bytes id) {
    struct key_writer writer =
        key_writer_of(arena, sizeof mirror_prefix + 3 * service.size + 1 + id.size);
    key_writer_put_text(&writer, bytes_of(mirror_prefix, sizeof mirror_prefix - 1));
    put_escaped(&writer, service);
    key_writer_put_byte(&writer, '/');
    key_writer_put_text(&writer, id);
    return key_writer_key(&writer);
}

/* --- Ranges. --- */

/* All keys that begin so. */
static struct key_range beginning_with(struct arena *arena, struct key_space_id space,
                                       struct bytes beginning) {
    uint8_t *end = arena_copy(arena, beginning.data, beginning.size);
    size_t size = beginning.size;
    /* The first byte is a letter. */
    while (end[size - 1] == UINT8_MAX) {
        size--;
    }
    end[size - 1]++;
    return (struct key_range){.space = space, .key = beginning, .range_end = bytes_of(end, size)};
}

struct key_range registry_service_range(struct arena *arena, struct bytes service) {
    struct key_writer writer = named(arena, 's', service, 1);
    key_writer_put_byte(&writer, 0);
    return beginning_with(arena, KEY_SPACE_REGISTRY, key_writer_key(&writer));
}

struct key_range registry_prefix_range(struct arena *arena, struct bytes prefix) {
    struct key_writer writer = named(arena, 's', prefix, 0);
    return beginning_with(arena, KEY_SPACE_REGISTRY, key_writer_key(&writer));
}

struct key_range registry_instances_range(struct arena *arena, struct bytes service) {
    struct key_writer writer = part_of(arena, service, 'i', 0);
    return beginning_with(arena, KEY_SPACE_REGISTRY, key_writer_key(&writer));
}

struct key_range registry_checks_range(struct arena *arena, struct bytes service, struct bytes id) {
    return beginning_with(arena, KEY_SPACE_REGISTRY,
                          registry_key_check(arena, service, id, bytes_of("", 0)));
}

struct key_range registry_lost_range(struct arena *arena, struct bytes service) {
    struct key_writer writer = part_of(arena, service, 'l', 0);
    return beginning_with(arena, KEY_SPACE_REGISTRY, key_writer_key(&writer));
}

struct key_range registry_names_range(struct arena *arena, struct bytes prefix) {
    return beginning_with(arena, KEY_SPACE_REGISTRY_RECORDS, registry_key_name(arena, prefix));
}

struct key_range registry_index_range(struct arena *arena, struct bytes id) {
    return beginning_with(arena, KEY_SPACE_REGISTRY_RECORDS,
                          registry_key_index(arena, id, bytes_of("", 0)));
}

struct key_range registry_records(char kind) {
    static const uint8_t letters[] = "abcdefghijklmnopqrstuvwxyz";
    size_t at = (size_t)(kind - 'a');
    return (struct key_range){.space = KEY_SPACE_REGISTRY_RECORDS,
                              .key = bytes_of(letters + at, 1),
                              .range_end = bytes_of(letters + at + 1, 1)};
}

/* --- Reading. --- */

/* `rest` is what follows the letter. */
static struct registry_key read_instance(struct registry_key key, struct bytes rest) {
    const uint8_t *nul = memchr(rest.data, 0, rest.size);
    if (nul == NULL) {
        key.kind = REGISTRY_KEY_INSTANCE;
        key.id = rest;
        return key;
    }
    key.kind = REGISTRY_KEY_CHECK;
    key.id = bytes_of(rest.data, (size_t)(nul - rest.data));
    key.check = bytes_of(nul + 1, rest.size - key.id.size - 1);
    return key;
}

struct registry_key registry_key_read(const struct record *record) {
    struct registry_key key = {.kind = REGISTRY_KEY_OTHER};
    struct bytes bytes = record_key(record);
    const uint8_t *nul = bytes.size > 0 ? memchr(bytes.data, 0, bytes.size) : NULL;
    if (!key_space_equal(record_space(record), KEY_SPACE_REGISTRY) || nul == NULL ||
        bytes.data[0] != 's') {
        return key;
    }
    key.service = bytes_of(bytes.data + 1, (size_t)(nul - bytes.data) - 1);
    struct bytes rest = bytes_of(nul + 1, bytes.size - key.service.size - 2);
    if (rest.size == 1 && rest.data[0] == 'g') {
        key.kind = REGISTRY_KEY_SERVICE;
    } else if (rest.size > 1 && rest.data[0] == 'i') {
        key = read_instance(key, bytes_of(rest.data + 1, rest.size - 1));
    } else if (rest.size > 1 && rest.data[0] == 'l') {
        key.kind = REGISTRY_KEY_LOST;
        key.id = bytes_of(rest.data + 1, rest.size - 1);
    }
    return key;
}
