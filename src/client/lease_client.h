/*
 * The etcd v3 calls this project needs, typed, on one connection. Every function returns at once
 * and the answer comes to a callback on the loop's thread. Requests and answers are the generated
 * protobuf messages; decoding uses one arena per client, so an answer costs no allocation.
 */
#ifndef LEASED_CLIENT_LEASE_CLIENT_H
#define LEASED_CLIENT_LEASE_CLIENT_H

#include "base/bytes.h"
#include "client/grpc_client.h"
#include "proto/etcd.pb-c.h"

#include <stdbool.h>
#include <stdint.h>

struct lease_client;

/* As for grpc_client_create(); each call has `timeout_ms` to be answered, 0: no limit. */
enum status lease_client_create(uv_loop_t *loop, const struct grpc_client_options *options,
                                uint32_t timeout_ms, struct lease_client **out_client);
/* As for grpc_client_destroy(): no callback comes after this. Accepts NULL. */
void lease_client_destroy(struct lease_client *client);
struct grpc_client *lease_client_connection(struct lease_client *client);
uint32_t lease_client_timeout_ms(const struct lease_client *client);

/* What came back. With GRPC_OK the member that belongs to the request points to the answer;
 * otherwise it is NULL and `text` says why. The message is valid until the next answer of this
 * client, the text during the callback. */
struct lease_answer {
    enum grpc_code code;
    const char *text;
    union {
        const ProtobufCMessage *message;
        const Etcdserverpb__LeaseGrantResponse *grant;
        const Etcdserverpb__LeaseRevokeResponse *revoke;
        const Etcdserverpb__LeaseTimeToLiveResponse *time_to_live;
        const Etcdserverpb__LeaseLeasesResponse *leases;
        const Etcdserverpb__PutResponse *put;
        const Etcdserverpb__RangeResponse *range;
        const Etcdserverpb__DeleteRangeResponse *delete_range;
        const Etcdserverpb__TxnResponse *txn;
        const Etcdserverpb__StatusResponse *status;
        const Etcdserverpb__MemberListResponse *member_list;
    };
};

typedef void lease_answer_callback(void *context, const struct lease_answer *answer);

/* False: the connection is closed and the callback will not come. So for each of these. */
bool lease_client_grant(struct lease_client *client, int64_t ttl_seconds, int64_t id,
                        lease_answer_callback *callback, void *context);
bool lease_client_revoke(struct lease_client *client, int64_t id, lease_answer_callback *callback,
                         void *context);
bool lease_client_time_to_live(struct lease_client *client, int64_t id, bool with_keys,
                               lease_answer_callback *callback, void *context);
bool lease_client_leases(struct lease_client *client, lease_answer_callback *callback,
                         void *context);
bool lease_client_put(struct lease_client *client, struct bytes key, struct bytes value,
                      int64_t lease, lease_answer_callback *callback, void *context);
/* The options of these are many: the caller fills in the message. */
bool lease_client_range(struct lease_client *client, const Etcdserverpb__RangeRequest *request,
                        lease_answer_callback *callback, void *context);
bool lease_client_delete_range(struct lease_client *client,
                               const Etcdserverpb__DeleteRangeRequest *request,
                               lease_answer_callback *callback, void *context);
bool lease_client_txn(struct lease_client *client, const Etcdserverpb__TxnRequest *request,
                      lease_answer_callback *callback, void *context);
bool lease_client_status(struct lease_client *client, lease_answer_callback *callback,
                         void *context);
bool lease_client_member_list(struct lease_client *client, lease_answer_callback *callback,
                              void *context);

/* Runs the loop until the callback given to one of the above has come; for programs that do one
 * thing at a time:
 *
 *     struct lease_wait wait = {0};
 *     lease_client_wait(client, lease_client_leases(client, lease_wait_done, &wait), &wait);
 *
 * The answer stays valid until the next call. `started` false gives GRPC_UNAVAILABLE. */
struct lease_wait {
    bool done;
    uv_loop_t *loop;
    struct lease_answer answer;
    char text[512];
};
lease_answer_callback lease_wait_done;
const struct lease_answer *lease_client_wait(struct lease_client *client, bool started,
                                             struct lease_wait *wait);

/* ---- streams ---- */

/* The callbacks of a stream; constant, one for each use. */
struct lease_keepalive_events {
    /* `ttl_seconds` 0: there is no such lease. */
    void (*on_renewed)(void *context, int64_t id, int64_t ttl_seconds);
    void (*on_end)(void *context, enum grpc_code code, const char *text);
};

/* A KeepAlive stream is a call: renew as many leases as you like on it. NULL: the connection is
 * closed. It ends with grpc_client_call_cancel() or on_end. */
struct grpc_client_call *lease_client_keepalive(struct lease_client *client,
                                                const struct lease_keepalive_events *events,
                                                void *context);
void lease_client_renew(struct grpc_client_call *keepalive, int64_t id);

struct lease_watch_events {
    /* Not NULL: each message as it came, instead of on_response; see lease_hot_watch_decode(). */
    void (*on_message)(void *context, struct bytes message);
    /* Created, events, progress, canceled: as the message says. */
    void (*on_response)(void *context, const Etcdserverpb__WatchResponse *response);
    void (*on_end)(void *context, enum grpc_code code, const char *text);
};

/* A Watch stream with its first watch; more can follow with lease_client_watch_send(). */
struct grpc_client_call *lease_client_watch(struct lease_client *client,
                                            Etcdserverpb__WatchCreateRequest *create,
                                            const struct lease_watch_events *events, void *context);
void lease_client_watch_send(struct grpc_client_call *watch,
                             const Etcdserverpb__WatchRequest *request);

/* The range that holds every key with this prefix: writes its end into `room` (as large as the
 * prefix) and gives its size. A prefix of only 0xff bytes has no end but the end of all keys. */
size_t lease_client_prefix_end(struct bytes prefix, uint8_t *room);

#endif
