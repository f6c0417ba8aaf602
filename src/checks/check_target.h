/*
 * Where a check connects to, read from the text that a client gave: an URL of HTTP, "host:port" of
 * TCP, "host:port" or "host:port/service" of gRPC. Pure, and trusts no byte.
 */
#ifndef LEASED_CHECKS_CHECK_TARGET_H
#define LEASED_CHECKS_CHECK_TARGET_H

#include "base/bytes.h"
#include "base/host_port.h"
#include "registry/registry_model.h"

#include <stdbool.h>

struct check_target {
    struct host_port address;
    bool is_tls;
    /* Of HTTP: path and query, may be empty; of gRPC: the service, may be empty. Points into the
     * check. */
    struct bytes path;
};

/* False: it is none, and `out_reason` says why, for people. */
bool check_target_parse(const struct registry_check *check, struct check_target *out_target,
                        const char **out_reason);

#endif
