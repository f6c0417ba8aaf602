/* A program with a loop of its own: takes a lock by callbacks alone, while poll() waits. */
#include <lease.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

static struct lease_session *session;
static struct lease_wait *waiting;
static int is_over;

static void fail(const char *what, const char *reason) {
    fprintf(stderr, "%s: %s\n", what, reason);
    exit(1);
}

static void on_acquired(struct lease_wait *wait, enum lease_status status, const char *reason,
                        void *context) {
    struct lease_hold *hold;
    (void)context;
    if (status != LEASE_OK || lease_wait_finish(wait, LEASE_NO_WAIT, &hold) != LEASE_OK) {
        fail("acquire", reason);
    }
    printf("token %lld valid %d\n", (long long)lease_hold_token(hold),
           lease_hold_valid_for_ms(hold) > 0);
    /* A function that waits would wait for this very callback. */
    printf("waiting here: %d\n", lease_release(hold) == LEASE_INVALID);
    lease_release_start(hold);
    lease_hold_destroy(hold);
    is_over = 1;
}

static void on_created(struct lease_session *created, enum lease_status status, const char *reason,
                       void *context) {
    const struct lease_want want = {.resource = context};
    struct lease_acquire_options options = LEASE_ACQUIRE_OPTIONS_INIT;
    options.wants = &want;
    options.n_wants = 1;
    options.wait_ms = LEASE_WAIT_FOREVER;
    if (status != LEASE_OK) {
        fail("session", reason);
    }
    session = created;
    if (lease_acquire_start(session, &options, on_acquired, NULL, &waiting) != LEASE_OK) {
        fail("acquire", lease_error());
    }
}

int main(int n_arguments, char **arguments) {
    struct lease_options options = LEASE_OPTIONS_INIT;
    struct lease_connection *connection;
    if (n_arguments != 3) {
        fail("usage", "foreign_loop ENDPOINTS NAME");
    }
    options.endpoints = arguments[1];
    options.foreign_loop = true;
    if (lease_open(&options, &connection) != LEASE_OK ||
        lease_session_create_start(connection, NULL, on_created, arguments[2]) != LEASE_OK) {
        fail("open", lease_error());
    }
    while (!is_over) {
        struct pollfd one = {.fd = lease_fd(connection), .events = POLLIN};
        poll(&one, 1, lease_timeout_ms(connection));
        lease_process(connection);
    }
    lease_wait_destroy(waiting);
    /* Functions that wait drive the connection themselves. */
    if (lease_session_end(session) != LEASE_OK) {
        fail("end", lease_error());
    }
    lease_session_destroy(session);
    lease_close(connection);
    return 0;
}
