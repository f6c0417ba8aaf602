/*
 * The calls that are made most, coded by hand, with answers that are handed on as they came: for
 * who makes a hundred thousand of them a second and looks into few. They go over the same
 * connection as those of lease_client.h and can be mixed with them.
 */
#ifndef LEASED_CLIENT_LEASE_HOT_H
#define LEASED_CLIENT_LEASE_HOT_H

#include "client/lease_client.h"

/* With GRPC_OK `message` is the answer, otherwise `text` says why there is none; both are borrowed
 * for the callback. */
typedef void lease_hot_callback(void *context, enum grpc_code code, const char *text,
                                struct bytes message);

/* False: the connection is closed and the callback will not come. So for each of these. */
bool lease_hot_grant(struct lease_client *client, int64_t ttl_seconds, int64_t id,
                     lease_hot_callback *callback, void *context);
bool lease_hot_put(struct lease_client *client, struct bytes key, struct bytes value, int64_t lease,
                   lease_hot_callback *callback, void *context);
/* One key. */
bool lease_hot_range(struct lease_client *client, struct bytes key, bool serializable,
                     lease_hot_callback *callback, void *context);

/* The keys in the answer of a range. False: it is no such answer. */
bool lease_hot_range_count(struct bytes message, size_t *out_count);

/* What a renewal brought; ttl_seconds 0: there is no such lease. False: it is no such answer. */
struct lease_hot_renewal {
    int64_t id;
    int64_t ttl_seconds;
};
bool lease_hot_renewal_decode(struct bytes message, struct lease_hot_renewal *out_renewal);

/* What a message of a watch says, and its events one after the other:
 *
 *     struct lease_hot_watch watch;
 *     if (lease_hot_watch_decode(message, &watch)) {
 *         while (lease_hot_watch_next(&watch, &event)) { … }
 *     }
 *
 * `is_malformed` says afterwards that the events broke off. */
struct lease_hot_watch {
    bool created;
    bool canceled;
    struct bytes cancel_reason;
    bool is_malformed;
    struct bytes rest; /* the message from the next event on */
};
struct lease_hot_event {
    bool is_delete;
    struct bytes key;
};
bool lease_hot_watch_decode(struct bytes message, struct lease_hot_watch *out_watch);
bool lease_hot_watch_next(struct lease_hot_watch *watch, struct lease_hot_event *out_event);

#endif
