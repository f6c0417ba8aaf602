/*
 * What a request says before its body, as HTTP/1 and HTTP/2 both collect it and a route then takes
 * it over.
 */
#ifndef LEASED_NET_HTTP_REQUEST_H
#define LEASED_NET_HTTP_REQUEST_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "net/http.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    HTTP_METHOD_SIZE_MAX = 15,
    /* Bytes that a field counts for besides its own (RFC 9113, section 6.5.2). */
    HTTP_FIELD_OVERHEAD = 32
};

struct http_request {
    char method[HTTP_METHOD_SIZE_MAX + 1];
    struct buffer target; /* path and query as sent */
    struct buffer fields; /* names in lower case, see http_fields.h */
    uint64_t length;      /* of the body, if `has_length` */
    bool has_length;
    bool is_complete; /* no body follows */
    bool expects_continue;
    unsigned refusal;         /* an HTTP status: refused before a route is looked for; 0: not */
    const char *refusal_text; /* constant; NULL: what the status says */
};

/* Forgets the request but keeps small buffers for the next one. */
void http_request_reset(struct http_request *request);
void http_request_clear(struct http_request *request);

/* False: it is longer than any method that is known. */
bool http_request_set_method(struct http_request *request, struct bytes method);
/* What is too long becomes a refusal with 414. */
void http_request_set_target(struct http_request *request, struct bytes target);

/* The value of content-length: digits alone, and no more than are sensible. */
bool http_request_parse_length(struct bytes value, uint64_t *out_length);

#endif
