/* The admin server's commands over HTTP: GET /commands/{command}, as JSON. */
#include "doors/zookeeper/zk_admin.h"
#include "build_info.h"
#include "doors/zookeeper/zk_stats.h"
#include "net/http.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

/* --- What the commands say. --- */

static void set_number(json_t *object, const char *name, uint64_t number) {
    json_object_set_new(object, name, json_integer((json_int_t)number));
}

static void set_text(json_t *object, const char *name, const char *text) {
    json_object_set_new(object, name, json_string(text));
}

static void monitor(struct zk_door *door, json_t *out) {
    struct zk_stats stats;
    zk_stats_read(door, &stats);
    set_text(out, "version", ZK_VERSION);
    set_text(out, "server_state", stats.mode);
    json_object_set_new(out, "avg_latency", json_real(zk_stats_latency_ms(&door->latency)));
    set_number(out, "max_latency", door->latency.max_ms);
    set_number(out, "min_latency", door->latency.min_ms);
    set_number(out, "packets_received", door->counters.received);
    set_number(out, "packets_sent", door->counters.sent);
    set_number(out, "num_alive_connections", stats.connections);
    set_number(out, "outstanding_requests", stats.outstanding);
    set_number(out, "znode_count", stats.nodes);
    set_number(out, "watch_count", stats.watches);
    set_number(out, "ephemerals_count", stats.ephemerals);
    set_number(out, "global_sessions", stats.sessions);
    set_number(out, "approximate_data_size", stats.data_bytes);
    set_number(out, "open_file_descriptor_count", stats.files);
    set_number(out, "max_file_descriptor_count", stats.files_max);
}

static json_t *connection_facts(const struct zk_connection *connection) {
    char address[NET_ADDRESS_SIZE];
    char session[32];
    json_t *facts = json_object();
    raw_connection_address(connection->raw, address);
    snprintf(session, sizeof session, "0x%" PRIx64, (uint64_t)connection->session_id);
    set_text(facts, "remote_socket_address", address);
    set_text(facts, "session_id", session);
    set_number(facts, "session_timeout", (uint64_t)connection->timeout_ms);
    set_number(facts, "outstanding_requests", connection->n_requests);
    set_number(facts, "packets_received", connection->received);
    set_number(facts, "packets_sent", connection->sent);
    set_text(facts, "last_operation", zk_stats_operation(connection->last_type));
    set_number(facts, "max_latency", connection->latency.max_ms);
    return facts;
}

static void connections(struct zk_door *door, json_t *out) {
    json_t *list = json_array();
    for (const struct list *node = door->connections.next; node != &door->connections;
         node = node->next) {
        const struct zk_connection *connection = list_entry(node, struct zk_connection, in_door);
        json_array_append_new(list, connection_facts(connection));
    }
    json_object_set_new(out, "connections", list);
}

static void stats_and_connections(struct zk_door *door, json_t *out) {
    json_t *server = json_object();
    monitor(door, server);
    json_object_set_new(out, "server_stats", server);
    connections(door, out);
}

static void configuration(struct zk_door *door, json_t *out) {
    const union door_value *values = door->environment->values;
    set_number(out, "min_session_timeout", (uint64_t)values[ZK_FLAG_TIMEOUT_MIN].duration_ms);
    set_number(out, "max_session_timeout", (uint64_t)values[ZK_FLAG_TIMEOUT_MAX].duration_ms);
}

static void watch_summary(struct zk_door *door, json_t *out) {
    struct zk_stats stats;
    zk_stats_read(door, &stats);
    set_number(out, "num_connections", stats.watching_connections);
    set_number(out, "num_paths", stats.watched_paths);
    set_number(out, "num_total_watches", stats.watches);
}

static void is_read_only(struct zk_door *door, json_t *out) {
    (void)door;
    json_object_set_new(out, "read_only", json_false());
}

static void ruok(struct zk_door *door, json_t *out) {
    (void)door;
    (void)out;
}

static void reset_server(struct zk_door *door, json_t *out) {
    (void)out;
    zk_stats_reset_server(door);
}

static void reset_connections(struct zk_door *door, json_t *out) {
    (void)out;
    zk_stats_reset_connections(door);
}

static void environment(struct zk_door *door, json_t *out) {
    (void)door;
    set_text(out, "zookeeper.version", ZK_VERSION);
    set_text(out, "os.name", "Linux");
}

static void leader(struct zk_door *door, json_t *out) {
    struct service_info info;
    char id[32];
    service_info(door->service, &info);
    json_object_set_new(out, "is_leader", json_boolean(info.leader_id == info.member_id));
    snprintf(id, sizeof id, "%" PRIx64, info.leader_id);
    set_text(out, "leader_id", id);
}

static const struct {
    const char *name;
    const char *other_name; /* the four-letter word */
    void (*answer)(struct zk_door *door, json_t *out);
} commands[] = {
    {"configuration", "conf", configuration},
    {"connection_stat_reset", "crst", reset_connections},
    {"connections", "cons", connections},
    {"environment", "envi", environment},
    {"is_read_only", "isro", is_read_only},
    {"leader", "lead", leader},
    {"monitor", "mntr", monitor},
    {"ruok", "ruok", ruok},
    {"server_stats", "srvr", monitor},
    {"stat_reset", "srst", reset_server},
    {"stats", "stat", stats_and_connections},
    {"watch_summary", "wchs", watch_summary},
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

/* --- The routes. --- */

static void reply(struct http_exchange *exchange, unsigned status, json_t *answer) {
    char *text = json_dumps(answer, JSON_INDENT(2));
    json_decref(answer);
    if (text == NULL) {
        abort();
    }
    http_reply(exchange, status, "application/json", bytes_from_text(text));
    free(text);
}

static bool may(struct http_exchange *exchange) {
    const struct zk_door *door = http_context(exchange);
    if (service_check_admin(door->service, http_caller(exchange), "zookeeper commands") ==
        STATUS_OK) {
        return true;
    }
    reply(exchange, 403, json_pack("{s:s}", "error", "permission denied"));
    return false;
}

static void on_command(struct http_exchange *exchange) {
    struct bytes name = {0};
    size_t i = 0;
    (void)http_parameter(exchange, "command", &name);
    if (!may(exchange)) {
        return;
    }
    while (i < N_COMMANDS && !bytes_equal(name, bytes_from_text(commands[i].name)) &&
           !bytes_equal(name, bytes_from_text(commands[i].other_name))) {
        i++;
    }
    json_t *answer = json_object();
    if (i == N_COMMANDS) {
        set_text(answer, "error", "Unknown command");
        reply(exchange, 404, answer);
        return;
    }
    commands[i].answer(http_context(exchange), answer);
    set_text(answer, "command", commands[i].name);
    json_object_set_new(answer, "error", json_null());
    reply(exchange, 200, answer);
}

static void on_list(struct http_exchange *exchange) {
    if (!may(exchange)) {
        return;
    }
    json_t *list = json_array();
    for (size_t i = 0; i < N_COMMANDS; i++) {
        json_array_append_new(list, json_string(commands[i].name));
    }
    reply(exchange, 200, json_pack("{s:o}", "commands", list));
}

static void on_close(struct http_exchange *exchange) {
    (void)exchange;
}

static const struct http_route routes[] = {
    {.method = "GET", .pattern = "/commands", .on_request = on_list, .on_close = on_close},
    {.method = "GET",
     .pattern = "/commands/{command}",
     .on_request = on_command,
     .on_close = on_close},
};

void zk_admin_serve(struct zk_door *door, struct net_scope *scope) {
    net_scope_add_routes(scope, routes, sizeof routes / sizeof routes[0], door);
}
