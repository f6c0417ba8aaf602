#include "doors/native/native_call.h"

#include "base/pb_append.h"

#include <assert.h>
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

/* --- Answers. --- */

/* Asked for once a millisecond at most: every answer needs it, and it hardly ever changes. */
static void refresh_identity(struct native_door *door) {
    uint64_t now_ms = service_now_ms(door->service);
    if (door->identity.is_known && now_ms == door->identity.asked_ms) {
        return;
    }
    struct service_info info;
    service_info(door->service, &info);
    door->identity.cluster_id = info.cluster_id;
    door->identity.member_id = info.member_id;
    door->identity.term = info.term;
    door->identity.asked_ms = now_ms;
    door->identity.is_known = true;
}

struct native_header native_header_now(struct native_door *door) {
    refresh_identity(door);
    return (struct native_header){.cluster_id = door->identity.cluster_id,
                                  .member_id = door->identity.member_id,
                                  .revision = key_store_revision(native_keys(door)),
                                  .term = door->identity.term};
}

struct buffer *native_answer_begin_at(struct native_door *door, int64_t revision) {
    refresh_identity(door);
    struct buffer *out = &door->scratch;
    out->size = 0;
    size_t header = pb_append_begin(out, 1);
    pb_append_uint64(out, 1, door->identity.cluster_id);
    pb_append_uint64(out, 2, door->identity.member_id);
    pb_append_int64(out, 3, revision);
    pb_append_uint64(out, 4, door->identity.term);
    pb_append_end(out, header);
    return out;
}

struct buffer *native_answer_begin(struct native_door *door) {
    return native_answer_begin_at(door, key_store_revision(native_keys(door)));
}

void native_answer_send(struct grpc_call *call, const struct buffer *answer) {
    grpc_call_send(call, bytes_of(answer->data, answer->size));
}

void native_answer_finish(struct grpc_call *call, const struct buffer *answer) {
    native_answer_send(call, answer);
    grpc_call_finish(call, GRPC_OK, NULL);
}

/* --- Unary calls. --- */

static struct native_call *create(struct grpc_call *call) {
    struct native_call *waiting = calloc(1, sizeof *waiting);
    if (waiting == NULL) {
        native_error_finish(call, native_error_of(STATUS_NO_MEMORY));
        return NULL;
    }
    waiting->call = call;
    waiting->door = native_door_of(call);
    grpc_call_set_data(call, waiting);
    return waiting;
}

static void destroy(struct native_call *waiting) {
    if (waiting->call != NULL) {
        grpc_call_set_data(waiting->call, NULL);
    }
    free(waiting->list.ids);
    free(waiting->message);
    free(waiting);
}

void native_call_closed(struct grpc_call *call) {
    struct native_call *waiting = grpc_call_data(call);
    if (waiting == NULL) {
        return;
    }
    waiting->call = NULL;
    free(waiting->message);
    waiting->message = NULL;
    if (waiting->times != NULL) {
        native_times_forget(waiting->times);
        destroy(waiting);
    }
}

static void rule_done(struct service_request *request, const struct outcome *outcome) {
    struct native_call *waiting = list_entry(request, struct native_call, request);
    if (waiting->call != NULL) {
        const struct native_error *error = waiting->error_of == NULL
                                               ? native_error_of(outcome->status)
                                               : waiting->error_of(outcome->status);
        if (error != NULL) {
            native_error_finish(waiting->call, error);
        } else {
            waiting->reply(waiting, outcome);
        }
    }
    destroy(waiting);
}

struct native_call *
native_call_run(struct grpc_call *call, uint32_t rule_number, const struct buffer *request,
                void (*reply)(struct native_call *waiting, const struct outcome *outcome)) {
    struct native_call *waiting = create(call);
    if (waiting == NULL) {
        return NULL;
    }
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = rule_number, .request = bytes_of(request->data, request->size)}};
    waiting->reply = reply;
    waiting->request.done = rule_done;
    service_submit(waiting->door->service, grpc_call_caller(call), &waiting->request, &command);
    return waiting;
}

static bool keep(struct native_call *waiting, struct bytes message) {
    waiting->message = malloc(message.size > 0 ? message.size : 1);
    if (waiting->message == NULL) {
        return false;
    }
    if (message.size > 0) {
        memcpy(waiting->message, message.data, message.size);
    }
    waiting->message_size = message.size;
    return true;
}

static void read_ready(struct service_read *read, enum status status) {
    struct native_call *waiting = list_entry(read, struct native_call, read);
    struct grpc_call *call = waiting->call;
    if (call != NULL) {
        /* What goes on from here may have an object of its own. */
        waiting->call = NULL;
        grpc_call_set_data(call, NULL);
        const struct native_error *error = native_error_of(status);
        if (error != NULL) {
            native_error_finish(call, error);
        } else {
            waiting->resume(call, bytes_of(waiting->message, waiting->message_size));
        }
    }
    destroy(waiting);
}

void native_call_read(struct grpc_call *call, struct bytes message, const struct key_range *ranges,
                      size_t n_ranges,
                      void (*resume)(struct grpc_call *call, struct bytes message)) {
    if (message.size > READ_SIZE_MAX) {
        native_error_finish(call, native_error_of(STATUS_REQUEST_TOO_LARGE));
        return;
    }
    struct native_call *waiting = create(call);
    if (waiting == NULL) {
        return;
    }
    waiting->read.ready = read_ready;
    enum status status = service_read(waiting->door->service, grpc_call_caller(call),
                                      &waiting->read, ranges, n_ranges);
    if (status == STATUS_PENDING) {
        waiting->resume = resume;
        if (!keep(waiting, message)) {
            native_error_finish(call, native_error_of(STATUS_NO_MEMORY));
            grpc_call_set_data(call, NULL);
            waiting->call = NULL; /* the service keeps the object */
        }
        return;
    }
    destroy(waiting);
    const struct native_error *error = native_error_of(status);
    if (error != NULL) {
        native_error_finish(call, error);
    } else {
        resume(call, message);
    }
}

/* --- Time that is left. --- */

static void times_known(void *context, const int64_t *remaining_ms, size_t n) {
    struct native_call *waiting = context;
    struct grpc_call *call = waiting->call;
    waiting->times = NULL;
    waiting->call = NULL;
    grpc_call_set_data(call, NULL);
    if (n < waiting->list.n) {
        native_error_finish(call, native_error_of(STATUS_NO_MEMORY));
    } else {
        waiting->timed(call, bytes_of(waiting->message, waiting->message_size), &waiting->list,
                       remaining_ms);
    }
    destroy(waiting);
}

static bool keep_list(struct native_call *waiting, const struct native_id_list *list) {
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
    if (!grpc_call_hold(call, list->n * TIME_BYTES)) {
        native_error_finish(call, native_error_of(STATUS_TOO_MANY_REQUESTS));
        return;
    }
    struct native_call *waiting = create(call);
    if (waiting == NULL) {
        return;
    }
    if (!keep(waiting, message) || !keep_list(waiting, list)) {
        native_error_finish(call, native_error_of(STATUS_NO_MEMORY));
        destroy(waiting);
        return;
    }
    waiting->timed = resume;
    struct native_times *times = native_times_ask(waiting->door, grpc_call_caller(call), list->ids,
                                                  list->n, times_known, waiting);
    if (times != NULL) {
        waiting->times = times;
    }
}
