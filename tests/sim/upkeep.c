/* Clients that look after a cluster: backups (snapshots of the whole state), compaction, and large
 * values that make snapshots of several chunks. */
#include "call.h"
#include "clients.h"
#include "faults.h"
#include "node.h"
#include "world.h"

#include <stdio.h>

enum { BALLAST_KEYS = 6, BALLAST_BYTES_MAX = 200 * 1024, REVISIONS_KEPT_MAX = 60 };

static bool is_stopped;
static int64_t compacted_revision;

static void ignore(struct call *call) {
    (void)call;
}

static void again(uint64_t min_us, uint64_t max_us, void (*act)(void *data)) {
    world_at(world_now_us() + random_between(min_us, max_us), act, NULL);
}

static void back_up(void *data) {
    (void)data;
    if (is_stopped) {
        return;
    }
    struct call *call = call_make(CALL_SNAPSHOT);
    call->answered = ignore;
    call_send(call, clients_choose_node());
    again(20 * WORLD_MS, 2 * WORLD_SECOND, back_up);
}

/* Never what somebody has yet to watch. */
static void compact(void *data) {
    (void)data;
    if (is_stopped) {
        return;
    }
    int64_t revision = watchers_seen_by_all() - (int64_t)random_below(REVISIONS_KEPT_MAX);
    if (revision > compacted_revision && !faults_want_quiet()) {
        compacted_revision = revision;
        struct call *call = call_make(CALL_COMPACT);
        call->revision = revision;
        call->answered = ignore;
        call_send(call, clients_choose_node());
    }
    again(200 * WORLD_MS, 3 * WORLD_SECOND, compact);
}

static void put_ballast(void *data) {
    (void)data;
    if (is_stopped) {
        return;
    }
    if (!faults_want_quiet()) {
        struct call *call = call_make(CALL_PUT);
        snprintf(call->key, sizeof call->key, "b%llu",
                 (unsigned long long)random_below(BALLAST_KEYS));
        call->padding = random_below(BALLAST_BYTES_MAX);
        call->answered = ignore;
        call_send(call, clients_choose_node());
    }
    again(100 * WORLD_MS, 2 * WORLD_SECOND, put_ballast);
}

void upkeep_start(const struct upkeep_options *options) {
    if (options->backs_up) {
        again(0, WORLD_SECOND, back_up);
    }
    if (options->compacts) {
        again(0, WORLD_SECOND, compact);
    }
    if (options->has_ballast) {
        again(0, WORLD_SECOND, put_ballast);
    }
}

void upkeep_stop(void) {
    is_stopped = true;
}

int64_t upkeep_compacted_revision(void) {
    return compacted_revision;
}
