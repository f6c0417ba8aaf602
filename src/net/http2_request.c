#include "net/http2_request.h"

#include "net/grpc_call.h"
#include "net/grpc_timeout.h"
#include "net/http_fields.h"
#include "net/http_request.h"
#include "net/route_exchange.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PATH_SHOWN_MAX = 255, /* of a path that leads to no gRPC method */
    TIMEOUT_KEPT_MAX = 31
};

enum request_timeout { TIMEOUT_NONE, TIMEOUT_GIVEN, TIMEOUT_MALFORMED };

enum {
    SEEN_METHOD = 1 << 0,
    SEEN_SCHEME = 1 << 1,
    SEEN_PATH = 1 << 2,
    SEEN_AUTHORITY = 1 << 3,
    SEEN_HOST = 1 << 4,
    SEEN_FIELD = 1 << 5, /* no pseudo-header may follow */
    SEEN_NEEDED = SEEN_METHOD | SEEN_SCHEME | SEEN_PATH
};

struct http2_request {
    struct http_request http;
    const struct method_route *route; /* of the gRPC method; NULL: none has this path */
    size_t header_size;
    uint64_t timeout_ms;
    enum request_timeout timeout;
    unsigned seen;
    bool is_post;
    bool is_grpc;
    char timeout_text[TIMEOUT_KEPT_MAX + 1];
    char encoding[GRPC_ENCODING_NAME_MAX + 1];
};

struct http2_request *http2_request_take(struct net_shared *shared) {
    struct http2_request *request = shared->free_request;
    if (request == NULL) {
        return calloc(1, sizeof *request);
    }
    shared->free_request = NULL;
    return request;
}

static void destroy(struct http2_request *request) {
    http_request_clear(&request->http);
    free(request);
}

void http2_request_give_back(struct http2_request *request, struct net_shared *shared) {
    if (request == NULL) {
        return;
    }
    if (shared->free_request != NULL) {
        destroy(request);
        return;
    }
    http_request_reset(&request->http);
    request->route = NULL;
    request->header_size = 0;
    request->timeout = TIMEOUT_NONE;
    request->seen = 0;
    request->is_post = false;
    request->is_grpc = false;
    request->timeout_text[0] = 0;
    /* It is copied whole into each call. */
    if (request->encoding[0] != 0) {
        memset(request->encoding, 0, sizeof request->encoding);
    }
    shared->free_request = request;
}

void http2_request_drop_free(struct net_shared *shared) {
    if (shared->free_request != NULL) {
        destroy(shared->free_request);
        shared->free_request = NULL;
    }
}

/* --- fields -------------------------------------------------------------------------------- */

static inline bool is(struct bytes value, const char *text) {
    return bytes_equal(value, bytes_from_text(text));
}

static bool starts_with(struct bytes value, const char *text) {
    size_t size = strlen(text);
    return value.size >= size && memcmp(value.data, text, size) == 0;
}

/* Copies what fits, with a zero at the end. */
static void keep_text(struct bytes value, char *out, size_t size_max) {
    size_t size = value.size < size_max ? value.size : size_max;
    memcpy(out, value.data, size);
    out[size] = 0;
}

/* True if none of eight bytes is a space, a control character or above ASCII. */
static bool are_visible(uint64_t bytes) {
    const uint64_t ones = UINT64_C(0x0101010101010101);
    const uint64_t highs = UINT64_C(0x8080808080808080);
    /* With the highest bits clear, no sum or difference carries into the next byte. */
    uint64_t is_del_or_more = bytes + ones;               /* 0x7f becomes 0x80 */
    uint64_t is_visible = bytes + (ones * (0x80 - 0x21)); /* 0x21 becomes 0x80 */
    return ((bytes | is_del_or_more | ~is_visible) & highs) == 0;
}

/* Visible ASCII without spaces. etcd's clients send URLs and lists of them as ":authority". */
static bool is_authority(struct bytes value) {
    uint64_t part = 0;
    while (value.size >= sizeof part) {
        memcpy(&part, value.data, sizeof part);
        if (!are_visible(part)) {
            return false;
        }
        value.data += sizeof part;
        value.size -= sizeof part;
    }
    for (size_t i = 0; i < value.size; i++) {
        if (value.data[i] <= 0x20 || value.data[i] >= 0x7f) {
            return false;
        }
    }
    return true;
}

/* The same for one of at least eight bytes: the last eight are looked at together, some of them
 * twice. */
static inline bool is_long_authority(struct bytes value) {
    uint64_t part = 0;
    memcpy(&part, value.data + value.size - sizeof part, sizeof part);
    value.size -= value.size % sizeof part;
    return are_visible(part) && is_authority(value);
}

static bool set_path(struct http2_request *request, const struct http_session *session,
                     struct bytes value) {
    request->route = route_table_find_method(session->routes, value);
    if (request->route != NULL) {
        return true;
    }
    http_request_set_target(&request->http, value);
    /* RFC 9113, 8.3.1: not empty; "*" is for OPTIONS alone. */
    return value.size > 0 && nghttp2_check_path(value.data, value.size) &&
           (value.data[0] == '/' || value.data[0] == '*');
}

static bool set_method(struct http2_request *request, struct bytes value) {
    request->is_post = is(value, "POST");
    if (request->is_post) {
        return true; /* its name is needed only if it is no gRPC call */
    }
    if (!nghttp2_check_method(value.data, value.size)) {
        return false;
    }
    if (!http_request_set_method(&request->http, value)) {
        request->http.refusal = 501;
    }
    return true;
}

static bool add_pseudo_header(struct http2_request *request, const struct http_session *session,
                              struct bytes name, struct bytes value) {
    unsigned bit = 0;
    bool is_valid = true;
    if (is(name, ":path")) {
        bit = SEEN_PATH;
        is_valid = set_path(request, session, value);
    } else if (is(name, ":method")) {
        bit = SEEN_METHOD;
        is_valid = set_method(request, value);
    } else if (is(name, ":scheme")) {
        bit = SEEN_SCHEME;
        is_valid = is(value, "http") || is(value, "https");
    } else if (is(name, ":authority")) {
        bit = SEEN_AUTHORITY;
        is_valid =
            (value.size >= sizeof(uint64_t) ? is_long_authority(value) : is_authority(value)) &&
            value.size <= HTTP_FIELD_PART_MAX;
        /* No door of gRPC asks for it. */
        if (is_valid && request->route == NULL) {
            http_fields_add(&request->http.fields, bytes_from_text("host"), value);
        }
    }
    /* RFC 9113, 8.3: none unknown, none twice, none behind another field. */
    bool is_allowed = bit != 0 && (request->seen & (bit | SEEN_FIELD)) == 0;
    request->seen |= bit;
    return is_valid && is_allowed;
}

static bool set_length(struct http2_request *request, struct bytes value) {
    bool is_first = !request->http.has_length;
    request->http.has_length = true;
    return is_first && http_request_parse_length(value, &request->http.length);
}

/* RFC 9113, 8.2.2: what belongs to a connection of HTTP/1. */
static bool is_of_connection(struct bytes name) {
    switch (name.size) {
    case 7:
        return is(name, "upgrade");
    case 10:
        return is(name, "connection") || is(name, "keep-alive");
    case 16:
        return is(name, "proxy-connection");
    case 17:
        return is(name, "transfer-encoding");
    default:
        return false;
    }
}

static void add_grpc_field(struct http2_request *request, struct bytes name, struct bytes value) {
    if (is(name, "grpc-timeout")) {
        bool is_valid = grpc_timeout_parse(value, &request->timeout_ms);
        request->timeout = is_valid ? TIMEOUT_GIVEN : TIMEOUT_MALFORMED;
        keep_text(value, request->timeout_text, TIMEOUT_KEPT_MAX);
    } else if (is(name, "grpc-encoding") && !is(value, "identity")) {
        keep_text(value, request->encoding, GRPC_ENCODING_NAME_MAX);
    }
}

/* Fields that change how the request is read. False: malformed. */
static bool interpret(struct http2_request *request, struct bytes name, struct bytes value) {
    if (is(name, "content-type")) {
        request->is_grpc = starts_with(value, "application/grpc");
    } else if (is(name, "content-length")) {
        return set_length(request, value);
    } else if (is(name, "te")) {
        return is(value, "trailers");
    } else if (is(name, "host")) {
        bool is_first = (request->seen & SEEN_HOST) == 0;
        request->seen |= SEEN_HOST;
        return is_first && is_authority(value);
    } else if (is(name, "expect")) {
        request->http.expects_continue = is(value, "100-continue");
        if (!request->http.expects_continue) {
            request->http.refusal = 417;
        }
    } else if (starts_with(name, "grpc-")) {
        add_grpc_field(request, name, value);
    } else {
        return !is_of_connection(name);
    }
    return true;
}

static void keep_field(struct http2_request *request, struct bytes name, struct bytes value) {
    struct buffer *fields = &request->http.fields;
    if (request->route == NULL) {
        /* The first "host" is the one that counts, and ":authority" comes before it. */
        http_fields_add(fields, name, value);
        return;
    }
    /* Every gRPC client sends these, and no door asks for them. */
    if (is(name, "te") || is(name, "user-agent") || is(name, "content-type") ||
        starts_with(name, "grpc-") ||
        fields->size + name.size + value.size + sizeof(uint32_t) > GRPC_METADATA_SIZE_MAX) {
        return;
    }
    http_fields_add(fields, name, value);
}

/* A field that not every call has. */
__attribute__((noinline)) static bool add_field(struct http2_request *request, struct bytes name,
                                                struct bytes value) {
    /* RFC 9113, 8.2.1: small letters, and no control characters that could end a line. */
    if (!nghttp2_check_header_name(name.data, name.size) ||
        !nghttp2_check_header_value_rfc9113(value.data, value.size) ||
        value.size > HTTP_FIELD_PART_MAX || !interpret(request, name, value)) {
        return false;
    }
    keep_field(request, name, value);
    return true;
}

bool http2_request_add(struct http2_request *request, const struct http_session *session,
                       struct bytes name, struct bytes value) {
    request->header_size += name.size + value.size + HTTP_FIELD_OVERHEAD;
    if (request->header_size > session->shared->limits.header_size_max) {
        /* The rest of the block is decoded and dropped; then the answer says why. */
        request->http.refusal = 431;
        return true;
    }
    if (name.size > 0 && name.data[0] == ':') {
        return add_pseudo_header(request, session, name, value);
    }
    request->seen |= SEEN_FIELD;
    if (request->route != NULL) {
        /* Every call sends these two, so they are not looked at letter by letter. */
        if (is(name, "content-type") && is(value, "application/grpc")) {
            request->is_grpc = true;
            return true;
        }
        if (is(name, "te") && is(value, "trailers")) {
            return true;
        }
    }
    return add_field(request, name, value);
}

bool http2_request_check_trailer(struct bytes name, struct bytes value) {
    return name.size > 0 && name.data[0] != ':' &&
           nghttp2_check_header_name(name.data, name.size) &&
           nghttp2_check_header_value_rfc9113(value.data, value.size) && !is_of_connection(name);
}

/* --- the end of the block ------------------------------------------------------------------ */

static void start_call(struct http2_request *request, struct grpc_call *call) {
    char text[2 * PATH_SHOWN_MAX + 64];
    if (request->route == NULL) {
        struct bytes path = bytes_of(request->http.target.data, request->http.target.size);
        path.size = path.size < PATH_SHOWN_MAX ? path.size : PATH_SHOWN_MAX;
        route_table_explain(call->exchange.session->routes, path, text, sizeof text);
        grpc_call_finish(call, GRPC_UNIMPLEMENTED, text);
        return;
    }
    if (request->timeout == TIMEOUT_MALFORMED) {
        snprintf(text, sizeof text, "malformed grpc-timeout: \"%s\"", request->timeout_text);
        grpc_call_finish(call, GRPC_INTERNAL, text);
        return;
    }
    call->method = request->route->method;
    call->exchange.context = request->route->context;
    grpc_call_count(call, request->route->stats);
    if (request->encoding[0] != 0) {
        grpc_call_set_encoding(call, request->encoding);
    }
    struct buffer fields = call->exchange.fields;
    call->exchange.fields = request->http.fields;
    request->http.fields = fields;
    if (!grpc_call_authenticate(call)) {
        return;
    }
    if (request->timeout == TIMEOUT_GIVEN) {
        http_exchange_set_timeout(&call->exchange, request->timeout_ms);
    }
    grpc_call_open(call);
}

size_t http2_request_size(const struct http2_request *request) {
    return request->http.fields.size;
}

/* RFC 9113, 8.3.1: a request without one of these is malformed. */
static bool is_whole(const struct http2_request *request, bool is_complete) {
    return (request->seen & SEEN_NEEDED) == SEEN_NEEDED &&
           (request->seen & (SEEN_AUTHORITY | SEEN_HOST)) != 0 &&
           !(is_complete && request->http.has_length && request->http.length > 0);
}

bool http2_request_start(struct http2_request *request, struct http2_session *session,
                         int32_t stream_id, bool is_complete) {
    if (request->http.refusal != 431 && !is_whole(request, is_complete)) {
        return false;
    }
    struct http_exchange *exchange = NULL;
    struct grpc_call *call = NULL;
    request->http.is_complete = is_complete;
    if (request->is_post && request->is_grpc && request->http.refusal == 0) {
        call = grpc_call_create(&session->http, stream_id);
        exchange = &call->exchange;
    } else {
        if (request->route != NULL && request->http.refusal == 0) {
            request->http.refusal = request->is_post ? 415 : 405;
        }
        if (request->is_post) {
            memcpy(request->http.method, "POST", sizeof "POST");
        }
        exchange = route_exchange_create(&session->http, &request->http, stream_id);
    }
    exchange->has_length = request->http.has_length;
    exchange->length_left = request->http.length;
    nghttp2_session_set_stream_user_data(session->nghttp2, stream_id, exchange);
    http2_session_know(session, stream_id, exchange);
    http_exchange_count_held(exchange,
                             http_exchange_cost(exchange) + request->http.fields.capacity);
    if (call != NULL) {
        start_call(request, call);
    } else {
        route_exchange_open(exchange);
    }
    return true;
}
