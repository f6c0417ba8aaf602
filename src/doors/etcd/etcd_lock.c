/* The Lock service: the queue of etcd_queue.h with keys that have no value. */
#include "doors/etcd/etcd_lock_request.h"
#include "doors/etcd/etcd_queue.h"
#include "doors/etcd/etcd_queue_call.h"

static void answer_lock(struct grpc_call *call, const struct etcd_place_facts *facts) {
    struct etcd_header header = etcd_header_at(etcd_door_of(call), facts->revision);
    size_t size = etcd_header_size(&header) + pb_bytes_size(2, facts->key);
    struct pb_writer writer;
    if (etcd_answer_begin(call, size, &writer)) {
        etcd_header_write(&writer, &header);
        pb_write_bytes(&writer, 2, facts->key);
        etcd_answer_finish(call, &writer);
    }
}

static void on_lock(struct grpc_call *call, struct bytes message) {
    static const struct etcd_error lost = {GRPC_UNKNOWN, "mutex: session is expired"};
    static const struct etcd_place_kind kind = {
        .answer = answer_lock, .lost = &lost, .keeps_value = true};
    struct etcd_queue_request request;
    if (etcd_call_refused(call)) {
        return;
    }
    const struct etcd_error *error = etcd_request_queue(message, &request);
    if (error != NULL) {
        etcd_error_finish(call, error);
    } else {
        etcd_queue_enter(call, &kind, request.name, bytes_of(NULL, 0), request.lease_id);
    }
}

static void on_unlock(struct grpc_call *call, struct bytes message) {
    struct etcd_unlock_request request;
    if (etcd_call_refused(call)) {
        return;
    }
    const struct etcd_error *error = etcd_request_unlock(message, &request);
    if (error == NULL && request.key.size == 0) {
        error = etcd_queue_error_of(STATUS_KEY_EMPTY);
    }
    if (error != NULL) {
        etcd_error_finish(call, error);
        return;
    }
    etcd_queue_release(call, &(struct etcd_release){.key = request.key,
                                                    .revision = request.revision,
                                                    .takes_any_lock = request.revision == 0});
}

static const struct grpc_method methods[] = {
    {.path = "/v3lockpb.Lock/Lock",
     .answers_refused = true,
     .waits = true,
     .kind = GRPC_UNARY,
     .on_message = on_lock,
     .on_close = etcd_queue_closed},
    {.path = "/v3lockpb.Lock/Unlock",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_unlock,
     .on_close = etcd_call_closed},
};
const struct etcd_methods etcd_lock_methods = {methods, sizeof methods / sizeof methods[0]};
