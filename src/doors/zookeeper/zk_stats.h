/*
 * Figures of this member and of the tree, for four-letter words, the admin server's commands and
 * metrics.
 */
#ifndef LEASED_DOORS_ZOOKEEPER_ZK_STATS_H
#define LEASED_DOORS_ZOOKEEPER_ZK_STATS_H

#include "doors/zookeeper/zk_connection.h"

#define ZK_VERSION "3.8.0-leased-" LEASED_VERSION

struct zk_stats {
    const char
        *mode; /* "standalone", "leader", "follower", "observer" or, without a leader, "looking" */
    int64_t zxid;
    size_t nodes;
    size_t ephemerals;
    size_t sessions; /* of the cluster */
    size_t data_bytes;
    size_t watches;
    size_t watched_paths;
    size_t watching_connections;
    size_t connections;
    size_t outstanding; /* requests on their way */
    size_t files;
    size_t files_max;
    uint64_t members;
};

/* What takes a look at every session or at the system (sessions, ephemerals, files) may be a second
 * old, as anybody may ask for it. */
void zk_stats_read(struct zk_door *door, struct zk_stats *out_stats);
/* A request was answered after so long. */
void zk_stats_answered(struct zk_connection *connection, uint64_t begun_ms);
void zk_stats_reset_server(struct zk_door *door);
void zk_stats_reset_connections(struct zk_door *door);
double zk_stats_latency_ms(const struct zk_latency *latency);

/* The name of an opcode, as "cons" shows it. */
const char *zk_stats_operation(int32_t type);

/* Every session of the cluster; stops when `visit` returns false. */
void zk_stats_sessions(const struct zk_door *door,
                       bool (*visit)(void *context, int64_t id, const struct zk_session *session),
                       void *context);

#endif
