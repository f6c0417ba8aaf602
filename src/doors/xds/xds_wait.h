/*
 * A fetch over REST that waits: a client that has the newest version already is answered when
 * something changes, or when its time is over, and asks again. So Envoy hears of a change at once,
 * and not when it happens to ask.
 *
 * How long it waits is up to the client: Envoy says with every request how long it waits for the
 * answer (x-envoy-expected-rq-timeout-ms, its request_timeout), of which a tenth is left for the
 * way back; others say "prefer: wait=SECONDS" (RFC 7240). Who says nothing is answered at once.
 */
#ifndef LEASED_DOORS_XDS_XDS_WAIT_H
#define LEASED_DOORS_XDS_XDS_WAIT_H

#include "doors/xds/xds_state.h"
#include "net/http.h"

enum {
    XDS_WAIT_MS_MAX = 60 * 1000,
    XDS_WAIT_RANGES_MAX = 1024 /* a fetch of more is answered at once */
};

struct xds_wait_watch;

struct xds_wait {
    struct xds_door *door;
    struct http_exchange *exchange;
    void (*fired)(struct http_exchange *exchange);
    uint64_t deadline_ms; /* 0: it does not wait */
    uint64_t patience_ms; /* until when it is put off while others have their share of the loop */
    bool is_waiting;
    bool is_woken; /* something has changed, or the rights */
    size_t n_watches;
    size_t held; /* bytes of them */
    struct xds_wait_watch *watches;
};

/* Reads how long the client waits, from now on. */
void xds_wait_init(struct xds_wait *wait, struct xds_door *door, struct http_exchange *exchange,
                   void (*fired)(struct http_exchange *exchange));
/* Waits for a change of these ranges from now on, and calls fired() then, or at the end of its
 * time. False: it cannot, or its time is over. */
bool xds_wait_begin(struct xds_wait *wait, const struct key_range *ranges, size_t n_ranges);
/* Others have had their share of this iteration of the loop: fired() is called in a moment. False:
 * its time is over. */
bool xds_wait_a_moment(struct xds_wait *wait);
/* Harmless when it does not wait. Must not be called while a watch delivers. */
void xds_wait_end(struct xds_wait *wait);

#endif
