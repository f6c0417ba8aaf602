#include "core/auth_command.h"

static enum status check_key(const struct auth *auth, const struct caller *caller, enum right right,
                             struct key_space_id space, struct bytes key, struct bytes range_end) {
    const struct key_range range = {.space = space, .key = key, .range_end = range_end};
    return auth_check_range(auth, caller, right, &range);
}

static enum status check_whole_space(const struct auth *auth, const struct caller *caller,
                                     enum right right, struct key_space_id space) {
    static const uint8_t open_end[1] = {0};
    return check_key(auth, caller, right, space, bytes_of(NULL, 0), bytes_of(open_end, 1));
}

/* Keys that core keeps for itself: nobody has a right to them, and nobody needs one. */
static bool is_internal(struct key_space_id space) {
    return key_space_equal(space, KEY_SPACE_LEASE_HOOKS) || key_space_equal(space, KEY_SPACE_AUTH);
}

enum status auth_check_lease(const struct auth *auth, const struct lease_table *leases,
                             const struct caller *caller, int64_t lease_id, enum right right) {
    enum status status = auth_check_admin(auth, caller);
    if (status != STATUS_PERMISSION_DENIED) {
        return status;
    }
    struct lease_facts facts;
    if (!lease_table_find(leases, lease_id, &facts)) {
        return STATUS_OK;
    }
    if (lease_table_key_count(leases, lease_id) > AUTH_LEASE_KEYS_MAX) {
        return check_whole_space(auth, caller, right, facts.owner);
    }
    status = STATUS_OK;
    for (const struct record *record = lease_table_first_key(leases, lease_id);
         record != NULL && status == STATUS_OK; record = record->lease_next) {
        if (!is_internal(record_space(record))) {
            status = check_key(auth, caller, right, record_space(record), record_key(record),
                               bytes_of(NULL, 0));
        }
    }
    return status;
}

static enum status check_put(const struct auth *auth, const struct lease_table *leases,
                             const struct caller *caller, const struct put_request *put) {
    enum right right = put->want_previous ? RIGHT_READ_WRITE : RIGHT_WRITE;
    enum status status =
        check_key(auth, caller, right, KEY_SPACE_ETCD, put->key, bytes_of(NULL, 0));
    /* Who attaches a key to a lease must be able to end it. */
    return status == STATUS_OK && put->lease_id != 0
               ? auth_check_lease(auth, leases, caller, put->lease_id, RIGHT_WRITE)
               : status;
}

static enum status check_delete(const struct auth *auth, const struct caller *caller,
                                const struct delete_request *delete) {
    return check_key(auth, caller, delete->want_previous ? RIGHT_READ_WRITE : RIGHT_WRITE,
                     KEY_SPACE_ETCD, delete->key, delete->range_end);
}

static enum status check_txn(const struct auth *auth, const struct lease_table *leases,
                             const struct caller *caller, const struct txn_request *txn);

static enum status check_operations(const struct auth *auth, const struct lease_table *leases,
                                    const struct caller *caller, const struct operation *operations,
                                    size_t n) {
    enum status status = STATUS_OK;
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        const struct operation *operation = &operations[i];
        switch (operation->type) {
        case OPERATION_RANGE:
            status = check_key(auth, caller, RIGHT_READ, KEY_SPACE_ETCD, operation->range.key,
                               operation->range.range_end);
            break;
        case OPERATION_PUT:
            status = check_put(auth, leases, caller, &operation->put);
            break;
        case OPERATION_DELETE:
            status = check_delete(auth, caller, &operation->delete);
            break;
        case OPERATION_TXN:
            status = check_txn(auth, leases, caller, &operation->txn);
            break;
        }
    }
    return status;
}

/* Both branches, whichever is taken: which one it is tells something about the keys compared. */
static enum status check_txn(const struct auth *auth, const struct lease_table *leases,
                             const struct caller *caller, const struct txn_request *txn) {
    enum status status = auth_check_user(auth, caller);
    for (size_t i = 0; i < txn->n_compares && status == STATUS_OK; i++) {
        status = check_key(auth, caller, RIGHT_READ, KEY_SPACE_ETCD, txn->compares[i].key,
                           txn->compares[i].range_end);
    }
    if (status == STATUS_OK) {
        status = check_operations(auth, leases, caller, txn->success, txn->n_success);
    }
    return status == STATUS_OK
               ? check_operations(auth, leases, caller, txn->failure, txn->n_failure)
               : status;
}

/* etcd lets everybody compact, and with it take everybody's history. */
static enum status check_compact(const struct auth *auth, const struct caller *caller) {
    return check_whole_space(auth, caller, RIGHT_READ_WRITE, KEY_SPACE_ETCD);
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
        return command->auth.action == AUTH_TOKEN_EPOCH;
    default:
        return false;
    }
}

enum status auth_check_command(const struct auth *auth, const struct lease_table *leases,
                               const struct caller *caller, const struct command *command) {
    if (!auth_is_enabled(auth) || caller->kind != CALLER_CLIENT) {
        return STATUS_OK;
    }
    if (auth_is_server_command(command)) {
        return STATUS_PERMISSION_DENIED;
    }
    switch (command->type) {
    case COMMAND_PUT:
        return check_put(auth, leases, caller, &command->put);
    case COMMAND_DELETE:
        return check_delete(auth, caller, &command->delete);
    case COMMAND_TXN:
        return check_txn(auth, leases, caller, &command->txn);
    case COMMAND_COMPACT:
        return check_compact(auth, caller);
    case COMMAND_LEASE_GRANT:
    case COMMAND_RULE: /* what it reads and changes is looked at while it runs */
        return auth_check_user(auth, caller);
    case COMMAND_LEASE_REVOKE:
        return auth_check_lease(auth, leases, caller, command->revoke.id, RIGHT_WRITE);
    case COMMAND_LEASE_SET_TTL:
        return auth_check_lease(auth, leases, caller, command->set_ttl.id, RIGHT_WRITE);
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
