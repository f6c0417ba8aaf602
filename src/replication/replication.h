/*
 * The replicated state under the service. It opens the data directory, starts raft, batches what
 * one iteration of the loop submits into one entry, applies what is committed, takes snapshots in
 * the background, and runs the leader's expiry.
 */
#ifndef LEASED_REPLICATION_REPLICATION_H
#define LEASED_REPLICATION_REPLICATION_H

#include "base/bytes.h"
#include "base/host_port.h"
#include "base/status.h"
#include "core/service.h"
#include "tls/tls_context.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* A member of the cluster. Texts outlive the replication. */
/* etcd's default. */
#define QUOTA_BYTES_DEFAULT (UINT64_C(2) * 1024 * 1024 * 1024)
/* Of history, or a sixteenth of the quota where that is more. */
#define HISTORY_BYTES_DEFAULT (UINT64_C(128) * 1024 * 1024)

struct replication_member {
    uint64_t id;
    const char *name;
    const char *address;          /* host:port for peers */
    const char *const *peer_urls; /* end with NULL */
};

struct replication_options {
    const char *data_dir; /* exists and is locked by the caller; raft's files go into it */
    const char *name;
    uint64_t cluster_id;
    uint64_t member_id;
    const char *const *client_urls; /* end with NULL; outlive the replication */
    const char *const *peer_urls;
    const char *peer_address; /* under which peers reach this node: peers/peer_address.h */
    /* All members that the cluster starts with, this one included; of a node that joins, those it
     * was told of. They count until the log tells more. With one member no port is opened before
     * there is another, unless `listens_alone`. */
    const struct replication_member *members;
    size_t n_members;
    /* This node joins a cluster, or once did: it waits for what the others tell it. */
    bool is_joining;
    /* The data in the directory is to go on as a cluster of this member alone, because a majority
     * of the others is lost for good: raft's configuration is cut down when the log is opened, the
     * table of members after that (force_new_cluster.c). `members` is empty then. */
    bool force_new_cluster;
    /* Of the token that the cluster was given, see join.h; 0: none. */
    uint64_t token_hash;
    /* A random number of the data directory, and a file for those of the others: see
     * data_dir_ids.h. NULL: nothing is kept. */
    uint64_t data_dir_id;
    const char *data_dir_ids_path;
    /* Listen for peers also while there are none: whoever calls is told that it is no member. A
     * port that cannot be opened then is worth a warning. */
    bool listens_alone;
    const char *peer_listen_host;
    uint16_t peer_listen_port;
    const struct host_port *peer_more_places; /* see peers.h */
    size_t peer_n_more_places;
    const struct tls_options *peer_tls; /* NULL: peers speak plain text */
    struct bytes peer_secret;           /* empty: none; outlives the replication */
    /* A linearizable read always asks a majority, instead of trusting that clocks run at about the
     * same rate. */
    bool strict_reads;
    /* What the doors of this release change, see core/rule.h; outlive the replication. NULL: no
     * rules but core's own. */
    const struct rule_set *rules;
    /* For tests: act as a release that knows no newer version of the cluster than this. 0: the
     * newest that core knows. */
    uint32_t cluster_version_known;
    /* --max-request-bytes: of this node's clients, and of those whose requests another node sends
     * to this one while it leads; at least COMMAND_SIZE_DEFAULT counts. */
    size_t request_size_max;
    /* Of keys with their history and leases: what would exceed it is refused. 0: the default. */
    uint64_t quota_bytes;
    /* History that takes more memory than `history_bytes` is compacted. 0: the default; never more
     * than half of the quota counts. */
    bool compacts_history;
    uint64_t history_bytes;
    uint32_t heartbeat_ms;
    uint32_t election_ms;
    /* The log in memory is cut by a snapshot when it is larger than this (and than half of the
     * last snapshot). 0: the default. */
    size_t log_bytes_max;
    /* After a stall of the process: begin to catch up with what waits on the sockets, and tell
     * when that is done. May be NULL. */
    void (*begin_catch_up)(void *data);
    bool (*is_caught_up)(void *data);
    /* The node cannot go on: the server prints the reason and exits without acknowledging anything
     * more. STATUS_NO_SPACE, STATUS_IO, STATUS_CORRUPT, STATUS_UNSUPPORTED (of another version),
     * STATUS_DATA_DIR_REPLACED; anything else may be cured by a restart. */
    void (*failed)(void *data, enum status status, const char *reason);
    /* This node was removed from the cluster: it should stop. Called once. */
    void (*removed)(void *data);
    void *data;
};

/* Loads what the disk holds and starts. On failure (STATUS_CORRUPT, STATUS_UNSUPPORTED, STATUS_IO,
 * STATUS_NO_SPACE: the disk; STATUS_CANNOT_LISTEN: the port for peers) `out_error` says what a
 * person should do. */
enum status replication_open(uv_loop_t *loop, const struct replication_options *options,
                             struct service **out_service, char *out_error, size_t error_size);

/* Fails what is pending with STATUS_STOPPED, closes the log, then calls `closed`, after which the
 * service is gone. */
void replication_close(struct service *service, void (*closed)(void *data), void *data);

#endif
