#include "replication/lease_clock.h"

#include "base/clock.h"

void lease_clock_init(struct lease_clock *clock, uint64_t patience_ms, uint64_t now_ms) {
    *clock = (struct lease_clock){.patience_ms = patience_ms, .seen_ms = now_ms};
}

/* For how long it has stood still since a leader was last seen. */
static uint64_t still_ms(const struct lease_clock *clock, uint64_t now_ms) {
    uint64_t unseen_ms = clock_elapsed_ms(now_ms, clock->seen_ms);
    return unseen_ms > clock->patience_ms ? unseen_ms - clock->patience_ms : 0;
}

uint64_t lease_clock_read(const struct lease_clock *clock, uint64_t now_ms) {
    return now_ms - clock->stopped_ms - still_ms(clock, now_ms);
}

uint64_t lease_clock_leader_seen(struct lease_clock *clock, uint64_t now_ms) {
    uint64_t unseen_ms = clock_elapsed_ms(now_ms, clock->seen_ms);
    clock->stopped_ms += still_ms(clock, now_ms);
    if (now_ms > clock->seen_ms) {
        clock->seen_ms = now_ms;
    }
    return unseen_ms;
}

void lease_clock_set_patience(struct lease_clock *clock, uint64_t patience_ms, uint64_t now_ms) {
    (void)lease_clock_leader_seen(clock, now_ms);
    clock->patience_ms = patience_ms;
}
