/* What must never reach the log, refused before it is proposed. The rules are etcd's, so that its
 * clients see the errors they know. */
#include "base/arena.h"
#include "core/cluster_version.h"
#include "core/command.h"
#include "core/rule.h"

#include <stdlib.h>

static bool range_covers(struct bytes key, struct bytes range_end, struct bytes candidate) {
    if (range_end.size == 0) {
        return bytes_equal(key, candidate);
    }
    if (bytes_compare(candidate, key) < 0) {
        return false;
    }
    bool to_the_end = range_end.size == 1 && range_end.data[0] == 0;
    return to_the_end || bytes_compare(candidate, range_end) < 0;
}

static enum status check_put(const struct put_request *put) {
    if (put->key.size == 0) {
        return STATUS_KEY_EMPTY;
    }
    if (put->ignore_value && put->value.size != 0) {
        return STATUS_VALUE_PROVIDED;
    }
    if (put->ignore_lease && put->lease_id != 0) {
        return STATUS_LEASE_PROVIDED;
    }
    return STATUS_OK;
}

/* Keys that a branch writes and ranges that it deletes. In one branch no key may be written twice,
 * nor written and deleted: the order within a revision would be in doubt. The branches of a
 * nested transaction exclude each other, so they may repeat each other but not what stands
 * outside. One exception is etcd's: what a nested transaction puts, a later one beside it may
 * delete. */
struct write_set {
    size_t n_puts;
    struct bytes *puts;
    size_t n_deletes;
    const struct delete_request **deletes;
};

static int compare_keys(const void *a, const void *b) {
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

static void write_set_add(struct arena *arena, struct write_set *to, const struct write_set *from) {
    struct bytes *puts = arena_alloc(arena, (to->n_puts + from->n_puts) * sizeof *puts);
    const struct delete_request **deletes =
        arena_alloc(arena, (to->n_deletes + from->n_deletes) * sizeof *deletes);
    for (size_t i = 0; i < to->n_puts + from->n_puts; i++) {
        puts[i] = i < to->n_puts ? to->puts[i] : from->puts[i - to->n_puts];
    }
    for (size_t i = 0; i < to->n_deletes + from->n_deletes; i++) {
        deletes[i] = i < to->n_deletes ? to->deletes[i] : from->deletes[i - to->n_deletes];
    }
    *to = (struct write_set){to->n_puts + from->n_puts, puts, to->n_deletes + from->n_deletes,
                             deletes};
}

static bool puts_are_deleted(const struct write_set *puts, const struct write_set *deletes) {
    for (size_t i = 0; i < puts->n_puts; i++) {
        for (size_t j = 0; j < deletes->n_deletes; j++) {
            const struct delete_request *delete = deletes->deletes[j];
            if (range_covers(delete->key, delete->range_end, puts->puts[i])) {
                return true;
            }
        }
    }
    return false;
}

static bool puts_are_repeated(const struct write_set *a, const struct write_set *b) {
    for (size_t i = 0; i < a->n_puts && b->n_puts > 0; i++) {
        /* Both lists of keys are sorted. */
        if (bsearch(&a->puts[i], b->puts, b->n_puts, sizeof *b->puts, compare_keys) != NULL) {
            return true;
        }
    }
    return false;
}

static bool write_sets_clash(const struct write_set *a, const struct write_set *b) {
    return puts_are_repeated(a, b) || puts_are_deleted(a, b) || puts_are_deleted(b, a);
}

/* What is being looked for, and the memory for it. */
struct write_check {
    struct arena *arena;
    bool is_strict; /* without the exception for nested transactions */
};

static enum status check_branch(const struct write_check *check, const struct operation *operations,
                                size_t n, struct write_set *out_set);

static enum status check_nested_writes(const struct write_check *check,
                                       const struct txn_request *txn, struct write_set *out_set) {
    struct write_set success;
    struct write_set failure;
    enum status status = check_branch(check, txn->success, txn->n_success, &success);
    if (status == STATUS_OK) {
        status = check_branch(check, txn->failure, txn->n_failure, &failure);
    }
    if (status == STATUS_OK) {
        write_set_add(check->arena, &success, &failure);
        qsort(success.puts, success.n_puts, sizeof *success.puts, compare_keys);
        *out_set = success;
    }
    return status;
}

static void write_set_extend(const struct write_check *check, struct write_set *set,
                             const struct write_set *more) {
    write_set_add(check->arena, set, more);
    qsort(set->puts, set->n_puts, sizeof *set->puts, compare_keys);
}

static bool nested_clash(const struct write_check *check, const struct write_set *earlier,
                         const struct write_set *later) {
    return puts_are_repeated(earlier, later) || puts_are_deleted(later, earlier) ||
           (check->is_strict && puts_are_deleted(earlier, later));
}

static enum status check_branch(const struct write_check *check, const struct operation *operations,
                                size_t n, struct write_set *out_set) {
    struct write_set own = {0};
    struct write_set nested = {0};
    for (size_t i = 0; i < n; i++) {
        struct write_set one = {0};
        struct bytes key;
        const struct delete_request *delete = &operations[i].delete;
        bool is_nested = operations[i].type == OPERATION_TXN;
        if (operations[i].type == OPERATION_PUT) {
            key = operations[i].put.key;
            one = (struct write_set){.n_puts = 1, .puts = &key};
        } else if (operations[i].type == OPERATION_DELETE) {
            one = (struct write_set){.n_deletes = 1, .deletes = &delete};
        } else if (is_nested) {
            enum status status = check_nested_writes(check, &operations[i].txn, &one);
            if (status != STATUS_OK) {
                return status;
            }
        }
        if (write_sets_clash(&own, &one) ||
            (is_nested ? nested_clash(check, &nested, &one) : write_sets_clash(&nested, &one))) {
            return STATUS_KEY_DUPLICATE;
        }
        write_set_extend(check, is_nested ? &nested : &own, &one);
    }
    write_set_extend(check, &own, &nested);
    *out_set = own;
    return STATUS_OK;
}

static enum status check_writes(const struct txn_request *txn, bool is_strict) {
    struct arena arena;
    arena_init(&arena);
    const struct write_check check = {.arena = &arena, .is_strict = is_strict};
    struct write_set ignored;
    enum status status = check_branch(&check, txn->success, txn->n_success, &ignored);
    if (status == STATUS_OK) {
        status = check_branch(&check, txn->failure, txn->n_failure, &ignored);
    }
    arena_clear(&arena);
    return status;
}

/* How much of a transaction has been seen, nested ones included. */
struct txn_budget {
    unsigned depth;
    size_t total;
};

static enum status check_operations(const struct operation *operations, size_t n, size_t list_max,
                                    struct txn_budget *budget);

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* As in etcd, a nested transaction's lists may be as long as the outer lists left room for. */
static enum status check_shape(const struct txn_request *txn, size_t list_max,
                               struct txn_budget *budget) {
    size_t longest = larger(txn->n_compares, larger(txn->n_success, txn->n_failure));
    budget->total += txn->n_compares + txn->n_success + txn->n_failure;
    if (longest > list_max || budget->depth >= COMMAND_TXN_DEPTH_MAX ||
        budget->total > COMMAND_TXN_TOTAL_MAX) {
        return STATUS_TOO_MANY_OPERATIONS;
    }
    for (size_t i = 0; i < txn->n_compares; i++) {
        if (txn->compares[i].key.size == 0) {
            return STATUS_KEY_EMPTY;
        }
    }
    budget->depth++;
    enum status status = check_operations(txn->success, txn->n_success, list_max - longest, budget);
    if (status == STATUS_OK) {
        status = check_operations(txn->failure, txn->n_failure, list_max - longest, budget);
    }
    budget->depth--;
    return status;
}

static enum status check_operations(const struct operation *operations, size_t n, size_t list_max,
                                    struct txn_budget *budget) {
    for (size_t i = 0; i < n; i++) {
        enum status status = STATUS_OK;
        switch (operations[i].type) {
        case OPERATION_RANGE:
            status = operations[i].range.key.size == 0 ? STATUS_KEY_EMPTY : STATUS_OK;
            break;
        case OPERATION_PUT:
            status = check_put(&operations[i].put);
            break;
        case OPERATION_DELETE:
            status = operations[i].delete.key.size == 0 ? STATUS_KEY_EMPTY : STATUS_OK;
            break;
        case OPERATION_TXN:
            status = check_shape(&operations[i].txn, list_max, budget);
            break;
        }
        if (status != STATUS_OK) {
            return status;
        }
    }
    return STATUS_OK;
}

static enum status check_txn(const struct txn_request *txn) {
    struct txn_budget budget = {0};
    enum status status = check_shape(txn, COMMAND_TXN_OPERATIONS_MAX, &budget);
    return status == STATUS_OK ? check_writes(txn, false) : status;
}

static enum status check_members(const struct member_facts *members, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!member_facts_are_good(&members[i])) {
            return STATUS_INVALID;
        }
    }
    return n > 0 && n <= MEMBERS_MAX ? STATUS_OK : STATUS_INVALID;
}

bool command_is_of_first_version(const struct command *command) {
    return command->type != COMMAND_TXN || check_writes(&command->txn, true) == STATUS_OK;
}

uint32_t command_since_version(enum command_type type) {
    return type <= COMMAND_MEMBER || type == COMMAND_CLUSTER_VERSION ? CLUSTER_VERSION_FIRST
                                                                     : CLUSTER_VERSION_RULES;
}

enum status command_check(const struct command *command) {
    switch (command->type) {
    case COMMAND_PUT:
        return check_put(&command->put);
    case COMMAND_DELETE:
        return command->delete.key.size == 0 ? STATUS_KEY_EMPTY : STATUS_OK;
    case COMMAND_TXN:
        return check_txn(&command->txn);
    case COMMAND_LEASE_GRANT:
        return lease_ttl_check(command->grant.ttl_ms);
    case COMMAND_LEASE_SET_TTL:
        return lease_ttl_check(command->set_ttl.ttl_ms);
    case COMMAND_ALARM:
        return command->alarm.alarm > ALARM_CORRUPT ? STATUS_INVALID : STATUS_OK;
    case COMMAND_MEMBERS_BEGIN:
        return check_members(command->members_begin.members, command->members_begin.n);
    case COMMAND_MEMBER:
        return check_members(command->member.facts, 1);
    case COMMAND_AS:
        return command->as.command->type == COMMAND_AS ? STATUS_INVALID
                                                       : command_check(command->as.command);
    case COMMAND_AUTH:
        return auth_change_check(&command->auth);
    case COMMAND_COMPACT:
    case COMMAND_LEASE_REVOKE:
    case COMMAND_LEASE_EXPIRE:
    case COMMAND_LEASE_CHECKPOINT:
    case COMMAND_BARRIER:
        return STATUS_OK;
    case COMMAND_RULE:
        if (command->rule.number == 0) {
            return STATUS_INVALID;
        }
        return command->rule.request.size > RULE_REQUEST_SIZE_MAX ? STATUS_REQUEST_TOO_LARGE
                                                                  : STATUS_OK;
    case COMMAND_CLUSTER_VERSION:
        /* One that this release does not know is for applying to meet: see state_machine_knows. */
        return command->cluster_version.version > CLUSTER_VERSION_FIRST ? STATUS_OK
                                                                        : STATUS_INVALID;
    }
    return STATUS_INVALID;
}
