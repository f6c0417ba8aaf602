/* PUT apps/{app}/{id}: the heartbeat. The lease is found in what this member has applied, which
 * costs nothing; only when that does not know it, the leader is asked. */
#include "doors/eureka/eureka_instance.h"
#include "doors/eureka/eureka_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* False: it is no number. Left out it is 0. */
static bool read_dirty(const struct http_exchange *exchange, int64_t *out_ms) {
    char digits[32];
    char *end;
    struct bytes text;
    *out_ms = 0;
    if (!http_query(exchange, "lastDirtyTimestamp", &text) || text.size == 0) {
        return true;
    }
    if (text.size >= sizeof digits) {
        return false;
    }
    memcpy(digits, text.data, text.size);
    digits[text.size] = '\0';
    errno = 0;
    *out_ms = strtoll(digits, &end, 10);
    return errno == 0 && *end == '\0';
}

/* Without a body: Java's client takes any for an instance, and then does not register again. */
static void not_found(struct eureka_request *request) {
    request->door->counters[EUREKA_COUNT_RENEW_NOT_FOUND]++;
    eureka_request_finish(request, 404);
}

static void look(struct eureka_request *request, enum status status);

/* The state that this member had may have been an old one: once more, with that of now. */
static void look_again(struct eureka_request *request) {
    if (request->is_retried) {
        not_found(request);
        return;
    }
    request->is_retried = true;
    eureka_request_read(request, NULL, look);
}

static void renewed(struct eureka_request *request, enum status status) {
    if (status == STATUS_LEASE_NOT_FOUND) {
        look_again(request);
    } else if (status != STATUS_OK) {
        eureka_request_fail_status(request, status);
    } else if (request->dirty_ms != 0) {
        /* The client has changed since it registered. */
        not_found(request);
    } else {
        request->door->counters[EUREKA_COUNT_RENEW]++;
        eureka_request_finish(request, 200);
    }
}

static void look(struct eureka_request *request, enum status status) {
    struct registry_entry entry;
    if (status != STATUS_OK) {
        eureka_request_fail_status(request, status);
        return;
    }
    if (!eureka_request_find(request, &entry) || entry.is_kept ||
        entry.instance.origin != REGISTRY_ORIGIN_EUREKA) {
        look_again(request);
        return;
    }
    /* Kept for renewed(): only a later one means that it has to register again. */
    int64_t known_ms = eureka_instance_dirty_ms(&entry.instance);
    if (known_ms == 0 || request->dirty_ms <= known_ms) {
        request->dirty_ms = 0;
    } else if (!request->is_retried) {
        look_again(request);
        return;
    }
    eureka_request_renew(request, entry.instance.lease_id, renewed);
}

void eureka_on_renew(struct http_exchange *exchange) {
    int64_t dirty_ms;
    if (eureka_http_is_replication(exchange)) {
        return;
    }
    if (!read_dirty(exchange, &dirty_ms)) {
        eureka_http_error(exchange, 400, "lastDirtyTimestamp is not a number");
        return;
    }
    struct eureka_request *request = eureka_request_create(exchange);
    if (request != NULL) {
        request->dirty_ms = dirty_ms;
        look(request, STATUS_OK);
    }
}
