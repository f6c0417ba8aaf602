/* Pure: run by every replica when the command is applied, with the same result. */
#include "core/cluster_version.h"
#include "doors/native/native_estimate_rules.h"
#include "doors/native/native_grant_rules.h"
#include "doors/native/native_rules.h"

#include <stdlib.h>

/* --- Set. --- */

void native_pool_set_encode(struct buffer *out, const struct native_pool_set *set) {
    struct buffer pool;
    buffer_init(&pool);
    native_pool_encode(&pool, &set->pool);
    buffer_put_bytes(out, set->name);
    buffer_put_bytes(out, bytes_of(pool.data, pool.size));
    buffer_clear(&pool);
}

static int compare_shares(const void *a, const void *b) {
    return bytes_compare(((const struct native_share *)a)->owner,
                         ((const struct native_share *)b)->owner);
}

static bool may_write(struct rule_run *run, struct bytes name) {
    struct key_range range = native_name_range(rule_arena(run), true, name);
    return rule_may(run, RIGHT_WRITE, &range);
}

static enum status run_pool_set(struct rule_run *run, struct bytes request, struct buffer *answer) {
    (void)answer;
    struct native_work work;
    struct native_pool pool;
    struct reader reader;
    reader_init(&reader, request);
    struct bytes name = reader_get_bytes(&reader);
    struct bytes encoded = reader_get_bytes(&reader);
    if (reader.failed || reader_left(&reader) != 0) {
        return STATUS_MALFORMED;
    }
    if (!native_name_is_valid(name, NATIVE_NAME_SIZE_MAX) ||
        !native_pool_decode(encoded, rule_arena(run), &pool)) {
        return STATUS_INVALID;
    }
    if (!may_write(run, name)) {
        return STATUS_PERMISSION_DENIED;
    }
    rule_act_for_server(run);
    /* Each owner is there once, so that the order is one; who looks for a share relies on it. */
    qsort(pool.shares, pool.n_shares, sizeof pool.shares[0], compare_shares);
    struct buffer value;
    buffer_init(&value);
    native_pool_encode(&value, &pool);
    (void)rule_put(run, KEY_SPACE_NATIVE, native_key_pool(rule_arena(run), name),
                   bytes_of(value.data, value.size), 0);
    buffer_clear(&value);
    native_work_init(&work, run);
    native_work_touch(&work, &(struct native_want){.is_pool = true, .name = name});
    (void)native_work_finish(&work);
    return STATUS_OK;
}

static size_t estimate_pool_set(const struct key_store *keys, const struct lease_table *leases,
                                struct bytes request) {
    struct reader reader;
    (void)leases;
    reader_init(&reader, request);
    struct bytes name = reader_get_bytes(&reader);
    return reader.failed ? 0 : native_estimate_pool(keys, name);
}

const struct rule native_rule_pool_set = {.number = NATIVE_RULE_POOL_SET,
                                          .name = "native pool set",
                                          .since_version = CLUSTER_VERSION_RULES,
                                          .spaces = {KEY_SPACE_NATIVE, KEY_SPACE_NATIVE_RECORDS},
                                          .run = run_pool_set,
                                          .estimate = estimate_pool_set};

/* --- Remove. --- */

void native_pool_remove_encode(struct buffer *out, const struct native_pool_remove *remove) {
    buffer_put_bytes(out, remove->name);
}

bool native_pool_removed_decode(struct bytes answer, enum native_pool_removal *out_removal) {
    if (answer.size != 1 || answer.data[0] > NATIVE_POOL_IN_USE) {
        return false;
    }
    *out_removal = (enum native_pool_removal)answer.data[0];
    return true;
}

static bool is_empty(struct rule_run *run, struct key_range range) {
    return rule_count(run, range.space, range.key, range.range_end) == 0;
}

static enum status run_pool_remove(struct rule_run *run, struct bytes request,
                                   struct buffer *answer) {
    struct reader reader;
    reader_init(&reader, request);
    struct bytes name = reader_get_bytes(&reader);
    if (reader.failed || reader_left(&reader) != 0) {
        return STATUS_MALFORMED;
    }
    if (!native_name_is_valid(name, NATIVE_NAME_SIZE_MAX)) {
        return STATUS_INVALID;
    }
    if (!may_write(run, name)) {
        return STATUS_PERMISSION_DENIED;
    }
    rule_act_for_server(run);
    struct arena *arena = rule_arena(run);
    enum native_pool_removal removal = NATIVE_POOL_IN_USE;
    if (is_empty(run, native_taken_slots(arena, name)) &&
        is_empty(run, native_pool_waiters(arena, name))) {
        removal = rule_delete(run, KEY_SPACE_NATIVE, native_key_pool(arena, name))
                      ? NATIVE_POOL_REMOVED
                      : NATIVE_POOL_NOT_FOUND;
    }
    buffer_put_u8(answer, (uint8_t)removal);
    return STATUS_OK;
}

const struct rule native_rule_pool_remove = {.number = NATIVE_RULE_POOL_REMOVE,
                                             .name = "native pool remove",
                                             .since_version = CLUSTER_VERSION_RULES,
                                             .spaces = {KEY_SPACE_NATIVE, KEY_SPACE_NATIVE_RECORDS},
                                             .run = run_pool_remove,
                                             .runs_when_full = true};
