#include "doors/native/native_settler.h"

#include "doors/native/native_clock.h"
#include "doors/native/native_keys.h"
#include "doors/native/native_rules.h"

#include <assert.h>
#include <stdlib.h>

enum {
    FIRST_LOOK_MS = 100,
    /* Of a member that does not lead, or could not: the leader may go before it is done. */
    PAUSE_MS = 1000
};

struct native_settler {
    struct native_door *door;
    struct net_timer timer;
    struct service_request request;
    struct service_watch watch;
    bool is_watching;
    bool is_submitted;
};

static void look_after(struct native_settler *settler, uint64_t after_ms) {
    native_clock_arm(settler->door->clock, &settler->timer, after_ms);
}

static bool deliver(struct service_watch *watch, const struct watch_batch *batch) {
    (void)batch;
    look_after(list_entry(watch, struct native_settler, watch), 0);
    return true;
}

static void compacted(struct service_watch *watch, int64_t compacted_revision) {
    struct native_settler *settler = list_entry(watch, struct native_settler, watch);
    (void)compacted_revision;
    settler->is_watching = false;
    look_after(settler, 0);
}

static void revoked(struct service_watch *watch, enum status status) {
    (void)status;
    compacted(watch, 0);
}

static void settled(struct service_request *request, const struct outcome *outcome) {
    struct native_settler *settler = list_entry(request, struct native_settler, request);
    settler->is_submitted = false;
    look_after(settler, outcome->status == STATUS_OK ? 0 : PAUSE_MS);
}

static void submit(struct native_settler *settler) {
    const struct command command = {
        .type = COMMAND_RULE, .rule = {.number = NATIVE_RULE_SETTLE, .request = bytes_of("", 0)}};
    settler->is_submitted = true;
    settler->request.done = settled;
    service_submit(settler->door->service, &caller_server, &settler->request, &command);
}

static bool is_leading(struct native_door *door) {
    struct service_info info;
    service_info(door->service, &info);
    return info.leader_id != 0 && info.leader_id == info.member_id;
}

static void look(struct net_timer *timer) {
    struct native_settler *settler = list_entry(timer, struct native_settler, timer);
    struct native_door *door = settler->door;
    struct key_range range = native_records('m');
    if (!settler->is_watching) {
        const struct service_watch_options options = {.range = range, .without_deletes = true};
        settler->is_watching =
            service_watch(door->service, &caller_server, &settler->watch, &options) == STATUS_OK;
    }
    bool has_work = key_store_count(native_keys(door), range.space, range.key, range.range_end) > 0;
    if (has_work && !settler->is_submitted && is_leading(door)) {
        submit(settler);
    } else if (!settler->is_watching || (has_work && !settler->is_submitted)) {
        look_after(settler, PAUSE_MS);
    }
}

struct native_settler *native_settler_create(struct native_door *door) {
    struct native_settler *settler = calloc(1, sizeof *settler);
    if (settler == NULL) {
        abort();
    }
    settler->door = door;
    settler->watch.deliver = deliver;
    settler->watch.compacted = compacted;
    settler->watch.revoked = revoked;
    net_timer_init(&settler->timer, look);
    look_after(settler, FIRST_LOOK_MS);
    return settler;
}

void native_settler_destroy(struct native_settler *settler) {
    assert(!settler->is_submitted); /* and the service has dropped the watch: it is closed */
    native_clock_disarm(settler->door->clock, &settler->timer);
    free(settler);
}
