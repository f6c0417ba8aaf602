#include "core/txn_estimate.h"

/* What a record that is answered costs beside being looked at: gathered, perhaps sorted, written.
 */
enum { GATHERED = 2, GATHERED_SORTED = 4 };

enum {
    /* What is copied counts so often: memory for it is taken, and it stays until the client has
     * taken it. */
    COPIED_TIMES = 2,
    /* Records that are looked at for their sizes, which takes some hundred microseconds. */
    WALKED_MAX = 8 * 1024
};

struct estimate;

/* The sizes of records, in units. */
struct sizes {
    struct estimate *estimate;
    bool keys_only;
    size_t n_max;
    size_t n;
    size_t copied;
    size_t copied_most; /* of one */
    size_t compared;    /* by value */
    size_t long_keys;   /* deleted */
};

struct estimate {
    const struct key_store *keys;
    struct key_space_id space;
    size_t work;      /* of compares and ranges, at most KEY_WORK_TXN_MAX: more is refused */
    size_t gathered;  /* what is answered costs so much more */
    size_t copied;    /* units, at most KEY_WORK_TXN_MAX: more is refused */
    size_t n_deletes; /* keys */
    size_t long_keys; /* of deletes, units */
    size_t n_walked;  /* records */
    /* The last range that was looked at: a lock asks for the same in both branches. */
    struct bytes walked_key;
    struct bytes walked_end;
    struct sizes walked;
};

static void add(struct estimate *estimate, size_t work) {
    size_t left = KEY_WORK_TXN_MAX - estimate->work;
    estimate->work += work < left ? work : left;
}

static void add_gathered(struct estimate *estimate, size_t work) {
    size_t left = GATHERED_SORTED * KEY_WORK_TXN_MAX - estimate->gathered;
    estimate->gathered += work < left ? work : left;
}

static void add_copied(struct estimate *estimate, size_t work) {
    size_t left = KEY_WORK_TXN_MAX - estimate->copied;
    estimate->copied += work < left ? work : left;
}

static size_t count(const struct estimate *estimate, struct bytes key, struct bytes range_end) {
    return key_store_count(estimate->keys, estimate->space, key, range_end);
}

static bool add_size(void *context, const struct record *record) {
    struct sizes *sizes = context;
    size_t copied = key_work_of_copy(record, sizes->keys_only);
    sizes->n++;
    sizes->copied += copied;
    sizes->copied_most = copied > sizes->copied_most ? copied : sizes->copied_most;
    sizes->compared += (record->key_size + (size_t)record->value_size) / KEY_WORK_COMPARED_BYTES;
    sizes->long_keys += key_work_of_long_key(record);
    return ++sizes->estimate->n_walked < WALKED_MAX && sizes->n < sizes->n_max;
}

static bool is_walked(const struct estimate *estimate, struct bytes key, struct bytes range_end,
                      size_t n, bool keys_only) {
    const struct sizes *walked = &estimate->walked;
    return walked->n == n && walked->n_max == n && walked->keys_only == keys_only &&
           bytes_equal(estimate->walked_key, key) && bytes_equal(estimate->walked_end, range_end);
}

/* Of the first `n` records of a range, which has as many. Those that are too many to be looked at
 * are taken to be all that the store holds. */
static struct sizes sizes_of(struct estimate *estimate, struct bytes key, struct bytes range_end,
                             size_t n, bool keys_only) {
    struct sizes sizes = {.estimate = estimate, .keys_only = keys_only, .n_max = n};
    if (is_walked(estimate, key, range_end, n, keys_only)) {
        return estimate->walked;
    }
    if (n > 0 && estimate->n_walked < WALKED_MAX) {
        (void)key_store_visit(estimate->keys, estimate->space, key, range_end, add_size, &sizes);
        estimate->walked_key = key;
        estimate->walked_end = range_end;
        estimate->walked = sizes;
    }
    if (sizes.n < n) {
        size_t bytes = key_store_bytes(estimate->keys);
        sizes.copied = sizes.copied_most = bytes / KEY_WORK_COPIED_BYTES;
        sizes.compared = bytes / KEY_WORK_COMPARED_BYTES;
        sizes.long_keys = key_store_long_keys(estimate->keys) / KEY_WORK_COPIED_BYTES;
    }
    return sizes;
}

static size_t log2_of(size_t n) {
    size_t log = 0;
    for (; n > 1; n /= 2) {
        log++;
    }
    return log;
}

static void add_copied_key(struct estimate *estimate, struct bytes key, bool keys_only) {
    const struct record *record = key_store_find(estimate->keys, estimate->space, key);
    add_copied(estimate, record != NULL ? key_work_of_copy(record, keys_only) : 0);
}

static bool is_in_key_order(const struct range_request *range) {
    return range->order == SORT_NONE && range->target == SORT_BY_KEY &&
           range->mod_revision_min == 0 && range->mod_revision_max == 0 &&
           range->create_revision_min == 0 && range->create_revision_max == 0;
}

/* Of a range of the newest state that has `n` records. */
static void add_answer(struct estimate *estimate, const struct range_request *range, size_t n) {
    size_t limit = range->limit > 0 ? (size_t)range->limit : SIZE_MAX;
    if (is_in_key_order(range) && limit < n) {
        n = limit;
    }
    bool is_sorted = range->target == SORT_BY_VALUE;
    if (n == 0 || (estimate->copied == KEY_WORK_TXN_MAX && !is_sorted)) {
        return;
    }
    struct sizes sizes = sizes_of(estimate, range->key, range->range_end, n, range->keys_only);
    bool is_cut = limit < n && sizes.copied_most < sizes.copied / limit;
    add_copied(estimate, is_cut ? limit * sizes.copied_most : sizes.copied);
    if (is_sorted) {
        add(estimate, sizes.compared * (1 + log2_of(n)));
    }
}

static void add_range(struct estimate *estimate, const struct range_request *range) {
    bool is_old = range->revision > 0 && range->revision != key_store_revision(estimate->keys);
    if (is_old) {
        /* Keys that are there, and all that was written since. */
        uint64_t written = key_store_history_end(estimate->keys) -
                           key_store_history_seek(estimate->keys, range->revision + 1);
        add(estimate, (size_t)written * KEY_WORK_A_VERSION);
    }
    if (is_old && !range->count_only) {
        /* How large they were then is not known. */
        add_copied(estimate, key_store_bytes(estimate->keys) / KEY_WORK_COPIED_BYTES);
    }
    if (range->range_end.size == 0) {
        if (!is_old && !range->count_only) {
            add_copied_key(estimate, range->key, range->keys_only);
        }
    } else if (is_old || !range->count_only) {
        size_t n = count(estimate, range->key, range->range_end);
        add(estimate, n);
        if (!range->count_only) {
            add_gathered(estimate, n * (range->order != SORT_NONE ? GATHERED_SORTED : GATHERED));
            add_answer(estimate, range, is_old ? 0 : n);
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

static void add_put(struct estimate *estimate, const struct put_request *put) {
    if (put->ignore_value) {
        add_copied_key(estimate, put->key, false);
    }
    if (put->want_previous) {
        add_copied_key(estimate, put->key, false);
    }
}

static void add_delete(struct estimate *estimate, const struct delete_request *request) {
    size_t n = n_deleted(estimate->keys, estimate->space, request);
    estimate->n_deletes += n;
    if (request->range_end.size == 0) {
        if (request->want_previous) {
            add_copied_key(estimate, request->key, false);
        }
    } else if (n <= KEY_DELETES_MAX) {
        struct sizes sizes = sizes_of(estimate, request->key, request->range_end, n, false);
        size_t left = KEY_WORK_TXN_MAX - estimate->long_keys;
        estimate->long_keys += sizes.long_keys < left ? sizes.long_keys : left;
        add_copied(estimate, sizes.long_keys + (request->want_previous ? sizes.copied : 0));
    }
}

/* All of it. */
static size_t sum(const struct estimate *estimate) {
    return estimate->work + estimate->gathered + COPIED_TIMES * estimate->copied +
           work_of_deletes(estimate->n_deletes);
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static void add_txn(struct estimate *estimate, const struct txn_request *request);

static void add_operations(struct estimate *estimate, const struct operation *operations,
                           size_t n) {
    for (size_t i = 0; i < n && estimate->work < KEY_WORK_TXN_MAX; i++) {
        if (operations[i].type == OPERATION_RANGE) {
            add_range(estimate, &operations[i].range);
        } else if (operations[i].type == OPERATION_DELETE) {
            add_delete(estimate, &operations[i].delete);
        } else if (operations[i].type == OPERATION_PUT) {
            add_put(estimate, &operations[i].put);
        } else if (operations[i].type == OPERATION_TXN) {
            add_txn(estimate, &operations[i].txn);
        }
    }
}

static void add_txn(struct estimate *estimate, const struct txn_request *request) {
    for (size_t i = 0; i < request->n_compares && estimate->work < KEY_WORK_TXN_MAX; i++) {
        const struct compare *compare = &request->compares[i];
        if (compare->range_end.size > 0) {
            size_t size = compare->target == COMPARE_VALUE ? compare->value.size : 0;
            add(estimate, count(estimate, compare->key, compare->range_end) *
                              (1 + size / KEY_WORK_COMPARED_BYTES));
        }
    }
    /* One of the branches is carried out. */
    struct estimate failure = *estimate;
    add_operations(estimate, request->success, request->n_success);
    failure.n_walked = estimate->n_walked;
    failure.walked_key = estimate->walked_key;
    failure.walked_end = estimate->walked_end;
    failure.walked = estimate->walked;
    add_operations(&failure, request->failure, request->n_failure);
    failure.work = larger(failure.work, estimate->work);
    failure.gathered = larger(failure.gathered, estimate->gathered);
    failure.copied = larger(failure.copied, estimate->copied);
    failure.n_deletes = larger(failure.n_deletes, estimate->n_deletes);
    failure.long_keys = larger(failure.long_keys, estimate->long_keys);
    *estimate = failure;
}

size_t txn_estimate(const struct key_store *keys, struct key_space_id space,
                    const struct txn_request *request) {
    struct estimate estimate = {.keys = keys, .space = space};
    add_txn(&estimate, request);
    return sum(&estimate);
}

void txn_estimate_read(const struct key_store *keys, struct key_space_id space,
                       const struct txn_request *request, size_t *out_work, size_t *out_bytes) {
    struct estimate estimate = {.keys = keys, .space = space};
    add_txn(&estimate, request);
    *out_work = estimate.work + estimate.gathered;
    *out_bytes = estimate.copied * KEY_WORK_COPIED_BYTES;
}

size_t put_estimate(const struct key_store *keys, struct key_space_id space,
                    const struct put_request *request) {
    struct estimate estimate = {.keys = keys, .space = space};
    add_put(&estimate, request);
    return sum(&estimate);
}

size_t delete_estimate(const struct key_store *keys, struct key_space_id space,
                       const struct delete_request *request) {
    struct estimate estimate = {.keys = keys, .space = space};
    add_delete(&estimate, request);
    return sum(&estimate);
}

size_t txn_long_keys(const struct key_store *keys, struct key_space_id space,
                     const struct txn_request *request) {
    struct estimate estimate = {.keys = keys, .space = space};
    add_txn(&estimate, request);
    return estimate.long_keys * KEY_WORK_COPIED_BYTES;
}

size_t delete_long_keys(const struct key_store *keys, struct key_space_id space,
                        const struct delete_request *request) {
    struct estimate estimate = {.keys = keys, .space = space};
    add_delete(&estimate, request);
    return estimate.long_keys * KEY_WORK_COPIED_BYTES;
}
