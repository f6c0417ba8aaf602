#include "doors/native/native_model.h"

#include "base/utf8.h"

#include <stdlib.h>

/* Of every record: another layout is another number. */
enum { FORMAT = 1 };

/* --- Names. --- */

/* How many bytes from here on are ASCII and not 0, in whole words: a pool has 128 KiB of names. */
static size_t plain_words(const uint8_t *text, size_t size) {
    const uint64_t ones = UINT64_C(0x0101010101010101);
    size_t i = 0;
    for (uint64_t word; size - i >= sizeof word; i += sizeof word) {
        memcpy(&word, text + i, sizeof word);
        /* The highest bit of a byte is set in it, or in what is left of it after one is taken. */
        if (((word | (word - ones)) & (ones << 7)) != 0) {
            break;
        }
    }
    return i;
}

bool native_text_is_valid(struct bytes text, size_t size_max) {
    if (text.size > size_max) {
        return false;
    }
    for (size_t i = plain_words(text.data, text.size); i < text.size;) {
        struct bytes rest = bytes_of(text.data + i, text.size - i);
        size_t n = rest.data[0] == 0 ? 0 : utf8_character_size(rest);
        if (n == 0) {
            return false;
        }
        i += n;
    }
    return true;
}

bool native_name_is_valid(struct bytes name, size_t size_max) {
    return name.size > 0 && native_text_is_valid(name, size_max);
}

/* --- What is wanted. --- */

static int compare_wants(const void *a, const void *b) {
    const struct native_want *first = a;
    const struct native_want *second = b;
    return first->is_pool != second->is_pool ? (int)first->is_pool - (int)second->is_pool
                                             : bytes_compare(first->name, second->name);
}

static bool want_is_valid(const struct native_want *want) {
    return native_name_is_valid(want->name, NATIVE_NAME_SIZE_MAX) &&
           (want->is_pool ? want->mode == NATIVE_EXCLUSIVE && want->n_slots >= 1 &&
                                want->n_slots <= NATIVE_POOL_SLOTS_MAX
                          : want->n_slots == 0 && want->mode <= NATIVE_SHARED);
}

static bool wants_are_normal(const struct native_want *wants, size_t n) {
    bool is_normal = n >= 1 && n <= NATIVE_WANTS_MAX;
    size_t n_slots = 0;
    for (size_t i = 0; i < n && is_normal; i++) {
        n_slots += wants[i].n_slots;
        is_normal =
            want_is_valid(&wants[i]) && (i == 0 || compare_wants(&wants[i - 1], &wants[i]) < 0);
    }
    return is_normal && n_slots <= NATIVE_POOL_SLOTS_MAX;
}

bool native_wants_normalize(struct native_want *wants, size_t n) {
    if (n < 1 || n > NATIVE_WANTS_MAX) {
        return false;
    }
    /* No two that are valid together are equal, so that the order is one. */
    qsort(wants, n, sizeof wants[0], compare_wants);
    return wants_are_normal(wants, n);
}

bool native_wants_equal(const struct native_want *a, size_t n_a, const struct native_want *b,
                        size_t n_b) {
    bool are_equal = n_a == n_b;
    for (size_t i = 0; i < n_a && are_equal; i++) {
        are_equal = a[i].is_pool == b[i].is_pool && a[i].mode == b[i].mode &&
                    a[i].n_slots == b[i].n_slots && bytes_equal(a[i].name, b[i].name);
    }
    return are_equal;
}

void native_wants_put(struct buffer *out, const struct native_want *wants, size_t n) {
    buffer_put_varint(out, n);
    for (size_t i = 0; i < n; i++) {
        buffer_put_u8(out, (uint8_t)(wants[i].is_pool << 1 | wants[i].mode));
        buffer_put_varint(out, wants[i].n_slots);
        buffer_put_bytes(out, wants[i].name);
    }
}

size_t native_wants_get(struct reader *reader, struct native_want wants[NATIVE_WANTS_MAX]) {
    uint64_t n = reader_get_varint(reader);
    if (n > NATIVE_WANTS_MAX) {
        reader->failed = true;
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        uint8_t flags = reader_get_u8(reader);
        uint64_t n_slots = reader_get_varint(reader);
        wants[i] =
            (struct native_want){.is_pool = flags >> 1 & 1,
                                 .mode = flags & 1 ? NATIVE_SHARED : NATIVE_EXCLUSIVE,
                                 .n_slots = n_slots > UINT32_MAX ? UINT32_MAX : (uint32_t)n_slots,
                                 .name = reader_get_bytes(reader)};
        reader->failed = reader->failed || flags > 3;
    }
    return (size_t)n;
}

/* --- Records. --- */

static void begin(struct reader *reader, struct bytes value) {
    reader_init(reader, value);
    if (reader_get_u8(reader) != FORMAT) {
        reader->failed = true;
    }
}

static bool is_read(const struct reader *reader) {
    return !reader->failed && reader_left(reader) == 0;
}

static struct bytes get_text(struct reader *reader, size_t size_max) {
    struct bytes text = reader_get_bytes(reader);
    if (!native_text_is_valid(text, size_max)) {
        reader->failed = true;
    }
    return text;
}

int64_t native_class_ttl_ms(enum native_class class) {
    enum { SECOND = 1000, MINUTE = 60 * SECOND };
    switch (class) {
    case NATIVE_CLASS_LEADER:
        return 10 * SECOND;
    case NATIVE_CLASS_SESSION:
        return 15 * MINUTE;
    case NATIVE_CLASS_RESERVATION:
        return 60 * MINUTE;
    case NATIVE_CLASS_CACHE:
        return 5 * MINUTE;
    default:
        return 15 * SECOND;
    }
}

static void put_session(struct buffer *out, const struct native_session *session) {
    buffer_put_bytes(out, session->owner);
    buffer_put_bytes(out, session->note);
    buffer_put_u8(out, session->class);
    buffer_put_u8(out, session->strategy);
    buffer_put_varint(out, session->user_id);
    buffer_put_zigzag(out, session->created_wall_ms);
    buffer_put_zigzag(out, session->ttl_ms);
    buffer_put_zigzag(out, session->parent_id);
    buffer_put_u8(out, session->end_reason);
    buffer_put_varint(out, session->end_user_id);
}

static void get_session(struct reader *reader, struct native_session *session) {
    session->owner = get_text(reader, NATIVE_OWNER_SIZE_MAX);
    session->note = get_text(reader, NATIVE_NOTE_SIZE_MAX);
    session->class = reader_get_u8(reader);
    session->strategy = reader_get_u8(reader);
    session->user_id = reader_get_varint(reader);
    session->created_wall_ms = reader_get_zigzag(reader);
    session->ttl_ms = reader_get_zigzag(reader);
    session->parent_id = reader_get_zigzag(reader);
    session->end_reason = reader_get_u8(reader);
    session->end_user_id = reader_get_varint(reader);
    if (session->class >= NATIVE_CLASSES || session->strategy >= NATIVE_STRATEGIES ||
        session->end_reason >= NATIVE_END_REASONS) {
        reader->failed = true;
    }
}

void native_session_encode(struct buffer *out, const struct native_session *session) {
    buffer_put_u8(out, FORMAT);
    put_session(out, session);
}

bool native_session_decode(struct bytes value, struct native_session *out_session) {
    struct reader reader;
    struct native_session session;
    begin(&reader, value);
    get_session(&reader, &session);
    if (!is_read(&reader)) {
        return false;
    }
    *out_session = session;
    return true;
}

static void put_acquisition(struct buffer *out, const struct native_acquisition *acquisition) {
    buffer_put_zigzag(out, acquisition->id);
    buffer_put_zigzag(out, acquisition->session_id);
    buffer_put_u8(out, (uint8_t)acquisition->stage);
    buffer_put_zigzag(out, acquisition->token);
    buffer_put_varint(out, acquisition->call);
    native_wants_put(out, acquisition->wants, acquisition->n_wants);
    buffer_put_varint(out, acquisition->n_slots);
    for (size_t i = 0; i < acquisition->n_slots; i++) {
        buffer_put_u8(out, (uint8_t)acquisition->slots[i].want);
        buffer_put_bytes(out, acquisition->slots[i].name);
    }
    buffer_put_bytes(out, acquisition->value);
    buffer_put_bytes(out, acquisition->owner);
    buffer_put_bytes(out, acquisition->request_id);
    buffer_put_zigzag(out, acquisition->hold_limit_ms);
    buffer_put_zigzag(out, acquisition->hold_lease_id);
    buffer_put_zigzag(out, acquisition->asked_wall_ms);
    buffer_put_zigzag(out, acquisition->acquired_wall_ms);
}

/* A count of things that take at least `size` bytes each: memory is taken for no more. */
static size_t get_count(struct reader *reader, size_t size, size_t max) {
    uint64_t n = reader_get_varint(reader);
    if (n > max || n > reader_left(reader) / size) {
        reader->failed = true;
        return 0;
    }
    return (size_t)n;
}

static void get_slots(struct reader *reader, struct arena *arena,
                      struct native_acquisition *acquisition) {
    acquisition->n_slots = get_count(reader, 2, (size_t)NATIVE_WANTS_MAX * NATIVE_POOL_SLOTS_MAX);
    acquisition->slots = arena_alloc(arena, acquisition->n_slots * sizeof acquisition->slots[0]);
    for (size_t i = 0; i < acquisition->n_slots; i++) {
        acquisition->slots[i].want = reader_get_u8(reader);
        acquisition->slots[i].name = get_text(reader, NATIVE_SLOT_SIZE_MAX);
        if (acquisition->slots[i].want >= acquisition->n_wants ||
            !acquisition->wants[acquisition->slots[i].want].is_pool) {
            reader->failed = true;
        }
    }
}

static void get_acquisition(struct reader *reader, struct arena *arena,
                            struct native_acquisition *acquisition) {
    acquisition->id = reader_get_zigzag(reader);
    acquisition->session_id = reader_get_zigzag(reader);
    uint8_t stage = reader_get_u8(reader);
    acquisition->stage = stage == NATIVE_ACQUIRED ? NATIVE_ACQUIRED : NATIVE_QUEUED;
    acquisition->token = reader_get_zigzag(reader);
    uint64_t call = reader_get_varint(reader);
    acquisition->call = (uint32_t)call;
    acquisition->n_wants = native_wants_get(reader, acquisition->wants);
    if (stage > NATIVE_ACQUIRED || call > UINT32_MAX ||
        !wants_are_normal(acquisition->wants, acquisition->n_wants)) {
        reader->failed = true;
    }
    get_slots(reader, arena, acquisition);
    acquisition->value = get_text(reader, NATIVE_VALUE_SIZE_MAX);
    acquisition->owner = get_text(reader, NATIVE_OWNER_SIZE_MAX);
    acquisition->request_id = get_text(reader, NATIVE_REQUEST_ID_SIZE_MAX);
    acquisition->hold_limit_ms = reader_get_zigzag(reader);
    acquisition->hold_lease_id = reader_get_zigzag(reader);
    acquisition->asked_wall_ms = reader_get_zigzag(reader);
    acquisition->acquired_wall_ms = reader_get_zigzag(reader);
}

void native_acquisition_encode(struct buffer *out, const struct native_acquisition *acquisition) {
    buffer_put_u8(out, FORMAT);
    put_acquisition(out, acquisition);
}

bool native_acquisition_decode(struct bytes value, struct arena *arena,
                               struct native_acquisition *out_acquisition) {
    struct reader reader;
    struct native_acquisition acquisition;
    begin(&reader, value);
    get_acquisition(&reader, arena, &acquisition);
    if (!is_read(&reader)) {
        return false;
    }
    *out_acquisition = acquisition;
    return true;
}

/* --- What has ended. --- */

void native_ended_encode(struct buffer *out, const struct native_ended *ended) {
    buffer_put_u8(out, FORMAT);
    buffer_put_varint(out, ended->number);
    buffer_put_u8(out, ended->reason);
    buffer_put_varint(out, ended->user_id);
    buffer_put_zigzag(out, ended->revision);
    buffer_put_zigzag(out, ended->wall_ms);
    buffer_put_zigzag(out, ended->session_id);
    buffer_put_zigzag(out, ended->session_ttl_ms);
    buffer_put_zigzag(out, ended->session_revision);
    put_session(out, &ended->session);
    buffer_put_u8(out, ended->has_acquisition);
    if (ended->has_acquisition) {
        put_acquisition(out, &ended->acquisition);
    }
}

bool native_ended_decode(struct bytes value, struct arena *arena, struct native_ended *out_ended) {
    struct reader reader;
    struct native_ended ended = {0};
    begin(&reader, value);
    ended.number = reader_get_varint(&reader);
    ended.reason = reader_get_u8(&reader);
    ended.user_id = reader_get_varint(&reader);
    ended.revision = reader_get_zigzag(&reader);
    ended.wall_ms = reader_get_zigzag(&reader);
    ended.session_id = reader_get_zigzag(&reader);
    ended.session_ttl_ms = reader_get_zigzag(&reader);
    ended.session_revision = reader_get_zigzag(&reader);
    get_session(&reader, &ended.session);
    uint8_t has_acquisition = reader_get_u8(&reader);
    ended.has_acquisition = has_acquisition == 1;
    if (ended.has_acquisition) {
        get_acquisition(&reader, arena, &ended.acquisition);
    }
    if (!is_read(&reader) || has_acquisition > 1 || ended.reason >= NATIVE_END_REASONS) {
        return false;
    }
    *out_ended = ended;
    return true;
}

bool native_ended_is_about(const struct native_ended *ended, bool is_pool, struct bytes name) {
    const struct native_acquisition *acquisition = &ended->acquisition;
    for (size_t i = 0; ended->has_acquisition && i < acquisition->n_wants; i++) {
        if (acquisition->wants[i].is_pool == is_pool &&
            bytes_equal(acquisition->wants[i].name, name)) {
            return true;
        }
    }
    return false;
}
