#include "doors/eureka/eureka_internal.h"

/* Moments are so far apart that as many as are kept cover the time of the delta. */
#define MOMENT_INTERVAL_MS (EUREKA_DELTA_MS / (EUREKA_MOMENTS_MAX - 2))

void eureka_moments_note(struct eureka_moments *moments, uint64_t now_ms, int64_t revision) {
    if (moments->n > 0 &&
        now_ms < moments->items[(moments->n - 1) % EUREKA_MOMENTS_MAX].at_ms + MOMENT_INTERVAL_MS) {
        return;
    }
    size_t place = moments->n++ % EUREKA_MOMENTS_MAX;
    moments->items[place].at_ms = now_ms;
    moments->items[place].revision = revision;
}

int64_t eureka_moments_since(const struct eureka_moments *moments, uint64_t now_ms) {
    size_t n = moments->n < EUREKA_MOMENTS_MAX ? moments->n : EUREKA_MOMENTS_MAX;
    int64_t revision = 0;
    for (size_t i = 1; i <= n; i++) {
        size_t place = (moments->n - i) % EUREKA_MOMENTS_MAX;
        revision = moments->items[place].revision;
        if (moments->items[place].at_ms + EUREKA_DELTA_MS <= now_ms) {
            break;
        }
    }
    return revision;
}
