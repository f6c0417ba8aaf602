/* What waits for a later iteration of the loop: lists that are much work, in the order in which
 * they came. */
#include "doors/registry/registry_api_call.h"
#include "registry/registry_keys.h"

enum {
    PAUSE_MS = 1,
    /* Of an instance that is read, chosen and written, in looks at a record. */
    WORK_A_RECORD = 32
};

static bool is_allowed(struct registry_api *door, struct bytes service) {
    const struct key_store *keys = registry_api_keys(door);
    struct arena arena;
    arena_init(&arena);
    struct key_range range = registry_service_range(&arena, service);
    size_t n = key_store_count(keys, range.space, range.key, range.range_end);
    arena_clear(&arena);
    return service_allow_work(door->service, n * WORK_A_RECORD);
}

static void go_on(uv_timer_t *timer) {
    struct registry_api *door = timer->data;
    while (!list_is_empty(&door->later)) {
        struct registry_api_later *later =
            list_entry(door->later.next, struct registry_api_later, link);
        if (!is_allowed(door, later->service)) {
            uv_timer_start(timer, go_on, PAUSE_MS, 0);
            return;
        }
        list_remove(&later->link);
        later->run(later);
    }
}

void registry_api_later(struct registry_api *door, struct registry_api_later *later) {
    list_init(&later->link);
    if (list_is_empty(&door->later) && is_allowed(door, later->service)) {
        later->run(later);
        return;
    }
    list_append(&door->later, &later->link);
    if (!uv_is_active((const uv_handle_t *)&door->timer)) {
        uv_timer_start(&door->timer, go_on, PAUSE_MS, 0);
    }
}

void registry_api_later_cancel(struct registry_api_later *later) {
    list_remove(&later->link);
}

void registry_api_later_init(struct registry_api *door, uv_loop_t *loop) {
    list_init(&door->later);
    uv_timer_init(loop, &door->timer);
    uv_unref((uv_handle_t *)&door->timer);
    door->timer.data = door;
}

/* --- Calls. --- */

struct call_later {
    struct leased_v1_call waiting;
    struct registry_api_later later;
};

static void run_call(struct registry_api_later *later) {
    struct call_later *call_later = list_entry(later, struct call_later, later);
    struct leased_v1_call *waiting = &call_later->waiting;
    struct grpc_call *call = leased_v1_call_take(waiting);
    waiting->resume(call, bytes_of(waiting->message, waiting->message_size));
    leased_v1_call_destroy(waiting);
}

static void abandon(struct leased_v1_call *waiting) {
    registry_api_later_cancel(&list_entry(waiting, struct call_later, waiting)->later);
    leased_v1_call_destroy(waiting);
}

void registry_api_call_later(struct grpc_call *call, struct bytes message, struct bytes service,
                             void (*resume)(struct grpc_call *call, struct bytes message)) {
    struct registry_api *door = registry_api_of(call);
    if (list_is_empty(&door->later) && is_allowed(door, service)) {
        resume(call, message);
        return;
    }
    struct call_later *call_later = leased_v1_call_create(&door->api, call, sizeof *call_later);
    if (call_later == NULL) {
        return;
    }
    struct leased_v1_call *waiting = &call_later->waiting;
    if (!leased_v1_call_keep(waiting, message)) {
        leased_v1_error_finish(call, registry_api_error_of(STATUS_NO_MEMORY));
        leased_v1_call_destroy(waiting);
        return;
    }
    waiting->resume = resume;
    waiting->abandon = abandon;
    call_later->later.run = run_call;
    call_later->later.service =
        bytes_of(waiting->message + (service.data - message.data), service.size);
    registry_api_later(door, &call_later->later);
}
