#include "server/server.h"

#include "base/log.h"
#include "net/net_server.h"
#include "peers/peer_secret.h"
#include "replication/join.h"
#include "replication/replication.h"
#include "server/admission.h"
#include "server/authenticator.h"
#include "server/client_tls.h"
#include "server/data_dir.h"
#include "server/descriptors.h"
#include "server/etcd_data_dir.h"
#include "server/exit_code.h"
#include "server/housekeeping.h"
#include "server/jwt.h"
#include "server/notify.h"
#include "server/open_doors.h"
#include "server/peer_tls.h"
#include "server/routes.h"
#include "server/welcome.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include <uv.h>

enum {
    SHUTDOWN_GRACE_MS = 5000,
    SERVER_ERROR_SIZE = 2048,
    SERVER_FLAGS_SIZE = TLS_AUTO_PATH_SIZE_MAX + 64,
    /* A message may be larger than the request in it: names of fields, lengths, the envelope. */
    MESSAGE_OVERHEAD_BYTES = 512 * 1024
};

struct server {
    const struct options *options;
    uv_loop_t loop;
    struct data_dir *data_dir;
    struct identity identity;
    struct service *service;
    struct host_port more_peer_places[OPTIONS_PEER_LISTENERS_MAX];
    struct jwt *jwt; /* NULL: tokens are our own */
    struct authenticator *authenticator;
    struct open_doors doors;
    struct net_server *net;
    struct net_server *metrics_net; /* NULL: no listeners for metrics alone */
    struct metrics_sources sources;
    struct housekeeping housekeeping;
    struct service_read first_read;
    struct arena arena; /* for what lives as long as the server */
    struct replication_member members[OPTIONS_MEMBERS_MAX];
    struct peer_tls peer_tls;
    struct client_tls client_tls;
    struct buffer peer_secret;
    struct admission admission; /* of a node that has just joined */
    uv_signal_t terminate;
    uv_signal_t interrupt;
    uv_timer_t watchdog;
    bool is_stopping;
    int exit_code;
    size_t check_sockets_max; /* of health checks */
    unsigned n_net_open;      /* servers that have not closed yet */
};

/* Says why and ends the process at once: nothing more is acknowledged, and half-open parts need
 * no closing, because everything acknowledged is on disk. */
__attribute__((noreturn)) static void die(enum exit_code code, const char *what,
                                          const char *reason) {
    log_error(what, LOG_TEXT("reason", reason), LOG_NUMBER("exit code", code));
    log_flush();
    fflush(stdout);
    _exit(code);
}

/* Whoever reads it must find the directory, also on a machine with several. */
__attribute__((noreturn)) static void die_of_data(const struct server *server, enum status status,
                                                  const char *what, const char *reason) {
    enum exit_code code = exit_code_of_status(status);
    log_error(what, LOG_TEXT("reason", reason), LOG_TEXT("data", data_dir_path(server->data_dir)),
              LOG_NUMBER("exit code", code));
    log_flush();
    fflush(stdout);
    _exit(code);
}

/* --- The data directory. --- */

/* Also for a member that is alone and needs no certificate yet: one that is wrong is better known
 * today. NULL: plain text. */
static struct tls_context *load_peer_tls(struct server *server) {
    const struct options *options = server->options;
    char error[SERVER_ERROR_SIZE] = "";
    struct tls_context *context = NULL;
    enum status status = STATUS_OK;
    if (options->has_peer_tls) {
        status = peer_tls_prepare(&server->peer_tls, options, data_dir_path(server->data_dir),
                                  error, sizeof error);
    }
    if (options->has_peer_tls && status == STATUS_OK) {
        status = tls_context_create(&server->peer_tls.options, &context, error, sizeof error);
    }
    if (status != STATUS_OK) {
        die(status == STATUS_INVALID ? EXIT_CODE_USAGE : EXIT_CODE_FAILED, "cannot start", error);
    }
    return context;
}

static void load_peer_secret(struct server *server) {
    const char *path = server->options->peer_secret_file;
    char error[SERVER_ERROR_SIZE] = "";
    buffer_init(&server->peer_secret);
    if (*path != '\0' &&
        peer_secret_load(path, &server->peer_secret, error, sizeof error) != STATUS_OK) {
        die(EXIT_CODE_USAGE, "cannot start", error);
    }
}

/* TEST_LEASED_CLUSTER_VERSION makes a member act as one of a release that knows no more than that
 * version: for the tests of upgrades alone. */
static uint32_t cluster_version_for_tests(void) {
    const char *text = getenv("TEST_LEASED_CLUSTER_VERSION");
    return text == NULL ? 0 : (uint32_t)strtoul(text, NULL, 10);
}

/* The first start: a member of a new cluster makes its id, one that joins gets it from the cluster.
 */
static enum status bootstrap_identity(struct server *server, const struct join_options *proof,
                                      char *out_error, size_t error_size) {
    const struct options *options = server->options;
    if (options->is_named_otherwise) {
        snprintf(out_error, error_size,
                 "--initial-cluster has other URLs for \"%s\" than --initial-advertise-peer-urls",
                 options->name);
        return STATUS_INVALID;
    }
    if (strcmp(options->initial_cluster_state, "existing") == 0) {
        return admission_join(&server->loop, proof, options, &server->arena, &server->identity,
                              &server->admission, out_error, error_size);
    }
    identity_make(&server->identity, options);
    return admission_check(&server->loop, proof, options, &server->identity, out_error, error_size);
}

/* It needs data to go on with, and no other member may run with the same cluster. */
static enum status check_force_new_cluster(struct server *server, const struct join_options *proof,
                                           enum status loaded, char *out_error, size_t error_size) {
    if (loaded == STATUS_KEY_NOT_FOUND || !data_dir_has_log(server->data_dir)) {
        snprintf(out_error, error_size,
                 "--force-new-cluster goes on with the data of a member, and %s has none. Give the "
                 "--data-dir of a member, or leave the flag out to make a new cluster",
                 data_dir_path(server->data_dir));
        return STATUS_INVALID;
    }
    if (loaded != STATUS_OK) {
        return loaded;
    }
    log_warning("--force-new-cluster: this member goes on alone with its data; every other member "
                "leaves the cluster");
    return admission_check_forced(&server->loop, proof, server->options, &server->identity,
                                  out_error, error_size);
}

static void open_data_dir(struct server *server) {
    const struct options *options = server->options;
    char error[SERVER_ERROR_SIZE] = "";
    enum status status = data_dir_open(options->data_dir, &server->data_dir, error, sizeof error);
    if (status != STATUS_OK) {
        die(exit_code_of_status(status), "cannot start", error);
    }
    if (data_dir_is_open_to_others(server->data_dir)) {
        log_warning("other users may look into the data directory; chmod 700 is safer",
                    LOG_TEXT("path", data_dir_path(server->data_dir)));
    }

    load_peer_secret(server);
    struct tls_context *tls = load_peer_tls(server);
    const struct join_options join = {
        .tls = tls,
        .secret = bytes_of(server->peer_secret.data, server->peer_secret.size),
        .cluster_version_known = cluster_version_for_tests()};
    const struct join_options *proof = &join;
    struct identity *identity = &server->identity;
    status = data_dir_load_identity(server->data_dir, identity, error, sizeof error);
    bool is_new = status == STATUS_KEY_NOT_FOUND;
    bool is_renamed = status == STATUS_OK && strcmp(identity->name, options->name) != 0;
    if (options->force_new_cluster) {
        status = check_force_new_cluster(server, proof, status, error, sizeof error);
    } else if (is_new && data_dir_has_etcd_data(server->data_dir)) {
        status = etcd_data_dir_take_over(server->data_dir, options, identity, error, sizeof error);
    } else if (is_new) {
        status = bootstrap_identity(server, proof, error, sizeof error);
    } else if (status == STATUS_OK && !data_dir_has_log(server->data_dir) &&
               data_dir_has_etcd_data(server->data_dir)) {
        /* Taken over, and begun: an empty cluster must not begin in its place. */
        snprintf(error, sizeof error, "%s/raft is missing: restore it from a backup",
                 data_dir_path(server->data_dir));
        status = STATUS_CORRUPT;
    } else if (status == STATUS_OK && !data_dir_has_log(server->data_dir)) {
        status = admission_check(&server->loop, proof, options, identity, error, sizeof error);
    }
    tls_context_destroy(tls);
    if (is_renamed) {
        log_info("this member is renamed", LOG_TEXT("from", identity->name),
                 LOG_TEXT("to", options->name));
        memcpy(identity->name, options->name, strlen(options->name) + 1);
    }
    bool has_no_data_dir_id = status == STATUS_OK && identity->data_dir_id == 0;
    if (has_no_data_dir_id) {
        ssize_t n = getrandom(&identity->data_dir_id, sizeof identity->data_dir_id, 0);
        assert(n == (ssize_t)sizeof identity->data_dir_id);
    }
    if (status == STATUS_OK && (is_new || is_renamed || has_no_data_dir_id)) {
        status = data_dir_store_identity(server->data_dir, identity, error, sizeof error);
    }
    if (status != STATUS_OK) {
        die(exit_code_of_status(status), "cannot start", error);
    }
}

/* --- Replication. --- */

static void begin_catch_up(void *data) {
    net_server_begin_catch_up(((struct server *)data)->net);
}

static bool is_caught_up(void *data) {
    return net_server_is_caught_up(((struct server *)data)->net);
}

static void replication_failed(void *data, enum status status, const char *reason) {
    die_of_data(data, status, "this node cannot go on", reason);
}

/* The members by the ids that all of them make alike. */
static void name_members(struct server *server) {
    const struct options *options = server->options;
    uint64_t (*member_id)(const char *, const struct url_list *) =
        identity_is_legacy(&server->identity, options) ? identity_legacy_member_id
                                                       : identity_member_id;
    for (size_t i = 0; i < options->n_members; i++) {
        const struct options_member *member = &options->members[i];
        bool is_self = strcmp(member->name, options->name) == 0;
        server->members[i] = (struct replication_member){
            .id = is_self ? server->identity.member_id
                          : member_id(options->initial_cluster_token, &member->peer_urls),
            .name = member->name,
            .address = url_address(&member->peer_urls.urls[0], &server->arena),
            .peer_urls = member->peer_urls.texts};
    }
}

static void stop(struct server *server);

static void removed(void *data) {
    struct server *server = data;
    if (!server->is_stopping) {
        log_info("stopping", LOG_TEXT("reason", "this member was removed from the cluster"));
        server->exit_code = EXIT_CODE_REMOVED;
        stop(server);
    }
}

static void open_replication(struct server *server) {
    const struct options *options = server->options;
    /* A member that joined gets the list of members from the others. */
    bool is_alone = options->force_new_cluster;
    bool is_joined = server->identity.is_joined && !is_alone;
    if (!is_joined) {
        name_members(server);
    }
    const struct url *first_place = &options->listen_peer_urls.urls[0];
    for (size_t i = 1; i < options->listen_peer_urls.n; i++) {
        const struct url *url = &options->listen_peer_urls.urls[i];
        struct host_port *place = &server->more_peer_places[i - 1];
        const char *host = url_is_unix(url) ? url_address(url, &server->arena) : url->host;
        snprintf(place->host, sizeof place->host, "%s", host);
        place->port = url->port;
    }
    char error[SERVER_ERROR_SIZE] = "";
    const struct replication_options replication = {
        .data_dir = data_dir_raft_path(server->data_dir),
        .rules = open_doors_rules(options->doors, &server->arena),
        .name = server->identity.name,
        .cluster_id = server->identity.cluster_id,
        .member_id = server->identity.member_id,
        .client_urls = options->advertise_client_urls.texts,
        .peer_urls = options->initial_advertise_peer_urls.texts,
        .peer_address = options->peer_address,
        .members = is_joined ? server->admission.members : server->members,
        .n_members = is_alone    ? 0
                     : is_joined ? server->admission.n_members
                                 : options->n_members,
        .is_joining = is_joined,
        .force_new_cluster = options->force_new_cluster,
        .token_hash = join_token_hash(options->initial_cluster_token),
        .data_dir_id = server->identity.data_dir_id,
        .data_dir_ids_path = data_dir_ids_path(server->data_dir),
        .listens_alone = options->is_peer_port_asked_for && !is_alone,
        .peer_listen_host =
            url_is_unix(first_place) ? url_address(first_place, &server->arena) : first_place->host,
        .peer_listen_port = first_place->port,
        .peer_more_places = server->more_peer_places,
        .peer_n_more_places = options->listen_peer_urls.n - 1,
        .peer_tls = options->has_peer_tls ? &server->peer_tls.options : NULL,
        .peer_secret = bytes_of(server->peer_secret.data, server->peer_secret.size),
        .strict_reads = options->strict_reads,
        .cluster_version_known = cluster_version_for_tests(),
        .request_size_max = options->max_request_bytes,
        .quota_bytes = options->quota_backend_bytes,
        .compacts_history = !options->keeps_all_history,
        .history_bytes = options->history_bytes,
        .heartbeat_ms = (uint32_t)options->heartbeat_interval_ms,
        .election_ms = (uint32_t)options->election_timeout_ms,
        .log_bytes_max = options->snapshot_log_bytes,
        .begin_catch_up = begin_catch_up,
        .is_caught_up = is_caught_up,
        .failed = replication_failed,
        .removed = removed,
        .data = server,
    };
    enum status status =
        replication_open(&server->loop, &replication, &server->service, error, sizeof error);
    if (status != STATUS_OK) {
        die_of_data(server, status, "cannot start", error);
    }
}

/* --- Listening. --- */

static struct net_limits limits_of(const struct options *options) {
    struct net_limits limits = net_limits_default;
    /* What is a little too large is let in, so that the door's own words refuse it. */
    limits.message_size_max = options->max_request_bytes + MESSAGE_OVERHEAD_BYTES;
    if (options->max_concurrent_streams != 0) {
        limits.streams_max = options->max_concurrent_streams;
        limits.bridged_max = options->max_concurrent_streams;
    }
    if (options->max_connections != 0) {
        limits.connections_max = options->max_connections;
    }
    if (options->grpc_keepalive_interval_ms >= 0) {
        limits.keepalive_interval_ms = (uint64_t)options->grpc_keepalive_interval_ms;
    }
    if (options->grpc_keepalive_timeout_ms >= 0) {
        limits.keepalive_timeout_ms = (uint64_t)options->grpc_keepalive_timeout_ms;
    }
    return limits;
}

static void open_client_tls(struct server *server) {
    char error[SERVER_ERROR_SIZE] = "";
    enum status status = client_tls_open(&server->client_tls, server->options,
                                         data_dir_path(server->data_dir), error, sizeof error);
    if (status != STATUS_OK) {
        die(status == STATUS_INVALID ? EXIT_CODE_USAGE : EXIT_CODE_FAILED, "cannot start", error);
    }
}

/* `scope` NULL: whatever the main listeners speak. `datagrams` has the handler of the same
 * addresses over UDP; without one nothing is spoken there. http:// and https:// on one address are
 * one listener, as in etcd. */
static void listen_on(struct server *server, struct net_server *net, const struct url_list *urls,
                      struct net_scope *scope, struct net_datagram_options datagrams,
                      const char *what) {
    char error[SERVER_ERROR_SIZE] = "";
    for (size_t i = 0; i < urls->n; i++) {
        const struct url *url = &urls->urls[i];
        const struct url *twin = url_list_twin(urls, url);
        const struct net_listen_options where = {
            .host = url->host,
            .port = url->port,
            .unix_path = url_is_unix(url) ? url->path : NULL,
            .tls = url_is_tls(url) || twin != NULL ? server->client_tls.context : NULL,
            .is_plain_too = twin != NULL,
            .scope = scope};
        bool is_first = twin == NULL || url < twin;
        uint16_t port = url->port;
        if (is_first && net_server_listen(net, &where, &port, error, sizeof error) != STATUS_OK) {
            die(EXIT_CODE_FAILED, "cannot start", error);
        }
        bool has_datagrams = datagrams.handler != NULL && !url_is_unix(url) && !url_is_tls(url);
        datagrams.host = url->host;
        datagrams.port = port;
        if (has_datagrams &&
            net_server_listen_datagrams(net, &datagrams, NULL, error, sizeof error) != STATUS_OK) {
            die(EXIT_CODE_FAILED, "cannot start", error);
        }
        if (url->port == 0 && !url_is_unix(url)) {
            log_info("listening", LOG_TEXT("for", what), LOG_TEXT("url", urls->texts[i]),
                     LOG_NUMBER("port", port));
        } else {
            log_info("listening", LOG_TEXT("for", what), LOG_TEXT("url", urls->texts[i]));
        }
        bool is_verified = url_is_tls(url) && client_tls_is_verified(server->options);
        if (!url_is_loopback(url) && !is_verified) {
            log_warning("this listener has neither TLS nor authentication: every client that "
                        "reaches it can read and write everything",
                        LOG_TEXT("url", urls->texts[i]));
        }
    }
}

/* Clients get the descriptors that nothing else needs. */
static void plan_connections(struct server *server, struct net_limits *limits) {
    const struct options *options = server->options;
    char error[SERVER_ERROR_SIZE] = "";
    size_t wanted = limits->connections_max;
    uint64_t limit = descriptors_raise_limit();
    enum status status = descriptors_plan(limit, wanted, options->listen_metrics_urls.n > 0,
                                          &limits->connections_max, error, sizeof error);
    if (status != STATUS_OK) {
        die(exit_code_of_status(status), "cannot start", error);
    }
    server->check_sockets_max = descriptors_checks(limit);
    limits->client_connections_max =
        descriptors_client_share(limits->connections_max, options->max_connections_per_address);
    if (limits->connections_max < wanted) {
        log_warning(
            options->max_connections != 0
                ? "the limit of open files allows fewer clients than --max-connections; raise it "
                  "with ulimit -n, or LimitNOFILE= of the unit"
                : "the limit of open files allows fewer clients than the default; raise it with "
                  "ulimit -n, or LimitNOFILE= of the unit",
            LOG_NUMBER("open files", limit), LOG_NUMBER("wanted", wanted),
            LOG_NUMBER("connections max", limits->connections_max));
    }
}

/* Before replication, and before anything listens: of libuv's prepare handles the one started last
 * runs first, so what replication answers at the end of an iteration is sent in the same one. */
static void create_net(struct server *server) {
    struct net_limits limits = limits_of(server->options);
    plan_connections(server, &limits);
    server->net = net_server_create(&server->loop, &limits);
    server->n_net_open = 1;
    if (server->options->listen_metrics_urls.n > 0) {
        limits.connections_max = METRICS_CONNECTIONS_MAX;
        limits.client_connections_max = 0;
        server->metrics_net = net_server_create(&server->loop, &limits);
        server->n_net_open++;
    }
}

static void open_authenticator(struct server *server) {
    char reason[JWT_ERROR_SIZE];
    if (!jwt_open(server->options->auth_token, &server->jwt, reason)) {
        char error[SERVER_ERROR_SIZE];
        snprintf(error, sizeof error, "--auth-token: %s", reason);
        die(EXIT_CODE_USAGE, "cannot start", error);
    }
    server->authenticator = authenticator_create(&server->loop, server->service, server->jwt);
}

static void open_doors(struct server *server) {
    const struct options *options = server->options;
    open_authenticator(server);
    net_server_set_authenticator(server->net, &authenticator_of_requests, server->authenticator);
    if (server->metrics_net != NULL) {
        net_server_set_authenticator(server->metrics_net, &authenticator_of_requests,
                                     server->authenticator);
    }
    const struct door_environment environment = {.loop = &server->loop,
                                                 .service = server->service,
                                                 .authenticator = server->authenticator,
                                                 .net = server->net,
                                                 .quota_bytes = server->housekeeping.quota_bytes,
                                                 .request_size_max = options->max_request_bytes,
                                                 .check_sockets_max = server->check_sockets_max};
    open_client_tls(server);
    open_doors_open(&server->doors, options, &environment);
    server->sources = (struct metrics_sources){.service = server->service,
                                               .net = server->net,
                                               .authenticator = server->authenticator,
                                               .doors = &server->doors};
    health_question_init(&server->sources.question);
    metrics_text_init(&server->sources.text);
    routes_register(&server->sources, server->net);
    char error[SERVER_ERROR_SIZE] = "";
    if (open_doors_serve(&server->doors, server->net, error, sizeof error) != STATUS_OK) {
        die(EXIT_CODE_USAGE, "cannot start", error);
    }
    const struct net_datagram_options nothing = {0};
    if (server->metrics_net != NULL) {
        routes_register(&server->sources, server->metrics_net);
        listen_on(server, server->metrics_net, &options->listen_metrics_urls, NULL, nothing,
                  "metrics");
    }
    listen_on(server, server->net, &options->listen_client_urls, NULL, nothing, "clients");
    listen_on(server, server->net, &options->listen_client_http_urls, NULL, nothing, "clients");
    for (size_t i = 0; i < options->doors->n_doors; i++) {
        struct net_datagram_options datagrams = {0};
        datagrams.handler = open_doors_datagrams(&server->doors, i, &datagrams.context);
        listen_on(server, server->net, &options->door_settings[i].listen,
                  open_doors_own_scope(&server->doors, server->net, i), datagrams,
                  options->doors->doors[i]->title);
    }
}

/* --- Ready. --- */

static void feed_watchdog(uv_timer_t *timer) {
    (void)timer;
    notify_send("WATCHDOG=1");
}

static void ready(struct service_read *read, enum status status);

static void ask_until_ready(struct server *server) {
    server->first_read.ready = ready;
    enum status status =
        service_read(server->service, &caller_server, &server->first_read, NULL, 0);
    if (status != STATUS_PENDING) {
        ready(&server->first_read, status);
    }
}

/* The lines that harnesses made for etcd wait for. */
static void log_served(const struct server *server, const struct url_list *urls) {
    for (size_t i = 0; i < urls->n && server->options->log_format == LOG_FORMAT_JSON; i++) {
        const struct url *url = &urls->urls[i];
        char address[HOST_PORT_TEXT_SIZE_MAX];
        const char *where =
            url_is_unix(url) ? url->path : host_port_format(url->host, url->port, address);
        log_info(url_is_tls(url)
                     ? "serving client traffic securely"
                     : "serving client traffic insecurely; this is strongly discouraged!",
                 LOG_TEXT("traffic", "grpc+http"), LOG_TEXT("address", where));
    }
}

static void ready(struct service_read *read, enum status status) {
    struct server *server = list_entry(read, struct server, first_read);
    if (server->is_stopping) {
        return;
    }
    if (status == STATUS_NO_LEADER || status == STATUS_TIMED_OUT) {
        log_info("waiting for a majority of the members");
        ask_until_ready(server);
        return;
    }
    if (status != STATUS_OK) {
        return;
    }
    const struct state_view *state = service_view(server->service);
    log_info("ready to serve client requests", LOG_TEXT("name", server->identity.name),
             LOG_TEXT("data", data_dir_path(server->data_dir)),
             LOG_NUMBER("leases", lease_table_count(state_view_leases(state))),
             LOG_NUMBER("revision", key_store_revision(state_view_keys(state))));
    if (server->options->log_format == LOG_FORMAT_JSON) {
        log_info("published local member to cluster through raft",
                 LOG_HEX("local-member-id", server->identity.member_id),
                 LOG_HEX("cluster-id", server->identity.cluster_id));
    }
    log_served(server, &server->options->listen_client_urls);
    log_served(server, &server->options->listen_client_http_urls);
    if (server->options->log_format == LOG_FORMAT_TEXT) {
        const struct url_list *urls = &server->options->advertise_client_urls;
        char flags[SERVER_FLAGS_SIZE] = "";
        if (url_is_tls(&urls->urls[0]) && server->client_tls.context != NULL) {
            client_tls_flags(&server->client_tls, flags, sizeof flags);
        }
        welcome_print(stdout, urls->texts[0], flags, data_dir_path(server->data_dir));
    }
    notify_send("READY=1");
    uint64_t interval_ms = notify_watchdog_interval_ms();
    if (interval_ms > 0) {
        uv_timer_start(&server->watchdog, feed_watchdog, interval_ms, interval_ms);
    }
}

/* --- Stopping. --- */

static void replication_closed(void *data) {
    struct server *server = data;
    open_doors_close(&server->doors);
    authenticator_destroy(server->authenticator);
    jwt_destroy(server->jwt);
    server->service = NULL;
}

static void net_closed(void *data) {
    struct server *server = data;
    if (--server->n_net_open == 0) {
        open_doors_stop(&server->doors);
        replication_close(server->service, replication_closed, server);
    }
}

static void stop(struct server *server) {
    assert(!server->is_stopping);
    server->is_stopping = true;
    notify_send("STOPPING=1");
    /* A second signal finds no handler and ends the process at once. */
    uv_close((uv_handle_t *)&server->terminate, NULL);
    uv_close((uv_handle_t *)&server->interrupt, NULL);
    uv_close((uv_handle_t *)&server->watchdog, NULL);
    housekeeping_stop(&server->housekeeping);
    net_server_shutdown(server->net, SHUTDOWN_GRACE_MS, net_closed, server);
    if (server->metrics_net != NULL) {
        net_server_shutdown(server->metrics_net, 0, net_closed, server);
    }
}

static void signalled(uv_signal_t *handle, int number) {
    log_info("received signal; shutting down", LOG_TEXT("signal", strsignal(number)));
    stop(handle->data);
}

static void start_handles(struct server *server) {
    int result = uv_signal_init(&server->loop, &server->terminate);
    assert(result == 0);
    server->terminate.data = server;
    result = uv_signal_start(&server->terminate, signalled, SIGTERM);
    assert(result == 0);
    result = uv_signal_init(&server->loop, &server->interrupt);
    assert(result == 0);
    server->interrupt.data = server;
    result = uv_signal_start(&server->interrupt, signalled, SIGINT);
    assert(result == 0);

    result = uv_timer_init(&server->loop, &server->watchdog);
    assert(result == 0);
}

static bool is_congested(void *data) {
    const struct server *server = data;
    return server->service != NULL && service_is_congested(server->service);
}

int server_run(const struct options *options) {
    struct server *server = calloc(1, sizeof *server);
    if (server == NULL || uv_loop_init(&server->loop) != 0) {
        die(EXIT_CODE_FAILED, "cannot start", "out of memory or file descriptors");
    }
    server->options = options;
    create_net(server);
    open_data_dir(server);
    open_replication(server);
    net_server_set_congestion(server->net, is_congested, server);
    housekeeping_start(&server->housekeeping, &server->loop, server->service, server->net, options);
    open_doors(server);
    start_handles(server);

    ask_until_ready(server);
    uv_run(&server->loop, UV_RUN_DEFAULT);

    assert(server->is_stopping);
    net_server_destroy(server->net);
    net_server_destroy(server->metrics_net);
    metrics_text_clear(&server->sources.text);
    client_tls_clear(&server->client_tls);
    int result = uv_loop_close(&server->loop);
    assert(result == 0);
    data_dir_close(server->data_dir);
    arena_clear(&server->arena);
    peer_secret_clear(&server->peer_secret);
    int exit_code = server->exit_code;
    free(server);
    log_info(options->log_format == LOG_FORMAT_JSON ? "closed etcd server" : "stopped");
    return exit_code;
}
