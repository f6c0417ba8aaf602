#include "doors/native/native_request.h"

#include "base/pb_reader.h"

#include <string.h>

enum { FIELDS_MAX = 16 };

/* The fields of a message that has none twice, by their numbers. */
struct fields {
    int64_t numbers[FIELDS_MAX];
    struct bytes texts[FIELDS_MAX];
};

/* `kinds` has a letter for each field number from 1 on: n a number, t a text or a message, r what
 * is repeated and read by another pass. The last of several counts, as protocol buffers have it. */
static bool read_fields(struct bytes message, const char *kinds, struct fields *out) {
    size_t n_kinds = strlen(kinds);
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    memset(out, 0, sizeof *out);
    while (pb_reader_next(&reader)) {
        char kind = reader.field >= 1 && reader.field <= n_kinds ? kinds[reader.field - 1] : 'r';
        if (kind == 'n') {
            out->numbers[reader.field] = pb_reader_int64(&reader);
        } else if (kind == 't') {
            out->texts[reader.field] = pb_reader_bytes(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed;
}

static uint32_t cut_limit(int64_t asked, uint32_t usual, uint32_t max) {
    uint32_t limit = (uint32_t)asked;
    if (limit == 0) {
        return usual;
    }
    return limit < max ? limit : max;
}

static bool is_name(struct bytes name) {
    return native_name_is_valid(name, NATIVE_NAME_SIZE_MAX);
}

/* --- Sessions. --- */

const struct leased_v1_error *native_request_create(struct bytes message, struct bytes owner,
                                                    struct native_session_create *out) {
    struct fields fields;
    if (!read_fields(message, "tnnntnn", &fields)) {
        return &native_error_malformed;
    }
    int64_t class = (int32_t)fields.numbers[3];
    int64_t strategy = (int32_t)fields.numbers[4];
    int64_t ttl_ms = fields.numbers[2];
    if (class < 0 || class >= NATIVE_CLASSES || strategy < 0 || strategy >= NATIVE_STRATEGIES) {
        return &native_error_class;
    }
    if (ttl_ms != 0 && (ttl_ms < NATIVE_TTL_MS_MIN || ttl_ms > LEASE_TTL_MS_MAX)) {
        return &native_error_ttl;
    }
    *out = (struct native_session_create){
        .owner = fields.texts[1].size > 0 ? fields.texts[1] : owner,
        .note = fields.texts[5],
        .class = (uint8_t) class,
        .strategy = (uint8_t)strategy,
        .id = fields.numbers[6],
        .ttl_ms = ttl_ms != 0 ? ttl_ms : native_class_ttl_ms((enum native_class) class),
        .parent_id = fields.numbers[7]};
    if (!native_name_is_valid(out->owner, NATIVE_OWNER_SIZE_MAX)) {
        return &native_error_owner;
    }
    return native_text_is_valid(out->note, NATIVE_NOTE_SIZE_MAX) ? NULL : &native_error_note;
}

const struct leased_v1_error *native_request_change(struct bytes message,
                                                    struct native_session_change *out) {
    struct fields fields;
    if (!read_fields(message, "nn", &fields)) {
        return &native_error_malformed;
    }
    *out = (struct native_session_change){.session_id = fields.numbers[1],
                                          .ttl_ms = fields.numbers[2]};
    bool is_ttl = out->ttl_ms >= NATIVE_TTL_MS_MIN && out->ttl_ms <= LEASE_TTL_MS_MAX;
    return is_ttl ? NULL : &native_error_ttl;
}

const struct leased_v1_error *native_request_end(struct bytes message,
                                                 struct native_session_end *out) {
    struct fields fields;
    if (!read_fields(message, "nn", &fields)) {
        return &native_error_malformed;
    }
    *out = (struct native_session_end){.session_id = fields.numbers[1],
                                       .is_revoked = fields.numbers[2] != 0};
    return NULL;
}

const struct leased_v1_error *native_request_id(struct bytes message, int64_t *out_id) {
    struct fields fields;
    if (!read_fields(message, "n", &fields)) {
        return &native_error_malformed;
    }
    *out_id = fields.numbers[1];
    return NULL;
}

const struct leased_v1_error *native_request_list_sessions(struct bytes message,
                                                           struct native_list_request *out) {
    struct fields fields;
    if (!read_fields(message, "tnnnn", &fields)) {
        return &native_error_malformed;
    }
    *out = (struct native_list_request){
        .prefix = fields.texts[1],
        .limit = cut_limit(fields.numbers[2], NATIVE_LIST_DEFAULT, NATIVE_LIST_MAX),
        .after_id = fields.numbers[3],
        .with_acquisitions = fields.numbers[4] != 0,
        .with_remaining = fields.numbers[5] != 0};
    return native_text_is_valid(out->prefix, NATIVE_OWNER_SIZE_MAX) ? NULL : &native_error_owner;
}

/* --- Resources. --- */

static const struct leased_v1_error *read_want(struct bytes message, struct native_want *out) {
    struct fields fields;
    if (!read_fields(message, "tntn", &fields)) {
        return &native_error_malformed;
    }
    struct bytes resource = fields.texts[1];
    struct bytes pool = fields.texts[3];
    int32_t mode = (int32_t)fields.numbers[2];
    uint32_t n_slots = (uint32_t)fields.numbers[4];
    bool is_pool = pool.size > 0;
    if (is_pool == (resource.size > 0) || (mode != NATIVE_EXCLUSIVE && mode != NATIVE_SHARED) ||
        (is_pool ? mode != NATIVE_EXCLUSIVE : n_slots != 0) || n_slots > NATIVE_POOL_SLOTS_MAX) {
        return &native_error_want;
    }
    *out = (struct native_want){.is_pool = is_pool,
                                .mode = (enum native_mode)mode,
                                .n_slots = is_pool && n_slots == 0 ? 1 : n_slots,
                                .name = is_pool ? pool : resource};
    return is_name(out->name) ? NULL : &native_error_name;
}

static const struct leased_v1_error *read_wants(struct bytes message, struct native_acquire *out) {
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    out->n_wants = 0;
    while (pb_reader_next(&reader)) {
        if (reader.field != 3) {
            pb_reader_skip(&reader);
            continue;
        }
        if (out->n_wants == NATIVE_WANTS_MAX) {
            return &native_error_wants;
        }
        const struct leased_v1_error *error =
            read_want(pb_reader_bytes(&reader), &out->wants[out->n_wants++]);
        if (error != NULL) {
            return error;
        }
    }
    return !reader.failed && native_wants_normalize(out->wants, out->n_wants) ? NULL
                                                                              : &native_error_wants;
}

const struct leased_v1_error *native_request_acquire(struct bytes message, struct bytes owner,
                                                     struct native_acquire_request *out) {
    struct fields fields;
    if (!read_fields(message, "ntrntntn", &fields)) {
        return &native_error_malformed;
    }
    *out = (struct native_acquire_request){.wait_ms = fields.numbers[4]};
    struct native_acquire *acquire = &out->acquire;
    acquire->session_id = fields.numbers[1];
    acquire->waits = out->wait_ms != 0;
    acquire->value = fields.texts[5];
    acquire->hold_limit_ms = fields.numbers[6];
    acquire->request_id = fields.texts[7];
    acquire->queue_limit = (uint32_t)fields.numbers[8];
    const struct leased_v1_error *error = NULL;
    if (acquire->session_id == 0) {
        error = native_request_create(fields.texts[2], owner, &acquire->session);
    }
    if (error == NULL) {
        error = read_wants(message, acquire);
    }
    if (error != NULL) {
        return error;
    }
    if (out->wait_ms < -1) {
        return &native_error_wait;
    }
    if (!native_text_is_valid(acquire->value, NATIVE_VALUE_SIZE_MAX)) {
        return &native_error_value;
    }
    if (!native_text_is_valid(acquire->request_id, NATIVE_REQUEST_ID_SIZE_MAX)) {
        return &native_error_request_id;
    }
    bool is_limit = acquire->hold_limit_ms == 0 || (acquire->hold_limit_ms >= NATIVE_TTL_MS_MIN &&
                                                    acquire->hold_limit_ms <= LEASE_TTL_MS_MAX);
    return is_limit ? NULL : &native_error_ttl;
}

const struct leased_v1_error *native_request_release(struct bytes message,
                                                     struct native_release *out) {
    struct fields fields;
    if (!read_fields(message, "nnn", &fields)) {
        return &native_error_malformed;
    }
    *out = (struct native_release){.acquisition_id = fields.numbers[1],
                                   .session_id = fields.numbers[2],
                                   .end_session = fields.numbers[3] != 0};
    return NULL;
}

const struct leased_v1_error *native_request_proclaim(struct bytes message,
                                                      struct native_proclaim *out) {
    struct fields fields;
    if (!read_fields(message, "nnt", &fields)) {
        return &native_error_malformed;
    }
    *out = (struct native_proclaim){.acquisition_id = fields.numbers[1],
                                    .session_id = fields.numbers[2],
                                    .value = fields.texts[3]};
    return native_text_is_valid(out->value, NATIVE_VALUE_SIZE_MAX) ? NULL : &native_error_value;
}

const struct leased_v1_error *native_request_transfer(struct bytes message,
                                                      struct native_transfer *out) {
    struct fields fields;
    if (!read_fields(message, "nnnt", &fields)) {
        return &native_error_malformed;
    }
    *out = (struct native_transfer){.acquisition_id = fields.numbers[1],
                                    .session_id = fields.numbers[2],
                                    .to_session_id = fields.numbers[3],
                                    .to_owner = fields.texts[4]};
    bool is_owner = out->to_session_id != 0
                        ? out->to_owner.size == 0
                        : native_name_is_valid(out->to_owner, NATIVE_OWNER_SIZE_MAX);
    return is_owner ? NULL : &native_error_transfer;
}

const struct leased_v1_error *native_request_list_resources(struct bytes message,
                                                            struct native_list_request *out) {
    struct fields fields;
    if (!read_fields(message, "tnt", &fields)) {
        return &native_error_malformed;
    }
    *out = (struct native_list_request){
        .prefix = fields.texts[1],
        .limit = cut_limit(fields.numbers[2], NATIVE_LIST_DEFAULT, NATIVE_LIST_MAX),
        .after = fields.texts[3]};
    bool is_valid = native_text_is_valid(out->prefix, NATIVE_NAME_SIZE_MAX) &&
                    native_text_is_valid(out->after, NATIVE_NAME_SIZE_MAX);
    return is_valid ? NULL : &native_error_name;
}

const struct leased_v1_error *native_request_get_resource(struct bytes message,
                                                          struct native_get_request *out) {
    struct fields fields;
    if (!read_fields(message, "tnn", &fields)) {
        return &native_error_malformed;
    }
    *out =
        (struct native_get_request){.name = fields.texts[1],
                                    .n_waiters = cut_limit(fields.numbers[2], 0, NATIVE_LIST_MAX),
                                    .with_remaining = fields.numbers[3] != 0};
    return is_name(out->name) ? NULL : &native_error_name;
}

const struct leased_v1_error *native_request_name(struct bytes message, struct bytes *out_name) {
    struct fields fields;
    if (!read_fields(message, "t", &fields)) {
        return &native_error_malformed;
    }
    *out_name = fields.texts[1];
    return is_name(*out_name) ? NULL : &native_error_name;
}

/* --- Pools. --- */

/* How often two fields occur, so that memory is counted before it is taken. */
static bool count_repeated(struct bytes message, uint32_t field_a, size_t *out_a, uint32_t field_b,
                           size_t *out_b) {
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    *out_a = 0;
    *out_b = 0;
    while (pb_reader_next(&reader)) {
        *out_a += reader.field == field_a;
        *out_b += reader.field == field_b;
        pb_reader_skip(&reader);
    }
    return !reader.failed;
}

static bool read_share(struct bytes message, struct native_share *out) {
    struct fields fields;
    if (!read_fields(message, "tn", &fields)) {
        return false;
    }
    *out = (struct native_share){.owner = fields.texts[1], .weight = (uint32_t)fields.numbers[2]};
    return true;
}

static bool read_pool(struct bytes message, struct native_pool *pool) {
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    bool is_good = true;
    while (is_good && pb_reader_next(&reader)) {
        if (reader.field == 2) {
            pool->slots[pool->n_slots++] = pb_reader_bytes(&reader);
        } else if (reader.field == 4) {
            is_good = read_share(pb_reader_bytes(&reader), &pool->shares[pool->n_shares++]);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return is_good && !reader.failed;
}

const struct leased_v1_error *native_request_set_pool(struct bytes message, struct arena *arena,
                                                      struct native_pool_set *out) {
    struct fields request;
    struct fields fields;
    size_t n_slots = 0;
    size_t n_shares = 0;
    if (!read_fields(message, "t", &request) || !read_fields(request.texts[1], "trnr", &fields) ||
        !count_repeated(request.texts[1], 2, &n_slots, 4, &n_shares)) {
        return &native_error_malformed;
    }
    if (n_slots > NATIVE_POOL_SLOTS_MAX || n_shares > NATIVE_POOL_SHARES_MAX) {
        return &native_error_pool;
    }
    *out = (struct native_pool_set){.name = fields.texts[1]};
    out->pool.hold_limit_ms = fields.numbers[3];
    out->pool.slots = arena_calloc(arena, n_slots, sizeof out->pool.slots[0]);
    out->pool.shares = arena_calloc(arena, n_shares, sizeof out->pool.shares[0]);
    if (!read_pool(request.texts[1], &out->pool)) {
        return &native_error_malformed;
    }
    if (!is_name(out->name)) {
        return &native_error_name;
    }
    return native_pool_is_valid(&out->pool) ? NULL : &native_error_pool;
}

/* --- Fences and history. --- */

const struct leased_v1_error *native_request_check_fence(struct bytes message,
                                                         struct native_fence_check *out) {
    struct fields fields;
    if (!read_fields(message, "tn", &fields)) {
        return &native_error_malformed;
    }
    *out = (struct native_fence_check){.resource = fields.texts[1], .token = fields.numbers[2]};
    if (!is_name(out->resource)) {
        return &native_error_name;
    }
    return out->token >= 1 ? NULL : &native_error_token;
}

const struct leased_v1_error *native_request_why(struct bytes message,
                                                 struct native_why_request *out) {
    struct fields fields;
    if (!read_fields(message, "ttnnn", &fields)) {
        return &native_error_malformed;
    }
    *out = (struct native_why_request){.is_pool = fields.texts[2].size > 0,
                                       .name = fields.texts[2].size > 0 ? fields.texts[2]
                                                                        : fields.texts[1],
                                       .session_id = fields.numbers[3],
                                       .acquisition_id = fields.numbers[4],
                                       .limit = cut_limit(fields.numbers[5], 8, NATIVE_LIST_MAX)};
    unsigned n_given = (fields.texts[1].size > 0) + (fields.texts[2].size > 0) +
                       (out->session_id != 0) + (out->acquisition_id != 0);
    if (n_given > 1) {
        return &native_error_why;
    }
    return native_text_is_valid(out->name, NATIVE_NAME_SIZE_MAX) ? NULL : &native_error_name;
}

const struct leased_v1_error *native_request_events(struct bytes message,
                                                    struct native_events_request *out) {
    struct fields fields;
    if (!read_fields(message, "tn", &fields)) {
        return &native_error_malformed;
    }
    *out = (struct native_events_request){.prefix = fields.texts[1],
                                          .start_revision = fields.numbers[2]};
    return native_text_is_valid(out->prefix, NATIVE_NAME_SIZE_MAX) ? NULL : &native_error_name;
}
