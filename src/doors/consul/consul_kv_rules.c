/* Pure: run by every replica when the command is applied, with the same result. */
#include "core/cluster_version.h"
#include "core/key_work.h"
#include "doors/consul/consul_kv_work_rules.h"

/* --- The request. --- */

void consul_ops_encode(struct buffer *out, const struct consul_op *ops, size_t n) {
    buffer_put_varint(out, n);
    for (size_t i = 0; i < n; i++) {
        buffer_put_u8(out, ops[i].verb);
        buffer_put_bytes(out, ops[i].key);
        buffer_put_bytes(out, ops[i].value);
        buffer_put_varint(out, ops[i].flags);
        buffer_put_varint(out, ops[i].index);
        buffer_put_bytes(out, ops[i].session);
        buffer_put_bytes(out, ops[i].previous);
    }
}

static bool is_tree(const struct consul_op *op) {
    return op->verb == CONSUL_DELETE_TREE || op->verb == CONSUL_GET_TREE;
}

static bool is_valid(const struct consul_op *op) {
    bool names_session = op->verb == CONSUL_LOCK || op->verb == CONSUL_UNLOCK;
    return op->verb < CONSUL_VERBS && op->value.size <= CONSUL_VALUE_SIZE_MAX &&
           (consul_key_is_valid(op->key) || (is_tree(op) && op->key.size == 0)) &&
           (!names_session || op->session.size == 0 || consul_uuid_is_valid(op->session)) &&
           op->session.size <= CONSUL_TEXT_SIZE_MAX &&
           (op->previous.size == 0 || consul_uuid_is_valid(op->previous));
}

const struct consul_op *consul_ops_decode(struct reader *reader, struct arena *arena,
                                          size_t *out_n) {
    uint64_t n = reader_get_varint(reader);
    if (reader->failed || n > CONSUL_TXN_OPS_MAX) {
        return NULL;
    }
    struct consul_op *ops = arena_calloc(arena, n, sizeof *ops);
    for (size_t i = 0; i < n; i++) {
        ops[i].verb = reader_get_u8(reader);
        ops[i].key = reader_get_bytes(reader);
        ops[i].value = reader_get_bytes(reader);
        ops[i].flags = reader_get_varint(reader);
        ops[i].index = reader_get_varint(reader);
        ops[i].session = reader_get_bytes(reader);
        ops[i].previous = reader_get_bytes(reader);
        if (reader->failed || !is_valid(&ops[i])) {
            return NULL;
        }
    }
    *out_n = n;
    return ops;
}

/* --- Rights. --- */

static bool may_use_session(struct rule_run *run, struct bytes id) {
    struct consul_session session;
    if (!consul_work_session(run, id, &session)) {
        return true; /* that there is none is said later */
    }
    return consul_work_may_use(run, &session);
}

/* Of all operations before anything is read, so that only the rights decide. */
static bool may(struct rule_run *run, const struct consul_op *op) {
    struct arena *arena = rule_arena(run);
    struct key_range range =
        is_tree(op) ? consul_prefix_range(arena, op->key) : consul_key_range(arena, op->key);
    enum right right = op->verb < CONSUL_GET ? RIGHT_WRITE : RIGHT_READ;
    if (!rule_may(run, right, &range)) {
        return false;
    }
    return (op->verb != CONSUL_LOCK && op->verb != CONSUL_UNLOCK) ||
           may_use_session(run, op->session);
}

bool consul_ops_may(struct rule_run *run, const struct consul_op *ops, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!may(run, &ops[i])) {
            return false;
        }
    }
    return true;
}

/* --- The operations. --- */

struct answers {
    struct consul_work *work;
    struct buffer *entries;
    size_t n_entries;
    struct buffer failures;
    size_t n_failures;
    size_t op; /* the one that is done */
};

static void fail_with(struct answers *answers, enum consul_failure failure,
                      const struct consul_work_key *key) {
    buffer_put_varint(&answers->failures, answers->op);
    buffer_put_u8(&answers->failures, (uint8_t)failure);
    buffer_put_bytes(&answers->failures, key != NULL ? key->lock.session : bytes_of("", 0));
    buffer_put_zigzag(&answers->failures, key != NULL ? key->modify_index : 0);
    answers->n_failures++;
}

/* `key` NULL: there is none, and the answer says so. An answer that is too large already, and so
 * will be refused, does not grow any more: 128 operations may name one tree. The operations go on,
 * because one that fails is what the client is told instead. */
static void give(struct answers *answers, const struct consul_work_key *key, bool has_value) {
    struct buffer *out = answers->entries;
    if (out->size > RULE_ANSWER_SIZE_MAX) {
        return;
    }
    answers->n_entries++;
    buffer_put_varint(out, answers->op);
    buffer_put_u8(out, (uint8_t)((key == NULL ? 1 : 0) | (has_value ? 2 : 0)));
    if (key == NULL) {
        return;
    }
    buffer_put_bytes(out, key->name);
    buffer_put_varint(out, key->value.flags);
    buffer_put_bytes(out, has_value ? key->value.value : bytes_of("", 0));
    buffer_put_varint(out, key->lock.lock_index);
    buffer_put_bytes(out, key->lock.session);
    buffer_put_zigzag(out, key->create_index);
    buffer_put_zigzag(out, key->modify_index);
}

static void do_set(struct answers *answers, const struct consul_op *op,
                   struct consul_work_key *key) {
    consul_work_set(answers->work, key, op->flags, op->value);
    give(answers, key, false);
}

static void do_cas(struct answers *answers, const struct consul_op *op,
                   struct consul_work_key *key) {
    bool is_current =
        op->index == 0 ? !key->exists : key->exists && (uint64_t)key->modify_index == op->index;
    if (!is_current) {
        fail_with(answers, CONSUL_FAILED_STALE, key);
        return;
    }
    do_set(answers, op, key);
}

static bool is_delayed(struct rule_run *run, const struct consul_work_key *key,
                       const struct consul_op *op) {
    struct lease_facts ignored;
    return key->lock.delay_lease_id != 0 &&
           rule_lease_find(run, key->lock.delay_lease_id, &ignored) &&
           !(op->previous.size > 0 && bytes_equal(op->previous, key->lock.previous));
}

/* A session that has ended holds nothing, even where its end could not be noted in the key. */
static bool is_held(struct rule_run *run, const struct consul_work_key *key) {
    struct consul_session ignored;
    return key->lock.session.size > 0 && consul_work_session(run, key->lock.session, &ignored);
}

static void do_lock(struct answers *answers, const struct consul_op *op,
                    struct consul_work_key *key) {
    struct consul_work *work = answers->work;
    struct consul_session session;
    if (op->session.size == 0) {
        fail_with(answers, CONSUL_FAILED_SESSION_EMPTY, key);
        return;
    }
    if (!consul_work_session(work->run, op->session, &session)) {
        fail_with(answers, CONSUL_FAILED_NO_SESSION, key);
        return;
    }
    if (!bytes_equal(key->lock.session, op->session)) {
        if (is_held(work->run, key)) {
            fail_with(answers, CONSUL_FAILED_HELD, key);
            return;
        }
        if (is_delayed(work->run, key, op)) {
            fail_with(answers, CONSUL_FAILED_DELAYED, key);
            return;
        }
        if (!consul_work_lock(work, key, &session)) {
            fail_with(answers, CONSUL_FAILED_TOO_MANY_LOCKS, key);
            return;
        }
    }
    do_set(answers, op, key);
}

static void do_unlock(struct answers *answers, const struct consul_op *op,
                      struct consul_work_key *key) {
    if (op->session.size == 0) {
        fail_with(answers, CONSUL_FAILED_SESSION_EMPTY, key);
        return;
    }
    if (!key->exists || !bytes_equal(key->lock.session, op->session)) {
        fail_with(answers, CONSUL_FAILED_NOT_HELD, key);
        return;
    }
    consul_work_unlock(answers->work, key);
    do_set(answers, op, key);
}

static void do_delete_cas(struct answers *answers, const struct consul_op *op,
                          struct consul_work_key *key) {
    if (key->exists && (uint64_t)key->modify_index != op->index) {
        fail_with(answers, CONSUL_FAILED_STALE, key);
        return;
    }
    consul_work_delete(answers->work, key);
}

static void do_check(struct answers *answers, const struct consul_op *op,
                     struct consul_work_key *key) {
    if (!key->exists) {
        fail_with(answers, CONSUL_FAILED_MISSING, key);
    } else if (op->verb == CONSUL_CHECK_SESSION && !bytes_equal(key->lock.session, op->session)) {
        fail_with(answers, CONSUL_FAILED_SESSION, key);
    } else if (op->verb == CONSUL_CHECK_INDEX && (uint64_t)key->modify_index != op->index) {
        fail_with(answers, CONSUL_FAILED_INDEX, key);
    } else {
        give(answers, key, op->verb == CONSUL_GET);
    }
}

static void do_tree(struct answers *answers, const struct consul_op *op) {
    size_t n = 0;
    struct consul_work_key *const *keys = consul_work_tree(answers->work, op->key, &n);
    for (size_t i = 0; i < n; i++) {
        if (op->verb == CONSUL_DELETE_TREE) {
            consul_work_delete(answers->work, keys[i]);
        } else {
            give(answers, keys[i], true);
        }
    }
}

static void do_op(struct answers *answers, const struct consul_op *op) {
    struct consul_work_key *key = is_tree(op) ? NULL : consul_work_key(answers->work, op->key);
    switch (op->verb) {
    case CONSUL_SET:
        do_set(answers, op, key);
        break;
    case CONSUL_CAS:
        do_cas(answers, op, key);
        break;
    case CONSUL_LOCK:
        do_lock(answers, op, key);
        break;
    case CONSUL_UNLOCK:
        do_unlock(answers, op, key);
        break;
    case CONSUL_DELETE:
        consul_work_delete(answers->work, key);
        break;
    case CONSUL_DELETE_CAS:
        do_delete_cas(answers, op, key);
        break;
    case CONSUL_GET_OR_EMPTY:
        give(answers, key->exists ? key : NULL, true);
        break;
    case CONSUL_CHECK_NOT_EXISTS:
        if (key->exists) {
            fail_with(answers, CONSUL_FAILED_EXISTS, key);
        }
        break;
    case CONSUL_DELETE_TREE:
    case CONSUL_GET_TREE:
        do_tree(answers, op);
        break;
    default:
        do_check(answers, op, key);
        break;
    }
}

bool consul_ops_try(struct consul_work *work, const struct consul_op *ops, size_t n,
                    struct buffer *answer) {
    struct buffer entries;
    struct answers answers = {.work = work, .entries = &entries};
    buffer_init(&entries);
    buffer_init(&answers.failures);
    for (size_t i = 0; i < n; i++) {
        answers.op = i;
        do_op(&answers, &ops[i]);
    }
    const struct buffer *shown = answers.n_failures > 0 ? &answers.failures : &entries;
    buffer_put_u8(answer, answers.n_failures > 0);
    buffer_put_varint(answer, answers.n_failures > 0 ? answers.n_failures : answers.n_entries);
    buffer_append(answer, shown->data, shown->size);
    buffer_clear(&answers.failures);
    buffer_clear(&entries);
    return answers.n_failures == 0;
}

static enum status run_kv(struct rule_run *run, struct bytes request, struct buffer *answer) {
    struct consul_work work;
    struct reader reader;
    size_t n = 0;
    reader_init(&reader, request);
    const struct consul_op *ops = consul_ops_decode(&reader, rule_arena(run), &n);
    if (ops == NULL || n == 0 || reader_left(&reader) != 0) {
        return STATUS_MALFORMED;
    }
    if (!consul_ops_may(run, ops, n)) {
        return STATUS_PERMISSION_DENIED;
    }
    rule_act_for_server(run);
    consul_work_init(&work, run);
    if (consul_ops_try(&work, ops, n, answer)) {
        consul_work_store(&work);
    }
    return STATUS_OK;
}

/* What an operation may cost, and a key of a tree: its two records are found, decoded and kept for
 * the run, which looks at no more than its bound. */
enum { WORK_OF_OPERATION = 4 * KEY_WORK_A_VERSION, WORK_OF_TREE_RECORD = 2 * KEY_WORK_A_DELETE };

static size_t work_of_tree(const struct key_store *keys, struct bytes prefix) {
    struct arena arena;
    arena_init(&arena);
    struct key_range range = consul_prefix_range(&arena, prefix);
    size_t n = key_store_count(keys, range.space, range.key, range.range_end);
    arena_clear(&arena);
    return WORK_OF_TREE_RECORD * (n < RULE_RECORDS_MAX ? n : RULE_RECORDS_MAX);
}

size_t consul_ops_estimate(const struct key_store *keys, struct reader *reader) {
    uint64_t n = reader_get_varint(reader);
    size_t trees = 0;
    size_t i = 0;
    for (; i < n && i < CONSUL_TXN_OPS_MAX && !reader->failed; i++) {
        struct consul_op op = {.verb = reader_get_u8(reader), .key = reader_get_bytes(reader)};
        (void)reader_get_bytes(reader);
        (void)reader_get_varint(reader);
        (void)reader_get_varint(reader);
        (void)reader_get_bytes(reader);
        (void)reader_get_bytes(reader);
        if (!reader->failed && is_tree(&op) && trees < WORK_OF_TREE_RECORD * RULE_RECORDS_MAX) {
            trees += work_of_tree(keys, op.key);
        }
    }
    return i * WORK_OF_OPERATION + trees;
}

static size_t estimate_kv(const struct key_store *keys, const struct lease_table *leases,
                          struct bytes request) {
    struct reader reader;
    (void)leases;
    reader_init(&reader, request);
    return consul_ops_estimate(keys, &reader);
}

const struct rule consul_rule_kv = {.number = CONSUL_RULE_KV,
                                    .name = "consul_kv",
                                    .since_version = CLUSTER_VERSION_RULES,
                                    .spaces = {KEY_SPACE_CONSUL, KEY_SPACE_CONSUL_RECORDS},
                                    .run = run_kv,
                                    .estimate = estimate_kv};

/* --- The answer. --- */

static void decode_failure(struct reader *reader, struct consul_result *out) {
    out->op = reader_get_varint(reader);
    out->failure = reader_get_u8(reader);
    out->entry.lock.session = reader_get_bytes(reader);
    out->entry.modify_index = reader_get_zigzag(reader);
}

static void decode_entry(struct reader *reader, struct consul_result *out) {
    out->op = reader_get_varint(reader);
    uint8_t bits = reader_get_u8(reader);
    out->is_null = (bits & 1) != 0;
    out->has_value = (bits & 2) != 0;
    if (out->is_null) {
        return;
    }
    out->entry.key = reader_get_bytes(reader);
    out->entry.value.flags = reader_get_varint(reader);
    out->entry.value.value = reader_get_bytes(reader);
    out->entry.lock.lock_index = reader_get_varint(reader);
    out->entry.lock.session = reader_get_bytes(reader);
    out->entry.create_index = reader_get_zigzag(reader);
    out->entry.modify_index = reader_get_zigzag(reader);
}

bool consul_results_decode(struct bytes answer, struct arena *arena,
                           struct consul_results *out_results) {
    struct reader reader;
    reader_init(&reader, answer);
    out_results->is_failed = reader_get_u8(&reader) != 0;
    uint64_t n = reader_get_varint(&reader);
    if (n > answer.size) {
        return false;
    }
    struct consul_result *results = arena_calloc(arena, n, sizeof *results);
    for (size_t i = 0; i < n; i++) {
        (out_results->is_failed ? decode_failure : decode_entry)(&reader, &results[i]);
    }
    out_results->n = n;
    out_results->results = results;
    return !reader.failed && reader_left(&reader) == 0;
}
