/*
 * Where servers are, as etcd's tools write it (base/endpoint_text.h), one or several with commas.
 */
#ifndef LEASED_CLIENT_ENDPOINT_H
#define LEASED_CLIENT_ENDPOINT_H

#include "base/endpoint_text.h"
#include "base/status.h"
#include "client/grpc_client.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct endpoint_list {
    struct endpoint items[ENDPOINTS_MAX];
    size_t n_items;
    struct tls_context *tls; /* the caller's: for ENDPOINT_TLS, and for those without a scheme */
};

/* STATUS_MALFORMED: not of that form. STATUS_INVALID: more than ENDPOINTS_MAX. */
enum status endpoint_list_parse(const char *text, struct endpoint_list *out_list);

/* "host:port", with brackets where an address needs them, or "unix://path". Gives `room`. */
const char *endpoint_format(const struct endpoint *endpoint, char room[ENDPOINT_TEXT_SIZE_MAX]);

/* Where the i-th server is and whether it speaks TLS, for grpc_client_create(); the list outlives
 * its use. All else is zero. */
struct grpc_client_options endpoint_options(const struct endpoint_list *list, size_t index);

#endif
