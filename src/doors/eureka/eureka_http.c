#include "doors/eureka/eureka_internal.h"

#include "doors/eureka/eureka_gzip.h"

#include <assert.h>
#include <string.h>

enum { GZIP_SIZE_MIN = 256 /* less gains nothing */ };

static bool has_word(const struct http_exchange *exchange, const char *header, const char *word) {
    struct bytes value;
    return http_header(exchange, header, &value) &&
           memmem(value.data, value.size, word, strlen(word)) != NULL;
}

/* Eureka's own rule: whoever does not ask for JSON gets XML. */
enum eureka_format eureka_http_format(const struct http_exchange *exchange) {
    return has_word(exchange, "accept", "json") ? EUREKA_JSON : EUREKA_XML;
}

const char *eureka_http_type(enum eureka_format format) {
    return format == EUREKA_JSON ? "application/json" : "application/xml";
}

/* "gzip;q=0" is how a client says that it does not. */
static bool is_declined(struct bytes after) {
    size_t i = 0;
    while (i < after.size && (after.data[i] == ' ' || after.data[i] == ';')) {
        i++;
    }
    if (after.size - i < 3 || memcmp(after.data + i, "q=0", 3) != 0) {
        return false;
    }
    for (i += 3; i < after.size && after.data[i] != ','; i++) {
        if (after.data[i] >= '1' && after.data[i] <= '9') {
            return false;
        }
    }
    return true;
}

bool eureka_http_accepts_gzip(const struct http_exchange *exchange) {
    struct bytes value;
    if (!http_header(exchange, "accept-encoding", &value)) {
        return false;
    }
    const uint8_t *gzip = memmem(value.data, value.size, "gzip", 4);
    return gzip != NULL &&
           !is_declined(bytes_of(gzip + 4, value.size - (size_t)(gzip + 4 - value.data)));
}

struct bytes eureka_http_parameter(const struct http_exchange *exchange, const char *name) {
    struct bytes value = bytes_of(NULL, 0);
    bool is_there = http_parameter(exchange, name, &value);
    assert(is_there);
    return value;
}

static void reply_gzip(struct http_exchange *exchange, struct eureka_gzip *gzip,
                       enum eureka_format format, struct bytes document) {
    struct buffer out;
    buffer_init(&out);
    eureka_gzip_append(gzip, &out, document, true);
    const struct http_field fields[] = {
        {.name = bytes_from_text("content-type"),
         .value = bytes_from_text(eureka_http_type(format)),
         .is_constant = true},
        HTTP_FIELD("content-encoding", "gzip"),
        HTTP_FIELD("vary", "accept, accept-encoding"),
    };
    http_reply_fields(exchange, 200, fields, 3, bytes_of(out.data, out.size));
    buffer_clear(&out);
}

void eureka_http_document(struct http_exchange *exchange, enum eureka_format format,
                          struct bytes document) {
    struct eureka_gzip gzip;
    if (document.size >= GZIP_SIZE_MIN && eureka_http_accepts_gzip(exchange) &&
        eureka_gzip_init(&gzip)) {
        reply_gzip(exchange, &gzip, format, document);
        eureka_gzip_clear(&gzip);
        return;
    }
    http_reply(exchange, 200, eureka_http_type(format), document);
}

void eureka_http_error(struct http_exchange *exchange, unsigned status, const char *text) {
    http_reply(exchange, status, "text/plain; charset=utf-8", bytes_from_text(text));
}

static unsigned code_of(enum status status) {
    switch (status) {
    case STATUS_OK:
        return 200;
    case STATUS_KEY_NOT_FOUND:
    case STATUS_LEASE_NOT_FOUND:
        return 404;
    case STATUS_INVALID:
    case STATUS_MALFORMED:
    case STATUS_LEASE_TTL_TOO_LARGE:
        return 400;
    case STATUS_USER_EMPTY:
    case STATUS_AUTH_FAILED:
    case STATUS_AUTH_TOKEN_INVALID:
        return 401;
    case STATUS_PERMISSION_DENIED:
        return 403;
    case STATUS_FENCED:
        return 409;
    case STATUS_REQUEST_TOO_LARGE:
        return 413;
    case STATUS_UNSUPPORTED:
        return 501;
    default:
        return 503; /* clients of Eureka try another server then */
    }
}

void eureka_http_status(struct http_exchange *exchange, enum status status) {
    eureka_http_error(exchange, code_of(status), status_text(status));
}

#define REPLICATION_TEXT                                                                           \
    "Eureka's peer replication is refused: the members of this cluster replicate by themselves. "  \
    "Remove this server from the peers, and let clients name its members instead.\n"

bool eureka_http_is_replication(struct http_exchange *exchange) {
    struct bytes value;
    if (!http_header(exchange, "x-netflix-discovery-replication", &value) ||
        !bytes_equal(value, bytes_from_text("true"))) {
        return false;
    }
    eureka_http_error(exchange, 501, REPLICATION_TEXT);
    return true;
}

void eureka_on_replication(struct http_exchange *exchange) {
    const struct eureka_door *door = http_context(exchange);
    enum status status =
        service_check_user(door->service, http_caller(exchange), "eureka replication");
    if (status != STATUS_OK) {
        eureka_http_status(exchange, status);
        return;
    }
    eureka_http_error(exchange, 501, REPLICATION_TEXT);
}
