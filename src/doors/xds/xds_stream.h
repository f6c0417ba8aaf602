/*
 * A stream of a client, and what it is subscribed to. A stream has a topic for each type of
 * resources, a topic a subscription for each name. A change marks subscriptions as dirty and their
 * stream as stale; responses are made of the newest state when the client can take them, so that
 * nothing queues up for one that is slow.
 */
#ifndef LEASED_DOORS_XDS_XDS_STREAM_H
#define LEASED_DOORS_XDS_XDS_STREAM_H

#include "doors/xds/xds_name.h"
#include "doors/xds/xds_request.h"
#include "doors/xds/xds_shared.h"
#include "doors/xds/xds_state.h"
#include "doors/xds/xds_version.h"

enum {
    /* Services that a wildcard may stand for. */
    XDS_WILDCARD_MAX = 10 * 1000,
    XDS_NODE_SIZE_MAX = 128,
    /* The version of everything but endpoints: what they say follows from their names. */
    XDS_STATIC_REVISION = 1
};

struct xds_stream;
struct xds_topic;

struct xds_subscription {
    struct xds_topic *topic;
    struct list in_dirty;       /* of the topic: to be sent */
    struct service_watch watch; /* of endpoints: the range of the service */
    struct xds_shared *shared;  /* of endpoints */
    struct xds_name name;       /* views into `text`; not of a missing one */
    int64_t sent_revision;      /* 0: nothing was sent */
    int64_t wanted_revision;    /* see xds_shared_read() */
    bool is_asked;              /* by its name */
    bool is_listed;             /* a wildcard stands for it */
    bool is_marked;             /* of the request being handled */
    bool is_missing;            /* nothing can have this name */
    bool is_forced;             /* is sent although the client has it */
    bool is_gone;               /* of delta: the client is to be told, then it is removed */
    bool is_read;               /* the state may be shown: it was not too old, nor forbidden */
    bool is_asking;             /* it is part of the read that is under way */
    size_t text_size;
    uint8_t text[];
};

/* One type of one stream. */
struct xds_topic {
    struct xds_stream *stream;
    enum xds_type type;
    bool is_started; /* the client has asked for something */
    bool had_names;
    bool is_wildcard;
    bool needs_list;  /* the services that a wildcard stands for are to be read */
    bool owes_answer; /* although nothing may be dirty */
    bool is_behind;   /* what is dirty is to be read later */
    size_t n_unread;
    struct service_watch names_watch; /* of a wildcard */
    uint64_t nonce;                   /* of the last response; 0: there was none */
    int64_t revision;                 /* the greatest that was sent */
    struct list dirty;
    /* By name. */
    struct xds_subscription **subscriptions;
    size_t n;
    size_t capacity;
};

struct xds_stream {
    struct grpc_call *call; /* NULL: the client is gone */
    struct xds_door *door;
    struct list in_door;
    struct list in_stale;
    struct list in_behind;
    struct service_read read;
    bool is_reading; /* it is with the service */
    bool is_finished;
    bool is_delta;
    bool is_aggregated; /* else only `only_type` is served */
    enum xds_type only_type;
    bool has_node;
    size_t zone_size;
    uint8_t zone[XDS_ZONE_SIZE_MAX];
    char node[XDS_NODE_SIZE_MAX]; /* for the log */
    size_t held;
    struct xds_topic topics[XDS_TYPES];
};

static inline struct bytes xds_subscription_text(const struct xds_subscription *subscription) {
    return bytes_of(subscription->text, subscription->text_size);
}

static inline struct bytes xds_stream_zone(const struct xds_stream *stream) {
    return bytes_of(stream->zone, stream->zone_size);
}

/* --- xds_stream.c --- */

void xds_stream_finish(struct xds_stream *stream, const struct xds_error *error);
/* It has something to do, in the next iteration of the loop. */
void xds_stream_mark_stale(struct xds_stream *stream);
/* The same, in a moment. */
void xds_stream_mark_behind(struct xds_stream *stream);

/* --- xds_topic.c: which names. --- */

void xds_topic_init(struct xds_topic *topic, struct xds_stream *stream, enum xds_type type);
void xds_topic_clear(struct xds_topic *topic);
/* What a request says of its names. */
void xds_topic_take_whole(struct xds_topic *topic, const struct xds_request *request);
void xds_topic_take_delta(struct xds_topic *topic, const struct xds_request *request);
void xds_topic_remove(struct xds_topic *topic, struct xds_subscription *subscription);

/* --- xds_read.c: what is needed before they can be sent. --- */

/* Reads what was not read yet, unless a read is under way. */
void xds_stream_read(struct xds_stream *stream);
void xds_topic_unlist(struct xds_topic *topic);
void xds_subscription_end(struct xds_subscription *subscription);

/* --- xds_topic.c, for those. --- */

struct xds_subscription *xds_topic_find(const struct xds_topic *topic, struct bytes name);
struct xds_subscription *xds_topic_list_name(struct xds_topic *topic, struct bytes name);
void xds_topic_unlist_name(struct xds_topic *topic, struct xds_subscription *subscription);
void xds_subscription_mark_dirty(struct xds_subscription *subscription);

/* --- xds_response.c --- */

bool xds_topic_has_work(const struct xds_topic *topic);
/* Sends one response, or finds that there is nothing new. */
void xds_topic_send(struct xds_topic *topic);

#endif
