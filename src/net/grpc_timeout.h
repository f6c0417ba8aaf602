/*
 * The grpc-timeout request header: at most eight digits and a unit (PROTOCOL-HTTP2.md, "Timeout").
 */
#ifndef LEASED_NET_GRPC_TIMEOUT_H
#define LEASED_NET_GRPC_TIMEOUT_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

/* False: malformed. Parts of a millisecond round up, so that a call never ends before its time. */
bool grpc_timeout_parse(struct bytes text, uint64_t *out_timeout_ms);

#endif
