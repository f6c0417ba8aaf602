/* Four-letter words: what operators and monitoring ask with a bare connection. */
#include "build_info.h"
#include "doors/zookeeper/zk_keys.h"
#include "doors/zookeeper/zk_stats.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum { LINE_SIZE_MAX = 512, ANSWER_SIZE_MAX = 4 * 1024 * 1024 };

__attribute__((format(printf, 2, 3))) static void add(struct buffer *out, const char *format, ...) {
    char line[LINE_SIZE_MAX];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (size > 0) {
        buffer_append(out, line, (size_t)size < sizeof line ? (size_t)size : sizeof line - 1);
    }
}

/* --- The server. --- */

static void add_server(struct zk_door *door, struct buffer *out) {
    struct zk_stats stats;
    zk_stats_read(door, &stats);
    add(out, "Latency min/avg/max: %" PRIu64 "/%.4f/%" PRIu64 "\n", door->latency.min_ms,
        zk_stats_latency_ms(&door->latency), door->latency.max_ms);
    add(out, "Received: %" PRIu64 "\nSent: %" PRIu64 "\n", door->counters.received,
        door->counters.sent);
    add(out, "Connections: %zu\nOutstanding: %zu\n", stats.connections, stats.outstanding);
    add(out, "Zxid: 0x%" PRIx64 "\nMode: %s\nNode count: %zu\n", (uint64_t)stats.zxid, stats.mode,
        stats.nodes);
}

static void add_version(struct buffer *out) {
    add(out, "Zookeeper version: %s, built on an unknown day\n", ZK_VERSION);
}

static void srvr(struct zk_door *door, struct buffer *out) {
    add_version(out);
    add_server(door, out);
}

static void mntr(struct zk_door *door, struct buffer *out) {
    struct zk_stats stats;
    zk_stats_read(door, &stats);
    add(out, "zk_version\t%s\nzk_server_state\t%s\n", ZK_VERSION, stats.mode);
    add(out, "zk_avg_latency\t%.4f\nzk_max_latency\t%" PRIu64 "\nzk_min_latency\t%" PRIu64 "\n",
        zk_stats_latency_ms(&door->latency), door->latency.max_ms, door->latency.min_ms);
    add(out, "zk_packets_received\t%" PRIu64 "\nzk_packets_sent\t%" PRIu64 "\n",
        door->counters.received, door->counters.sent);
    add(out, "zk_num_alive_connections\t%zu\nzk_outstanding_requests\t%zu\n", stats.connections,
        stats.outstanding);
    add(out, "zk_znode_count\t%zu\nzk_watch_count\t%zu\nzk_ephemerals_count\t%zu\n", stats.nodes,
        stats.watches, stats.ephemerals);
    add(out, "zk_global_sessions\t%zu\nzk_approximate_data_size\t%zu\n", stats.sessions,
        stats.data_bytes);
    add(out, "zk_open_file_descriptor_count\t%zu\nzk_max_file_descriptor_count\t%zu\n", stats.files,
        stats.files_max);
    add(out, "zk_auth_failed_count\t%" PRIu64 "\nzk_stale_sessions_expired\t%" PRIu64 "\n",
        door->counters.auth_failures, door->counters.sessions_expired);
    add(out, "zk_quorum_size\t%" PRIu64 "\n", stats.members);
}

static void conf(struct zk_door *door, struct buffer *out) {
    const union door_value *values = door->environment->values;
    struct service_info info;
    service_info(door->service, &info);
    /* What leased has no like of is left out; its port is that of --listen-zookeeper. */
    add(out, "clientPort=\nserverId=%" PRIu64 "\ntickTime=%d\n", info.member_id, 2000);
    add(out, "minSessionTimeout=%" PRId64 "\nmaxSessionTimeout=%" PRId64 "\n",
        values[ZK_FLAG_TIMEOUT_MIN].duration_ms, values[ZK_FLAG_TIMEOUT_MAX].duration_ms);
}

static void envi(struct zk_door *door, struct buffer *out) {
    char name[256] = "";
    (void)door;
    (void)gethostname(name, sizeof name - 1);
    add(out, "Environment:\nzookeeper.version=%s\nhost.name=%s\nos.name=Linux\n", ZK_VERSION, name);
}

/* --- Connections. --- */

static void add_connection(const struct zk_connection *connection, bool is_long,
                           struct buffer *out) {
    char address[NET_ADDRESS_SIZE];
    raw_connection_address(connection->raw, address);
    add(out, " /%s[%d](queued=%zu,recved=%" PRIu64 ",sent=%" PRIu64, address,
        connection->state != ZK_NEW, connection->n_requests, connection->received,
        connection->sent);
    if (is_long && connection->session_id != 0) {
        add(out, ",sid=0x%" PRIx64 ",lop=%s,est=%" PRIu64 ",to=%" PRId32,
            (uint64_t)connection->session_id, zk_stats_operation(connection->last_type),
            connection->opened_ms, connection->timeout_ms);
        add(out, ",minlat=%" PRIu64 ",avglat=%.1f,maxlat=%" PRIu64, connection->latency.min_ms,
            zk_stats_latency_ms(&connection->latency), connection->latency.max_ms);
    }
    add(out, ")\n");
}

static void add_connections(const struct zk_door *door, bool is_long, struct buffer *out) {
    for (const struct list *node = door->connections.next;
         node != &door->connections && out->size < ANSWER_SIZE_MAX; node = node->next) {
        add_connection(list_entry(node, struct zk_connection, in_door), is_long, out);
    }
    add(out, "\n");
}

static void cons(struct zk_door *door, struct buffer *out) {
    add_connections(door, true, out);
}

static void stat_word(struct zk_door *door, struct buffer *out) {
    add_version(out);
    add(out, "Clients:\n");
    add_connections(door, false, out);
    add_server(door, out);
}

/* --- Sessions and their nodes. --- */

struct dump {
    const struct lease_table *leases;
    struct buffer *out;
    size_t n;
};

static bool dump_session(void *context, int64_t id, const struct zk_session *session) {
    struct dump *dump = context;
    add(dump->out, "\t0x%" PRIx64 "\t%" PRId64 "ms\n", (uint64_t)id, session->timeout_ms);
    return dump->out->size < ANSWER_SIZE_MAX;
}

static bool dump_nodes(void *context, int64_t id, const struct zk_session *session) {
    struct dump *dump = context;
    bool is_first = true;
    struct bytes path;
    (void)session;
    for (const struct record *record = lease_table_first_key(dump->leases, id);
         record != NULL && dump->out->size < ANSWER_SIZE_MAX; record = record->lease_next) {
        if (!key_space_equal(record_space(record), KEY_SPACE_ZOOKEEPER) ||
            !zk_key_path(record_key(record), ZK_KEY_NODE, &path)) {
            continue;
        }
        if (is_first) {
            add(dump->out, "0x%" PRIx64 ":\n", (uint64_t)id);
            is_first = false;
        }
        add(dump->out, "\t");
        buffer_append(dump->out, path.data, path.size);
        add(dump->out, "\n");
    }
    return dump->out->size < ANSWER_SIZE_MAX;
}

static void dump(struct zk_door *door, struct buffer *out) {
    struct zk_stats stats;
    struct dump dump = {.leases = state_view_leases(service_view(door->service)), .out = out};
    door->counted.is_known = false; /* what follows has all of them anyway */
    zk_stats_read(door, &stats);
    add(out, "SessionTracker dump:\nSessions (%zu):\n", stats.sessions);
    zk_stats_sessions(door, dump_session, &dump);
    add(out, "ephemeral nodes dump:\nEphemerals (%zu):\n", stats.ephemerals);
    zk_stats_sessions(door, dump_nodes, &dump);
    add(out, "Connections dump:\nConnections (%zu):\n", stats.connections);
}

/* --- Watches. --- */

static void wchs(struct zk_door *door, struct buffer *out) {
    struct zk_stats stats;
    zk_stats_read(door, &stats);
    add(out, "%zu connections watching %zu paths\nTotal watches:%zu\n", stats.watching_connections,
        stats.watched_paths, stats.watches);
}

static void wchc(struct zk_door *door, struct buffer *out) {
    for (const struct list *node = door->connections.next; node != &door->connections;
         node = node->next) {
        const struct zk_connection *connection = list_entry(node, struct zk_connection, in_door);
        if (connection->watcher.n_watches == 0) {
            continue;
        }
        add(out, "0x%" PRIx64 "\n", (uint64_t)connection->session_id);
        const struct list *watches = &connection->watcher.watches;
        for (const struct list *at = watches->next; at != watches && out->size < ANSWER_SIZE_MAX;
             at = at->next) {
            const struct zk_watch *watch = list_entry(at, struct zk_watch, in_watcher);
            add(out, "\t");
            buffer_append(out, watch->path->path, watch->path->size);
            add(out, "\n");
        }
    }
}

static void wchp(struct zk_door *door, struct buffer *out) {
    const struct zk_hash *paths = &door->watches.paths;
    for (size_t i = 0; i < paths->n_buckets; i++) {
        for (struct zk_hash_node *node = paths->buckets[i];
             node != NULL && out->size < ANSWER_SIZE_MAX; node = node->next) {
            const struct zk_watched_path *path = (const struct zk_watched_path *)node;
            buffer_append(out, path->path, path->size);
            add(out, "\n");
            for (const struct list *at = path->watches.next; at != &path->watches; at = at->next) {
                struct zk_watch *watch = list_entry(at, struct zk_watch, in_path);
                add(out, "\t0x%" PRIx64 "\n",
                    (uint64_t)zk_connection_of_watcher(watch->watcher)->session_id);
            }
        }
    }
}

/* --- The rest. --- */

static void ruok(struct zk_door *door, struct buffer *out) {
    (void)door;
    add(out, "imok");
}

static void isro(struct zk_door *door, struct buffer *out) {
    (void)door;
    add(out, "rw");
}

static void crst(struct zk_door *door, struct buffer *out) {
    zk_stats_reset_connections(door);
    add(out, "Connection stats reset.\n");
}

static void srst(struct zk_door *door, struct buffer *out) {
    zk_stats_reset_server(door);
    add(out, "Server stats reset.\n");
}

static const struct {
    const char *word;
    void (*answer)(struct zk_door *door, struct buffer *out);
    bool is_public; /* tells nothing of clients and nodes */
} words[] = {
    {"ruok", ruok, true},       {"isro", isro, true},  {"srvr", srvr, true},  {"mntr", mntr, true},
    {"stat", stat_word, false}, {"cons", cons, false}, {"dump", dump, false}, {"wchs", wchs, true},
    {"wchc", wchc, false},      {"wchp", wchp, false}, {"conf", conf, false}, {"envi", envi, false},
    {"crst", crst, false},      {"srst", srst, false},
};

enum { N_WORDS = sizeof words / sizeof words[0] };

static size_t index_of(struct bytes word) {
    size_t i = 0;
    while (i < N_WORDS && !bytes_equal(word, bytes_of(words[i].word, 4))) {
        i++;
    }
    return i;
}

bool zk_words_is(struct bytes word) {
    return index_of(word) < N_WORDS;
}

void zk_words_answer(struct zk_connection *connection, struct bytes word) {
    struct zk_door *door = connection->door;
    size_t i = index_of(word);
    struct buffer *out = zk_door_buffer(&door->scratch);
    if (!words[i].is_public &&
        service_check_admin(door->service, raw_connection_caller(connection->raw), words[i].word) !=
            STATUS_OK) {
        add(out, "%s is not executed because it is not in the whitelist.\n", words[i].word);
    } else {
        words[i].answer(door, out);
    }
    raw_connection_send(connection->raw, bytes_of(out->data, out->size));
}
