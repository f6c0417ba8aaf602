#include "doors/leased_v1/leased_v1_call.h"

#include <stdlib.h>
#include <string.h>

void *leased_v1_call_create(struct leased_v1_api *api, struct grpc_call *call, size_t size) {
    struct leased_v1_call *waiting = calloc(1, size);
    if (waiting == NULL) {
        leased_v1_error_finish(call, api->error_of(STATUS_NO_MEMORY));
        return NULL;
    }
    waiting->call = call;
    waiting->api = api;
    grpc_call_set_data(call, waiting);
    return waiting;
}

void leased_v1_call_destroy(struct leased_v1_call *waiting) {
    if (waiting->call != NULL) {
        grpc_call_set_data(waiting->call, NULL);
    }
    free(waiting->message);
    free(waiting);
}

void leased_v1_call_closed(struct grpc_call *call) {
    struct leased_v1_call *waiting = grpc_call_data(call);
    if (waiting == NULL) {
        return;
    }
    waiting->call = NULL;
    free(waiting->message);
    waiting->message = NULL;
    if (waiting->abandon != NULL) {
        waiting->abandon(waiting);
    }
}

bool leased_v1_call_keep(struct leased_v1_call *waiting, struct bytes message) {
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

struct grpc_call *leased_v1_call_take(struct leased_v1_call *waiting) {
    struct grpc_call *call = waiting->call;
    waiting->call = NULL;
    grpc_call_set_data(call, NULL);
    return call;
}

/* --- Rules. --- */

static void rule_done(struct service_request *request, const struct outcome *outcome) {
    struct leased_v1_call *waiting = list_entry(request, struct leased_v1_call, request);
    struct leased_v1_api *api = waiting->api;
    if (api->count != NULL) {
        api->count(api, outcome->status);
    }
    if (waiting->call != NULL) {
        const struct leased_v1_error *error = waiting->error_of != NULL
                                                  ? waiting->error_of(outcome->status)
                                                  : api->error_of(outcome->status);
        if (error != NULL) {
            leased_v1_error_finish(waiting->call, error);
        } else if (waiting->reply != NULL) {
            waiting->reply(waiting, outcome);
        } else {
            leased_v1_answer_finish(waiting->call, leased_v1_answer_begin(api));
        }
    }
    leased_v1_call_destroy(waiting);
}

struct leased_v1_call *leased_v1_call_run(struct leased_v1_api *api, struct grpc_call *call,
                                          uint32_t rule_number, const struct buffer *request,
                                          void (*reply)(struct leased_v1_call *waiting,
                                                        const struct outcome *outcome)) {
    struct leased_v1_call *waiting = leased_v1_call_create(api, call, sizeof *waiting);
    if (waiting == NULL) {
        return NULL;
    }
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = rule_number, .request = bytes_of(request->data, request->size)}};
    waiting->reply = reply;
    waiting->request.done = rule_done;
    service_submit(api->service, grpc_call_caller(call), &waiting->request, &command);
    return waiting;
}

/* --- Reads. --- */

static void read_ready(struct service_read *read, enum status status) {
    struct leased_v1_call *waiting = list_entry(read, struct leased_v1_call, read);
    if (waiting->call != NULL) {
        /* What goes on from here may have an object of its own. */
        struct grpc_call *call = leased_v1_call_take(waiting);
        const struct leased_v1_error *error = waiting->api->error_of(status);
        if (error != NULL) {
            leased_v1_error_finish(call, error);
        } else {
            waiting->resume(call, bytes_of(waiting->message, waiting->message_size));
        }
    }
    leased_v1_call_destroy(waiting);
}

static void read_later(struct leased_v1_api *api, struct grpc_call *call,
                       const struct leased_v1_read *read,
                       void (*resume)(struct grpc_call *call, struct bytes message)) {
    struct leased_v1_call *waiting = leased_v1_call_create(api, call, sizeof *waiting);
    if (waiting == NULL) {
        return;
    }
    if (!leased_v1_call_keep(waiting, read->message)) {
        leased_v1_error_finish(call, api->error_of(STATUS_NO_MEMORY));
        leased_v1_call_destroy(waiting);
        return;
    }
    waiting->read.ready = read_ready;
    waiting->resume = resume;
    enum status status = service_read(api->service, grpc_call_caller(call), &waiting->read,
                                      read->ranges, read->n_ranges);
    if (status != STATUS_PENDING) {
        read_ready(&waiting->read, status);
    }
}

void leased_v1_call_read(struct leased_v1_api *api, struct grpc_call *call,
                         const struct leased_v1_read *read,
                         void (*resume)(struct grpc_call *call, struct bytes message)) {
    if (read->message.size > read->message_size_max) {
        leased_v1_error_finish(call, api->error_of(STATUS_REQUEST_TOO_LARGE));
        return;
    }
    const struct caller *caller = grpc_call_caller(call);
    enum status status =
        read->is_local ? service_read_local(api->service, caller, read->ranges, read->n_ranges)
                       : service_read_now(api->service, caller, read->ranges, read->n_ranges);
    if (status == STATUS_PENDING) {
        read_later(api, call, read, resume);
        return;
    }
    const struct leased_v1_error *error = api->error_of(status);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
    } else {
        resume(call, read->message);
    }
}
