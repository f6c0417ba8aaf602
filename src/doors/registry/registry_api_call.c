#include "doors/registry/registry_api_call.h"

#include "base/pb_append.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* Of a request that reads: names are short. Unknown fields must not make it large. */
    READ_SIZE_MAX = 64 * 1024
};

/* --- Answers. --- */

/* Asked for once a millisecond at most: every answer needs it, and it hardly ever changes. */
static void refresh_identity(struct registry_api *door) {
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

struct buffer *registry_api_answer_begin(struct registry_api *door) {
    refresh_identity(door);
    struct buffer *out = &door->scratch;
    out->size = 0;
    size_t header = pb_append_begin(out, 1);
    pb_append_uint64(out, 1, door->identity.cluster_id);
    pb_append_uint64(out, 2, door->identity.member_id);
    pb_append_int64(out, 3, key_store_revision(registry_api_keys(door)));
    pb_append_uint64(out, 4, door->identity.term);
    pb_append_end(out, header);
    return out;
}

void registry_api_answer_send(struct grpc_call *call, const struct buffer *answer) {
    grpc_call_send(call, bytes_of(answer->data, answer->size));
}

void registry_api_answer_finish(struct grpc_call *call, const struct buffer *answer) {
    registry_api_answer_send(call, answer);
    grpc_call_finish(call, GRPC_OK, NULL);
}

/* --- Unary calls. --- */

static struct registry_api_call *create(struct grpc_call *call) {
    struct registry_api_call *waiting = calloc(1, sizeof *waiting);
    if (waiting == NULL) {
        registry_api_error_finish(call, registry_api_error_of(STATUS_NO_MEMORY));
        return NULL;
    }
    waiting->call = call;
    waiting->door = registry_api_of(call);
    grpc_call_set_data(call, waiting);
    return waiting;
}

static void destroy(struct registry_api_call *waiting) {
    if (waiting->call != NULL) {
        grpc_call_set_data(waiting->call, NULL);
    }
    free(waiting->message);
    free(waiting);
}

void registry_api_call_closed(struct grpc_call *call) {
    struct registry_api_call *waiting = grpc_call_data(call);
    if (waiting != NULL) {
        waiting->call = NULL;
        free(waiting->message);
        waiting->message = NULL;
    }
}

static void rule_done(struct service_request *request, const struct outcome *outcome) {
    struct registry_api_call *waiting = list_entry(request, struct registry_api_call, request);
    struct registry_api *door = waiting->door;
    door->stats.fenced += outcome->status == STATUS_FENCED;
    if (waiting->call != NULL) {
        const struct registry_api_error *error = registry_api_error_of(outcome->status);
        if (error != NULL) {
            registry_api_error_finish(waiting->call, error);
        } else if (waiting->reply != NULL) {
            waiting->reply(waiting, outcome);
        } else {
            registry_api_answer_finish(waiting->call, registry_api_answer_begin(door));
        }
    }
    destroy(waiting);
}

struct registry_api_call *registry_api_call_run(struct grpc_call *call, uint32_t rule_number,
                                                const struct buffer *request,
                                                void (*reply)(struct registry_api_call *waiting,
                                                              const struct outcome *outcome)) {
    struct registry_api_call *waiting = create(call);
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

struct grpc_call *registry_api_call_take(struct registry_api_call *waiting) {
    struct grpc_call *call = waiting->call;
    waiting->call = NULL;
    grpc_call_set_data(call, NULL);
    return call;
}

bool registry_api_call_keep(struct registry_api_call *waiting, struct bytes message) {
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
    struct registry_api_call *waiting = list_entry(read, struct registry_api_call, read);
    struct grpc_call *call = waiting->call;
    if (call != NULL) {
        /* What goes on from here may have an object of its own. */
        (void)registry_api_call_take(waiting);
        const struct registry_api_error *error = registry_api_error_of(status);
        if (error != NULL) {
            registry_api_error_finish(call, error);
        } else {
            waiting->resume(call, bytes_of(waiting->message, waiting->message_size));
        }
    }
    destroy(waiting);
}

static void read_later(struct grpc_call *call, struct bytes message, struct key_range range,
                       void (*resume)(struct grpc_call *call, struct bytes message)) {
    struct registry_api_call *waiting = create(call);
    if (waiting == NULL) {
        return;
    }
    if (!registry_api_call_keep(waiting, message)) {
        registry_api_error_finish(call, registry_api_error_of(STATUS_NO_MEMORY));
        destroy(waiting);
        return;
    }
    waiting->read.ready = read_ready;
    waiting->resume = resume;
    enum status status =
        service_read(waiting->door->service, grpc_call_caller(call), &waiting->read, &range, 1);
    if (status != STATUS_PENDING) {
        read_ready(&waiting->read, status);
    }
}

void registry_api_call_read(struct grpc_call *call, struct bytes message, struct key_range range,
                            bool is_local,
                            void (*resume)(struct grpc_call *call, struct bytes message)) {
    struct registry_api *door = registry_api_of(call);
    if (message.size > READ_SIZE_MAX) {
        registry_api_error_finish(call, registry_api_error_of(STATUS_REQUEST_TOO_LARGE));
        return;
    }
    const struct caller *caller = grpc_call_caller(call);
    enum status status = is_local ? service_read_local(door->service, caller, &range, 1)
                                  : service_read_now(door->service, caller, &range, 1);
    const struct registry_api_error *error = registry_api_error_of(status);
    if (status == STATUS_PENDING) {
        read_later(call, message, range, resume);
    } else if (error != NULL) {
        registry_api_error_finish(call, error);
    } else {
        resume(call, message);
    }
}
