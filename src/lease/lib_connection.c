#include "lease/lib_connection.h"

#include "base/clock.h"
#include "lease/lib_etcd_late.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CONNECT_TIMEOUT_MS = 2000,
    REQUEST_TIMEOUT_MS = 5000,
    FAREWELL_MS = 1000, /* what was started without waiting should leave */
    OWNER_SIZE_MAX = 128,
    REASON_SIZE_MAX = 256
};

/* ---- options ---- */

static const char *default_endpoints(void) {
    const char *text = secure_getenv("LEASE_ENDPOINTS");
    return text != NULL && text[0] != '\0' ? text : "127.0.0.1:2379";
}

static enum lease_status parse_endpoints(struct lease_connection *connection, const char *text) {
    for (;;) {
        const char *comma = strchrnul(text, ',');
        struct bytes one = bytes_of(text, (size_t)(comma - text));
        if (connection->n_endpoints == ENDPOINTS_MAX) {
            return lib_error(LEASE_INVALID, "more than %d endpoints", ENDPOINTS_MAX);
        }
        if (endpoint_text_parse(one, &connection->endpoints[connection->n_endpoints]) !=
            STATUS_OK) {
            return lib_error(LEASE_INVALID,
                             "\"%.*s\" is not an endpoint: write host:port, https://host:port or "
                             "unix:///path",
                             (int)one.size, (const char *)one.data);
        }
        connection->n_endpoints++;
        if (*comma == '\0') {
            return LEASE_OK;
        }
        text = comma + 1;
    }
}

static bool is_given(const char *text) {
    return text != NULL && text[0] != '\0';
}

static char *copy(const char *text) {
    if (!is_given(text)) {
        return NULL;
    }
    char *own = strdup(text);
    if (own == NULL) {
        abort();
    }
    return own;
}

static enum lease_status prepare_tls(struct lease_connection *connection,
                                     const struct lease_options *options) {
    bool is_needed = false;
    connection->tls_without_scheme =
        is_given(options->ca_file) || is_given(options->cert_file) || options->insecure_skip_verify;
    for (size_t i = 0; i < connection->n_endpoints; i++) {
        enum endpoint_security security = connection->endpoints[i].security;
        is_needed |= security == ENDPOINT_TLS ||
                     (security == ENDPOINT_EITHER && connection->tls_without_scheme);
    }
    if (!is_needed) {
        return LEASE_OK;
    }
    connection->ca_file = copy(options->ca_file);
    connection->cert_file = copy(options->cert_file);
    connection->key_file = copy(options->key_file);
    const struct tls_options tls = {
        .ca_file = connection->ca_file,
        .cert_file = connection->cert_file,
        .key_file = connection->key_file,
        .verify = options->insecure_skip_verify ? TLS_VERIFY_NONE : TLS_VERIFY_REQUIRED,
        .is_client = true,
        .alpn = "h2",
    };
    char error[REASON_SIZE_MAX];
    if (tls_context_create(&tls, &connection->tls, error, sizeof error) != STATUS_OK) {
        return lib_error(LEASE_INVALID, "%s", error);
    }
    return LEASE_OK;
}

static char *default_owner(void) {
    char host[OWNER_SIZE_MAX / 2] = "";
    char owner[OWNER_SIZE_MAX];
    (void)gethostname(host, sizeof host - 1);
    snprintf(owner, sizeof owner, "%s:%ld", host[0] != '\0' ? host : "host", (long)getpid());
    return copy(owner);
}

static enum lease_status take_options(struct lease_connection *connection,
                                      const struct lease_options *options) {
    const char *endpoints = is_given(options->endpoints) ? options->endpoints : default_endpoints();
    enum lease_status status = parse_endpoints(connection, endpoints);
    if (status == LEASE_OK) {
        status = prepare_tls(connection, options);
    }
    if (status != LEASE_OK) {
        return status;
    }
    connection->user = copy(options->user);
    connection->password = copy(options->password);
    connection->token = copy(options->token);
    connection->owner = is_given(options->owner) ? copy(options->owner) : default_owner();
    connection->protocol = options->protocol;
    connection->connect_timeout_ms =
        options->connect_timeout_ms != 0 ? options->connect_timeout_ms : CONNECT_TIMEOUT_MS;
    connection->request_timeout_ms =
        options->request_timeout_ms != 0 ? options->request_timeout_ms : REQUEST_TIMEOUT_MS;
    if (strlen(connection->owner) > OWNER_SIZE_MAX) {
        return lib_error(LEASE_INVALID, "an owner has at most %d bytes", OWNER_SIZE_MAX);
    }
    return LEASE_OK;
}

/* ---- life ---- */

static void free_texts(struct lease_connection *connection) {
    if (connection->password != NULL) {
        explicit_bzero(connection->password, strlen(connection->password));
    }
    char *texts[] = {connection->ca_file, connection->cert_file, connection->key_file,
                     connection->user,    connection->password,  connection->token,
                     connection->owner};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        free(texts[i]);
    }
}

static void destroy(struct lease_connection *connection) {
    lib_socket_destroy(connection->socket);
    lib_loop_clear(connection);
    tls_context_destroy(connection->tls);
    pthread_cond_destroy(&connection->changed);
    pthread_mutex_destroy(&connection->mutex);
    free_texts(connection);
    free(connection);
}

static struct lease_connection *create(void) {
    struct lease_connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL) {
        abort();
    }
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&connection->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&connection->mutex, NULL);
    lib_process_own(connection);
    connection->epoll_fd = -1;
    connection->wake_fd = -1;
    connection->timer_fd = -1;
    connection->reader_fd = -1;
    struct list *lists[] = {
        &connection->waiting, &connection->open,          &connection->sessions,
        &connection->waits,   &connection->watches,       &connection->copies,
        &connection->notices, &connection->registrations, &connection->late_keys};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        list_init(lists[i]);
    }
    return connection;
}

/* Signals are the program's: none is delivered to a thread of the library. */
static int start_thread(struct lease_connection *connection) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&connection->thread, NULL, lib_loop_run, connection);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    connection->has_thread = error == 0;
    return error;
}

enum lease_status lease_open(const struct lease_options *options,
                             struct lease_connection **out_connection) {
    struct lease_options known = {0};
    if (options != NULL) {
        /* A program made with an older header has a shorter one. */
        memcpy(&known, options, options->size < sizeof known ? options->size : sizeof known);
    }
    struct lease_connection *connection = create();
    enum lease_status status = take_options(connection, &known);
    int error = status == LEASE_OK ? lib_loop_init(connection) : 0;
    if (status == LEASE_OK && error == 0 && !known.foreign_loop) {
        error = start_thread(connection);
    }
    if (error != 0) {
        status = lib_error(LEASE_UNAVAILABLE, "no descriptors or thread: %s", strerror(error));
    }
    if (status != LEASE_OK) {
        destroy(connection);
        return status;
    }
    *out_connection = connection;
    return LEASE_OK;
}

static void say_farewell(struct lease_connection *connection) {
    uint64_t limit_ms = clock_boottime_ms() + FAREWELL_MS;
    while (connection->n_farewells > 0 && clock_boottime_ms() < limit_ms) {
        bool never = false;
        uint64_t soon_ms = clock_boottime_ms() + FAREWELL_MS / 100;
        lib_wait_until(connection, &never, soon_ms < limit_ms ? soon_ms : limit_ms);
    }
}

void lease_close(struct lease_connection *connection) {
    if (connection == NULL) {
        return;
    }
    if (lib_is_inherited(connection)) {
        lib_process_abandon(connection);
        return;
    }
    lib_lock(connection);
    assert(list_is_empty(&connection->sessions));
    assert(list_is_empty(&connection->waits));
    assert(list_is_empty(&connection->watches));
    assert(list_is_empty(&connection->copies));
    assert(list_is_empty(&connection->registrations));
    if (connection->has_thread && pthread_equal(connection->thread, pthread_self())) {
        connection->is_orphan = true;
        connection->farewell_until_ms = clock_boottime_ms() + FAREWELL_MS;
        lib_unlock(connection);
        return;
    }
    say_farewell(connection);
    connection->is_stopping = true;
    lib_wake(connection);
    lib_unlock(connection);
    if (connection->has_thread) {
        pthread_join(connection->thread, NULL);
    }
    lib_connection_finish(connection);
}

void lib_connection_finish(struct lease_connection *connection) {
    lib_lock(connection);
    lib_ready_abandon(connection);
    lib_etcd_late_clear(connection);
    lib_unlock(connection);
    destroy(connection);
}

enum lease_status lease_connect(struct lease_connection *connection) {
    struct lib_request request = {.path = "/leased.v1.Sessions/Get", .is_repeatable = true};
    struct buffer answer;
    enum lease_status status = lib_check_process(connection);
    if (status != LEASE_OK) {
        return status;
    }
    buffer_init(&answer);
    status = lib_ask(connection, &request, &answer);
    buffer_clear(&answer);
    bool is_reached = status != LEASE_UNAVAILABLE && status != LEASE_TIMEOUT &&
                      status != LEASE_DENIED && status != LEASE_PROTOCOL;
    return is_reached ? LEASE_OK : status;
}

enum lease_protocol lease_protocol_used(struct lease_connection *connection) {
    lib_lock(connection);
    enum lease_protocol protocol = connection->protocol;
    lib_unlock(connection);
    return protocol;
}
