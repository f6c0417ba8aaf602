/*
 * Token buckets against peers that make us work for nothing: streams reset as soon as they are
 * opened (CVE-2023-44487) or made to be reset by us, and control frames or empty DATA frames
 * without end. What real clients do stays far below: a client whose thousands of calls time out
 * together, or one that measures its bandwidth with a PING per round trip.
 */
#ifndef LEASED_NET_HTTP2_GUARD_H
#define LEASED_NET_HTTP2_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http2_bucket {
    uint32_t tokens;
    uint64_t filled_ms;
};

struct http2_guard {
    struct http2_bucket resets;
    struct http2_bucket idle_frames;
};

void http2_guard_init(struct http2_guard *guard, uint64_t now_ms);
/* False: too many. */
bool http2_guard_allows_reset(struct http2_guard *guard, uint64_t now_ms);
/* A frame that moves nothing forward: PING, SETTINGS, PRIORITY, empty DATA. */
bool http2_guard_allows_idle_frame(struct http2_guard *guard, uint64_t now_ms);
/* SETTINGS may change the window of every open stream, one by one. */
bool http2_guard_allows_settings(struct http2_guard *guard, uint64_t now_ms, size_t n_streams);

#endif
