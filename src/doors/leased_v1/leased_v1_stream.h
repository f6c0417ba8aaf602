/*
 * A server stream over a watch: once the caller may read, the door tells the state and watches;
 * then it is given what changes, while the client reads. A client that does not read is lagging,
 * and gets on from the watch's history when it does.
 */
#ifndef LEASED_DOORS_LEASED_V1_LEASED_V1_STREAM_H
#define LEASED_DOORS_LEASED_V1_LEASED_V1_STREAM_H

#include "base/list.h"
#include "doors/leased_v1/leased_v1_api.h"

struct leased_v1_stream;

/* Constant, one for each method. */
struct leased_v1_stream_kind {
    size_t size;        /* of the door's structure, which begins with the stream */
    size_t name_copies; /* how often the name is kept, here and below */
    const struct leased_v1_error *missed; /* what was to be told was compacted away */
    /* The caller may read: watches (leased_v1_stream_watch()) and tells what is there. What is not
     * STATUS_OK ends the call. */
    enum status (*begin)(struct leased_v1_stream *stream);
    /* News, also a batch without events. The call is writable. */
    void (*deliver)(struct leased_v1_stream *stream, const struct watch_batch *batch);
};

struct leased_v1_stream {
    struct grpc_call *call; /* NULL: the client is gone */
    struct leased_v1_api *api;
    const struct leased_v1_stream_kind *kind;
    size_t *n_open; /* counts the streams of this kind */
    struct bytes name;
    int64_t seen_revision; /* batches up to this one are not delivered */
    bool is_finished;

    struct service_read read;
    struct service_watch watch;
    bool is_reading; /* it is with the service */
    bool is_lagging;
    bool is_held;
    size_t held; /* bytes of memory */
};

/* Zeroed but for what is in it, with a copy of the name. NULL: refused, and answered. */
void *leased_v1_stream_create(struct leased_v1_api *api, struct grpc_call *call,
                              const struct leased_v1_stream_kind *kind, struct bytes name,
                              size_t *n_open);
/* Begins when the ranges may be read, at once when they may be already. They are those whose right
 * the caller needs. */
void leased_v1_stream_start(struct leased_v1_stream *stream, const struct key_range *ranges,
                            size_t n_ranges);
/* In begin(). */
enum status leased_v1_stream_watch(struct leased_v1_stream *stream,
                                   const struct service_watch_options *options);
/* From now on nothing is delivered: it waits in the history. In begin(), by a door that tells later
 * what is there. */
void leased_v1_stream_hold(struct leased_v1_stream *stream);
/* What is newer than seen_revision follows. */
void leased_v1_stream_release(struct leased_v1_stream *stream);
/* Ends the call, once. */
void leased_v1_stream_finish(struct leased_v1_stream *stream, const struct leased_v1_error *error);

/* For the method. */
void leased_v1_stream_writable(struct grpc_call *call);
void leased_v1_stream_closed(struct grpc_call *call);

#endif
