#include "doors/native/native_call.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* Of a request that reads: names are short. Unknown fields must not make it large. */
    READ_SIZE_MAX = 16 * 1024,
    /* Held for each lease whose time is asked for. */
    TIME_BYTES = 192
};

const struct key_store *native_keys(const struct native_door *door) {
    return state_view_keys(service_view(door->service));
}

const struct lease_table *native_leases(const struct native_door *door) {
    return state_view_leases(service_view(door->service));
}

void native_call_read(struct grpc_call *call, struct bytes message, const struct key_range *ranges,
                      size_t n_ranges,
                      void (*resume)(struct grpc_call *call, struct bytes message)) {
    const struct leased_v1_read read = {.message = message,
                                        .message_size_max = READ_SIZE_MAX,
                                        .ranges = ranges,
                                        .n_ranges = n_ranges};
    leased_v1_call_read(&native_door_of(call)->api, call, &read, resume);
}

/* --- Time that is left. --- */

/* A call that waits for the times of its list. */
struct timed_call {
    struct leased_v1_call base;
    struct native_times *times; /* being asked for; NULL: not yet */
    struct native_id_list list;
    void (*resume)(struct grpc_call *call, struct bytes message, const struct native_id_list *list,
                   const int64_t *remaining_ms);
};

static void destroy(struct timed_call *waiting) {
    free(waiting->list.ids);
    leased_v1_call_destroy(&waiting->base);
}

static void abandon(struct leased_v1_call *base) {
    struct timed_call *waiting = list_entry(base, struct timed_call, base);
    native_times_forget(waiting->times);
    destroy(waiting);
}

static void times_known(void *context, const int64_t *remaining_ms, size_t n) {
    struct timed_call *waiting = context;
    struct grpc_call *call = leased_v1_call_take(&waiting->base);
    if (n < waiting->list.n) {
        leased_v1_error_finish(call, native_error_of(STATUS_NO_MEMORY));
    } else {
        waiting->resume(call, bytes_of(waiting->base.message, waiting->base.message_size),
                        &waiting->list, remaining_ms);
    }
    destroy(waiting);
}

static bool keep_list(struct timed_call *waiting, const struct native_id_list *list) {
    waiting->list = *list;
    waiting->list.ids = malloc((list->n > 0 ? list->n : 1) * sizeof list->ids[0]);
    if (waiting->list.ids == NULL) {
        return false;
    }
    if (list->n > 0) {
        memcpy(waiting->list.ids, list->ids, list->n * sizeof list->ids[0]);
    }
    return true;
}

void native_call_ask_times(struct grpc_call *call, struct bytes message,
                           const struct native_id_list *list,
                           void (*resume)(struct grpc_call *call, struct bytes message,
                                          const struct native_id_list *list,
                                          const int64_t *remaining_ms)) {
    struct native_door *door = native_door_of(call);
    if (!grpc_call_hold(call, list->n * TIME_BYTES)) {
        leased_v1_error_finish(call, native_error_of(STATUS_TOO_MANY_REQUESTS));
        return;
    }
    struct timed_call *waiting = leased_v1_call_create(&door->api, call, sizeof *waiting);
    if (waiting == NULL) {
        return;
    }
    if (!leased_v1_call_keep(&waiting->base, message) || !keep_list(waiting, list)) {
        leased_v1_error_finish(call, native_error_of(STATUS_NO_MEMORY));
        destroy(waiting);
        return;
    }
    waiting->resume = resume;
    struct native_times *times =
        native_times_ask(door, grpc_call_caller(call), list->ids, list->n, times_known, waiting);
    if (times != NULL) { /* otherwise it is answered, and gone */
        waiting->times = times;
        waiting->base.abandon = abandon;
    }
}
