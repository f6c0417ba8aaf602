#include "doors/xds/xds_wait.h"

#include <stdlib.h>

enum {
    MARGIN_MS_MIN = 50, /* of a client's time, for the way back */
    MARGIN_PART = 10,
    MOMENT_MS = 1,
    PATIENCE_MS = 1000,  /* of those who say nothing, while others have their share of the loop */
    WATCHER_BYTES = 128, /* of a watch, beside what is here and its keys */
    DIGITS_MAX = 9
};

struct xds_wait_watch {
    struct service_watch watch;
    struct xds_wait *wait;
};

/* --- How long. --- */

/* 0: it is no number. */
static uint64_t number_of(struct bytes text) {
    uint64_t number = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9' || i == DIGITS_MAX) {
            return 0;
        }
        number = number * 10 + (uint64_t)(text.data[i] - '0');
    }
    return number;
}

static uint64_t wait_ms_of(const struct http_exchange *exchange) {
    static const char prefer[] = "wait=";
    const size_t size = sizeof prefer - 1;
    struct bytes value;
    if (http_header(exchange, "x-envoy-expected-rq-timeout-ms", &value)) {
        uint64_t timeout_ms = number_of(value);
        uint64_t margin_ms = timeout_ms / MARGIN_PART;
        margin_ms = margin_ms > MARGIN_MS_MIN ? margin_ms : MARGIN_MS_MIN;
        return timeout_ms > margin_ms ? timeout_ms - margin_ms : 0;
    }
    if (http_header(exchange, "prefer", &value) && value.size > size &&
        memcmp(value.data, prefer, size) == 0) {
        return number_of(bytes_of(value.data + size, value.size - size)) * 1000;
    }
    return 0;
}

void xds_wait_init(struct xds_wait *wait, struct xds_door *door, struct http_exchange *exchange,
                   void (*fired)(struct http_exchange *exchange)) {
    uint64_t wait_ms = wait_ms_of(exchange);
    wait_ms = wait_ms < XDS_WAIT_MS_MAX ? wait_ms : XDS_WAIT_MS_MAX;
    uint64_t now_ms = service_now_ms(door->service);
    *wait =
        (struct xds_wait){.door = door,
                          .exchange = exchange,
                          .fired = fired,
                          .patience_ms = now_ms + (wait_ms > PATIENCE_MS ? wait_ms : PATIENCE_MS)};
    if (wait_ms > 0) {
        wait->deadline_ms = now_ms + wait_ms;
    }
}

/* --- What for. --- */

/* A watch must not be ended while it delivers. */
static void wake(struct service_watch *watch) {
    struct xds_wait *wait = list_entry(watch, struct xds_wait_watch, watch)->wait;
    if (!wait->is_woken) {
        wait->is_woken = true;
        http_set_timer(wait->exchange, 0, wait->fired);
    }
}

static bool deliver(struct service_watch *watch, const struct watch_batch *batch) {
    if (batch->n_events > 0) {
        wake(watch);
    }
    return true;
}

static void compacted(struct service_watch *watch, int64_t compacted_revision) {
    (void)compacted_revision;
    wake(watch);
}

static void revoked(struct service_watch *watch, enum status status) {
    (void)status;
    wake(watch);
}

static bool begin_watch(struct xds_wait *wait, const struct key_range *range) {
    struct xds_wait_watch *place = &wait->watches[wait->n_watches++];
    const struct service_watch_options options = {.range = *range};
    place->wait = wait;
    place->watch.deliver = deliver;
    place->watch.compacted = compacted;
    place->watch.revoked = revoked;
    return service_watch(wait->door->service, http_caller(wait->exchange), &place->watch,
                         &options) == STATUS_OK;
}

static uint64_t rest_ms(const struct xds_wait *wait, uint64_t until_ms) {
    uint64_t now_ms = service_now_ms(wait->door->service);
    return until_ms > now_ms ? until_ms - now_ms : 0;
}

static size_t bytes_of_watches(const struct key_range *ranges, size_t n_ranges) {
    size_t size = 0;
    for (size_t i = 0; i < n_ranges; i++) {
        size += sizeof(struct xds_wait_watch) + WATCHER_BYTES + ranges[i].key.size +
                ranges[i].range_end.size;
    }
    return size;
}

bool xds_wait_begin(struct xds_wait *wait, const struct key_range *ranges, size_t n_ranges) {
    uint64_t after_ms = rest_ms(wait, wait->deadline_ms);
    size_t held = bytes_of_watches(ranges, n_ranges);
    if (after_ms == 0 || n_ranges > XDS_WAIT_RANGES_MAX || !http_hold(wait->exchange, held)) {
        return false;
    }
    wait->held = held;
    wait->watches = calloc(n_ranges + 1, sizeof *wait->watches);
    bool is_begun = wait->watches != NULL;
    wait->is_waiting = true;
    wait->is_woken = false;
    wait->door->stats.waiting++;
    for (size_t i = 0; i < n_ranges && is_begun; i++) {
        is_begun = begin_watch(wait, &ranges[i]);
    }
    if (!is_begun) {
        xds_wait_end(wait);
        return false;
    }
    http_set_timer(wait->exchange, after_ms, wait->fired);
    return true;
}

bool xds_wait_a_moment(struct xds_wait *wait) {
    if (rest_ms(wait, wait->patience_ms) == 0) {
        return false;
    }
    http_set_timer(wait->exchange, MOMENT_MS, wait->fired);
    return true;
}

void xds_wait_end(struct xds_wait *wait) {
    if (!wait->is_waiting) {
        return;
    }
    for (size_t i = 0; i < wait->n_watches; i++) {
        service_unwatch(wait->door->service, &wait->watches[i].watch);
    }
    free(wait->watches);
    http_release(wait->exchange, wait->held);
    wait->watches = NULL;
    wait->n_watches = 0;
    wait->is_waiting = false;
    wait->door->stats.waiting--;
}
