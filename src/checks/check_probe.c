#include "checks/check_probe.h"

const struct check_probe_kind *check_probe_kind_of(enum registry_check_kind kind) {
    switch (kind) {
    case REGISTRY_CHECK_HTTP:
        return &check_probe_http;
    case REGISTRY_CHECK_TCP:
        return &check_probe_tcp;
    case REGISTRY_CHECK_GRPC:
        return &check_probe_grpc;
    case REGISTRY_CHECK_COMMAND:
        return &check_probe_command;
    default:
        return NULL;
    }
}
