#include "doors/redis/redis_keys.h"

#include <string.h>

enum { HAS_DEADLINE = 0x80, ID_SIZE = 8 };

void redis_put_be64(uint8_t *out, uint64_t value) {
    for (unsigned i = 0; i < 8; i++) {
        out[i] = (uint8_t)(value >> (56 - 8 * i));
    }
}

uint64_t redis_get_be64(const uint8_t *bytes) {
    uint64_t value = 0;
    for (unsigned i = 0; i < 8; i++) {
        value = value << 8 | bytes[i];
    }
    return value;
}

/* --- Headers. --- */

static bool type_is_known(uint8_t type) {
    return type == REDIS_STRING || type == REDIS_LIST || type == REDIS_HASH || type == REDIS_SET ||
           type == REDIS_ZSET || type == REDIS_STREAM;
}

/* Behind the type and the deadline. */
static size_t numbers_of(enum redis_type type) {
    switch (type) {
    case REDIS_STRING:
        return 0;
    case REDIS_LIST:
        return 3;
    case REDIS_STREAM:
        return 4;
    default:
        return 2;
    }
}

bool redis_header_decode(struct bytes bytes, struct redis_header *out_header) {
    if (bytes.size == 0 || !type_is_known(bytes.data[0] & 0x7f)) {
        return false;
    }
    struct redis_header header = {.type = bytes.data[0] & 0x7f};
    bool has_deadline = (bytes.data[0] & HAS_DEADLINE) != 0;
    const uint8_t *at = bytes.data + 1;
    size_t left = bytes.size - 1;
    size_t numbers = numbers_of(header.type);
    if (left < 8 * (numbers + has_deadline)) {
        return false;
    }
    if (has_deadline) {
        header.deadline_ms = (int64_t)redis_get_be64(at);
        at += 8;
        left -= 8;
    }
    if (numbers > 0) {
        header.id = redis_get_be64(at);
        header.count = (int64_t)redis_get_be64(at + 8);
        header.head = numbers == 3 ? (int64_t)redis_get_be64(at + 16) : 0;
        if (numbers == 4) {
            header.last.ms = redis_get_be64(at + 16);
            header.last.seq = redis_get_be64(at + 24);
        }
    } else {
        header.value = bytes_of(at, left);
    }
    *out_header = header;
    return true;
}

struct bytes redis_header_encode(struct arena *arena, const struct redis_header *header) {
    uint8_t *bytes = arena_alloc(arena, 1 + 8 * 5 + header->value.size);
    size_t size = 1;
    bytes[0] = (uint8_t)header->type;
    if (header->deadline_ms != 0) {
        bytes[0] |= HAS_DEADLINE;
        redis_put_be64(bytes + size, (uint64_t)header->deadline_ms);
        size += 8;
    }
    if (header->type == REDIS_STRING) {
        if (header->value.size > 0) {
            memcpy(bytes + size, header->value.data, header->value.size);
        }
        return bytes_of(bytes, size + header->value.size);
    }
    redis_put_be64(bytes + size, header->id);
    redis_put_be64(bytes + size + 8, (uint64_t)header->count);
    size += 16;
    if (header->type == REDIS_LIST) {
        redis_put_be64(bytes + size, (uint64_t)header->head);
        size += 8;
    }
    if (header->type == REDIS_STREAM) {
        redis_put_be64(bytes + size, header->last.ms);
        redis_put_be64(bytes + size + 8, header->last.seq);
        size += 16;
    }
    return bytes_of(bytes, size);
}

const char *redis_type_name(enum redis_type type) {
    switch (type) {
    case REDIS_STRING:
        return "string";
    case REDIS_LIST:
        return "list";
    case REDIS_HASH:
        return "hash";
    case REDIS_SET:
        return "set";
    case REDIS_ZSET:
        return "zset";
    case REDIS_STREAM:
        return "stream";
    case REDIS_NONE:
        break;
    }
    return "none";
}

/* --- Scores. --- */

uint64_t redis_score_encode(double score) {
    uint64_t bits;
    score = score == 0 ? 0 : score; /* -0 is 0 */
    memcpy(&bits, &score, sizeof bits);
    return (bits >> 63) != 0 ? ~bits : bits | UINT64_C(1) << 63;
}

double redis_score_decode(uint64_t bits) {
    double score;
    bits = (bits >> 63) != 0 ? bits & ~(UINT64_C(1) << 63) : ~bits;
    memcpy(&score, &bits, sizeof score);
    return score;
}

/* --- Keys. --- */

static struct bytes join(struct arena *arena, const void *first, size_t first_size,
                         struct bytes rest) {
    uint8_t *bytes = arena_alloc(arena, first_size + rest.size);
    memcpy(bytes, first, first_size);
    if (rest.size > 0) {
        memcpy(bytes + first_size, rest.data, rest.size);
    }
    return bytes_of(bytes, first_size + rest.size);
}

struct bytes redis_key_main(struct arena *arena, unsigned db, struct bytes key) {
    const uint8_t head[1] = {(uint8_t)db};
    return join(arena, head, sizeof head, key);
}

struct bytes redis_key_element(struct arena *arena, uint64_t id, struct bytes member) {
    uint8_t head[1 + ID_SIZE] = {'o'};
    redis_put_be64(head + 1, id);
    return join(arena, head, sizeof head, member);
}

struct bytes redis_key_position(struct arena *arena, uint64_t id, int64_t position) {
    uint8_t bytes[8];
    redis_put_be64(bytes, (uint64_t)position ^ UINT64_C(1) << 63);
    return redis_key_element(arena, id, bytes_of(bytes, sizeof bytes));
}

struct bytes redis_key_member(struct arena *arena, uint64_t id, struct bytes member) {
    uint8_t head[1 + ID_SIZE + 1] = {'o'};
    redis_put_be64(head + 1, id);
    head[1 + ID_SIZE] = 'm';
    return join(arena, head, sizeof head, member);
}

struct bytes redis_key_score(struct arena *arena, uint64_t id, double score, struct bytes member) {
    uint8_t head[1 + ID_SIZE + 1 + 8] = {'o'};
    redis_put_be64(head + 1, id);
    head[1 + ID_SIZE] = 's';
    redis_put_be64(head + 1 + ID_SIZE + 1, redis_score_encode(score));
    return join(arena, head, sizeof head, member);
}

struct bytes redis_key_record(struct arena *arena, char kind, struct bytes rest) {
    return join(arena, &kind, 1, rest);
}

struct bytes redis_key_fence(struct arena *arena, unsigned db, struct bytes key) {
    const uint8_t head[2] = {'f', (uint8_t)db};
    return join(arena, head, sizeof head, key);
}

struct bytes redis_element_of(const struct record *record) {
    struct bytes key = record_key(record);
    return bytes_of(key.data + 1 + ID_SIZE, key.size - 1 - ID_SIZE);
}

struct bytes redis_member_of(const struct record *record) {
    struct bytes key = record_key(record);
    return bytes_of(key.data + 2 + ID_SIZE, key.size - 2 - ID_SIZE);
}

struct bytes redis_scored_member_of(const struct record *record, double *out_score) {
    struct bytes key = record_key(record);
    *out_score = redis_score_decode(redis_get_be64(key.data + 2 + ID_SIZE));
    return bytes_of(key.data + 2 + ID_SIZE + 8, key.size - 2 - ID_SIZE - 8);
}

/* --- Ranges. --- */

/* All keys that begin so; the last byte is not the greatest. */
static struct key_range prefix_range(struct arena *arena, struct key_space_id space,
                                     struct bytes prefix) {
    uint8_t *end = arena_copy(arena, prefix.data, prefix.size);
    size_t size = prefix.size;
    while (end[size - 1] == 0xff) {
        size--; /* the first byte is a letter or a database */
    }
    end[size - 1]++;
    return (struct key_range){.space = space, .key = prefix, .range_end = bytes_of(end, size)};
}

struct key_range redis_range_database(struct arena *arena, unsigned db) {
    return prefix_range(arena, KEY_SPACE_REDIS, redis_key_main(arena, db, bytes_of("", 0)));
}

struct key_range redis_range_elements(struct arena *arena, uint64_t id) {
    return prefix_range(arena, KEY_SPACE_REDIS_RECORDS,
                        redis_key_element(arena, id, bytes_of("", 0)));
}

struct key_range redis_range_members(struct arena *arena, uint64_t id) {
    return prefix_range(arena, KEY_SPACE_REDIS_RECORDS,
                        redis_key_member(arena, id, bytes_of("", 0)));
}

struct key_range redis_range_scores(struct arena *arena, uint64_t id) {
    struct key_range range = redis_range_members(arena, id);
    uint8_t *key = arena_copy(arena, range.key.data, range.key.size);
    uint8_t *end = arena_copy(arena, range.range_end.data, range.range_end.size);
    key[range.key.size - 1] = 's';
    end[range.range_end.size - 1] = 's' + 1;
    range.key.data = key;
    range.range_end.data = end;
    return range;
}

struct key_range redis_range_records(char kind) {
    static const uint8_t letters[] = "abcdefghijklmnopqrstuvwxyz";
    const uint8_t *at = letters + (kind - 'a');
    return (struct key_range){
        .space = KEY_SPACE_REDIS_RECORDS, .key = bytes_of(at, 1), .range_end = bytes_of(at + 1, 1)};
}
