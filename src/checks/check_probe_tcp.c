/* Passing when a connection is made, with TLS if the check says so. It is then reset: nothing of
 * the target's protocol is spoken, and no port waits for the end of the connection. */
#include "checks/check_probe.h"
#include "checks/check_stream.h"
#include "checks/check_target.h"

#include <stdlib.h>
#include <string.h>

struct tcp_probe {
    struct check_probe base;
    struct check_stream *stream;
    struct host_port address;
};

static void finish(struct tcp_probe *probe, enum registry_health health, const char *text) {
    struct check_result result;
    char room[HOST_PORT_TEXT_SIZE_MAX];
    struct check_probe_owner owner = probe->base.owner;
    check_result_set(&result, health, "TCP connect ");
    check_result_add_text(&result,
                          host_port_format(probe->address.host, probe->address.port, room));
    check_result_add_text(&result, ": ");
    check_result_add_text(&result, text);
    check_stream_close(probe->stream);
    free(probe);
    owner.done(owner.context, &result);
}

static void on_open(struct check_stream *stream) {
    finish(check_stream_context(stream), REGISTRY_PASSING, "success");
}

static void on_bytes(struct check_stream *stream, struct bytes bytes) {
    (void)stream;
    (void)bytes;
}

static void on_end(struct check_stream *stream, const char *reason) {
    finish(check_stream_context(stream), REGISTRY_CRITICAL,
           reason != NULL ? reason : "the connection was closed");
}

static const struct check_stream_events events = {
    .on_open = on_open,
    .on_bytes = on_bytes,
    .on_end = on_end,
};

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
    struct tcp_probe *probe = calloc(1, sizeof *probe);
    if (probe == NULL) {
        abort();
    }
    probe->base = (struct check_probe){.kind = &check_probe_tcp, .owner = *owner};
    probe->address = target.address;
    const struct check_stream_options options = {
        .host = probe->address.host,
        .port = probe->address.port,
        .is_tls = target.is_tls,
        .skips_verification = check->skips_verification,
        .server_name = server_name,
        .resets = !target.is_tls,
    };
    probe->stream = check_stream_open(network, &options, &events, probe);
    return &probe->base;
}

static void cancel(struct check_probe *base) {
    struct tcp_probe *probe = (struct tcp_probe *)base;
    check_stream_close(probe->stream);
    free(probe);
}

const struct check_probe_kind check_probe_tcp = {.start = start, .cancel = cancel};
