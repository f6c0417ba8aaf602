/*
 * What can be asked of the key store, alone or inside a transaction, and what it answers. The
 * shapes follow etcd's v3 model. Requests borrow all their bytes; outcomes point to records and
 * to arena memory, valid until the iteration of the loop ends.
 *
 * A range is [key, range_end). An empty range_end means the one key; a range_end of one zero byte
 * means every key from `key` on.
 */
#ifndef LEASED_CORE_OPERATION_H
#define LEASED_CORE_OPERATION_H

#include "base/bytes.h"
#include "core/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sort_order { SORT_NONE, SORT_ASCENDING, SORT_DESCENDING };
enum sort_target { SORT_BY_KEY, SORT_BY_VERSION, SORT_BY_CREATE, SORT_BY_MOD, SORT_BY_VALUE };

struct range_request {
    struct bytes key;
    struct bytes range_end;
    int64_t limit;    /* 0: none */
    int64_t revision; /* 0 or less: the newest */
    enum sort_order order;
    enum sort_target target;
    bool keys_only; /* for the encoder of the answer; the records carry their values */
    bool count_only;
    int64_t mod_revision_min; /* 0: no bound; likewise below */
    int64_t mod_revision_max;
    int64_t create_revision_min;
    int64_t create_revision_max;
};

struct range_outcome {
    int64_t count; /* keys in the range, whatever the limit and the revision bounds */
    bool more;     /* the limit cut keys off */
    size_t n_records;
    const struct record **records;
};

struct put_request {
    struct bytes key;
    struct bytes value;
    int64_t lease_id;
    bool want_previous;
    bool ignore_value; /* keep the value the key has; the key must exist */
    bool ignore_lease; /* keep the lease the key has; the key must exist */
};

struct put_outcome {
    const struct record *previous; /* NULL: there was none, or it was not wanted */
};

struct delete_request {
    struct bytes key;
    struct bytes range_end;
    bool want_previous;
};

struct delete_outcome {
    int64_t deleted;
    size_t n_previous; /* 0 unless wanted */
    const struct record **previous;
};

enum compare_result { COMPARE_EQUAL, COMPARE_GREATER, COMPARE_LESS, COMPARE_NOT_EQUAL };
enum compare_target { COMPARE_VERSION, COMPARE_CREATE, COMPARE_MOD, COMPARE_VALUE, COMPARE_LEASE };

/* Holds when every key of the range satisfies it. A missing key, or a range without any, compares
 * as version, revisions and lease 0; its value compares to nothing: that is false (as in etcd). */
struct compare {
    struct bytes key;
    struct bytes range_end;
    enum compare_result result;
    enum compare_target target;
    int64_t number;     /* for every target but the value */
    struct bytes value; /* for COMPARE_VALUE */
};

enum operation_type { OPERATION_RANGE, OPERATION_PUT, OPERATION_DELETE, OPERATION_TXN };

struct operation;

struct txn_request {
    size_t n_compares;
    struct compare *compares;
    size_t n_success;
    struct operation *success;
    size_t n_failure;
    struct operation *failure;
};

struct operation {
    enum operation_type type;
    union {
        struct range_request range;
        struct put_request put;
        struct delete_request delete;
        struct txn_request txn;
    };
};

struct operation_outcome;

struct txn_outcome {
    bool succeeded;
    size_t n_outcomes;
    struct operation_outcome *outcomes; /* one for each operation of the branch taken */
};

struct operation_outcome {
    enum operation_type type;
    int64_t revision; /* of the store when this operation ran */
    union {
        struct range_outcome range;
        struct put_outcome put;
        struct delete_outcome delete;
        struct txn_outcome txn;
    };
};

#endif
