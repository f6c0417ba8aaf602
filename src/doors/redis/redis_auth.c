/* AUTH: a user of the cluster, by its password. The connection takes no input meanwhile. */
#include "doors/redis/redis_door_internal.h"
#include "doors/redis/redis_reply.h"

#include <stdlib.h>
#include <string.h>

struct redis_login {
    struct authenticator_login login;
    struct redis_connection *connection;
    struct redis_pending *pending;
    void (*done)(struct redis_connection *connection, struct buffer *out);
    char user[65];
};

static void write_failure(struct buffer *out, enum status status) {
    if (status == STATUS_TOO_MANY_REQUESTS) {
        redis_reply_error_text(out, "ERR too many attempts to log in, try again later");
    } else {
        redis_reply_error_text(out,
                               "WRONGPASS invalid username-password pair or user is disabled.");
    }
}

static void finish(struct redis_login *login, enum status status, const struct caller *caller) {
    struct redis_connection *connection = login->connection;
    struct redis_pending *pending = login->pending;
    struct buffer reply;
    buffer_init(&reply);
    connection->login = NULL;
    if (status == STATUS_OK) {
        raw_connection_set_caller(connection->raw, caller, sizeof *caller);
        memcpy(connection->user, login->user, sizeof login->user);
        login->done(connection, &reply);
    } else if (status == STATUS_AUTH_NOT_ENABLED) {
        /* Every user may everything then, and HELLO with a password is what clients begin with. */
        login->done(connection, &reply);
    } else {
        write_failure(&reply, status);
    }
    free(login);
    redis_pending_done(pending, bytes_of(reply.data, reply.size));
    buffer_clear(&reply);
}

static void login_done(struct authenticator_login *opaque, enum status status,
                       const struct caller *caller) {
    finish(list_entry(opaque, struct redis_login, login), status, caller);
}

void redis_auth_log_in(struct redis_connection *connection, struct bytes name,
                       struct bytes password,
                       void (*done)(struct redis_connection *connection, struct buffer *out)) {
    char address[NET_ADDRESS_SIZE];
    enum status status;
    struct redis_pending *pending = redis_pending_create(connection, NULL);
    struct redis_login *login = calloc(1, sizeof *login);
    if (pending == NULL || login == NULL) {
        free(login);
        raw_connection_close(connection->raw);
        return;
    }
    login->connection = connection;
    login->pending = pending;
    login->done = done;
    login->login.done = login_done;
    memcpy(login->user, name.data, name.size < sizeof login->user ? name.size : 0);
    connection->login = login;
    redis_connection_stop(connection);
    raw_connection_address(connection->raw, address);
    if (!authenticator_log_in(connection->door->environment->authenticator, &login->login, name,
                              password, address, &status)) {
        finish(login, status, NULL);
    }
}

void redis_auth_forget(struct redis_connection *connection) {
    if (connection->login != NULL) {
        authenticator_cancel(&connection->login->login);
        free(connection->login);
        connection->login = NULL;
    }
}
