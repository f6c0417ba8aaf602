/* gRPC's own health service (grpc.health.v1), which etcd serves beside its API and load balancers
 * ask. */
#include "base/pb_reader.h"
#include "doors/etcd/etcd_call.h"

enum { SERVING = 1, NOT_SERVING = 2, SERVICE_UNKNOWN = 3 };

static const struct etcd_error unknown_service = {GRPC_NOT_FOUND, "unknown service"};

/* The name of a service, which is "" for the whole server. */
static bool read_service(struct grpc_call *call, struct bytes message, struct bytes *out_service) {
    struct pb_reader reader;
    *out_service = bytes_of(NULL, 0);
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 1) {
            *out_service = pb_reader_bytes(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed) {
        etcd_error_finish(call, &etcd_error_malformed);
    }
    return !reader.failed;
}

static uint64_t status_of_server(struct grpc_call *call) {
    return etcd_has_leader(etcd_door_of(call)) ? SERVING : NOT_SERVING;
}

static void send_status(struct grpc_call *call, uint64_t status) {
    struct pb_writer writer;
    if (etcd_answer_begin(call, pb_uint64_size(1, status), &writer)) {
        pb_write_uint64(&writer, 1, status);
        etcd_answer_end(call, &writer);
    }
}

/* As in etcd, no service has a status of its own. */
static void on_check(struct grpc_call *call, struct bytes message) {
    struct bytes service;
    if (!read_service(call, message, &service)) {
        return;
    }
    if (service.size > 0) {
        etcd_error_finish(call, &unknown_service);
        return;
    }
    send_status(call, status_of_server(call));
    grpc_call_finish(call, GRPC_OK, NULL);
}

/* Stays open: the status does not change while the server can be reached. */
static void on_watch(struct grpc_call *call, struct bytes message) {
    struct bytes service;
    if (read_service(call, message, &service)) {
        send_status(call, service.size > 0 ? SERVICE_UNKNOWN : status_of_server(call));
    }
}

static const struct grpc_method methods[] = {
    {.path = "/grpc.health.v1.Health/Check",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_check},
    {.path = "/grpc.health.v1.Health/Watch",
     .answers_refused = true,
     .kind = GRPC_SERVER_STREAM,
     .on_message = on_watch},
};
const struct etcd_methods etcd_health_methods = {methods, sizeof methods / sizeof methods[0]};
