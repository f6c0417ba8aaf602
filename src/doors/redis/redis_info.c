/* INFO: what libraries and monitors look for, as far as it is true here. */
#include "core/key_store.h"
#include "doors/redis/redis_door_internal.h"
#include "doors/redis/redis_keys.h"
#include "doors/redis/redis_reply.h"
#include "doors/redis/redis_run_rules.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

__attribute__((format(printf, 2, 3))) static void line(struct buffer *text, const char *format,
                                                       ...) {
    char bytes[256];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(bytes, sizeof bytes, format, arguments);
    va_end(arguments);
    buffer_append(text, bytes, (size_t)size < sizeof bytes ? (size_t)size : sizeof bytes - 1);
    buffer_append(text, "\r\n", 2);
}

/* Redisson takes a server that does not say what it runs on for one on Windows, where struct.pack's
 * longs have four bytes, and cannot read the events of its map caches. */
static void write_os(struct buffer *text) {
    struct utsname name;
    if (uname(&name) == 0) {
        line(text, "os:%s %s %s", name.sysname, name.release, name.machine);
    }
}

static void write_server(struct redis_connection *connection, struct buffer *text) {
    struct redis_door *door = connection->door;
    struct service_info info;
    uint64_t up_s = (service_now_ms(door->service) - door->stats.started_ms) / 1000;
    service_info(door->service, &info);
    line(text, "redis_version:%s", REDIS_VERSION_SHOWN);
    line(text, "redis_mode:standalone");
    line(text, "server_name:leased");
    write_os(text);
    line(text, "multiplexing_api:epoll");
    line(text, "arch_bits:64");
    line(text, "process_id:%ld", (long)getpid());
    line(text, "run_id:%016" PRIx64 "%016" PRIx64 "00000000", info.cluster_id, info.member_id);
    line(text, "server_time_usec:%" PRId64, redis_door_wall_ms(door) * 1000);
    line(text, "uptime_in_seconds:%" PRIu64, up_s);
    line(text, "uptime_in_days:%" PRIu64, up_s / 86400);
}

static void write_clients(struct redis_connection *connection, struct buffer *text) {
    line(text, "connected_clients:%zu", connection->door->n_connections);
    line(text, "blocked_clients:%zu", redis_waits_count(connection->door->waits));
}

static void write_memory(struct redis_connection *connection, struct buffer *text) {
    size_t bytes = key_store_bytes(state_view_keys(service_view(connection->door->service)));
    line(text, "used_memory:%zu", bytes);
    line(text, "used_memory_human:%.2fM", (double)bytes / (1024 * 1024));
    line(text, "maxmemory:%" PRIu64, connection->door->environment->quota_bytes);
    line(text, "maxmemory_policy:noeviction");
}

static void write_persistence(struct redis_connection *connection, struct buffer *text) {
    (void)connection;
    line(text, "loading:0");
    line(text, "async_loading:0");
    line(text, "rdb_changes_since_last_save:0");
    line(text, "rdb_bgsave_in_progress:0");
    line(text, "rdb_last_bgsave_status:ok");
    line(text, "aof_enabled:1");
    line(text, "aof_rewrite_in_progress:0");
    line(text, "aof_last_write_status:ok");
}

static void write_stats(struct redis_connection *connection, struct buffer *text) {
    const struct redis_door *door = connection->door;
    struct service_info info;
    service_info(door->service, &info);
    line(text, "total_connections_received:%" PRIu64, door->stats.connections);
    line(text, "total_commands_processed:%" PRIu64, door->stats.commands);
    line(text, "total_error_replies:%" PRIu64, door->stats.errors);
    line(text, "expired_keys:%" PRIu64, info.expired);
    line(text, "evicted_keys:0");
}

static void write_replication(struct redis_connection *connection, struct buffer *text) {
    (void)connection;
    line(text, "role:master");
    line(text, "connected_slaves:0");
    line(text, "master_failover_state:no-failover");
    line(text, "master_repl_offset:0");
}

static void write_cluster(struct redis_connection *connection, struct buffer *text) {
    (void)connection;
    line(text, "cluster_enabled:0");
}

static bool has_deadline(void *context, const struct record *record) {
    size_t *n = context;
    struct redis_header header;
    *n += redis_header_decode(record_value(record), &header) && header.deadline_ms != 0;
    return true;
}

static void write_keyspace(struct redis_connection *connection, struct buffer *text) {
    enum { LOOKED_AT_MAX = 10000 };
    struct redis_door *door = connection->door;
    const struct key_store *keys = state_view_keys(service_view(door->service));
    for (unsigned db = 0; db < REDIS_DATABASES; db++) {
        struct key_range range = redis_range_database(&door->arena, db);
        size_t n = key_store_count(keys, range.space, range.key, range.range_end);
        size_t n_expiring = 0;
        if (n > 0 && n <= LOOKED_AT_MAX) {
            key_store_visit(keys, range.space, range.key, range.range_end, has_deadline,
                            &n_expiring);
        }
        if (n > 0) {
            line(text, "db%u:keys=%zu,expires=%zu,avg_ttl=0", db, n, n_expiring);
        }
    }
}

struct section {
    const char *name;
    const char *title;
    void (*write)(struct redis_connection *connection, struct buffer *text);
};
static const struct section sections[] = {
    {"server", "Server", write_server},    {"clients", "Clients", write_clients},
    {"memory", "Memory", write_memory},    {"persistence", "Persistence", write_persistence},
    {"stats", "Stats", write_stats},       {"replication", "Replication", write_replication},
    {"cluster", "Cluster", write_cluster}, {"keyspace", "Keyspace", write_keyspace},
};

static bool is_asked_for(const struct section *section, const struct bytes *argv, size_t argc) {
    for (size_t i = 1; i < argc; i++) {
        if (redis_word_is(argv[i], section->name) || redis_word_is(argv[i], "all") ||
            redis_word_is(argv[i], "default") || redis_word_is(argv[i], "everything")) {
            return true;
        }
    }
    return argc == 1;
}

void redis_info_write(struct redis_connection *connection, const struct bytes *argv, size_t argc,
                      struct buffer *out) {
    struct buffer text;
    buffer_init(&text);
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        if (is_asked_for(&sections[i], argv, argc)) {
            if (text.size > 0) {
                buffer_append(&text, "\r\n", 2);
            }
            line(&text, "# %s", sections[i].title);
            sections[i].write(connection, &text);
        }
    }
    redis_reply_verbatim(out, "txt", bytes_of(text.data, text.size));
    buffer_clear(&text);
}
