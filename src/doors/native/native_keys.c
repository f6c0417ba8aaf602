#include "doors/native/native_keys.h"

#include "core/key_store.h"
#include "core/key_writer.h"

#include <string.h>

enum { NUMBER_SIZE = 8, COUNT_SIZE = 4, PLACE_SIZE = 2 };

/* --- Writing. --- */

static void put_id(struct key_writer *writer, int64_t id) {
    key_writer_put_number(writer, (uint64_t)id ^ UINT64_C(1) << 63, NUMBER_SIZE);
}

/* What comes after the name has at most `more` bytes. */
static struct key_writer named(struct arena *arena, char kind, struct bytes name, size_t more) {
    struct key_writer writer = key_writer_of(arena, 1 + name.size + 1 + more);
    key_writer_put_byte(&writer, (uint8_t)kind);
    key_writer_put_text(&writer, name);
    key_writer_put_byte(&writer, 0);
    return writer;
}

static struct bytes place_of(struct arena *arena, struct bytes name, char part,
                             enum native_mode mode, int64_t id) {
    struct key_writer writer = named(arena, 'r', name, 2 + NUMBER_SIZE);
    key_writer_put_byte(&writer, (uint8_t)part);
    key_writer_put_byte(&writer, (uint8_t)mode);
    put_id(&writer, id);
    return key_writer_key(&writer);
}

struct bytes native_key_holder(struct arena *arena, struct bytes name, enum native_mode mode,
                               int64_t id) {
    return place_of(arena, name, 'h', mode, id);
}

struct bytes native_key_waiter(struct arena *arena, struct bytes name, enum native_mode mode,
                               int64_t id) {
    return place_of(arena, name, 'q', mode, id);
}

struct bytes native_key_pool(struct arena *arena, struct bytes name) {
    struct key_writer writer = named(arena, 'p', name, 1);
    key_writer_put_byte(&writer, 'c');
    return key_writer_key(&writer);
}

struct bytes native_key_taken(struct arena *arena, struct bytes name, struct bytes slot) {
    struct key_writer writer = named(arena, 'p', name, 1 + slot.size);
    key_writer_put_byte(&writer, 'u');
    key_writer_put_text(&writer, slot);
    return key_writer_key(&writer);
}

struct bytes native_key_pool_waiter(struct arena *arena, struct bytes name, int64_t id) {
    struct key_writer writer = named(arena, 'p', name, 1 + NUMBER_SIZE);
    key_writer_put_byte(&writer, 'v');
    put_id(&writer, id);
    return key_writer_key(&writer);
}

static struct bytes numbered(struct arena *arena, char kind, int64_t number) {
    struct key_writer writer = key_writer_of(arena, 1 + NUMBER_SIZE);
    key_writer_put_byte(&writer, (uint8_t)kind);
    put_id(&writer, number);
    return key_writer_key(&writer);
}

struct bytes native_key_session(struct arena *arena, int64_t session_id) {
    return numbered(arena, 's', session_id);
}

struct bytes native_key_acquisition(struct arena *arena, int64_t id) {
    return numbered(arena, 'a', id);
}

/* A request id and wants never give the same bytes: the byte before them differs. */
struct bytes native_key_request(struct arena *arena, int64_t session_id, struct bytes request_id,
                                const struct native_want *wants, size_t n_wants) {
    struct buffer encoded;
    buffer_init(&encoded);
    if (request_id.size == 0) {
        native_wants_put(&encoded, wants, n_wants);
    }
    struct bytes request = request_id.size > 0 ? request_id : bytes_of(encoded.data, encoded.size);
    struct key_writer writer = key_writer_of(arena, 2 + NUMBER_SIZE + request.size);
    key_writer_put_byte(&writer, 'i');
    put_id(&writer, session_id);
    key_writer_put_byte(&writer, request_id.size > 0 ? 'r' : 'w');
    key_writer_put_text(&writer, request);
    buffer_clear(&encoded);
    return key_writer_key(&writer);
}

struct bytes native_key_ended(struct arena *arena, uint64_t number) {
    struct key_writer writer = key_writer_of(arena, 1 + PLACE_SIZE);
    key_writer_put_byte(&writer, 'e');
    key_writer_put_number(&writer, number % NATIVE_ENDED_MAX, PLACE_SIZE);
    return key_writer_key(&writer);
}

struct bytes native_key_ended_count(void) {
    return bytes_of("n", 1);
}

struct bytes native_key_unsettled(struct arena *arena, int64_t revision, int64_t lease_id,
                                  uint32_t count) {
    struct key_writer writer = key_writer_of(arena, 1 + 2 * NUMBER_SIZE + COUNT_SIZE);
    key_writer_put_byte(&writer, 'm');
    put_id(&writer, revision);
    put_id(&writer, lease_id);
    key_writer_put_number(&writer, count, COUNT_SIZE);
    return key_writer_key(&writer);
}

/* --- Ranges. --- */

/* All keys that begin so: the end is the same with its last byte one more, which is never 255. */
static struct key_range beginning_with(struct arena *arena, struct key_space_id space,
                                       struct bytes beginning) {
    uint8_t *end = arena_copy(arena, beginning.data, beginning.size);
    end[beginning.size - 1]++;
    return (struct key_range){
        .space = space, .key = beginning, .range_end = bytes_of(end, beginning.size)};
}

struct key_range native_name_range(struct arena *arena, bool is_pool, struct bytes name) {
    struct key_writer writer = named(arena, is_pool ? 'p' : 'r', name, 0);
    return beginning_with(arena, KEY_SPACE_NATIVE, key_writer_key(&writer));
}

/* UTF-8 has no byte 255. */
struct key_range native_prefix_range(struct arena *arena, bool is_pool, struct bytes prefix) {
    struct key_writer writer = key_writer_of(arena, 1 + prefix.size);
    key_writer_put_byte(&writer, is_pool ? 'p' : 'r');
    key_writer_put_text(&writer, prefix);
    return beginning_with(arena, KEY_SPACE_NATIVE, key_writer_key(&writer));
}

static struct key_range part_of(struct arena *arena, char kind, struct bytes name, char part) {
    struct key_writer writer = named(arena, kind, name, 1);
    key_writer_put_byte(&writer, (uint8_t)part);
    return beginning_with(arena, KEY_SPACE_NATIVE, key_writer_key(&writer));
}

static struct key_range mode_of(struct arena *arena, struct bytes name, char part,
                                enum native_mode mode) {
    struct key_writer writer = named(arena, 'r', name, 2);
    key_writer_put_byte(&writer, (uint8_t)part);
    key_writer_put_byte(&writer, (uint8_t)mode);
    return beginning_with(arena, KEY_SPACE_NATIVE, key_writer_key(&writer));
}

struct key_range native_holders(struct arena *arena, struct bytes name) {
    return part_of(arena, 'r', name, 'h');
}

struct key_range native_holders_of(struct arena *arena, struct bytes name, enum native_mode mode) {
    return mode_of(arena, name, 'h', mode);
}

struct key_range native_waiters(struct arena *arena, struct bytes name) {
    return part_of(arena, 'r', name, 'q');
}

struct key_range native_waiters_of(struct arena *arena, struct bytes name, enum native_mode mode) {
    return mode_of(arena, name, 'q', mode);
}

struct key_range native_waiters_between(struct arena *arena, struct bytes name,
                                        enum native_mode mode, int64_t after, int64_t before) {
    return (struct key_range){
        .space = KEY_SPACE_NATIVE,
        .key = native_key_waiter(arena, name, mode, after == INT64_MAX ? after : after + 1),
        .range_end = native_key_waiter(arena, name, mode, before)};
}

struct key_range native_taken_slots(struct arena *arena, struct bytes name) {
    return part_of(arena, 'p', name, 'u');
}

struct key_range native_pool_waiters(struct arena *arena, struct bytes name) {
    return part_of(arena, 'p', name, 'v');
}

struct key_range native_requests(struct arena *arena, int64_t session_id) {
    /* The byte that follows the number is 'r' or 'w'. */
    struct key_writer from = key_writer_of(arena, 1 + NUMBER_SIZE);
    key_writer_put_byte(&from, 'i');
    put_id(&from, session_id);
    struct key_writer to = key_writer_of(arena, 2 + NUMBER_SIZE);
    key_writer_put_text(&to, key_writer_key(&from));
    key_writer_put_byte(&to, UINT8_MAX);
    return (struct key_range){.space = KEY_SPACE_NATIVE_RECORDS,
                              .key = key_writer_key(&from),
                              .range_end = key_writer_key(&to)};
}

struct key_range native_records(char kind) {
    static const uint8_t letters[] = "abcdefghijklmnopqrstuvwxyz";
    size_t at = (size_t)(kind - 'a');
    return (struct key_range){.space = KEY_SPACE_NATIVE_RECORDS,
                              .key = bytes_of(letters + at, 1),
                              .range_end = bytes_of(letters + at + 1, 1)};
}

/* --- Reading. --- */

static uint64_t get_unsigned(const uint8_t *data, size_t size) {
    uint64_t number = 0;
    for (size_t i = 0; i < size; i++) {
        number = number << 8 | data[i];
    }
    return number;
}

static int64_t get_id(const uint8_t *data) {
    return (int64_t)(get_unsigned(data, NUMBER_SIZE) ^ UINT64_C(1) << 63);
}

static struct native_key read_resource(struct native_key key, struct bytes rest) {
    if (rest.size == 2 + NUMBER_SIZE && rest.data[1] <= NATIVE_SHARED &&
        (rest.data[0] == 'h' || rest.data[0] == 'q')) {
        key.kind = rest.data[0] == 'h' ? NATIVE_KEY_HOLDER : NATIVE_KEY_WAITER;
        key.mode = rest.data[1] == NATIVE_SHARED ? NATIVE_SHARED : NATIVE_EXCLUSIVE;
        key.id = get_id(rest.data + 2);
    }
    return key;
}

static struct native_key read_pool(struct native_key key, struct bytes rest) {
    key.is_pool = true;
    if (rest.size == 1 && rest.data[0] == 'c') {
        key.kind = NATIVE_KEY_POOL;
    } else if (rest.size > 1 && rest.data[0] == 'u') {
        key.kind = NATIVE_KEY_TAKEN;
        key.slot = bytes_of(rest.data + 1, rest.size - 1);
    } else if (rest.size == 1 + NUMBER_SIZE && rest.data[0] == 'v') {
        key.kind = NATIVE_KEY_POOL_WAITER;
        key.id = get_id(rest.data + 1);
    }
    return key;
}

static struct native_key read_named(struct bytes bytes) {
    struct native_key key = {.kind = NATIVE_KEY_OTHER};
    const uint8_t *end = bytes.size > 0 ? memchr(bytes.data, 0, bytes.size) : NULL;
    if (end == NULL || end == bytes.data) {
        return key;
    }
    key.name = bytes_of(bytes.data + 1, (size_t)(end - bytes.data) - 1);
    struct bytes rest = bytes_of(end + 1, bytes.size - key.name.size - 2);
    switch (bytes.data[0]) {
    case 'r':
        return read_resource(key, rest);
    case 'p':
        return read_pool(key, rest);
    default:
        return key;
    }
}

static struct native_key read_record(struct bytes bytes) {
    struct native_key key = {.kind = NATIVE_KEY_OTHER};
    char kind = bytes.size > 0 ? (char)bytes.data[0] : 0;
    if (bytes.size >= 1 + NUMBER_SIZE) {
        key.id = get_id(bytes.data + 1);
    }
    if (bytes.size == 1 + NUMBER_SIZE && (kind == 's' || kind == 'a')) {
        key.kind = kind == 's' ? NATIVE_KEY_SESSION : NATIVE_KEY_ACQUISITION;
    } else if (bytes.size > 1 + NUMBER_SIZE && kind == 'i') {
        key.kind = NATIVE_KEY_REQUEST;
    } else if (bytes.size == 1 + PLACE_SIZE && kind == 'e') {
        key.kind = NATIVE_KEY_ENDED;
    } else if (bytes.size == 1 && kind == 'n') {
        key.kind = NATIVE_KEY_ENDED_COUNT;
    } else if (bytes.size == 1 + 2 * NUMBER_SIZE + COUNT_SIZE && kind == 'm') {
        key.kind = NATIVE_KEY_UNSETTLED;
    }
    return key;
}

struct native_key native_key_read(const struct record *record) {
    struct key_space_id space = record_space(record);
    if (key_space_equal(space, KEY_SPACE_NATIVE)) {
        return read_named(record_key(record));
    }
    return key_space_equal(space, KEY_SPACE_NATIVE_RECORDS)
               ? read_record(record_key(record))
               : (struct native_key){.kind = NATIVE_KEY_OTHER};
}

/* --- Fences. --- */

struct bytes native_fence_key(struct arena *arena, struct bytes resource) {
    static const char prefix[] = "leased/fences/";
    struct key_writer writer = key_writer_of(arena, sizeof prefix - 1 + resource.size);
    key_writer_put_text(&writer, bytes_of(prefix, sizeof prefix - 1));
    key_writer_put_text(&writer, resource);
    return key_writer_key(&writer);
}

void native_fence_write(int64_t token, uint8_t out_digits[NATIVE_FENCE_DIGITS]) {
    uint64_t rest = (uint64_t)token;
    for (size_t i = NATIVE_FENCE_DIGITS; i > 0; i--) {
        out_digits[i - 1] = (uint8_t)('0' + rest % 10);
        rest /= 10;
    }
}

bool native_fence_read(struct bytes value, int64_t *out_token) {
    uint64_t token = 0;
    if (value.size != NATIVE_FENCE_DIGITS) {
        return false;
    }
    for (size_t i = 0; i < value.size; i++) {
        uint64_t digit = (uint64_t)value.data[i] - '0';
        if (digit > 9 || token > (uint64_t)INT64_MAX / 10) {
            return false;
        }
        token = token * 10 + digit;
    }
    if (token > INT64_MAX) {
        return false;
    }
    *out_token = (int64_t)token;
    return true;
}
