/* Observe: the state of a resource now, and after every change of its holders. What happened while
 * a client did not read is told as one change. */
#include "doors/native/native_call.h"
#include "doors/native/native_keys.h"
#include "doors/native/native_request.h"
#include "doors/native/native_show.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { OBSERVER_BYTES = 512, OBSERVER_NAME_COPIES = 4 };

struct observer {
    struct grpc_call *call; /* NULL: the client is gone */
    struct native_door *door;
    struct service_read read;
    struct service_watch watch;
    bool is_reading; /* it is with the service */
    bool is_finished;
    bool is_lagging;
    int64_t seen_revision; /* the state was told up to here */
    size_t held;
    size_t name_size;
    uint8_t name[];
};

static struct bytes name_of(const struct observer *observer) {
    return bytes_of(observer->name, observer->name_size);
}

static void finish(struct observer *observer, const struct native_error *error) {
    if (!observer->is_finished) {
        observer->is_finished = true;
        native_error_finish(observer->call, error);
    }
}

static void tell(struct observer *observer) {
    struct native_door *door = observer->door;
    const struct native_state_shown shown = {.name = name_of(observer), .remaining_ms = -1};
    observer->seen_revision = key_store_revision(native_keys(door));
    struct buffer *out = native_answer_begin(door);
    native_show_resource(out, 2, door, grpc_call_caller(observer->call), &shown);
    arena_reset(&door->arena);
    native_answer_send(observer->call, out);
}

static bool deliver(struct service_watch *watch, const struct watch_batch *batch) {
    struct observer *observer = list_entry(watch, struct observer, watch);
    if (observer->is_finished || batch->revision <= observer->seen_revision) {
        return true;
    }
    if (!grpc_call_is_writable(observer->call)) {
        observer->is_lagging = true;
        return false;
    }
    if (batch->n_events > 0) {
        tell(observer);
    }
    return true;
}

/* The state is told as it is: what was lost between is told as one change. */
static void compacted(struct service_watch *watch, int64_t compacted_revision) {
    (void)compacted_revision;
    finish(list_entry(watch, struct observer, watch), &native_error_missed);
}

static void revoked(struct service_watch *watch, enum status status) {
    finish(list_entry(watch, struct observer, watch), native_error_of(status));
}

static void begin(struct observer *observer, enum status status) {
    struct native_door *door = observer->door;
    if (status == STATUS_OK) {
        const struct service_watch_options options = {
            .range = native_holders(&door->arena, name_of(observer))};
        status = service_watch(door->service, grpc_call_caller(observer->call), &observer->watch,
                               &options);
        arena_reset(&door->arena);
    }
    if (status == STATUS_OK) {
        tell(observer);
    } else {
        finish(observer, native_error_of(status));
    }
}

static void ready(struct service_read *read, enum status status) {
    struct observer *observer = list_entry(read, struct observer, read);
    observer->is_reading = false;
    if (observer->call == NULL) {
        free(observer);
    } else if (!observer->is_finished) {
        begin(observer, status);
    }
}

static struct observer *create(struct grpc_call *call, struct bytes name) {
    size_t cost = OBSERVER_BYTES + OBSERVER_NAME_COPIES * name.size;
    if (!grpc_call_hold(call, cost)) {
        native_error_finish(call, native_error_of(STATUS_TOO_MANY_REQUESTS));
        return NULL;
    }
    struct observer *observer = calloc(1, sizeof *observer + name.size);
    if (observer == NULL) {
        grpc_call_release(call, cost);
        native_error_finish(call, native_error_of(STATUS_NO_MEMORY));
        return NULL;
    }
    observer->call = call;
    observer->door = native_door_of(call);
    observer->held = cost;
    observer->name_size = name.size;
    memcpy(observer->name, name.data, name.size);
    observer->watch.deliver = deliver;
    observer->watch.compacted = compacted;
    observer->watch.revoked = revoked;
    observer->read.ready = ready;
    observer->door->stats.observers++;
    grpc_call_set_data(call, observer);
    return observer;
}

static void on_message(struct grpc_call *call, struct bytes message) {
    struct native_door *door = native_door_of(call);
    struct bytes name;
    const struct native_error *error = native_request_name(message, &name);
    if (error != NULL) {
        native_error_finish(call, error);
        return;
    }
    struct observer *observer = create(call, name);
    if (observer == NULL) {
        return;
    }
    struct key_range range = native_name_range(&door->arena, false, name);
    enum status status =
        service_read(door->service, grpc_call_caller(call), &observer->read, &range, 1);
    arena_reset(&door->arena);
    if (status == STATUS_PENDING) {
        observer->is_reading = true;
    } else {
        begin(observer, status);
    }
}

static void on_writable(struct grpc_call *call) {
    struct observer *observer = grpc_call_data(call);
    if (observer != NULL && observer->is_lagging) {
        observer->is_lagging = false;
        service_watch_resume(observer->door->service, &observer->watch);
    }
}

static void on_close(struct grpc_call *call) {
    struct observer *observer = grpc_call_data(call);
    if (observer == NULL) {
        return;
    }
    service_unwatch(observer->door->service, &observer->watch);
    grpc_call_release(call, observer->held);
    observer->door->stats.observers--;
    observer->call = NULL;
    if (!observer->is_reading) {
        free(observer);
    }
}

static const struct grpc_method methods[] = {
    {.path = "/leased.v1.Resources/Observe",
     .is_prompt = true,
     .answers_refused = true,
     .kind = GRPC_SERVER_STREAM,
     .on_message = on_message,
     .on_writable = on_writable,
     .on_close = on_close},
};
const struct native_methods native_observe_methods = {methods, sizeof methods / sizeof methods[0]};
