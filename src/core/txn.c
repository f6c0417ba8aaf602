#include "core/txn.h"

#include "core/reserved_keys.h"

#include <assert.h>
#include <stdlib.h>

/* What is only looked at. */
struct txn_source {
    const struct key_store *keys;
    const struct key_view *view;      /* not NULL: looked at in the place of the store */
    const struct lease_table *leases; /* NULL: nothing is to be attached */
    struct key_space_id space;
    bool is_counted;        /* see txn.h */
    bool has_reserved_keys; /* see txn.h */
};

static struct txn_source source_of(const struct txn_target *target) {
    return (struct txn_source){.keys = target->keys,
                               .leases = target->leases,
                               .space = target->space,
                               .is_counted = target->is_counted,
                               .has_reserved_keys = target->has_reserved_keys};
}

static int64_t source_revision(const struct txn_source *source) {
    return source->view != NULL ? key_view_revision(source->view)
                                : key_store_revision(source->keys);
}

static int64_t source_compacted_revision(const struct txn_source *source) {
    return source->view != NULL ? key_view_compacted_revision(source->view)
                                : key_store_compacted_revision(source->keys);
}

static enum status source_range(const struct txn_source *source, const struct range_request *range,
                                struct key_work *work, struct arena *arena,
                                struct range_outcome *out_outcome) {
    return source->view != NULL
               ? key_view_range(source->view, source->space, range, work, arena, out_outcome)
               : key_store_range(source->keys, source->space, range, work, arena, out_outcome);
}

static size_t source_visit(const struct txn_source *source, struct bytes key,
                           struct bytes range_end,
                           bool (*visit)(void *context, const struct record *record),
                           void *context) {
    return source->view != NULL
               ? key_view_visit_range(source->view, source->space, key, range_end, visit, context)
               : key_store_visit(source->keys, source->space, key, range_end, visit, context);
}

static bool source_is_changed(const struct txn_source *source) {
    return source->view == NULL && key_store_is_changed(source->keys);
}

/* --- Single changes, inside a revision that the caller opened. --- */

static enum status put_check_lease(const struct txn_source *source,
                                   const struct put_request *request) {
    if (request->lease_id == 0) {
        return STATUS_OK;
    }
    enum status status =
        lease_table_may_attach(source->leases, request->lease_id, source->space, request->key);
    if (status != STATUS_TOO_MANY_KEYS) {
        return status;
    }
    /* One that is attached already may be written again. */
    const struct record *current =
        source->is_counted ? key_store_find(source->keys, source->space, request->key) : NULL;
    return !source->is_counted || (current != NULL && current->lease_id == request->lease_id)
               ? STATUS_OK
               : STATUS_TOO_MANY_KEYS;
}

static enum status put_check_key(const struct txn_source *source,
                                 const struct put_request *request) {
    enum status status = source->has_reserved_keys
                             ? reserved_keys_check_put(source->space, request->key)
                             : STATUS_OK;
    if (status != STATUS_OK) {
        return status;
    }
    bool must_exist = request->ignore_value || request->ignore_lease;
    return !must_exist || key_store_find(source->keys, source->space, request->key) != NULL
               ? STATUS_OK
               : STATUS_KEY_NOT_FOUND;
}

/* What a put copies, in units of key_work.h, beside what it brings along: the value that the key
 * keeps, the record that it answers. */
static size_t put_copies(const struct txn_source *source, const struct put_request *request) {
    if (!request->ignore_value && !request->want_previous) {
        return 0;
    }
    const struct record *current = key_store_find(source->keys, source->space, request->key);
    size_t times = (request->ignore_value ? 1 : 0) + (request->want_previous ? 1 : 0);
    return current != NULL ? times * key_work_of_copy(current, false) : 0;
}

static void put_apply(const struct txn_target *target, const struct put_request *request,
                      struct put_outcome *out_outcome) {
    struct bytes value = request->value;
    int64_t lease_id = request->lease_id;
    if (request->ignore_value || request->ignore_lease) {
        const struct record *current = key_store_find(target->keys, target->space, request->key);
        /* A key that put_check_key() saw may have been deleted by an earlier operation of the same
         * transaction only if command_check() let both through, which it does not. */
        if (current != NULL && request->ignore_value) {
            value = record_value(current);
        }
        if (current != NULL && request->ignore_lease) {
            lease_id = current->lease_id;
        }
    }
    struct record *previous;
    struct record *record =
        key_store_put(target->keys, target->space, request->key, value, lease_id, &previous);
    if (previous != NULL) {
        lease_table_detach(target->leases, previous);
    }
    enum status status = lease_table_attach(target->leases, record);
    assert(status == STATUS_OK);
    out_outcome->previous = request->want_previous ? previous : NULL;
}

void txn_write(struct key_store *keys, struct lease_table *leases, const struct record *record) {
    struct record *previous;
    struct record *written = key_store_put(keys, record_space(record), record_key(record),
                                           record_value(record), record->lease_id, &previous);
    if (previous != NULL) {
        lease_table_detach(leases, previous);
    }
    enum status status = lease_table_attach(leases, written);
    assert(status == STATUS_OK);
}

void txn_erase(struct key_store *keys, struct lease_table *leases, struct record *live) {
    lease_table_detach(leases, live);
    key_store_delete(keys, live);
}

static void delete_apply(const struct txn_target *target, const struct delete_request *request,
                         struct arena *arena, struct delete_outcome *out_outcome) {
    struct record *one;
    struct record **records = &one;
    size_t n = 0;
    if (request->range_end.size == 0) {
        one = key_store_find(target->keys, target->space, request->key);
        n = one != NULL ? 1 : 0;
    } else {
        key_store_collect(target->keys, target->space, request->key, request->range_end, arena,
                          &records, &n);
    }
    *out_outcome = (struct delete_outcome){.deleted = (int64_t)n};
    if (request->want_previous && n > 0) {
        out_outcome->previous = arena_copy(arena, records, n * sizeof *records);
        out_outcome->n_previous = n;
    }
    for (size_t i = 0; i < n; i++) {
        txn_erase(target->keys, target->leases, records[i]);
    }
}

enum status txn_put(const struct txn_target *target, const struct put_request *request,
                    struct put_outcome *out_outcome) {
    const struct txn_source source = source_of(target);
    /* When both are missing, etcd reports the lease here and the key in a transaction. */
    enum status status = put_check_lease(&source, request);
    if (status == STATUS_OK) {
        status = put_check_key(&source, request);
    }
    if (status == STATUS_OK) {
        if (target->is_counted) {
            *target->work += put_copies(&source, request);
        }
        key_store_begin(target->keys);
        put_apply(target, request, out_outcome);
        key_store_end(target->keys);
    }
    return status;
}

/* How many keys it would delete. */
static size_t delete_count(const struct txn_source *source, const struct delete_request *request) {
    return request->range_end.size == 0
               ? 1
               : key_store_count(source->keys, source->space, request->key, request->range_end);
}

struct deleting {
    struct key_work *work;
    bool want_previous;
};

static bool delete_spend_one(void *context, const struct record *record) {
    const struct deleting *deleting = context;
    size_t answered = deleting->want_previous ? 1 + key_work_of_copy(record, false) : 0;
    return key_work_spend(deleting->work, key_work_of_long_key(record) + answered);
}

/* What is copied of that which is deleted: keys that are long, and what is answered. */
static enum status delete_spend(const struct txn_source *source,
                                const struct delete_request *request, struct key_work *work) {
    struct deleting deleting = {.work = work, .want_previous = request->want_previous};
    if (request->want_previous || request->range_end.size > 0) {
        (void)source_visit(source, request->key, request->range_end, delete_spend_one, &deleting);
    }
    return work->is_exceeded ? STATUS_REQUEST_TOO_LARGE : STATUS_OK;
}

static enum status delete_check(const struct txn_source *source,
                                const struct delete_request *request) {
    return source->has_reserved_keys ? reserved_keys_check_delete(source->keys, source->space,
                                                                  request->key, request->range_end)
                                     : STATUS_OK;
}

enum status txn_delete(const struct txn_target *target, const struct delete_request *request,
                       struct arena *arena, struct delete_outcome *out_outcome) {
    const struct txn_source source = source_of(target);
    size_t n = target->is_counted ? delete_count(&source, request) : 0;
    enum status status =
        n > KEY_DELETES_MAX ? STATUS_TOO_MANY_KEYS : delete_check(&source, request);
    if (status != STATUS_OK) {
        return status;
    }
    if (target->is_counted) {
        struct key_work work = {.left = KEY_WORK_TXN_MAX};
        status = delete_spend(&source, request, &work);
        *target->work += KEY_WORK_TXN_MAX - work.left;
        if (status != STATUS_OK) {
            return status;
        }
        *target->work += n * KEY_WORK_A_DELETE;
    }
    key_store_begin(target->keys);
    delete_apply(target, request, arena, out_outcome);
    key_store_end(target->keys);
    return STATUS_OK;
}

/* --- Compares. --- */

static int sign_of(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

static bool compare_holds_for(const struct compare *compare, const struct record *record) {
    int order;
    switch (compare->target) {
    case COMPARE_VERSION:
        order = sign_of(record->version, compare->number);
        break;
    case COMPARE_CREATE:
        order = sign_of(record->create_revision, compare->number);
        break;
    case COMPARE_MOD:
        order = sign_of(record->mod_revision, compare->number);
        break;
    case COMPARE_LEASE:
        order = sign_of(record->lease_id, compare->number);
        break;
    case COMPARE_VALUE:
        order = bytes_compare(record_value(record), compare->value);
        break;
    default:
        return false;
    }
    switch (compare->result) {
    case COMPARE_EQUAL:
        return order == 0;
    case COMPARE_GREATER:
        return order > 0;
    case COMPARE_LESS:
        return order < 0;
    case COMPARE_NOT_EQUAL:
        return order != 0;
    }
    return false;
}

static size_t work_of_compare(const struct compare *compare, const struct record *record) {
    size_t size = 0;
    if (compare->target == COMPARE_VALUE) {
        size = record->value_size < compare->value.size ? record->value_size : compare->value.size;
    }
    return 1 + size / KEY_WORK_COMPARED_BYTES;
}

struct comparing {
    const struct compare *compare;
    struct key_work *work;
    bool holds;
};

static bool compare_one(void *context, const struct record *record) {
    struct comparing *comparing = context;
    comparing->holds =
        key_work_spend(comparing->work, work_of_compare(comparing->compare, record)) &&
        compare_holds_for(comparing->compare, record);
    return comparing->holds;
}

/* Needs no memory. When no work is left, what it says does not matter. */
static bool compare_holds(const struct txn_source *source, const struct compare *compare,
                          struct key_work *work) {
    static const struct record missing;
    struct comparing comparing = {.compare = compare, .work = work};
    if (source_visit(source, compare->key, compare->range_end, compare_one, &comparing) == 0) {
        return compare->target != COMPARE_VALUE && compare_holds_for(compare, &missing);
    }
    return comparing.holds;
}

/* --- Transactions. --- */

/* Which branch a transaction takes, and those nested in that branch, decided before anything
 * changes. */
struct txn_path {
    bool succeeded;
    struct txn_path *nested; /* one for each operation of the branch; NULL when none is nested */
    /* The same for ranges: what they read before anything is changed. NULL when there are none, or
     * when work is not counted. */
    struct range_outcome *ranges;
};

static void branch_of(const struct txn_request *request, bool succeeded,
                      const struct operation **out_operations, size_t *out_n) {
    *out_operations = succeeded ? request->success : request->failure;
    *out_n = succeeded ? request->n_success : request->n_failure;
}

static void path_choose(const struct txn_source *source, const struct txn_request *request,
                        struct key_work *work, struct arena *arena, struct txn_path *path) {
    *path = (struct txn_path){.succeeded = true};
    for (size_t i = 0; i < request->n_compares && path->succeeded; i++) {
        path->succeeded = compare_holds(source, &request->compares[i], work);
    }
    const struct operation *operations;
    size_t n;
    branch_of(request, path->succeeded, &operations, &n);
    for (size_t i = 0; i < n; i++) {
        if (operations[i].type != OPERATION_TXN) {
            continue;
        }
        if (path->nested == NULL) {
            path->nested = arena_calloc(arena, n, sizeof *path->nested);
        }
        path_choose(source, &operations[i].txn, work, arena, &path->nested[i]);
    }
}

static enum status range_check(const struct txn_source *source, const struct range_request *range) {
    if (range->revision <= 0) {
        return STATUS_OK;
    }
    if (range->revision > source_revision(source)) {
        return STATUS_REVISION_FUTURE;
    }
    return range->revision < source_compacted_revision(source) ? STATUS_REVISION_COMPACTED
                                                               : STATUS_OK;
}

/* As release 0.2 does: adds what a range may gather, and nothing for the work. The limit does not
 * count: it may cut only what was sorted. */
static enum status range_count(const struct txn_source *source, const struct range_request *range,
                               struct arena *arena, size_t *n_records) {
    if (range->count_only || range->range_end.size == 0) {
        return STATUS_OK;
    }
    if (range->revision <= 0) {
        *n_records += key_store_count(source->keys, source->space, range->key, range->range_end);
    } else {
        struct range_request counting = *range;
        struct range_outcome counted;
        struct key_work work = {.left = SIZE_MAX};
        counting.count_only = true;
        enum status status =
            key_store_range(source->keys, source->space, &counting, &work, arena, &counted);
        assert(status == STATUS_OK);
        *n_records += (size_t)counted.count;
    }
    return *n_records > TXN_RECORDS_MAX ? STATUS_REQUEST_TOO_LARGE : STATUS_OK;
}

/* A put of the transaction, which a later range shows. */
struct txn_written {
    const struct txn_written *before; /* or NULL */
    const struct put_request *put;
};

/* At most, how often a record is compared when as many are sorted as a transaction may read. */
enum { WRITTEN_COMPARED_TIMES = 20 };

static bool range_contains(const struct range_request *range, struct bytes key) {
    int order = bytes_compare(key, range->key);
    if (range->range_end.size == 0 || order < 0) {
        return order == 0;
    }
    bool is_open = range->range_end.size == 1 && range->range_end.data[0] == 0;
    return is_open || bytes_compare(key, range->range_end) < 0;
}

static size_t work_of_written(const struct range_request *range, const struct put_request *put) {
    size_t size = put->key.size + put->value.size;
    size_t sorted = range->target == SORT_BY_VALUE && range->range_end.size > 0
                        ? size / KEY_WORK_COMPARED_BYTES * WRITTEN_COMPARED_TIMES
                        : 0;
    return size / KEY_WORK_COPIED_BYTES + sorted;
}

/* What a range will find that is not there yet. */
static enum status range_spend_written(const struct range_request *range,
                                       const struct txn_written *written, struct key_work *work) {
    if (range->revision > 0 || range->count_only) {
        return STATUS_OK;
    }
    for (; written != NULL; written = written->before) {
        size_t units =
            range_contains(range, written->put->key) ? work_of_written(range, written->put) : 0;
        if (!key_work_spend(work, 1 + units)) {
            return STATUS_REQUEST_TOO_LARGE;
        }
    }
    return STATUS_OK;
}

/* Finds out what a range costs by carrying it out. One of the newest state is carried out once more
 * in its turn if something was changed before it, when it costs as much, and what was written; one
 * that names a revision could cost far more then, as soon as that is not the newest any more. */
static enum status range_spend(const struct txn_source *source, const struct operation *operations,
                               size_t n, size_t i, struct txn_path *path,
                               const struct txn_written *written, struct key_work *work,
                               struct arena *arena) {
    const struct range_request *range = &operations[i].range;
    if (path->ranges == NULL) {
        path->ranges = arena_calloc(arena, n, sizeof *path->ranges);
    }
    enum status status = source_range(source, range, work, arena, &path->ranges[i]);
    return status == STATUS_OK ? range_spend_written(range, written, work) : status;
}

/* In its turn. */
static void range_run(const struct txn_source *source, const struct range_request *range,
                      const struct txn_path *path, size_t i, struct arena *arena,
                      struct range_outcome *out_outcome) {
    if (path->ranges != NULL && (range->revision > 0 || !source_is_changed(source))) {
        *out_outcome = path->ranges[i];
        return;
    }
    struct key_work spent = {.left = SIZE_MAX}; /* it was counted before */
    enum status status = source_range(source, range, &spent, arena, out_outcome);
    assert(status == STATUS_OK);
}

/* What has been found out about a transaction before it is carried out. */
struct txn_cost {
    bool is_counted; /* its work, not only what it gathers */
    struct key_work work;
    size_t n_records;
    size_t n_deletes; /* keys, those that two operations name counted twice */
    const struct txn_written *written;
};

static struct txn_cost cost_of(bool is_counted) {
    return (struct txn_cost){.is_counted = is_counted,
                             .work = {.left = is_counted ? KEY_WORK_TXN_MAX : SIZE_MAX}};
}

static enum status put_spend(const struct txn_source *source, const struct put_request *put,
                             struct txn_cost *cost, struct arena *arena) {
    struct txn_written *written = arena_alloc(arena, sizeof *written);
    *written = (struct txn_written){.before = cost->written, .put = put};
    cost->written = written;
    return key_work_spend(&cost->work, put_copies(source, put)) ? STATUS_OK
                                                                : STATUS_REQUEST_TOO_LARGE;
}

static enum status path_check(const struct txn_source *source, const struct txn_request *request,
                              struct txn_path *path, struct txn_cost *cost, struct arena *arena) {
    const struct operation *operations;
    size_t n;
    enum status status = STATUS_OK;
    branch_of(request, path->succeeded, &operations, &n);
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        switch (operations[i].type) {
        case OPERATION_RANGE:
            status = range_check(source, &operations[i].range);
            if (status == STATUS_OK) {
                status = cost->is_counted
                             ? range_spend(source, operations, n, i, path, cost->written,
                                           &cost->work, arena)
                             : range_count(source, &operations[i].range, arena, &cost->n_records);
            }
            break;
        case OPERATION_PUT:
            status = put_check_key(source, &operations[i].put);
            if (status == STATUS_OK) {
                status = put_check_lease(source, &operations[i].put);
            }
            if (status == STATUS_OK && cost->is_counted) {
                status = put_spend(source, &operations[i].put, cost, arena);
            }
            break;
        case OPERATION_DELETE:
            cost->n_deletes += delete_count(source, &operations[i].delete);
            status = cost->is_counted && cost->n_deletes > KEY_DELETES_MAX
                         ? STATUS_TOO_MANY_KEYS
                         : delete_check(source, &operations[i].delete);
            if (status == STATUS_OK && cost->is_counted) {
                status = delete_spend(source, &operations[i].delete, &cost->work);
            }
            break;
        case OPERATION_TXN:
            status = path_check(source, &operations[i].txn, &path->nested[i], cost, arena);
            break;
        }
    }
    return status;
}

/* Decides the way and checks everything that can fail. */
static enum status path_prepare(const struct txn_source *source, const struct txn_request *request,
                                struct txn_cost *cost, struct arena *arena,
                                struct txn_path *out_path) {
    path_choose(source, request, &cost->work, arena, out_path);
    return cost->work.is_exceeded ? STATUS_REQUEST_TOO_LARGE
                                  : path_check(source, request, out_path, cost, arena);
}

static void path_run(const struct txn_target *target, const struct txn_request *request,
                     const struct txn_path *path, struct arena *arena,
                     struct txn_outcome *outcome) {
    const struct operation *operations;
    size_t n;
    branch_of(request, path->succeeded, &operations, &n);
    outcome->succeeded = path->succeeded;
    outcome->n_outcomes = n;
    outcome->outcomes = arena_calloc(arena, n, sizeof *outcome->outcomes);
    const struct txn_source source = source_of(target);
    for (size_t i = 0; i < n; i++) {
        struct operation_outcome *one = &outcome->outcomes[i];
        one->type = operations[i].type;
        switch (operations[i].type) {
        case OPERATION_RANGE:
            range_run(&source, &operations[i].range, path, i, arena, &one->range);
            break;
        case OPERATION_PUT:
            put_apply(target, &operations[i].put, &one->put);
            break;
        case OPERATION_DELETE:
            delete_apply(target, &operations[i].delete, arena, &one->delete);
            break;
        case OPERATION_TXN:
            path_run(target, &operations[i].txn, &path->nested[i], arena, &one->txn);
            break;
        }
        one->revision =
            key_store_revision(target->keys) + (key_store_is_changed(target->keys) ? 1 : 0);
    }
}

enum status txn_run(const struct txn_target *target, const struct txn_request *request,
                    struct arena *arena, struct txn_outcome *out_outcome) {
    const struct txn_source source = source_of(target);
    struct txn_cost cost = cost_of(target->is_counted);
    struct txn_path path;
    enum status status = path_prepare(&source, request, &cost, arena, &path);
    if (target->is_counted) {
        size_t n_deletes = status == STATUS_OK ? cost.n_deletes : 0;
        *target->work += KEY_WORK_TXN_MAX - cost.work.left + n_deletes * KEY_WORK_A_DELETE;
    }
    if (status == STATUS_OK) {
        key_store_begin(target->keys);
        path_run(target, request, &path, arena, out_outcome);
        key_store_end(target->keys);
    }
    return status;
}

static bool operations_are_read_only(const struct operation *operations, size_t n) {
    for (size_t i = 0; i < n; i++) {
        bool reads = operations[i].type == OPERATION_RANGE ||
                     (operations[i].type == OPERATION_TXN && txn_is_read_only(&operations[i].txn));
        if (!reads) {
            return false;
        }
    }
    return true;
}

bool txn_is_read_only(const struct txn_request *request) {
    return operations_are_read_only(request->success, request->n_success) &&
           operations_are_read_only(request->failure, request->n_failure);
}

static void path_read(const struct txn_source *source, const struct txn_request *request,
                      const struct txn_path *path, struct arena *arena,
                      struct txn_outcome *outcome) {
    const struct operation *operations;
    size_t n;
    branch_of(request, path->succeeded, &operations, &n);
    outcome->succeeded = path->succeeded;
    outcome->n_outcomes = n;
    outcome->outcomes = arena_calloc(arena, n, sizeof *outcome->outcomes);
    for (size_t i = 0; i < n; i++) {
        struct operation_outcome *one = &outcome->outcomes[i];
        one->type = operations[i].type;
        one->revision = source_revision(source);
        if (operations[i].type == OPERATION_TXN) {
            path_read(source, &operations[i].txn, &path->nested[i], arena, &one->txn);
            continue;
        }
        assert(operations[i].type == OPERATION_RANGE);
        range_run(source, &operations[i].range, path, i, arena, &one->range);
    }
}

static enum status read_source(const struct txn_source *source, const struct txn_request *request,
                               struct arena *arena, struct txn_outcome *out_outcome) {
    struct txn_cost cost = cost_of(true);
    struct txn_path path;
    enum status status = path_prepare(source, request, &cost, arena, &path);
    if (status == STATUS_OK) {
        path_read(source, request, &path, arena, out_outcome);
    }
    return status;
}

enum status txn_read(const struct key_store *keys, struct key_space_id space,
                     const struct txn_request *request, struct arena *arena,
                     struct txn_outcome *out_outcome) {
    const struct txn_source source = {.keys = keys, .space = space};
    return read_source(&source, request, arena, out_outcome);
}

enum status txn_read_view(const struct key_view *view, struct key_space_id space,
                          const struct txn_request *request, struct arena *arena,
                          struct txn_outcome *out_outcome) {
    const struct txn_source source = {.view = view, .space = space};
    return read_source(&source, request, arena, out_outcome);
}
