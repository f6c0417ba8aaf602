/*
 * One Watch stream: many watches, their events, and the answers to what the client asks. Shared by
 * etcd_watch.c (the stream) and etcd_watch_events.c (what the hub delivers).
 */
#ifndef LEASED_DOORS_ETCD_ETCD_WATCH_H
#define LEASED_DOORS_ETCD_ETCD_WATCH_H

#include "doors/etcd/etcd_call.h"
#include "doors/etcd/etcd_watch_table.h"

struct etcd_watch_stream {
    struct grpc_call *call;
    struct etcd_door *door;
    struct etcd_watch_table table;
    struct list watches;
    struct list lagging; /* could not take a batch: wait for the stream to drain */
    size_t key_bytes;    /* of all watches */
    int64_t next_id;
    struct etcd_ticker ticker;
    uint64_t progress_due_ms;
    size_t n_progress;  /* watches that want progress notices */
    bool progress_owed; /* asked for by hand, not yet answered */
    bool wants_leader;
    bool finished;
};

struct etcd_watch {
    struct etcd_watch_node node;
    struct etcd_watch_stream *stream;
    struct service_watch watch;
    struct list link;
    struct list lagging_link;
    size_t key_bytes;
    int64_t start_revision; /* asked for; 0: from now on */
    bool want_previous;
    bool fragment;
    bool progress_notify;
    bool had_events; /* since the last round of progress notices */
};

/* Callbacks of service_watch. */
bool etcd_watch_deliver(struct service_watch *service_watch, const struct watch_batch *batch);
void etcd_watch_revoked(struct service_watch *service_watch, enum status status);
void etcd_watch_compacted(struct service_watch *service_watch, int64_t compacted_revision);

/* Sends a WatchResponse without events. */
void etcd_watch_send(struct etcd_watch_stream *stream, const struct etcd_watch_response *response);

/* Why a watch is refused or ended, in etcd's words. */
const char *etcd_watch_reason(enum status status);

/* Forgets a watch that the hub has dropped or is about to. */
void etcd_watch_forget(struct etcd_watch *watch);

#endif
