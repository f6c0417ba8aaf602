#include "client/lease_client.h"

#include "base/arena.h"
#include "client/lease_hot.h"
#include "client/proto_fields.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lease_client {
    uv_loop_t *loop;
    struct grpc_client *connection;
    struct grpc_client_options options;
    uint32_t timeout_ms;
    struct arena arena;
    ProtobufCAllocator allocator;
};

/* What a unary call keeps in its own room. */
struct unary {
    struct lease_client *client;
    const ProtobufCMessageDescriptor *answer;
    lease_answer_callback *callback;
    void *context;
};

struct keepalive {
    struct lease_client *client;
    const struct lease_keepalive_events *events;
    void *context;
};

struct watch {
    struct lease_client *client;
    const struct lease_watch_events *events;
    void *context;
};

static_assert(sizeof(struct unary) <= GRPC_CLIENT_CALL_ROOM, "a unary call fits its room");
static_assert(sizeof(struct keepalive) <= GRPC_CLIENT_CALL_ROOM, "a renewal stream fits its room");
static_assert(sizeof(struct watch) <= GRPC_CLIENT_CALL_ROOM, "a watch stream fits its room");

/* ---- life -------------------------------------------------------------------------------------
 */

static void *allocate(void *data, size_t size) {
    struct lease_client *client = data;
    return arena_alloc(&client->arena, size);
}

static void release(void *data, void *pointer) {
    /* protobuf-c frees field by field; the arena goes as a whole. */
    (void)data;
    (void)pointer;
}

enum status lease_client_create(uv_loop_t *loop, const struct grpc_client_options *options,
                                uint32_t timeout_ms, struct lease_client **out_client) {
    struct lease_client *client = calloc(1, sizeof *client);
    if (client == NULL) {
        return STATUS_NO_MEMORY;
    }
    client->loop = loop;
    client->timeout_ms = timeout_ms;
    arena_init(&client->arena);
    client->allocator =
        (ProtobufCAllocator){.alloc = allocate, .free = release, .allocator_data = client};
    enum status status = grpc_client_create(loop, options, &client->connection);
    if (status != STATUS_OK) {
        free(client);
        return status;
    }
    *out_client = client;
    return STATUS_OK;
}

void lease_client_destroy(struct lease_client *client) {
    if (client == NULL) {
        return;
    }
    grpc_client_destroy(client->connection);
    arena_clear(&client->arena);
    free(client);
}

struct grpc_client *lease_client_connection(struct lease_client *client) {
    return client->connection;
}

uint32_t lease_client_timeout_ms(const struct lease_client *client) {
    return client->timeout_ms;
}

/* ---- messages ---------------------------------------------------------------------------------
 */

static void send_message(struct grpc_client_call *call, const ProtobufCMessage *message) {
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *room = grpc_client_call_reserve(call, size);
    grpc_client_call_commit(call, protobuf_c_message_pack(message, room));
}

/* NULL: what came is no such message. */
static const ProtobufCMessage *decode(struct lease_client *client,
                                      const ProtobufCMessageDescriptor *descriptor,
                                      struct bytes bytes) {
    arena_reset(&client->arena);
    return protobuf_c_message_unpack(descriptor, &client->allocator, bytes.size, bytes.data);
}

static void on_unary_end(struct grpc_client_call *call, enum grpc_code code, const char *text,
                         struct bytes message) {
    struct unary *unary = grpc_client_call_room(call);
    struct lease_answer answer = {.code = code, .text = text};
    if (code == GRPC_OK) {
        answer.message = decode(unary->client, unary->answer, message);
        if (answer.message == NULL) {
            answer.code = GRPC_INTERNAL;
            answer.text = "the answer could not be decoded";
        }
    }
    unary->callback(unary->context, &answer);
}

/* One line for each unary method: our name, the service, the method, the answer. */
#define UNARY_METHODS(X)                                                                           \
    X(grant, "/etcdserverpb.Lease/LeaseGrant", lease_grant)                                        \
    X(revoke, "/etcdserverpb.Lease/LeaseRevoke", lease_revoke)                                     \
    X(time_to_live, "/etcdserverpb.Lease/LeaseTimeToLive", lease_time_to_live)                     \
    X(leases, "/etcdserverpb.Lease/LeaseLeases", lease_leases)                                     \
    X(put, "/etcdserverpb.KV/Put", put)                                                            \
    X(range, "/etcdserverpb.KV/Range", range)                                                      \
    X(delete_range, "/etcdserverpb.KV/DeleteRange", delete_range)                                  \
    X(txn, "/etcdserverpb.KV/Txn", txn)                                                            \
    X(status, "/etcdserverpb.Maintenance/Status", status)                                          \
    X(member_list, "/etcdserverpb.Cluster/MemberList", member_list)

struct unary_method {
    struct grpc_client_method method;
    const ProtobufCMessageDescriptor *answer;
};

#define UNARY_METHOD(name, method_path, message)                                                   \
    static const struct unary_method method_##name = {                                             \
        .method = {.path = method_path, .unary = true, .on_end = on_unary_end},                    \
        .answer = &etcdserverpb__##message##_response__descriptor,                                 \
    };
UNARY_METHODS(UNARY_METHOD)

static bool call_unary(struct lease_client *client, const struct unary_method *method,
                       const ProtobufCMessage *request, lease_answer_callback *callback,
                       void *context) {
    struct grpc_client_call *call =
        grpc_client_open(client->connection, &method->method, client->timeout_ms);
    if (call == NULL) {
        return false;
    }
    struct unary *unary = grpc_client_call_room(call);
    *unary = (struct unary){
        .client = client, .answer = method->answer, .callback = callback, .context = context};
    send_message(call, request);
    grpc_client_call_half_close(call);
    return true;
}

bool lease_client_grant(struct lease_client *client, int64_t ttl_seconds, int64_t id,
                        lease_answer_callback *callback, void *context) {
    Etcdserverpb__LeaseGrantRequest request = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;
    request.ttl = ttl_seconds;
    request.id = id;
    return call_unary(client, &method_grant, &request.base, callback, context);
}

bool lease_client_revoke(struct lease_client *client, int64_t id, lease_answer_callback *callback,
                         void *context) {
    Etcdserverpb__LeaseRevokeRequest request = ETCDSERVERPB__LEASE_REVOKE_REQUEST__INIT;
    request.id = id;
    return call_unary(client, &method_revoke, &request.base, callback, context);
}

bool lease_client_time_to_live(struct lease_client *client, int64_t id, bool with_keys,
                               lease_answer_callback *callback, void *context) {
    Etcdserverpb__LeaseTimeToLiveRequest request = ETCDSERVERPB__LEASE_TIME_TO_LIVE_REQUEST__INIT;
    request.id = id;
    request.keys = with_keys;
    return call_unary(client, &method_time_to_live, &request.base, callback, context);
}

bool lease_client_leases(struct lease_client *client, lease_answer_callback *callback,
                         void *context) {
    Etcdserverpb__LeaseLeasesRequest request = ETCDSERVERPB__LEASE_LEASES_REQUEST__INIT;
    return call_unary(client, &method_leases, &request.base, callback, context);
}

bool lease_client_put(struct lease_client *client, struct bytes key, struct bytes value,
                      int64_t lease, lease_answer_callback *callback, void *context) {
    Etcdserverpb__PutRequest request = ETCDSERVERPB__PUT_REQUEST__INIT;
    request.key = (ProtobufCBinaryData){.data = (uint8_t *)key.data, .len = key.size};
    request.value = (ProtobufCBinaryData){.data = (uint8_t *)value.data, .len = value.size};
    request.lease = lease;
    return call_unary(client, &method_put, &request.base, callback, context);
}

bool lease_client_range(struct lease_client *client, const Etcdserverpb__RangeRequest *request,
                        lease_answer_callback *callback, void *context) {
    return call_unary(client, &method_range, &request->base, callback, context);
}

bool lease_client_delete_range(struct lease_client *client,
                               const Etcdserverpb__DeleteRangeRequest *request,
                               lease_answer_callback *callback, void *context) {
    return call_unary(client, &method_delete_range, &request->base, callback, context);
}

bool lease_client_txn(struct lease_client *client, const Etcdserverpb__TxnRequest *request,
                      lease_answer_callback *callback, void *context) {
    return call_unary(client, &method_txn, &request->base, callback, context);
}

bool lease_client_status(struct lease_client *client, lease_answer_callback *callback,
                         void *context) {
    Etcdserverpb__StatusRequest request = ETCDSERVERPB__STATUS_REQUEST__INIT;
    return call_unary(client, &method_status, &request.base, callback, context);
}

bool lease_client_member_list(struct lease_client *client, lease_answer_callback *callback,
                              void *context) {
    Etcdserverpb__MemberListRequest request = ETCDSERVERPB__MEMBER_LIST_REQUEST__INIT;
    return call_unary(client, &method_member_list, &request.base, callback, context);
}

/* ---- waiting ----------------------------------------------------------------------------------
 */

void lease_wait_done(void *context, const struct lease_answer *answer) {
    struct lease_wait *wait = context;
    wait->answer = *answer;
    /* The text is borrowed for the callback only. */
    snprintf(wait->text, sizeof wait->text, "%s", answer->text);
    wait->answer.text = wait->text;
    wait->done = true;
    /* A deadline fires before the loop waits for sockets: without this it would wait once more,
     * perhaps for ever. */
    uv_stop(wait->loop);
}

const struct lease_answer *lease_client_wait(struct lease_client *client, bool started,
                                             struct lease_wait *wait) {
    wait->loop = client->loop;
    while (started && !wait->done) {
        uv_run(client->loop, UV_RUN_ONCE);
    }
    if (!wait->done) {
        wait->answer =
            (struct lease_answer){.code = GRPC_UNAVAILABLE, .text = "the connection is closed"};
    }
    return &wait->answer;
}

/* ---- streams ----------------------------------------------------------------------------------
 */

static void on_keepalive_message(struct grpc_client_call *call, struct bytes message) {
    struct keepalive *keepalive = grpc_client_call_room(call);
    struct lease_hot_renewal renewal;
    if (lease_hot_renewal_decode(message, &renewal)) {
        keepalive->events->on_renewed(keepalive->context, renewal.id, renewal.ttl_seconds);
        return;
    }
    void *context = keepalive->context;
    const struct lease_keepalive_events *events = keepalive->events;
    grpc_client_call_cancel(call);
    events->on_end(context, GRPC_INTERNAL, "the answer could not be decoded");
}

static void on_keepalive_end(struct grpc_client_call *call, enum grpc_code code, const char *text,
                             struct bytes message) {
    struct keepalive *keepalive = grpc_client_call_room(call);
    (void)message;
    keepalive->events->on_end(keepalive->context, code, text);
}

static const struct grpc_client_method method_keepalive = {
    .path = "/etcdserverpb.Lease/LeaseKeepAlive",
    .on_message = on_keepalive_message,
    .on_end = on_keepalive_end,
};

struct grpc_client_call *lease_client_keepalive(struct lease_client *client,
                                                const struct lease_keepalive_events *events,
                                                void *context) {
    struct grpc_client_call *call = grpc_client_open(client->connection, &method_keepalive, 0);
    if (call != NULL) {
        struct keepalive *keepalive = grpc_client_call_room(call);
        *keepalive = (struct keepalive){.client = client, .events = events, .context = context};
    }
    return call;
}

void lease_client_renew(struct grpc_client_call *keepalive, int64_t id) {
    /* Renewals are many and tiny: LeaseKeepAliveRequest is { ID = 1 }. */
    uint8_t *room = grpc_client_call_reserve(keepalive, PROTO_FIELD_SIZE_MAX);
    uint8_t *end = proto_write_number(room, 1, (uint64_t)id);
    grpc_client_call_commit(keepalive, (size_t)(end - room));
}

static void on_watch_message(struct grpc_client_call *call, struct bytes message) {
    struct watch *watch = grpc_client_call_room(call);
    if (watch->events->on_message != NULL) {
        watch->events->on_message(watch->context, message);
        return;
    }
    const Etcdserverpb__WatchResponse *response =
        (const void *)decode(watch->client, &etcdserverpb__watch_response__descriptor, message);
    if (response != NULL) {
        watch->events->on_response(watch->context, response);
        return;
    }
    void *context = watch->context;
    const struct lease_watch_events *events = watch->events;
    grpc_client_call_cancel(call);
    events->on_end(context, GRPC_INTERNAL, "the answer could not be decoded");
}

static void on_watch_end(struct grpc_client_call *call, enum grpc_code code, const char *text,
                         struct bytes message) {
    struct watch *watch = grpc_client_call_room(call);
    (void)message;
    watch->events->on_end(watch->context, code, text);
}

static const struct grpc_client_method method_watch = {
    .path = "/etcdserverpb.Watch/Watch",
    .on_message = on_watch_message,
    .on_end = on_watch_end,
};

struct grpc_client_call *lease_client_watch(struct lease_client *client,
                                            Etcdserverpb__WatchCreateRequest *create,
                                            const struct lease_watch_events *events,
                                            void *context) {
    struct grpc_client_call *call = grpc_client_open(client->connection, &method_watch, 0);
    if (call == NULL) {
        return NULL;
    }
    struct watch *watch = grpc_client_call_room(call);
    *watch = (struct watch){.client = client, .events = events, .context = context};
    Etcdserverpb__WatchRequest request = ETCDSERVERPB__WATCH_REQUEST__INIT;
    request.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    request.create_request = create;
    lease_client_watch_send(call, &request);
    return call;
}

void lease_client_watch_send(struct grpc_client_call *watch,
                             const Etcdserverpb__WatchRequest *request) {
    send_message(watch, &request->base);
}

size_t lease_client_prefix_end(struct bytes prefix, uint8_t *room) {
    size_t size = prefix.size;
    while (size > 0 && prefix.data[size - 1] == 0xff) {
        size--;
    }
    if (size == 0) {
        room[0] = 0; /* every key from the prefix on */
        return 1;
    }
    memcpy(room, prefix.data, size);
    room[size - 1]++;
    return size;
}
