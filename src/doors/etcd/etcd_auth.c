/* The Auth service: users, roles and permissions on keys of etcd's space. */
#include "core/auth.h"
#include "doors/authenticator.h"
#include "doors/etcd/etcd_auth_request.h"
#include "doors/etcd/etcd_call.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/random.h>

static const struct auth *auth_of(const struct grpc_call *call) {
    return state_view_auth(service_view(etcd_door_of(call)->service));
}

/* --- Changes. --- */

static void reply_changed(struct etcd_call *waiting, const struct outcome *outcome) {
    etcd_answer_header(waiting->call, etcd_header_at(waiting->door, outcome->revision));
}

static void submit(struct grpc_call *call, const struct auth_change *change) {
    const struct command command = {.type = COMMAND_AUTH, .auth = *change};
    (void)etcd_call_submit(call, &command, reply_changed);
}

static void change(struct grpc_call *call, struct bytes message, enum auth_action action) {
    struct etcd_auth_request request;
    if (etcd_call_refused(call)) {
        return;
    }
    const struct etcd_error *error = etcd_auth_request(action, message, &request);
    if (error != NULL) {
        etcd_error_finish(call, error);
        return;
    }
    submit(call, &(struct auth_change){.action = action,
                                       .user = request.user,
                                       .role = request.role,
                                       .permission = request.permission});
}

static void on_enable(struct grpc_call *call, struct bytes message) {
    (void)message; /* has no fields */
    uint8_t key[AUTH_TOKEN_KEY_SIZE];
    if (etcd_call_refused(call)) {
        return;
    }
    ssize_t n = getrandom(key, sizeof key, 0);
    assert(n == (ssize_t)sizeof key);
    submit(call,
           &(struct auth_change){.action = AUTH_ENABLE, .token_key = bytes_of(key, sizeof key)});
}

static void on_disable(struct grpc_call *call, struct bytes message) {
    change(call, message, AUTH_DISABLE);
}

static void on_user_delete(struct grpc_call *call, struct bytes message) {
    change(call, message, AUTH_USER_DELETE);
}

static void on_user_grant_role(struct grpc_call *call, struct bytes message) {
    change(call, message, AUTH_USER_GRANT_ROLE);
}

static void on_user_revoke_role(struct grpc_call *call, struct bytes message) {
    change(call, message, AUTH_USER_REVOKE_ROLE);
}

static void on_role_add(struct grpc_call *call, struct bytes message) {
    change(call, message, AUTH_ROLE_ADD);
}

static void on_role_delete(struct grpc_call *call, struct bytes message) {
    change(call, message, AUTH_ROLE_DELETE);
}

static void on_role_grant(struct grpc_call *call, struct bytes message) {
    change(call, message, AUTH_ROLE_GRANT_PERMISSION);
}

static void on_role_revoke(struct grpc_call *call, struct bytes message) {
    change(call, message, AUTH_ROLE_REVOKE_PERMISSION);
}

/* --- Passwords: hashed before they are submitted, compared before a token is given. --- */

static void cancel_hash(struct etcd_call *waiting) {
    authenticator_cancel_hash(&waiting->hash);
}

static void cancel_login(struct etcd_call *waiting) {
    authenticator_cancel(&waiting->login);
}

static void hashed(struct etcd_call *waiting, enum auth_action action, enum status status,
                   struct bytes password_hash) {
    struct grpc_call *call = waiting->call;
    uint8_t user[AUTH_NAME_SIZE_MAX];
    assert(waiting->message_size <= sizeof user);
    memcpy(user, waiting->message, waiting->message_size);
    const struct auth_change change = {.action = action,
                                       .user = bytes_of(user, waiting->message_size),
                                       .password_hash = password_hash};
    /* What waits for the log has an object of its own. */
    etcd_call_destroy(waiting);
    if (status != STATUS_OK) {
        etcd_error_finish(call, etcd_error_of(status));
    } else {
        submit(call, &change);
    }
}

static void hashed_new(struct authenticator_hash *hash, enum status status,
                       struct bytes password_hash) {
    hashed(list_entry(hash, struct etcd_call, hash), AUTH_USER_ADD, status, password_hash);
}

static void hashed_other(struct authenticator_hash *hash, enum status status,
                         struct bytes password_hash) {
    hashed(list_entry(hash, struct etcd_call, hash), AUTH_USER_SET_PASSWORD, status, password_hash);
}

static void hash_password(struct grpc_call *call, enum auth_action action,
                          const struct etcd_auth_request *request) {
    struct etcd_call *waiting = etcd_call_create(call);
    if (waiting == NULL) {
        return;
    }
    waiting->cancel = cancel_hash;
    waiting->hash.done = action == AUTH_USER_ADD ? hashed_new : hashed_other;
    enum status status = etcd_call_keep(waiting, request->user)
                             ? authenticator_hash_password(waiting->door->authenticator,
                                                           &waiting->hash, request->password)
                             : STATUS_NO_MEMORY;
    if (status != STATUS_PENDING) {
        etcd_call_destroy(waiting);
        etcd_error_finish(call, etcd_error_of(status));
    }
}

static void set_password(struct grpc_call *call, struct bytes message, enum auth_action action) {
    struct etcd_auth_request request;
    if (etcd_call_refused(call) || !etcd_call_is_root(call, "change of a password")) {
        return;
    }
    const struct etcd_error *error = etcd_auth_request(action, message, &request);
    if (error == NULL) {
        /* Before any work. */
        const struct auth_change change = {.action = action, .user = request.user};
        error = etcd_error_of(auth_change_check(&change));
    }
    if (error != NULL) {
        etcd_error_finish(call, error);
    } else if (request.no_password) {
        submit(call, &(struct auth_change){.action = action, .user = request.user});
    } else {
        hash_password(call, action, &request);
    }
}

static void on_user_add(struct grpc_call *call, struct bytes message) {
    set_password(call, message, AUTH_USER_ADD);
}

static void on_user_change_password(struct grpc_call *call, struct bytes message) {
    set_password(call, message, AUTH_USER_SET_PASSWORD);
}

static void logged_in(struct authenticator_login *login, enum status status,
                      const struct caller *caller) {
    struct etcd_call *waiting = list_entry(login, struct etcd_call, login);
    struct grpc_call *call = waiting->call;
    struct etcd_door *door = waiting->door;
    char token[AUTHENTICATOR_TOKEN_SIZE];
    /* etcd's answer of a member that has the public key alone. */
    if (status == STATUS_OK && !authenticator_make_token(door->authenticator, caller, token)) {
        status = STATUS_AUTH_FAILED;
    }
    etcd_call_destroy(waiting);
    if (status != STATUS_OK) {
        etcd_error_finish(call, etcd_error_of(status));
        return;
    }
    struct etcd_header header = etcd_header_now(door);
    struct bytes text = bytes_from_text(token);
    struct pb_writer writer;
    if (etcd_answer_begin(call, etcd_header_size(&header) + pb_bytes_size(2, text), &writer)) {
        etcd_header_write(&writer, &header);
        pb_write_bytes(&writer, 2, text);
        etcd_answer_finish(call, &writer);
    }
}

static void authenticate_ready(struct grpc_call *call, struct bytes message) {
    struct etcd_auth_request request;
    const struct etcd_error *error = etcd_auth_request(AUTH_USER_SET_PASSWORD, message, &request);
    if (error != NULL) {
        etcd_error_finish(call, error);
        return;
    }
    struct etcd_call *waiting = etcd_call_create(call);
    if (waiting == NULL) {
        return;
    }
    char address[GRPC_ADDRESS_SIZE];
    enum status status;
    grpc_call_address(call, address);
    waiting->cancel = cancel_login;
    waiting->login.done = logged_in;
    if (!authenticator_log_in(waiting->door->authenticator, &waiting->login, request.user,
                              request.password, address, &status)) {
        etcd_call_destroy(waiting);
        etcd_error_finish(call, etcd_error_of(status));
    }
}

/* Nobody is known yet, so this read is the server's own: a member that lags must not refuse a user
 * that was added elsewhere, or say that authentication is off. */
static void on_authenticate(struct grpc_call *call, struct bytes message) {
    etcd_call_read_as(call, &caller_server, message, authenticate_ready);
}

/* --- Reading. --- */

static size_t names_size(const struct bytes *names, size_t n) {
    size_t size = 0;
    for (size_t i = 0; i < n; i++) {
        size += pb_message_size(2, names[i].size);
    }
    return size;
}

static void answer_names(struct grpc_call *call, const struct bytes *names, size_t n) {
    struct etcd_header header = etcd_header_now(etcd_door_of(call));
    struct pb_writer writer;
    size_t size = etcd_header_size(&header) + names_size(names, n);
    if (etcd_has_room_for(call, size) && etcd_answer_begin(call, size, &writer)) {
        etcd_header_write(&writer, &header);
        for (size_t i = 0; i < n; i++) {
            pb_write_element(&writer, 2, names[i]);
        }
        etcd_answer_finish(call, &writer);
    }
}

static void status_ready(struct grpc_call *call, struct bytes message) {
    (void)message; /* has no fields */
    if (!etcd_call_is_root(call, "status of authentication")) {
        return;
    }
    const struct auth *auth = auth_of(call);
    struct etcd_header header = etcd_header_now(etcd_door_of(call));
    size_t size = etcd_header_size(&header) + pb_bool_size(2, auth_is_enabled(auth)) +
                  pb_uint64_size(3, auth_revision(auth));
    struct pb_writer writer;
    if (etcd_answer_begin(call, size, &writer)) {
        etcd_header_write(&writer, &header);
        pb_write_bool(&writer, 2, auth_is_enabled(auth));
        pb_write_uint64(&writer, 3, auth_revision(auth));
        etcd_answer_finish(call, &writer);
    }
}

static void user_list_ready(struct grpc_call *call, struct bytes message) {
    (void)message; /* has no fields */
    if (!etcd_call_is_root(call, "list of users")) {
        return;
    }
    const struct auth *auth = auth_of(call);
    struct arena *arena = &etcd_door_of(call)->arena;
    size_t n = auth_user_count(auth);
    struct bytes *names = arena_alloc(arena, n * sizeof *names);
    for (size_t i = 0; i < n; i++) {
        struct auth_user user;
        auth_user_at(auth, i, &user);
        names[i] = user.name;
    }
    answer_names(call, names, n);
    arena_reset(arena);
}

static void role_list_ready(struct grpc_call *call, struct bytes message) {
    (void)message; /* has no fields */
    if (!etcd_call_is_root(call, "list of roles")) {
        return;
    }
    const struct auth *auth = auth_of(call);
    struct arena *arena = &etcd_door_of(call)->arena;
    size_t n = auth_role_count(auth);
    struct bytes *names = arena_alloc(arena, n * sizeof *names);
    for (size_t i = 0; i < n; i++) {
        struct auth_role role;
        auth_role_at(auth, i, &role);
        names[i] = role.name;
    }
    answer_names(call, names, n);
    arena_reset(arena);
}

/* A user may look at itself and at its roles. */
static void user_get_ready(struct grpc_call *call, struct bytes message) {
    struct etcd_auth_request request;
    struct auth_user user;
    const struct etcd_error *error = etcd_auth_request(AUTH_USER_DELETE, message, &request);
    if (error != NULL) {
        etcd_error_finish(call, error);
        return;
    }
    bool is_there = auth_find_user(auth_of(call), request.user, &user);
    bool is_self = is_there && user.id == etcd_caller(call)->user_id;
    if (!is_self && !etcd_call_is_root(call, "look at a user")) {
        return;
    }
    if (!is_there) {
        etcd_error_finish(call, etcd_error_of(STATUS_USER_NOT_FOUND));
        return;
    }
    answer_names(call, user.roles, user.n_roles);
}

static bool has_role(const struct grpc_call *call, struct bytes role) {
    struct auth_user user;
    if (!auth_find_user_id(auth_of(call), etcd_caller(call)->user_id, &user)) {
        return false;
    }
    for (size_t i = 0; i < user.n_roles; i++) {
        if (bytes_equal(user.roles[i], role)) {
            return true;
        }
    }
    return false;
}

static size_t permission_size(const struct permission *permission) {
    return pb_uint64_size(1, etcd_auth_right_number(permission->right)) +
           pb_bytes_size(2, permission->range.key) + pb_bytes_size(3, permission->range.range_end);
}

/* Permissions on other spaces are not etcd's to show. */
static bool is_shown(const struct permission *permission) {
    return key_space_equal(permission->range.space, KEY_SPACE_ETCD);
}

static void answer_role(struct grpc_call *call, const struct permission *permissions, size_t n) {
    struct etcd_header header = etcd_header_now(etcd_door_of(call));
    size_t size = etcd_header_size(&header);
    for (size_t i = 0; i < n; i++) {
        size +=
            is_shown(&permissions[i]) ? pb_message_size(2, permission_size(&permissions[i])) : 0;
    }
    struct pb_writer writer;
    if (!etcd_has_room_for(call, size) || !etcd_answer_begin(call, size, &writer)) {
        return;
    }
    etcd_header_write(&writer, &header);
    for (size_t i = 0; i < n; i++) {
        if (is_shown(&permissions[i])) {
            pb_write_message(&writer, 2, permission_size(&permissions[i]));
            pb_write_uint64(&writer, 1, etcd_auth_right_number(permissions[i].right));
            pb_write_bytes(&writer, 2, permissions[i].range.key);
            pb_write_bytes(&writer, 3, permissions[i].range.range_end);
        }
    }
    etcd_answer_finish(call, &writer);
}

static void role_get_ready(struct grpc_call *call, struct bytes message) {
    struct etcd_auth_request request;
    struct auth_role role;
    const struct etcd_error *error = etcd_auth_request(AUTH_ROLE_DELETE, message, &request);
    if (error != NULL) {
        etcd_error_finish(call, error);
        return;
    }
    if (!has_role(call, request.role) && !etcd_call_is_root(call, "look at a role")) {
        return;
    }
    if (!auth_find_role(auth_of(call), request.role, &role)) {
        etcd_error_finish(call, etcd_error_of(STATUS_ROLE_NOT_FOUND));
        return;
    }
    answer_role(call, role.permissions, role.n_permissions);
}

static void read_then(struct grpc_call *call, struct bytes message,
                      void (*resume)(struct grpc_call *call, struct bytes message)) {
    if (!etcd_call_refused(call)) {
        etcd_call_read(call, message, NULL, 0, resume);
    }
}

static void on_status(struct grpc_call *call, struct bytes message) {
    read_then(call, message, status_ready);
}

static void on_user_list(struct grpc_call *call, struct bytes message) {
    read_then(call, message, user_list_ready);
}

static void on_user_get(struct grpc_call *call, struct bytes message) {
    read_then(call, message, user_get_ready);
}

static void on_role_list(struct grpc_call *call, struct bytes message) {
    read_then(call, message, role_list_ready);
}

static void on_role_get(struct grpc_call *call, struct bytes message) {
    read_then(call, message, role_get_ready);
}

/* All of them are unary, and wait for the service or for the authenticator. */
#define METHOD(name, function)                                                                     \
    {                                                                                              \
        .path = "/etcdserverpb.Auth/" name, .answers_refused = true, .kind = GRPC_UNARY,           \
        .on_message = (function), .on_close = etcd_call_closed                                     \
    }

static const struct grpc_method methods[] = {
    METHOD("AuthEnable", on_enable),
    METHOD("AuthDisable", on_disable),
    METHOD("AuthStatus", on_status),
    METHOD("Authenticate", on_authenticate),
    METHOD("UserAdd", on_user_add),
    METHOD("UserGet", on_user_get),
    METHOD("UserList", on_user_list),
    METHOD("UserDelete", on_user_delete),
    METHOD("UserChangePassword", on_user_change_password),
    METHOD("UserGrantRole", on_user_grant_role),
    METHOD("UserRevokeRole", on_user_revoke_role),
    METHOD("RoleAdd", on_role_add),
    METHOD("RoleGet", on_role_get),
    METHOD("RoleList", on_role_list),
    METHOD("RoleDelete", on_role_delete),
    METHOD("RoleGrantPermission", on_role_grant),
    METHOD("RoleRevokePermission", on_role_revoke),
};
const struct etcd_methods etcd_auth_methods = {methods, sizeof methods / sizeof methods[0]};
