/*
 * The keys that one run of the rule for keys concerns, in memory: operations see what earlier ones
 * of the same transaction did, and nothing is written before all of them have succeeded.
 */
#ifndef LEASED_DOORS_CONSUL_CONSUL_KV_WORK_RULES_H
#define LEASED_DOORS_CONSUL_CONSUL_KV_WORK_RULES_H

#include "doors/consul/consul_keys.h"
#include "doors/consul/consul_rules.h"

struct consul_work_key {
    struct bytes name;
    bool exists;
    struct consul_value value;
    struct consul_lock lock;
    int64_t create_index;
    int64_t modify_index;
    /* Since it was read. */
    bool value_changed;
    bool lock_changed;
    bool was_deleted; /* it may exist again: another one, with another create_index */
    bool was_there;
    bool had_lock;
    struct bytes held_before; /* the session that held it */
};

/* What the operations at the reader may be in work, before they are run: by the trees that they
 * name. The reader is behind them, or has failed. */
size_t consul_ops_estimate(const struct key_store *keys, struct reader *reader);

struct consul_work {
    struct rule_run *run;
    struct consul_work_key **keys; /* in the order in which they were asked for, and are written */
    struct consul_work_key **by_name; /* the same */
    size_t n_keys;
    size_t capacity; /* of both */
};

void consul_work_init(struct consul_work *work, struct rule_run *run);
/* Never NULL: one that does not exist says so. */
struct consul_work_key *consul_work_key(struct consul_work *work, struct bytes name);
/* Those that exist and begin so, in order, in arena memory. */
struct consul_work_key *const *consul_work_tree(struct consul_work *work, struct bytes prefix,
                                                size_t *out_n);
/* Writing what is there already changes nothing, as in Consul. */
void consul_work_set(struct consul_work *work, struct consul_work_key *key, uint64_t flags,
                     struct bytes value);
/* False: the session has as many locks as it may, or the key is too long to be locked. */
bool consul_work_lock(struct consul_work *work, struct consul_work_key *key,
                      const struct consul_session *session);
void consul_work_unlock(struct consul_work *work, struct consul_work_key *key);
/* A lock-delay lasts on. */
void consul_work_delete(struct consul_work *work, struct consul_work_key *key);
/* Writes what was changed. */
void consul_work_store(struct consul_work *work);

/* Operations on keys, for both rules that do them. NULL: they are malformed. In arena memory. */
const struct consul_op *consul_ops_decode(struct reader *reader, struct arena *arena,
                                          size_t *out_n);
/* The rights to all of them; if not, the run is refused. */
bool consul_ops_may(struct rule_run *run, const struct consul_op *ops, size_t n);
/* Does them in memory and writes the answer (struct consul_results). False: one has failed, and
 * nothing may be stored. */
bool consul_ops_try(struct consul_work *work, const struct consul_op *ops, size_t n,
                    struct buffer *answer);

/* Sessions, for all rules. */
bool consul_work_session(struct rule_run *run, struct bytes id, struct consul_session *out_session);
/* Whether the caller may use it; if not, the run is refused. */
bool consul_work_may_use(struct rule_run *run, const struct consul_session *session);

#endif
