/*
 * etcd as one would write it on a blackboard: the list of everything that ever happened to a key,
 * read from its end, and an array of leases. Nothing is indexed and nothing is thrown away. It
 * shares no code with core but the shapes of requests.
 */
#ifndef LEASED_TESTS_STATE_MACHINE_REFERENCE_H
#define LEASED_TESTS_STATE_MACHINE_REFERENCE_H

#include "core/state_machine.h"

#include <assert.h>
#include <stdlib.h>

enum { REF_KEYS_MAX = 64, REF_LEASES_MAX = 64, REF_VALUE_SIZE_MAX = 8, REF_PATH_MAX = 8 };

struct ref_event {
    size_t key;                          /* number of the key: keys are numbered in their order */
    int64_t create, mod, version, lease; /* version 0: deleted */
    uint32_t sub;
    size_t value_size;
    uint8_t value[REF_VALUE_SIZE_MAX];
};

struct ref_lease {
    struct lease_facts facts;
    uint64_t due_ms;         /* when leading; 0: never */
    uint64_t counted_due_ms; /* when not leading, from its checkpoint; 0: none */
};

struct reference {
    size_t n_keys;
    struct bytes keys[REF_KEYS_MAX];
    size_t n_events;
    size_t capacity;
    struct ref_event *events;
    int64_t revision;
    int64_t compacted;
    uint32_t n_changes; /* of the revision being written */
    size_t n_leases;
    struct ref_lease leases[REF_LEASES_MAX];
    size_t n_ended;
    struct lease_ended ended[LEASE_ENDED_MAX]; /* oldest first */
    bool is_leading;
    uint64_t now_ms;
    int64_t wall_ms;
};

/* --- Keys. --- */

static inline bool ref_in_range(struct bytes key, struct bytes from, struct bytes to) {
    if (to.size == 0) {
        return bytes_equal(key, from);
    }
    return bytes_compare(key, from) >= 0 &&
           ((to.size == 1 && to.data[0] == 0) || bytes_compare(key, to) < 0);
}

static inline size_t ref_key(const struct reference *ref, struct bytes bytes) {
    size_t key = 0;
    while (!bytes_equal(ref->keys[key], bytes)) {
        key++;
        assert(key < ref->n_keys);
    }
    return key;
}

/* The live version of a key at a revision, or NULL; at INT64_MAX also what is being written. */
static inline const struct ref_event *ref_at(const struct reference *ref, size_t key,
                                             int64_t revision) {
    for (size_t i = ref->n_events; i > 0; i--) {
        const struct ref_event *event = &ref->events[i - 1];
        if (event->key == key && event->mod <= revision) {
            return event->version == 0 ? NULL : event;
        }
    }
    return NULL;
}

static inline struct ref_event *ref_happen(struct reference *ref, size_t key) {
    if (ref->n_events == ref->capacity) {
        ref->capacity = ref->capacity * 2 + 64;
        ref->events = realloc(ref->events, ref->capacity * sizeof *ref->events);
        assert(ref->events != NULL);
    }
    struct ref_event *event = &ref->events[ref->n_events++];
    *event = (struct ref_event){.key = key, .mod = ref->revision + 1, .sub = ref->n_changes};
    ref->n_changes++;
    return event;
}

static inline void ref_finish(struct reference *ref) {
    ref->revision += ref->n_changes > 0;
    ref->n_changes = 0;
}

static inline struct ref_lease *ref_lease(struct reference *ref, int64_t id) {
    for (size_t i = 0; i < ref->n_leases; i++) {
        if (ref->leases[i].facts.id == id) {
            return &ref->leases[i];
        }
    }
    return NULL;
}

static inline enum status ref_put_check(struct reference *ref, const struct put_request *put,
                                        bool is_alone) {
    bool no_key = (put->ignore_value || put->ignore_lease) &&
                  ref_at(ref, ref_key(ref, put->key), ref->revision) == NULL;
    bool no_lease = put->lease_id != 0 && ref_lease(ref, put->lease_id) == NULL;
    if (no_key && no_lease) {
        return is_alone ? STATUS_LEASE_NOT_FOUND : STATUS_KEY_NOT_FOUND;
    }
    return no_key ? STATUS_KEY_NOT_FOUND : no_lease ? STATUS_LEASE_NOT_FOUND : STATUS_OK;
}

static inline void ref_put(struct reference *ref, const struct put_request *put) {
    size_t key = ref_key(ref, put->key);
    const struct ref_event *found = ref_at(ref, key, INT64_MAX);
    struct ref_event old = found != NULL ? *found : (struct ref_event){0};
    struct ref_event *event = ref_happen(ref, key);
    event->create = old.version > 0 ? old.create : event->mod;
    event->version = old.version + 1;
    event->lease = put->ignore_lease ? old.lease : put->lease_id;
    event->value_size = put->value.size;
    if (put->value.size > 0) {
        memcpy(event->value, put->value.data, put->value.size);
    }
    if (put->ignore_value) {
        event->value_size = old.value_size;
        memcpy(event->value, old.value, sizeof old.value);
    }
}

static inline int64_t ref_delete(struct reference *ref, const struct delete_request *delete) {
    int64_t deleted = 0;
    for (size_t key = 0; key < ref->n_keys; key++) {
        if (ref_in_range(ref->keys[key], delete->key, delete->range_end) &&
            ref_at(ref, key, INT64_MAX) != NULL) {
            ref_happen(ref, key);
            deleted++;
        }
    }
    return deleted;
}

/* --- Ranges. --- */

struct ref_range {
    size_t count;
    bool more;
    size_t n;
    const struct ref_event *events[REF_KEYS_MAX];
};

static inline enum status ref_range_check(const struct reference *ref, int64_t revision) {
    int64_t newest = ref->revision + (ref->n_changes > 0);
    return revision > newest                           ? STATUS_REVISION_FUTURE
           : revision > 0 && revision < ref->compacted ? STATUS_REVISION_COMPACTED
                                                       : STATUS_OK;
}

static inline int ref_order(const struct reference *ref, const struct ref_event *a,
                            const struct ref_event *b, enum sort_target target) {
    const int64_t numbers[][2] = {[SORT_BY_KEY] = {(int64_t)a->key, (int64_t)b->key},
                                  [SORT_BY_VERSION] = {a->version, b->version},
                                  [SORT_BY_CREATE] = {a->create, b->create},
                                  [SORT_BY_MOD] = {a->mod, b->mod}};
    if (target == SORT_BY_VALUE) {
        return bytes_compare(bytes_of(a->value, a->value_size), bytes_of(b->value, b->value_size));
    }
    return (numbers[target][0] > numbers[target][1]) - (numbers[target][0] < numbers[target][1]);
}

static inline void ref_range(const struct reference *ref, const struct range_request *request,
                             struct ref_range *out) {
    int64_t revision = request->revision > 0 ? request->revision : INT64_MAX;
    bool has_bounds = request->mod_revision_min != 0 || request->mod_revision_max != 0 ||
                      request->create_revision_min != 0 || request->create_revision_max != 0;
    bool cut_first = request->limit > 0 && request->order == SORT_NONE && !has_bounds;
    *out = (struct ref_range){0};
    for (size_t key = 0; key < ref->n_keys; key++) {
        const struct ref_event *event = ref_at(ref, key, revision);
        if (event == NULL || !ref_in_range(ref->keys[key], request->key, request->range_end)) {
            continue;
        }
        out->count++;
        if (request->count_only || (cut_first && out->n > (size_t)request->limit) ||
            (request->mod_revision_min != 0 && event->mod < request->mod_revision_min) ||
            (request->mod_revision_max != 0 && event->mod > request->mod_revision_max) ||
            (request->create_revision_min != 0 && event->create < request->create_revision_min) ||
            (request->create_revision_max != 0 && event->create > request->create_revision_max)) {
            continue;
        }
        /* Into its place, behind its equals. */
        size_t at = out->n++;
        int sign = request->order == SORT_DESCENDING ? -1 : 1;
        while (at > 0 && sign * ref_order(ref, event, out->events[at - 1], request->target) < 0) {
            out->events[at] = out->events[at - 1];
            at--;
        }
        out->events[at] = event;
    }
    if (request->limit > 0 && out->n > (size_t)request->limit) {
        out->n = (size_t)request->limit;
        out->more = true;
    }
}

/* --- Transactions. --- */

static inline bool ref_compare_one(const struct compare *compare, const struct ref_event *event) {
    const int64_t numbers[] = {[COMPARE_VERSION] = event->version,
                               [COMPARE_CREATE] = event->create,
                               [COMPARE_MOD] = event->mod,
                               [COMPARE_VALUE] = 0,
                               [COMPARE_LEASE] = event->lease};
    int64_t a = numbers[compare->target];
    int64_t b = compare->number;
    if (compare->target == COMPARE_VALUE) {
        a = bytes_compare(bytes_of(event->value, event->value_size), compare->value);
        b = 0;
    }
    const bool results[] = {[COMPARE_EQUAL] = a == b,
                            [COMPARE_GREATER] = a > b,
                            [COMPARE_LESS] = a < b,
                            [COMPARE_NOT_EQUAL] = a != b};
    return results[compare->result];
}

/* On the state before the transaction: at the finished revision. */
static inline bool ref_succeeds(const struct reference *ref, const struct txn_request *txn) {
    static const struct ref_event missing;
    for (size_t i = 0; i < txn->n_compares; i++) {
        const struct compare *compare = &txn->compares[i];
        size_t n = 0;
        for (size_t key = 0; key < ref->n_keys; key++) {
            const struct ref_event *event = ref_at(ref, key, ref->revision);
            if (event != NULL && ref_in_range(ref->keys[key], compare->key, compare->range_end)) {
                n++;
                if (!ref_compare_one(compare, event)) {
                    return false;
                }
            }
        }
        if (n == 0 && (compare->target == COMPARE_VALUE || !ref_compare_one(compare, &missing))) {
            return false;
        }
    }
    return true;
}

static inline enum status ref_txn_check(struct reference *ref, const struct txn_request *txn) {
    bool succeeds = ref_succeeds(ref, txn);
    size_t n = succeeds ? txn->n_success : txn->n_failure;
    const struct operation *operations = succeeds ? txn->success : txn->failure;
    for (size_t i = 0; i < n; i++) {
        enum status status =
            operations[i].type == OPERATION_RANGE
                ? ref_range_check(ref, operations[i].range.revision)
            : operations[i].type == OPERATION_PUT ? ref_put_check(ref, &operations[i].put, false)
            : operations[i].type == OPERATION_TXN ? ref_txn_check(ref, &operations[i].txn)
                                                  : STATUS_OK;
        if (status != STATUS_OK) {
            return status;
        }
    }
    return STATUS_OK;
}

/* What a transaction writes, each with the way to it: which branch of which transaction. Two
 * writes that can both happen must not meet. */
struct ref_write {
    const struct operation *operation;
    size_t depth;
    struct {
        const struct txn_request *txn;
        bool branch;
    } path[REF_PATH_MAX];
};

static inline void ref_writes(const struct txn_request *txn, struct ref_write way,
                              struct ref_write *writes, size_t *n_writes) {
    for (size_t i = 0; i < txn->n_success + txn->n_failure; i++) {
        bool branch = i < txn->n_success;
        const struct operation *operation =
            branch ? &txn->success[i] : &txn->failure[i - txn->n_success];
        struct ref_write next = way;
        next.operation = operation;
        next.path[next.depth].txn = txn;
        next.path[next.depth].branch = branch;
        next.depth++;
        if (operation->type == OPERATION_TXN) {
            ref_writes(&operation->txn, next, writes, n_writes);
        } else if (operation->type != OPERATION_RANGE) {
            writes[(*n_writes)++] = next;
        }
    }
}

static inline bool ref_exclude_each_other(const struct ref_write *a, const struct ref_write *b) {
    for (size_t i = 0; i < a->depth && i < b->depth && a->path[i].txn == b->path[i].txn; i++) {
        if (a->path[i].branch != b->path[i].branch) {
            return true;
        }
    }
    return false;
}

/* Both are inside transactions that are nested in one branch, side by side. */
static inline bool ref_are_in_siblings(const struct ref_write *a, const struct ref_write *b) {
    size_t i = 0;
    while (i < a->depth && i < b->depth && a->path[i].txn == b->path[i].txn) {
        i++;
    }
    return i < a->depth && i < b->depth;
}

static inline bool ref_meet(const struct operation *a, const struct operation *b) {
    if (a->type == OPERATION_PUT && b->type == OPERATION_PUT) {
        return bytes_equal(a->put.key, b->put.key);
    }
    return a->type == OPERATION_PUT && b->type == OPERATION_DELETE &&
           ref_in_range(a->put.key, b->delete.key, b->delete.range_end);
}

static inline bool ref_has_duplicates(const struct txn_request *txn) {
    struct ref_write writes[512];
    size_t n = 0;
    ref_writes(txn, (struct ref_write){0}, writes, &n);
    for (size_t a = 0; a < n; a++) {
        for (size_t b = 0; b < n; b++) {
            /* What is put may be deleted by a later sibling. */
            bool is_fine = a < b && writes[b].operation->type == OPERATION_DELETE &&
                           ref_are_in_siblings(&writes[a], &writes[b]);
            if (a != b && !is_fine && !ref_exclude_each_other(&writes[a], &writes[b]) &&
                ref_meet(writes[a].operation, writes[b].operation)) {
                return true;
            }
        }
    }
    return false;
}

/* --- Leases. --- */

static inline void ref_count_from_now(struct reference *ref, struct ref_lease *lease,
                                      int64_t ttl_ms) {
    lease->due_ms = ttl_ms == LEASE_TTL_FOREVER ? 0 : ref->now_ms + 1 + (uint64_t)ttl_ms;
}

/* What a checkpoint does: while not leading, it is counted from now. */
static inline void ref_note(struct reference *ref, struct ref_lease *lease, int64_t remaining_ms) {
    int64_t ttl_ms = lease->facts.ttl_ms;
    lease->facts.checkpoint_ms = remaining_ms < ttl_ms ? remaining_ms : ttl_ms;
    uint64_t due_ms = ref->now_ms + 1 + (uint64_t)lease->facts.checkpoint_ms;
    if (remaining_ms == 0 || ttl_ms == LEASE_TTL_FOREVER) {
        lease->counted_due_ms = 0;
    } else if (!ref->is_leading && (lease->counted_due_ms == 0 || due_ms < lease->counted_due_ms)) {
        lease->counted_due_ms = due_ms;
    }
}

static inline void ref_lead(struct reference *ref) {
    ref->is_leading = true;
    for (size_t i = 0; i < ref->n_leases; i++) {
        struct ref_lease *lease = &ref->leases[i];
        bool is_noted = lease->facts.checkpoint_ms != 0 && lease->facts.ttl_ms != LEASE_TTL_FOREVER;
        ref_count_from_now(ref, lease, is_noted ? lease->facts.checkpoint_ms : lease->facts.ttl_ms);
        if (is_noted && lease->counted_due_ms != 0 && lease->counted_due_ms < lease->due_ms) {
            lease->due_ms = lease->counted_due_ms;
        }
        lease->counted_due_ms = 0;
    }
}

static inline void ref_follow(struct reference *ref) {
    ref->is_leading = false;
    for (size_t i = 0; i < ref->n_leases; i++) {
        struct ref_lease *lease = &ref->leases[i];
        lease->counted_due_ms = lease->facts.checkpoint_ms != 0 ? lease->due_ms : 0;
    }
}

static inline enum status ref_grant(struct reference *ref, const struct lease_facts *facts) {
    if (ref_lease(ref, facts->id) != NULL) {
        return STATUS_LEASE_EXISTS;
    }
    if (facts->parent_id != 0 && ref_lease(ref, facts->parent_id) == NULL) {
        return STATUS_LEASE_NOT_FOUND;
    }
    struct ref_lease *lease = &ref->leases[ref->n_leases++];
    *lease = (struct ref_lease){.facts = *facts};
    ref_count_from_now(ref, lease, facts->ttl_ms);
    return STATUS_OK;
}

static inline enum status ref_end(struct reference *ref, int64_t id, enum lease_end reason) {
    if (ref_lease(ref, id) == NULL) {
        return STATUS_LEASE_NOT_FOUND;
    }
    for (;;) {
        const struct ref_lease *child = NULL;
        for (size_t i = 0; i < ref->n_leases; i++) {
            const struct ref_lease *lease = &ref->leases[i];
            if (lease->facts.parent_id == id &&
                (child == NULL || lease->facts.id < child->facts.id)) {
                child = lease;
            }
        }
        if (child == NULL) {
            break;
        }
        ref_end(ref, child->facts.id, LEASE_END_PARENT);
    }
    for (size_t key = 0; key < ref->n_keys; key++) {
        const struct ref_event *event = ref_at(ref, key, INT64_MAX);
        if (event != NULL && event->lease == id) {
            ref_happen(ref, key);
        }
    }
    ref_finish(ref);
    if (ref->n_ended == LEASE_ENDED_MAX) {
        memmove(&ref->ended[0], &ref->ended[1], (LEASE_ENDED_MAX - 1) * sizeof ref->ended[0]);
        ref->n_ended--;
    }
    struct ref_lease *lease = ref_lease(ref, id);
    ref->ended[ref->n_ended++] = (struct lease_ended){
        .id = id, .ttl_ms = lease->facts.ttl_ms, .wall_ms = ref->wall_ms, .reason = reason};
    *lease = ref->leases[--ref->n_leases];
    return STATUS_OK;
}

#endif
