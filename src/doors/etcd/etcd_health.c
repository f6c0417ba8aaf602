/* gRPC's own health service (grpc.health.v1), which etcd serves beside its API and load balancers
 * ask. */
#include "doors/etcd/etcd_call.h"

enum { SERVING = 1, NOT_SERVING = 2 };

static void send_status(struct grpc_call *call) {
    uint64_t status = etcd_has_leader(etcd_door_of(call)) ? SERVING : NOT_SERVING;
    struct pb_writer writer;
    if (etcd_answer_begin(call, pb_uint64_size(1, status), &writer)) {
        pb_write_uint64(&writer, 1, status);
        etcd_answer_end(call, &writer);
    }
}

static void on_check(struct grpc_call *call, struct bytes message) {
    (void)message; /* the name of a service: all are served or none */
    send_status(call);
    grpc_call_finish(call, GRPC_OK, NULL);
}

/* Stays open: the status does not change while the server can be reached. */
static void on_watch(struct grpc_call *call, struct bytes message) {
    (void)message;
    send_status(call);
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
