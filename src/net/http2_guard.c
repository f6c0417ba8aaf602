#include "net/http2_guard.h"

enum {
    RESET_BURST = 20000,
    RESETS_PER_SECOND = 2000,
    IDLE_FRAME_BURST = 100000,
    IDLE_FRAMES_PER_SECOND = 20000,
    STREAMS_A_FRAME = 8 /* looking at so many streams costs what an idle frame does */
};

void http2_guard_init(struct http2_guard *guard, uint64_t now_ms) {
    guard->resets = (struct http2_bucket){.tokens = RESET_BURST, .filled_ms = now_ms};
    guard->idle_frames = (struct http2_bucket){.tokens = IDLE_FRAME_BURST, .filled_ms = now_ms};
}

static bool take(struct http2_bucket *bucket, uint64_t now_ms, uint32_t burst, uint32_t per_second,
                 uint32_t cost) {
    if (now_ms > bucket->filled_ms) {
        uint64_t earned = (now_ms - bucket->filled_ms) * per_second / 1000;
        bucket->tokens =
            earned >= burst - bucket->tokens ? burst : bucket->tokens + (uint32_t)earned;
        bucket->filled_ms = now_ms;
    }
    if (bucket->tokens < cost) {
        return false;
    }
    bucket->tokens -= cost;
    return true;
}

bool http2_guard_allows_reset(struct http2_guard *guard, uint64_t now_ms) {
    return take(&guard->resets, now_ms, RESET_BURST, RESETS_PER_SECOND, 1);
}

bool http2_guard_allows_idle_frame(struct http2_guard *guard, uint64_t now_ms) {
    return take(&guard->idle_frames, now_ms, IDLE_FRAME_BURST, IDLE_FRAMES_PER_SECOND, 1);
}

bool http2_guard_allows_settings(struct http2_guard *guard, uint64_t now_ms, size_t n_streams) {
    size_t cost = 1 + n_streams / STREAMS_A_FRAME;
    return take(&guard->idle_frames, now_ms, IDLE_FRAME_BURST, IDLE_FRAMES_PER_SECOND,
                cost < IDLE_FRAME_BURST / 4 ? (uint32_t)cost : IDLE_FRAME_BURST / 4);
}
