#include "client/lease_hot.h"

#include "client/proto_fields.h"

#include <assert.h>

/* Numbers of fields, as proto/etcd.proto has them. */
enum { GRANT_TTL = 1, GRANT_ID = 2 };
enum { PUT_KEY = 1, PUT_VALUE = 2, PUT_LEASE = 3 };
enum { RANGE_KEY = 1, RANGE_SERIALIZABLE = 7, RANGE_ANSWER_KVS = 2 };
enum { RENEWAL_ID = 2, RENEWAL_TTL = 3 };
enum { WATCH_CREATED = 3, WATCH_CANCELED = 4, WATCH_REASON = 6, WATCH_EVENTS = 11 };
enum { EVENT_TYPE = 1, EVENT_KV = 2, KV_KEY = 1 };

/* ---- calls --------------------------------------------------------------------------------------
 */

struct hot {
    lease_hot_callback *callback;
    void *context;
};

static_assert(sizeof(struct hot) <= GRPC_CLIENT_CALL_ROOM, "a call fits its room");

static void on_end(struct grpc_client_call *call, enum grpc_code code, const char *text,
                   struct bytes message) {
    struct hot *hot = grpc_client_call_room(call);
    hot->callback(hot->context, code, text, message);
}

static const struct grpc_client_method method_grant = {
    .path = "/etcdserverpb.Lease/LeaseGrant", .unary = true, .on_end = on_end};
static const struct grpc_client_method method_put = {
    .path = "/etcdserverpb.KV/Put", .unary = true, .on_end = on_end};
static const struct grpc_client_method method_range = {
    .path = "/etcdserverpb.KV/Range", .unary = true, .on_end = on_end};

static struct grpc_client_call *open_call(struct lease_client *client,
                                          const struct grpc_client_method *method,
                                          lease_hot_callback *callback, void *context) {
    struct grpc_client_call *call =
        grpc_client_open(lease_client_connection(client), method, lease_client_timeout_ms(client));
    if (call != NULL) {
        struct hot *hot = grpc_client_call_room(call);
        *hot = (struct hot){.callback = callback, .context = context};
    }
    return call;
}

static void send_message(struct grpc_client_call *call, const uint8_t *room, const uint8_t *end) {
    grpc_client_call_commit(call, (size_t)(end - room));
    grpc_client_call_half_close(call);
}

bool lease_hot_grant(struct lease_client *client, int64_t ttl_seconds, int64_t id,
                     lease_hot_callback *callback, void *context) {
    struct grpc_client_call *call = open_call(client, &method_grant, callback, context);
    if (call == NULL) {
        return false;
    }
    uint8_t *room = grpc_client_call_reserve(call, 2 * PROTO_FIELD_SIZE_MAX);
    uint8_t *to = proto_write_number(room, GRANT_TTL, (uint64_t)ttl_seconds);
    send_message(call, room, proto_write_number(to, GRANT_ID, (uint64_t)id));
    return true;
}

bool lease_hot_put(struct lease_client *client, struct bytes key, struct bytes value, int64_t lease,
                   lease_hot_callback *callback, void *context) {
    struct grpc_client_call *call = open_call(client, &method_put, callback, context);
    if (call == NULL) {
        return false;
    }
    uint8_t *room =
        grpc_client_call_reserve(call, 3 * PROTO_FIELD_SIZE_MAX + key.size + value.size);
    uint8_t *to = proto_write_bytes(room, PUT_KEY, key);
    to = proto_write_bytes(to, PUT_VALUE, value);
    send_message(call, room, proto_write_number(to, PUT_LEASE, (uint64_t)lease));
    return true;
}

bool lease_hot_range(struct lease_client *client, struct bytes key, bool serializable,
                     lease_hot_callback *callback, void *context) {
    struct grpc_client_call *call = open_call(client, &method_range, callback, context);
    if (call == NULL) {
        return false;
    }
    uint8_t *room = grpc_client_call_reserve(call, 2 * PROTO_FIELD_SIZE_MAX + key.size);
    uint8_t *to = proto_write_bytes(room, RANGE_KEY, key);
    send_message(call, room, proto_write_number(to, RANGE_SERIALIZABLE, serializable));
    return true;
}

/* ---- answers ------------------------------------------------------------------------------------
 */

bool lease_hot_range_count(struct bytes message, size_t *out_count) {
    struct proto_reader reader = proto_reader_of(message);
    struct proto_field field;
    size_t count = 0;
    while (proto_next(&reader, &field)) {
        count += field.number == RANGE_ANSWER_KVS && field.type == PROTO_BYTES;
    }
    *out_count = count;
    return !reader.is_malformed;
}

bool lease_hot_renewal_decode(struct bytes message, struct lease_hot_renewal *out_renewal) {
    struct proto_reader reader = proto_reader_of(message);
    struct lease_hot_renewal renewal = {0};
    struct proto_field field;
    while (proto_next(&reader, &field)) {
        if (field.number == RENEWAL_ID && field.type == PROTO_VARINT) {
            renewal.id = (int64_t)field.value;
        } else if (field.number == RENEWAL_TTL && field.type == PROTO_VARINT) {
            renewal.ttl_seconds = (int64_t)field.value;
        }
    }
    *out_renewal = renewal;
    return !reader.is_malformed;
}

bool lease_hot_watch_decode(struct bytes message, struct lease_hot_watch *out_watch) {
    struct proto_reader reader = proto_reader_of(message);
    struct lease_hot_watch watch = {.rest = message};
    struct proto_field field;
    while (proto_next(&reader, &field)) {
        if (field.number == WATCH_EVENTS) {
            break; /* events come last, and are looked at one by one */
        }
        if (field.number == WATCH_CREATED) {
            watch.created = field.value != 0;
        } else if (field.number == WATCH_CANCELED) {
            watch.canceled = field.value != 0;
        } else if (field.number == WATCH_REASON) {
            watch.cancel_reason = field.bytes;
        }
        watch.rest = bytes_of(reader.at, (size_t)(reader.end - reader.at));
    }
    *out_watch = watch;
    return !reader.is_malformed;
}

static bool decode_event(struct bytes message, struct lease_hot_event *out_event) {
    struct proto_reader reader = proto_reader_of(message);
    struct lease_hot_event event = {0};
    struct proto_field field;
    while (proto_next(&reader, &field)) {
        if (field.number == EVENT_TYPE && field.type == PROTO_VARINT) {
            event.is_delete = field.value == MVCCPB__EVENT__EVENT_TYPE__DELETE;
        } else if (field.number == EVENT_KV && field.type == PROTO_BYTES) {
            struct proto_reader kv = proto_reader_of(field.bytes);
            struct proto_field part;
            while (proto_next(&kv, &part)) {
                if (part.number == KV_KEY && part.type == PROTO_BYTES) {
                    event.key = part.bytes;
                    break; /* the rest is not needed */
                }
            }
            reader.is_malformed = reader.is_malformed || kv.is_malformed;
        }
    }
    *out_event = event;
    return !reader.is_malformed;
}

bool lease_hot_watch_next(struct lease_hot_watch *watch, struct lease_hot_event *out_event) {
    struct proto_reader reader = proto_reader_of(watch->rest);
    struct proto_field field;
    while (proto_next(&reader, &field)) {
        watch->rest = bytes_of(reader.at, (size_t)(reader.end - reader.at));
        if (field.number == WATCH_EVENTS && field.type == PROTO_BYTES) {
            watch->is_malformed = !decode_event(field.bytes, out_event);
            return !watch->is_malformed;
        }
    }
    watch->is_malformed = reader.is_malformed;
    return false;
}
