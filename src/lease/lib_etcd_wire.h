/* The few messages of etcd's API that locks and elections need: transactions, ranges, watches. */
#ifndef LEASED_LEASE_LIB_ETCD_WIRE_H
#define LEASED_LEASE_LIB_ETCD_WIRE_H

#include "base/arena.h"
#include "lease/lib_connection.h"

enum { LIB_ETCD_SORT_ASCEND = 1, LIB_ETCD_SORT_DESCEND = 2 };

struct lib_etcd_range {
    struct bytes key;
    struct bytes end; /* empty: the key alone */
    int64_t limit;
    int order; /* by create revision; 0: none */
    bool is_by_mod_revision;
    bool keys_only;
    int64_t create_revision_max; /* 0: none */
};

struct lib_etcd_key {
    struct bytes key;
    struct bytes value;
    int64_t create_revision;
    int64_t mod_revision;
    int64_t lease;
};

struct lib_etcd_keys {
    struct lib_etcd_key *items;
    size_t n_items;
    int64_t count; /* in the range, whatever the limit */
};

void lib_etcd_encode_range(const struct lib_etcd_range *range, struct buffer *out_message);

/* A transaction is built in this order: a condition, then operations. */
struct lib_etcd_txn {
    struct buffer message;
};
/* The key's create revision is this; 0: there is no such key. */
void lib_etcd_txn_if_created(struct lib_etcd_txn *txn, struct bytes key, int64_t revision);
/* Value(key) < value; a key that is not there is not less. */
void lib_etcd_txn_if_less(struct lib_etcd_txn *txn, struct bytes key, struct bytes value);
enum lib_etcd_branch { LIB_ETCD_THEN = 2, LIB_ETCD_ELSE = 3 };
void lib_etcd_txn_range(struct lib_etcd_txn *txn, enum lib_etcd_branch branch,
                        const struct lib_etcd_range *range);
void lib_etcd_txn_put(struct lib_etcd_txn *txn, enum lib_etcd_branch branch, struct bytes key,
                      struct bytes value, int64_t lease);
void lib_etcd_txn_delete(struct lib_etcd_txn *txn, enum lib_etcd_branch branch, struct bytes key);
/* A transaction in a transaction; `inner` is used up. */
void lib_etcd_txn_nest(struct lib_etcd_txn *txn, enum lib_etcd_branch branch,
                       struct lib_etcd_txn *inner);
/* Moves it into a request. */
void lib_etcd_txn_finish(struct lib_etcd_txn *txn, bool is_repeatable,
                         struct lib_request *out_request);

/* Deletes a key that nobody makes again, so it may be repeated. */
void lib_etcd_encode_removal(const char *key, struct lib_request *out_request);

enum { LIB_ETCD_RESPONSES_MAX = 4 };
struct lib_etcd_outcome {
    int64_t revision;
    bool succeeded;
    size_t n_responses;
    struct lib_etcd_keys ranges[LIB_ETCD_RESPONSES_MAX]; /* of ranges; empty for others */
    bool inner_succeeded;                                /* of the first nested one */
    struct lib_etcd_keys inner_range;                    /* its first range */
};
/* Keys are views into the message, arrays in the arena. False: malformed. */
bool lib_etcd_decode_txn(struct arena *arena, struct bytes message, struct lib_etcd_outcome *out);
bool lib_etcd_decode_range(struct arena *arena, struct bytes message, struct lib_etcd_keys *out,
                           int64_t *out_revision);

void lib_etcd_encode_watch(struct bytes key, struct bytes end, int64_t start_revision,
                           bool deletes_only, struct buffer *out_message);
struct lib_etcd_event {
    bool is_canceled;
    bool has_events;
    bool has_delete;
};
bool lib_etcd_decode_watch(struct bytes message, struct lib_etcd_event *out);
/* Each event of an answer, in order; keys are views into the message. False: malformed, and some
 * may have been given. */
typedef void lib_etcd_take_event(void *context, bool is_delete, const struct lib_etcd_key *key);
bool lib_etcd_each_event(struct bytes message, lib_etcd_take_event *take, void *context);

#endif
