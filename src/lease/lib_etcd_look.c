#include "lease/lib_etcd_look.h"

#include "lease/lib_read.h"

#include <stdio.h>
#include <string.h>

enum {
    KEY_SIZE_MAX = 256 + sizeof "leased/fences/",
    TOKEN_DIGITS = 20, /* any token; leading zeros make the order of texts that of numbers */
    WAITERS_MAX = 10000
};

struct name_range {
    char begin[KEY_SIZE_MAX];
    char end[KEY_SIZE_MAX];
};

static void make_range(const char *name, struct name_range *out) {
    snprintf(out->begin, sizeof out->begin, "%s/", name);
    snprintf(out->end, sizeof out->end, "%s0", name); /* '0' follows '/' */
}

void lib_etcd_look_encode(const char *name, uint32_t n_waiters, struct lib_request *out_request) {
    struct name_range range;
    make_range(name, &range);
    *out_request = (struct lib_request){.path = "/etcdserverpb.KV/Range", .is_repeatable = true};
    const struct lib_etcd_range request = {
        .key = bytes_from_text(range.begin),
        .end = bytes_from_text(range.end),
        .order = LIB_ETCD_SORT_ASCEND,
        .limit = 1 + (int64_t)(n_waiters < WAITERS_MAX ? n_waiters : WAITERS_MAX),
    };
    lib_etcd_encode_range(&request, &out_request->message);
}

static void describe(struct arena *arena, const struct lib_etcd_key *key, const char *name,
                     bool is_holder, struct lease_acquisition *out) {
    struct lease_want *want = arena_calloc(arena, 1, sizeof *want);
    want->resource = name;
    *out = (struct lease_acquisition){
        .id = key->create_revision,
        .session_id = key->lease,
        .stage = is_holder ? LEASE_STAGE_ACQUIRED : LEASE_STAGE_QUEUED,
        .token = is_holder ? key->create_revision : 0,
        .wants = want,
        .n_wants = 1,
        .value = lib_read_text(arena, key->value),
        .owner = "",
        .request_id = "",
    };
}

bool lib_etcd_look_decode(struct arena *arena, struct bytes message, const char *name,
                          struct lease_resource *out) {
    struct lib_etcd_keys keys;
    int64_t revision = 0;
    if (!lib_etcd_decode_range(arena, message, &keys, &revision)) {
        return false;
    }
    const char *own_name = lib_read_text(arena, bytes_from_text(name));
    struct lease_acquisition *each = arena_calloc(arena, keys.n_items, sizeof *each);
    for (size_t i = 0; i < keys.n_items; i++) {
        describe(arena, &keys.items[i], own_name, i == 0, &each[i]);
    }
    int64_t n_waiting = keys.count > 0 ? keys.count - 1 : 0;
    *out = (struct lease_resource){
        .name = own_name,
        .holders = each,
        .n_holders = keys.n_items > 0,
        .n_waiting = n_waiting > UINT32_MAX ? UINT32_MAX : (uint32_t)n_waiting,
        .first_waiting = each + (keys.n_items > 0),
        .n_first_waiting = keys.n_items > 0 ? keys.n_items - 1 : 0,
        .remaining_ms = -1,
        .last_token = keys.n_items > 0 ? each[0].token : 0,
        .revision = revision,
    };
    return true;
}

void lib_etcd_look_encode_watch(const char *name, int64_t start_revision,
                                struct buffer *out_message) {
    struct name_range range;
    make_range(name, &range);
    lib_etcd_encode_watch(bytes_from_text(range.begin), bytes_from_text(range.end), start_revision,
                          false, out_message);
}

/* ---- fences ---- */

static struct bytes fence_key(const char *resource, char room[KEY_SIZE_MAX]) {
    snprintf(room, KEY_SIZE_MAX, "leased/fences/%s", resource);
    return bytes_from_text(room);
}

static struct bytes digits(int64_t token, char room[TOKEN_DIGITS + 1]) {
    snprintf(room, TOKEN_DIGITS + 1, "%020llu", (unsigned long long)token);
    return bytes_of(room, TOKEN_DIGITS);
}

static bool read_digits(struct bytes text, int64_t *out) {
    uint64_t number = 0;
    if (text.size != TOKEN_DIGITS) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9' || number > (INT64_MAX - 9) / 10) {
            return false;
        }
        number = number * 10 + (uint64_t)(text.data[i] - '0');
    }
    *out = (int64_t)number;
    return true;
}

/* The first token makes the key; a later one replaces the value if it is not less; otherwise it is
 * read. */
void lib_etcd_fence_encode(const char *resource, int64_t token, struct lib_request *out_request) {
    char key_room[KEY_SIZE_MAX];
    char value_room[TOKEN_DIGITS + 1];
    char next_room[TOKEN_DIGITS + 1];
    struct bytes key = fence_key(resource, key_room);
    struct bytes value = digits(token, value_room);
    struct lib_etcd_txn outer = {0};
    struct lib_etcd_txn inner = {0};
    const struct lib_etcd_range read = {.key = key};
    lib_etcd_txn_if_less(&inner, key, digits(token + 1, next_room));
    lib_etcd_txn_put(&inner, LIB_ETCD_THEN, key, value, 0);
    lib_etcd_txn_range(&inner, LIB_ETCD_ELSE, &read);
    lib_etcd_txn_if_created(&outer, key, 0);
    lib_etcd_txn_put(&outer, LIB_ETCD_THEN, key, value, 0);
    lib_etcd_txn_nest(&outer, LIB_ETCD_ELSE, &inner);
    lib_etcd_txn_finish(&outer, true, out_request);
}

bool lib_etcd_fence_decode(struct bytes message, int64_t token, bool *out_accepted,
                           int64_t *out_highest) {
    struct arena arena;
    struct lib_etcd_outcome outcome;
    arena_init(&arena);
    bool is_well = lib_etcd_decode_txn(&arena, message, &outcome);
    *out_accepted = is_well && (outcome.succeeded || outcome.inner_succeeded);
    if (*out_accepted) {
        *out_highest = token;
    } else if (is_well) {
        is_well = outcome.inner_range.n_items == 1 &&
                  read_digits(outcome.inner_range.items[0].value, out_highest);
    }
    arena_clear(&arena);
    return is_well;
}

void lib_etcd_fence_encode_get(const char *resource, struct lib_request *out_request) {
    char room[KEY_SIZE_MAX];
    const struct lib_etcd_range range = {.key = fence_key(resource, room)};
    *out_request = (struct lib_request){.path = "/etcdserverpb.KV/Range", .is_repeatable = true};
    lib_etcd_encode_range(&range, &out_request->message);
}

bool lib_etcd_fence_decode_get(struct bytes message, int64_t *out_highest) {
    struct arena arena;
    struct lib_etcd_keys keys;
    arena_init(&arena);
    bool is_well = lib_etcd_decode_range(&arena, message, &keys, NULL);
    *out_highest = 0;
    if (is_well && keys.n_items > 0) {
        is_well = read_digits(keys.items[0].value, out_highest);
    }
    arena_clear(&arena);
    return is_well;
}
