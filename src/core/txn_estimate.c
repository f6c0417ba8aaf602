#include "core/txn_estimate.h"

/* What a record that is answered costs beside being looked at: gathered, perhaps sorted, written.
 */
enum { GATHERED = 2, GATHERED_SORTED = 4 };

struct estimate {
    const struct key_store *keys;
    struct key_space_id space;
    size_t work;      /* of compares and ranges, at most KEY_WORK_TXN_MAX: more is refused */
    size_t gathered;  /* what is answered costs so much more */
    size_t n_deletes; /* keys */
};

static void add(struct estimate *estimate, size_t work) {
    size_t left = KEY_WORK_TXN_MAX - estimate->work;
    estimate->work += work < left ? work : left;
}

static void add_gathered(struct estimate *estimate, size_t work) {
    size_t left = GATHERED_SORTED * KEY_WORK_TXN_MAX - estimate->gathered;
    estimate->gathered += work < left ? work : left;
}

static size_t count(const struct estimate *estimate, struct bytes key, struct bytes range_end) {
    return key_store_count(estimate->keys, estimate->space, key, range_end);
}

static void add_range(struct estimate *estimate, const struct range_request *range) {
    bool is_old = range->revision > 0 && range->revision != key_store_revision(estimate->keys);
    if (is_old) {
        /* Keys that are there, and all that was written since. */
        uint64_t written = key_store_history_end(estimate->keys) -
                           key_store_history_seek(estimate->keys, range->revision + 1);
        add(estimate, (size_t)written * KEY_WORK_A_VERSION);
    }
    if (range->range_end.size > 0 && (is_old || !range->count_only)) {
        size_t n = count(estimate, range->key, range->range_end);
        add(estimate, n);
        if (!range->count_only) {
            add_gathered(estimate, n * (range->order != SORT_NONE ? GATHERED_SORTED : GATHERED));
        }
    }
}

static size_t n_deleted(const struct key_store *keys, struct key_space_id space,
                        const struct delete_request *request) {
    return request->range_end.size == 0
               ? 0
               : key_store_count(keys, space, request->key, request->range_end);
}

/* More than is allowed is refused, which is little work. */
static size_t work_of_deletes(size_t n) {
    return n > KEY_DELETES_MAX ? 0 : n * KEY_WORK_A_DELETE;
}

static void add_txn(struct estimate *estimate, const struct txn_request *request);

static void add_operations(struct estimate *estimate, const struct operation *operations,
                           size_t n) {
    for (size_t i = 0; i < n && estimate->work < KEY_WORK_TXN_MAX; i++) {
        if (operations[i].type == OPERATION_RANGE) {
            add_range(estimate, &operations[i].range);
        } else if (operations[i].type == OPERATION_DELETE) {
            estimate->n_deletes +=
                n_deleted(estimate->keys, estimate->space, &operations[i].delete);
        } else if (operations[i].type == OPERATION_TXN) {
            add_txn(estimate, &operations[i].txn);
        }
    }
}

static void add_txn(struct estimate *estimate, const struct txn_request *request) {
    for (size_t i = 0; i < request->n_compares && estimate->work < KEY_WORK_TXN_MAX; i++) {
        const struct compare *compare = &request->compares[i];
        if (compare->range_end.size > 0) {
            add(estimate, count(estimate, compare->key, compare->range_end));
        }
    }
    add_operations(estimate, request->success, request->n_success);
    add_operations(estimate, request->failure, request->n_failure);
}

size_t txn_estimate(const struct key_store *keys, struct key_space_id space,
                    const struct txn_request *request) {
    struct estimate estimate = {.keys = keys, .space = space};
    add_txn(&estimate, request);
    return estimate.work + estimate.gathered + work_of_deletes(estimate.n_deletes);
}

size_t delete_estimate(const struct key_store *keys, struct key_space_id space,
                       const struct delete_request *request) {
    return work_of_deletes(n_deleted(keys, space, request));
}
