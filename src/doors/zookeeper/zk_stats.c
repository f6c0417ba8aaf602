#include "doors/zookeeper/zk_stats.h"

#include "doors/zookeeper/zk_keys.h"

#include <dirent.h>
#include <sys/resource.h>

enum { COUNTED_MS = 1000 };

/* --- Sessions. --- */

struct session_visit {
    bool (*visit)(void *context, int64_t id, const struct zk_session *session);
    void *context;
};

static bool visit_session(void *opaque, const struct record *record) {
    const struct session_visit *visit = opaque;
    struct zk_session session;
    int64_t id;
    return !zk_key_session_id(record_key(record), &id) ||
           !zk_session_decode(record_value(record), &session) ||
           visit->visit(visit->context, id, &session);
}

void zk_stats_sessions(const struct zk_door *door,
                       bool (*visit)(void *context, int64_t id, const struct zk_session *session),
                       void *context) {
    static const uint8_t from = ZK_KEY_SESSION;
    static const uint8_t to = ZK_KEY_SESSION + 1;
    struct session_visit both = {.visit = visit, .context = context};
    key_store_visit(state_view_keys(service_view(door->service)), KEY_SPACE_ZOOKEEPER,
                    bytes_of(&from, 1), bytes_of(&to, 1), visit_session, &both);
}

struct session_count {
    const struct lease_table *leases;
    struct zk_stats *stats;
};

/* A lease has its session's record, its hook, and the ephemeral nodes. */
static bool count_session(void *context, int64_t id, const struct zk_session *session) {
    struct session_count *count = context;
    size_t n_keys = lease_table_key_count(count->leases, id);
    (void)session;
    count->stats->sessions++;
    count->stats->ephemerals += n_keys > 2 ? n_keys - 2 : 0;
    return true;
}

/* --- Figures. --- */

static size_t count_files(void) {
    DIR *folder = opendir("/proc/self/fd");
    size_t n = 0;
    while (folder != NULL && readdir(folder) != NULL) {
        n++;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return n > 3 ? n - 3 : 0; /* two names of folders, and this one */
}

static const char *mode_of(const struct service_info *info, size_t n_members) {
    if (info->leader_id == 0) {
        return "looking";
    }
    if (n_members <= 1) {
        return "standalone";
    }
    if (info->is_learner) {
        return "observer";
    }
    return info->leader_id == info->member_id ? "leader" : "follower";
}

static void count_all(struct zk_door *door, uint64_t now_ms) {
    struct zk_stats counted = {0};
    struct session_count count = {.leases = state_view_leases(service_view(door->service)),
                                  .stats = &counted};
    zk_stats_sessions(door, count_session, &count);
    door->counted = (struct zk_counted){.is_known = true,
                                        .at_ms = now_ms,
                                        .sessions = counted.sessions,
                                        .ephemerals = counted.ephemerals,
                                        .files = count_files()};
}

void zk_stats_read(struct zk_door *door, struct zk_stats *out_stats) {
    static const uint8_t from = ZK_KEY_NODE;
    static const uint8_t to = ZK_KEY_NODE + 1;
    const struct key_store *keys = state_view_keys(service_view(door->service));
    uint64_t now_ms = service_now_ms(door->service);
    struct service_info info;
    struct rlimit limit;
    if (!door->counted.is_known || now_ms - door->counted.at_ms >= COUNTED_MS) {
        count_all(door, now_ms);
    }
    service_info(door->service, &info);
    *out_stats = (struct zk_stats){.zxid = key_store_revision(keys),
                                   .sessions = door->counted.sessions,
                                   .ephemerals = door->counted.ephemerals,
                                   .watching_connections = door->watches.n_watchers,
                                   .connections = door->n_connections,
                                   .outstanding = door->n_requests,
                                   .files = door->counted.files};
    out_stats->members = service_members(door->service, NULL, 0);
    out_stats->mode = mode_of(&info, out_stats->members);
    out_stats->nodes =
        key_store_count(keys, KEY_SPACE_ZOOKEEPER, bytes_of(&from, 1), bytes_of(&to, 1));
    out_stats->data_bytes = key_store_bytes(keys);
    out_stats->watches = door->watches.watches.n;
    out_stats->watched_paths = door->watches.paths.n;
    out_stats->files_max = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? (size_t)limit.rlim_cur : 0;
}

/* --- Latency. --- */

static void add_latency(struct zk_latency *latency, uint64_t ms) {
    latency->min_ms = latency->n == 0 || ms < latency->min_ms ? ms : latency->min_ms;
    latency->max_ms = ms > latency->max_ms ? ms : latency->max_ms;
    latency->sum_ms += ms;
    latency->n++;
}

void zk_stats_answered(struct zk_connection *connection, uint64_t begun_ms) {
    uint64_t ms = service_now_ms(connection->door->service) - begun_ms;
    add_latency(&connection->latency, ms);
    add_latency(&connection->door->latency, ms);
}

double zk_stats_latency_ms(const struct zk_latency *latency) {
    return latency->n == 0 ? 0 : (double)latency->sum_ms / (double)latency->n;
}

void zk_stats_reset_server(struct zk_door *door) {
    door->latency = (struct zk_latency){0};
    door->counters.received = 0;
    door->counters.sent = 0;
}

void zk_stats_reset_connections(struct zk_door *door) {
    for (struct list *node = door->connections.next; node != &door->connections;
         node = node->next) {
        struct zk_connection *connection = list_entry(node, struct zk_connection, in_door);
        connection->latency = (struct zk_latency){0};
        connection->received = 0;
        connection->sent = 0;
    }
}

const char *zk_stats_operation(int32_t type) {
    switch (type) {
    case 0:
        return "NA";
    case ZK_OP_PING:
        return "PING";
    case ZK_OP_CREATE:
    case ZK_OP_CREATE2:
    case ZK_OP_CREATE_CONTAINER:
    case ZK_OP_CREATE_TTL:
        return "CREA";
    case ZK_OP_DELETE:
        return "DELE";
    case ZK_OP_EXISTS:
        return "EXIS";
    case ZK_OP_GET_DATA:
        return "GETD";
    case ZK_OP_SET_DATA:
        return "SETD";
    case ZK_OP_GET_ACL:
        return "GETA";
    case ZK_OP_SET_ACL:
        return "SETA";
    case ZK_OP_GET_CHILDREN:
        return "GETC";
    case ZK_OP_GET_CHILDREN2:
        return "GCH2";
    case ZK_OP_SYNC:
        return "SYNC";
    case ZK_OP_CHECK:
        return "CHEC";
    case ZK_OP_MULTI:
        return "MULT";
    case ZK_OP_AUTH:
        return "AUTH";
    case ZK_OP_SET_WATCHES:
    case ZK_OP_SET_WATCHES2:
        return "SETW";
    default:
        return "OTHR";
    }
}
