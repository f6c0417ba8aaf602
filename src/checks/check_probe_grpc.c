/* One call of gRPC's health checking protocol, on a connection of its own. */
#include "checks/check_probe.h"
#include "checks/check_stream.h"
#include "checks/check_target.h"
#include "checks/grpc_health.h"

#include <stdlib.h>
#include <string.h>

struct grpc_probe {
    struct check_probe base;
    struct check_stream *stream;
    struct grpc_health *health;
    bool is_tls;
};

static void finish(struct grpc_probe *probe) {
    struct check_result result;
    struct check_probe_owner owner = probe->base.owner;
    grpc_health_result(probe->health, &result);
    check_stream_close(probe->stream);
    grpc_health_destroy(probe->health);
    free(probe);
    owner.done(owner.context, &result);
}

static void send_output(struct grpc_probe *probe) {
    struct buffer out;
    buffer_init(&out);
    grpc_health_fill(probe->health, &out);
    check_stream_send(probe->stream, bytes_of(out.data, out.size));
    buffer_clear(&out);
}

static void on_open(struct check_stream *stream) {
    struct grpc_probe *probe = check_stream_context(stream);
    if (probe->is_tls && strcmp(check_stream_alpn(stream), "h2") != 0) {
        grpc_health_end(probe->health, "the server does not agree on HTTP/2");
        finish(probe);
        return;
    }
    send_output(probe);
}

static void on_bytes(struct check_stream *stream, struct bytes bytes) {
    struct grpc_probe *probe = check_stream_context(stream);
    if (grpc_health_receive(probe->health, bytes)) {
        finish(probe);
    } else {
        send_output(probe);
    }
}

static void on_end(struct check_stream *stream, const char *reason) {
    struct grpc_probe *probe = check_stream_context(stream);
    grpc_health_end(probe->health, reason != NULL ? reason : "the connection was closed");
    finish(probe);
}

static const struct check_stream_events events = {
    .on_open = on_open,
    .on_bytes = on_bytes,
    .on_end = on_end,
};

static struct grpc_probe *create(const struct check_target *target) {
    char authority[HOST_PORT_TEXT_SIZE_MAX];
    struct grpc_probe *probe = calloc(1, sizeof *probe);
    struct grpc_health_options options = {
        .authority = host_port_format(target->address.host, target->address.port, authority),
        .is_tls = target->is_tls,
        .service = target->path,
    };
    if (probe == NULL || (probe->health = grpc_health_create(&options)) == NULL) {
        abort();
    }
    probe->is_tls = target->is_tls;
    return probe;
}

static struct check_probe *start(struct check_network *network, const struct registry_check *check,
                                 const struct check_probe_owner *owner,
                                 struct check_result *out_result) {
    struct check_target target;
    char server_name[REGISTRY_NAME_SIZE_MAX + 1];
    const char *reason = NULL;
    if (!check_target_parse(check, &target, &reason) ||
        !check_stream_server_name(check->server_name, server_name, &reason)) {
        check_result_set(out_result, REGISTRY_CRITICAL, reason);
        return NULL;
    }
    struct grpc_probe *probe = create(&target);
    probe->base = (struct check_probe){.kind = &check_probe_grpc, .owner = *owner};
    const struct check_stream_options options = {
        .host = target.address.host,
        .port = target.address.port,
        .is_tls = target.is_tls,
        .skips_verification = check->skips_verification,
        .is_http2 = true,
        .server_name = server_name,
    };
    probe->stream = check_stream_open(network, &options, &events, probe);
    return &probe->base;
}

static void cancel(struct check_probe *base) {
    struct grpc_probe *probe = (struct grpc_probe *)base;
    check_stream_close(probe->stream);
    grpc_health_destroy(probe->health);
    free(probe);
}

const struct check_probe_kind check_probe_grpc = {.start = start, .cancel = cancel};
