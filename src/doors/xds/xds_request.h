/*
 * Requests of clients, read from the protocol buffers encoding (proto/xds.proto). Every byte is
 * hostile: numbers and sizes are bounded here.
 */
#ifndef LEASED_DOORS_XDS_XDS_REQUEST_H
#define LEASED_DOORS_XDS_XDS_REQUEST_H

#include "base/arena.h"
#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    /* Of one request, and of one type on one stream. */
    XDS_NAMES_MAX = 4096,
    /* Versions that a client says it has: it may have had all that there were. */
    XDS_KNOWN_MAX = 20 * 1000
};

struct xds_node {
    bool is_given;
    struct bytes id;
    struct bytes zone;
};

struct xds_known {
    struct bytes name;
    struct bytes version;
};

/* Either form: of state-of-the-world it has `names`, of delta `subscribe` is in `names`. Views into
 * the message; arrays are arena memory. */
struct xds_request {
    struct xds_node node;
    struct bytes type_url;
    struct bytes version;
    struct bytes nonce;
    bool is_refusal; /* there is an error_detail */
    struct bytes error;
    size_t n_names;
    struct bytes *names;
    size_t n_unsubscribed;
    struct bytes *unsubscribed;
    size_t n_known;
    struct xds_known *known;
};

enum xds_request_result { XDS_REQUEST_OK, XDS_REQUEST_MALFORMED, XDS_REQUEST_TOO_MANY_NAMES };

enum xds_request_result xds_request_read(struct bytes message, bool is_delta, struct arena *arena,
                                         struct xds_request *out_request);

#endif
