#include "core/auth_command.h"

#include "core/auth_ranges.h"
#include "core/lease_checks.h"
#include "core/reserved_keys.h"

static enum status check_key(const struct auth *auth, const struct caller *caller, enum right right,
                             struct key_space_id space, struct bytes key, struct bytes range_end) {
    const struct key_range range = {.space = space, .key = key, .range_end = range_end};
    return auth_check_range(auth, caller, right, &range);
}

/* No key is empty, so that this is all of them, however its owner was given the right. */
static enum status check_whole_space(const struct auth *auth, const struct caller *caller,
                                     enum right right, struct key_space_id space) {
    static const uint8_t zero[1] = {0};
    return check_key(auth, caller, right, space, bytes_of(zero, 1), bytes_of(zero, 1));
}

/* --- Leases. --- */

/* Keys that core or a door keeps for itself: no user has a right to them, and none needs one. */
static bool is_internal(struct key_space_id space) {
    return key_space_equal(space, KEY_SPACE_LEASE_HOOKS) ||
           key_space_equal(space, KEY_SPACE_AUTH) || key_space_is_of_records(space);
}

/* False when there are too many. Whether there are does not depend on the order in which a replica
 * lists them. */
static bool count_keys(const struct lease_table *leases, const int64_t *ids, size_t n,
                       struct auth_lease_checks *checks) {
    for (size_t i = 0; i < n; i++) {
        for (const struct record *record = lease_table_first_key(leases, ids[i]); record != NULL;
             record = record->lease_next) {
            if (checks->n_keys == AUTH_LEASE_KEYS_MAX) {
                return false;
            }
            checks->n_keys++;
        }
    }
    return true;
}

/* What mirrors an instance of the registry is written by rules alone: the right to the instance,
 * whose key is attached to the same lease, is enough. */
static bool is_mirror(const struct lease_table *leases, int64_t lease_id,
                      const struct key_range *range) {
    return reserved_keys_has(range->space, range->key) &&
           !lease_table_is_of(leases, lease_id, KEY_SPACE_ETCD);
}

/* Of the first `n` keys. */
static bool may_use_keys(const struct auth_ranges *ranges, const struct lease_table *leases,
                         int64_t lease_id, enum right right, size_t n) {
    bool is_allowed = true;
    const struct record *record = lease_table_first_key(leases, lease_id);
    for (size_t i = 0; i < n && record != NULL && is_allowed; i++, record = record->lease_next) {
        const struct key_range range = {.space = record_space(record), .key = record_key(record)};
        is_allowed = is_internal(range.space) || is_mirror(leases, lease_id, &range) ||
                     auth_ranges_cover(ranges, right, &range);
    }
    return is_allowed;
}

/* Of a caller that is known and does not have the role "root". */
static enum status check_leases(const struct auth *auth, const struct lease_table *leases,
                                const struct caller *caller, enum right right, const int64_t *ids,
                                size_t n, struct auth_lease_checks *checks) {
    struct lease_facts facts;
    /* The first may not exist, or be alone and not have been looked for. */
    if (!lease_table_find(leases, ids[0], &facts)) {
        return STATUS_OK;
    }
    if (n > LEASE_FAMILY_MAX || !count_keys(leases, ids, n, checks)) {
        return check_whole_space(auth, caller, right, facts.owner);
    }
    const struct auth_ranges *ranges = auth_ranges_of(auth, caller);
    bool is_allowed = true;
    for (size_t i = 0; i < n && is_allowed; i++) {
        is_allowed = may_use_keys(ranges, leases, ids[i], right, SIZE_MAX);
    }
    return is_allowed ? STATUS_OK : STATUS_PERMISSION_DENIED;
}

/* The right to write the keys of one lease. What was found before is not looked at again, however
 * many keys there are; the answer is that of check_leases(). */
static enum status check_written_lease(const struct auth *auth, struct lease_table *leases,
                                       const struct caller *caller, int64_t lease_id,
                                       struct auth_lease_checks *checks) {
    struct lease_check *known = lease_table_check(leases, lease_id);
    bool is_known = known->lease_id == lease_id && lease_id != 0 &&
                    known->user_id == caller->user_id &&
                    known->auth_version == caller->auth_version &&
                    known->auth_generation == auth_generation(auth);
    size_t n_before = checks->n_keys;
    if (is_known && known->n_keys <= AUTH_LEASE_KEYS_MAX - n_before) {
        checks->n_keys += known->n_keys;
        if (!may_use_keys(auth_ranges_of(auth, caller), leases, lease_id, RIGHT_WRITE,
                          known->n_new)) {
            return STATUS_PERMISSION_DENIED;
        }
        known->n_new = 0;
        return STATUS_OK;
    }
    enum status status = check_leases(auth, leases, caller, RIGHT_WRITE, &lease_id, 1, checks);
    /* More keys than may be counted were not looked at one by one. */
    struct lease_facts facts;
    if (status == STATUS_OK && checks->n_keys < AUTH_LEASE_KEYS_MAX &&
        lease_table_find(leases, lease_id, &facts)) {
        *known = (struct lease_check){.lease_id = lease_id,
                                      .user_id = caller->user_id,
                                      .auth_version = caller->auth_version,
                                      .auth_generation = auth_generation(auth),
                                      .n_keys = checks->n_keys - n_before};
    }
    return status;
}

enum status auth_check_lease(const struct auth *auth, struct lease_table *leases,
                             const struct caller *caller, int64_t lease_id, enum right right) {
    struct auth_lease_checks checks = {0};
    enum status status = auth_check_admin(auth, caller);
    if (status != STATUS_PERMISSION_DENIED) {
        return status;
    }
    return right == RIGHT_WRITE ? check_written_lease(auth, leases, caller, lease_id, &checks)
                                : check_leases(auth, leases, caller, right, &lease_id, 1, &checks);
}

enum status auth_check_lease_use(const struct auth *auth, struct lease_table *leases,
                                 const struct caller *caller, int64_t lease_id,
                                 struct auth_lease_checks *checks) {
    for (size_t i = 0; i < checks->n_allowed; i++) {
        if (checks->allowed[i] == lease_id) {
            return STATUS_OK;
        }
    }
    enum status status = auth_check_admin(auth, caller);
    if (status == STATUS_PERMISSION_DENIED) {
        status = check_written_lease(auth, leases, caller, lease_id, checks);
    }
    if (status == STATUS_OK && checks->n_allowed < AUTH_LEASES_REMEMBERED) {
        checks->allowed[checks->n_allowed++] = lease_id;
    }
    return status;
}

enum status auth_check_lease_end(const struct auth *auth, struct lease_table *leases,
                                 const struct caller *caller, int64_t lease_id,
                                 struct auth_lease_checks *checks) {
    int64_t ids[LEASE_FAMILY_MAX];
    enum status status = auth_check_admin(auth, caller);
    if (status != STATUS_PERMISSION_DENIED) {
        return status;
    }
    ids[0] = lease_id;
    size_t n = lease_table_family(leases, lease_id, ids);
    return n == 0 ? STATUS_OK : check_leases(auth, leases, caller, RIGHT_WRITE, ids, n, checks);
}

/* --- Commands. --- */

/* What is asked of one command. */
struct asked {
    const struct auth *auth;
    struct lease_table *leases;
    const struct caller *caller;
    struct auth_lease_checks checks;
};

static enum status check_put(struct asked *asked, const struct put_request *put) {
    enum right right = put->want_previous ? RIGHT_READ_WRITE : RIGHT_WRITE;
    enum status status =
        check_key(asked->auth, asked->caller, right, KEY_SPACE_ETCD, put->key, bytes_of(NULL, 0));
    /* Who attaches a key to a lease must be able to renew it. */
    return status == STATUS_OK && put->lease_id != 0
               ? auth_check_lease_use(asked->auth, asked->leases, asked->caller, put->lease_id,
                                      &asked->checks)
               : status;
}

static enum status check_delete(const struct auth *auth, const struct caller *caller,
                                const struct delete_request *delete) {
    return check_key(auth, caller, delete->want_previous ? RIGHT_READ_WRITE : RIGHT_WRITE,
                     KEY_SPACE_ETCD, delete->key, delete->range_end);
}

static enum status check_txn(struct asked *asked, const struct txn_request *txn);

static enum status check_read(const struct asked *asked, struct bytes key, struct bytes range_end) {
    return check_key(asked->auth, asked->caller, RIGHT_READ, KEY_SPACE_ETCD, key, range_end);
}

static enum status check_operations(struct asked *asked, const struct operation *operations,
                                    size_t n) {
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        const struct operation *operation = &operations[i];
        switch (operation->type) {
        case OPERATION_RANGE:
            status = check_read(asked, operation->range.key, operation->range.range_end);
            break;
        case OPERATION_PUT:
            status = check_put(asked, &operation->put);
            break;
        case OPERATION_DELETE:
            status = check_delete(asked->auth, asked->caller, &operation->delete);
            break;
        case OPERATION_TXN:
            status = check_txn(asked, &operation->txn);
            break;
        }
    }
    return status;
}

/* Both branches, whichever is taken: which one it is reveals something about the keys compared. */
static enum status check_txn(struct asked *asked, const struct txn_request *txn) {
    enum status status = auth_check_user(asked->auth, asked->caller);
    for (size_t i = 0; i < txn->n_compares && status == STATUS_OK; i++) {
        status = check_read(asked, txn->compares[i].key, txn->compares[i].range_end);
    }
    if (status == STATUS_OK) {
        status = check_operations(asked, txn->success, txn->n_success);
    }
    return status == STATUS_OK ? check_operations(asked, txn->failure, txn->n_failure) : status;
}

/* What is granted under a lease counts when that is ended. */
static enum status check_grant(struct asked *asked, const struct lease_facts *grant) {
    enum status status = auth_check_user(asked->auth, asked->caller);
    return status == STATUS_OK && grant->parent_id != 0
               ? auth_check_lease_use(asked->auth, asked->leases, asked->caller, grant->parent_id,
                                      &asked->checks)
               : status;
}

static enum status check_lease_end(struct asked *asked, int64_t lease_id) {
    return auth_check_lease_end(asked->auth, asked->leases, asked->caller, lease_id,
                                &asked->checks);
}

/* Compacting removes the history of all keys, and none of their values. etcd lets every user do it,
 * and clients with the right to one prefix rely on that (a kube-apiserver compacts). Users that may
 * only read have nothing to compact. */
static enum status check_compact(const struct auth *auth, const struct caller *caller) {
    enum status status = auth_check_admin(auth, caller);
    return status == STATUS_PERMISSION_DENIED &&
                   auth_ranges_may_write(auth_ranges_of(auth, caller), KEY_SPACE_ETCD)
               ? STATUS_OK
               : status;
}

bool auth_is_server_command(const struct command *command) {
    switch (command->type) {
    case COMMAND_LEASE_EXPIRE:
    case COMMAND_LEASE_CHECKPOINT:
    case COMMAND_BARRIER:
    case COMMAND_MEMBERS_BEGIN:
    case COMMAND_CLUSTER_VERSION:
        return true;
    case COMMAND_MEMBER:
        return command->member.action == MEMBER_PUBLISH;
    case COMMAND_AUTH:
        return command->auth.action == AUTH_TOKEN_EPOCH || command->auth.action == AUTH_TOKEN_KEY;
    default:
        return false;
    }
}

enum status auth_check_command(const struct auth *auth, struct lease_table *leases,
                               const struct caller *caller, const struct command *command) {
    if (!auth_is_enabled(auth) || caller->kind != CALLER_CLIENT) {
        return STATUS_OK;
    }
    if (auth_is_server_command(command)) {
        return STATUS_PERMISSION_DENIED;
    }
    struct asked asked = {.auth = auth, .leases = leases, .caller = caller};
    switch (command->type) {
    case COMMAND_PUT:
        return check_put(&asked, &command->put);
    case COMMAND_DELETE:
        return check_delete(auth, caller, &command->delete);
    case COMMAND_TXN:
        return check_txn(&asked, &command->txn);
    case COMMAND_COMPACT:
        return check_compact(auth, caller);
    case COMMAND_LEASE_GRANT:
        return check_grant(&asked, &command->grant);
    case COMMAND_RULE: /* what it reads and changes is looked at while it runs */
        return auth_check_user(auth, caller);
    case COMMAND_LEASE_REVOKE:
        return check_lease_end(&asked, command->revoke.id);
    case COMMAND_LEASE_SET_TTL:
        return check_lease_end(&asked, command->set_ttl.id);
    case COMMAND_ALARM:
    case COMMAND_MEMBER:
    case COMMAND_AUTH:
        return auth_check_admin(auth, caller);
    case COMMAND_LEASE_EXPIRE:
    case COMMAND_LEASE_CHECKPOINT:
    case COMMAND_BARRIER:
    case COMMAND_MEMBERS_BEGIN:
    case COMMAND_CLUSTER_VERSION:
    case COMMAND_AS:
        break;
    }
    return STATUS_PERMISSION_DENIED;
}
