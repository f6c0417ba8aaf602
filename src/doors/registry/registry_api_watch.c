/* WatchService: the whole service first, then the instances that a change was about, as they are by
 * then. One range holds all of a service, so that nothing else wakes it; what happened while a
 * client did not read is told as one change. */
#include "base/pb_append.h"
#include "doors/registry/registry_api_call.h"
#include "doors/registry/registry_api_request.h"
#include "doors/registry/registry_api_show.h"
#include "registry/registry_keys.h"

#include <stdlib.h>
#include <string.h>

enum { WATCHER_BYTES = 512, WATCHER_NAME_COPIES = 4 };

struct watcher_of_service {
    struct grpc_call *call; /* NULL: the client is gone */
    struct registry_api *door;
    struct service_read read;
    struct service_watch watch;
    bool with_checks;
    bool is_reading; /* it is with the service */
    bool is_finished;
    bool is_lagging;
    int64_t seen_revision; /* the state was told up to here */
    size_t held;
    size_t name_size;
    uint8_t name[];
};

static struct bytes name_of(const struct watcher_of_service *watcher) {
    return bytes_of(watcher->name, watcher->name_size);
}

static void finish(struct watcher_of_service *watcher, const struct registry_api_error *error) {
    if (!watcher->is_finished) {
        watcher->is_finished = true;
        registry_api_error_finish(watcher->call, error);
    }
}

static struct buffer *begin_answer(struct watcher_of_service *watcher) {
    struct registry_api *door = watcher->door;
    watcher->seen_revision = key_store_revision(registry_api_keys(door));
    struct buffer *out = registry_api_answer_begin(door);
    registry_api_show_service(out, 2, registry_api_keys(door), &door->arena, name_of(watcher));
    return out;
}

/* --- The whole service. --- */

struct showing {
    struct buffer *out;
    bool with_checks;
};

static bool show(void *context, const struct registry_entry *entry) {
    struct showing *showing = context;
    registry_api_show_instance(showing->out, 4, entry, showing->with_checks);
    return true;
}

static void tell_whole(struct watcher_of_service *watcher) {
    struct registry_api *door = watcher->door;
    struct showing showing = {.out = begin_answer(watcher), .with_checks = watcher->with_checks};
    pb_append_bool(showing.out, 3, true);
    registry_view_visit(registry_api_keys(door), &door->arena, name_of(watcher), show, &showing);
    registry_api_answer_send(watcher->call, showing.out);
    arena_reset(&door->arena);
}

/* --- Changes. --- */

static int compare_ids(const void *a, const void *b) {
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

/* The instances that a batch is about, each once. */
static size_t changed_ids(struct arena *arena, const struct watch_batch *batch,
                          struct bytes **out_ids) {
    struct bytes *ids = arena_alloc(arena, batch->n_events * sizeof *ids);
    size_t n = 0;
    for (size_t i = 0; i < batch->n_events; i++) {
        struct registry_key key = registry_key_read(batch->events[i]);
        if (key.kind == REGISTRY_KEY_INSTANCE || key.kind == REGISTRY_KEY_CHECK ||
            key.kind == REGISTRY_KEY_LOST) {
            ids[n++] = key.id;
        }
    }
    qsort(ids, n, sizeof *ids, compare_ids);
    size_t n_once = 0;
    for (size_t i = 0; i < n; i++) {
        if (n_once == 0 || !bytes_equal(ids[n_once - 1], ids[i])) {
            ids[n_once++] = ids[i];
        }
    }
    *out_ids = ids;
    return n_once;
}

static void tell_changes(struct watcher_of_service *watcher, const struct watch_batch *batch) {
    struct registry_api *door = watcher->door;
    struct bytes *ids = NULL;
    size_t n = changed_ids(&door->arena, batch, &ids);
    struct buffer *out = begin_answer(watcher);
    for (size_t i = 0; i < n; i++) {
        struct registry_entry entry;
        if (registry_view_find(registry_api_keys(door), &door->arena, name_of(watcher), ids[i],
                               &entry)) {
            registry_api_show_instance(out, 4, &entry, watcher->with_checks);
        } else {
            pb_append_element(out, 5, ids[i]);
        }
    }
    door->stats.changes_told++;
    registry_api_answer_send(watcher->call, out);
    arena_reset(&door->arena);
}

static bool deliver(struct service_watch *watch, const struct watch_batch *batch) {
    struct watcher_of_service *watcher = list_entry(watch, struct watcher_of_service, watch);
    if (watcher->is_finished || batch->revision <= watcher->seen_revision) {
        return true;
    }
    if (!grpc_call_is_writable(watcher->call)) {
        watcher->is_lagging = true;
        return false;
    }
    if (batch->n_events > 0) {
        tell_changes(watcher, batch);
    }
    return true;
}

static void compacted(struct service_watch *watch, int64_t compacted_revision) {
    (void)compacted_revision;
    finish(list_entry(watch, struct watcher_of_service, watch), &registry_api_error_missed);
}

static void revoked(struct service_watch *watch, enum status status) {
    finish(list_entry(watch, struct watcher_of_service, watch), registry_api_error_of(status));
}

/* --- Its life. --- */

static void begin(struct watcher_of_service *watcher, enum status status) {
    struct registry_api *door = watcher->door;
    if (status == STATUS_OK) {
        const struct service_watch_options options = {
            .range = registry_service_range(&door->arena, name_of(watcher))};
        status = service_watch(door->service, grpc_call_caller(watcher->call), &watcher->watch,
                               &options);
        arena_reset(&door->arena);
    }
    if (status == STATUS_OK) {
        tell_whole(watcher);
    } else {
        finish(watcher, registry_api_error_of(status));
    }
}

static void ready(struct service_read *read, enum status status) {
    struct watcher_of_service *watcher = list_entry(read, struct watcher_of_service, read);
    watcher->is_reading = false;
    if (watcher->call == NULL) {
        free(watcher);
    } else if (!watcher->is_finished) {
        begin(watcher, status);
    }
}

static struct watcher_of_service *create(struct grpc_call *call, struct bytes name) {
    size_t cost = WATCHER_BYTES + WATCHER_NAME_COPIES * name.size;
    if (!grpc_call_hold(call, cost)) {
        registry_api_error_finish(call, registry_api_error_of(STATUS_TOO_MANY_REQUESTS));
        return NULL;
    }
    struct watcher_of_service *watcher = calloc(1, sizeof *watcher + name.size);
    if (watcher == NULL) {
        grpc_call_release(call, cost);
        registry_api_error_finish(call, registry_api_error_of(STATUS_NO_MEMORY));
        return NULL;
    }
    watcher->call = call;
    watcher->door = registry_api_of(call);
    watcher->held = cost;
    watcher->name_size = name.size;
    memcpy(watcher->name, name.data, name.size);
    watcher->watch.deliver = deliver;
    watcher->watch.compacted = compacted;
    watcher->watch.revoked = revoked;
    watcher->read.ready = ready;
    watcher->door->stats.watchers++;
    grpc_call_set_data(call, watcher);
    return watcher;
}

static void on_message(struct grpc_call *call, struct bytes message) {
    struct registry_api *door = registry_api_of(call);
    struct registry_api_name request;
    const struct registry_api_error *error =
        registry_api_request_name(message, REGISTRY_API_NAME_OF_WATCH, &request);
    if (error != NULL) {
        registry_api_error_finish(call, error);
        return;
    }
    struct watcher_of_service *watcher = create(call, request.service);
    if (watcher == NULL) {
        return;
    }
    watcher->with_checks = request.with_checks;
    struct key_range range = registry_service_range(&door->arena, request.service);
    enum status status =
        service_read(door->service, grpc_call_caller(call), &watcher->read, &range, 1);
    arena_reset(&door->arena);
    if (status == STATUS_PENDING) {
        watcher->is_reading = true;
    } else {
        begin(watcher, status);
    }
}

static void on_writable(struct grpc_call *call) {
    struct watcher_of_service *watcher = grpc_call_data(call);
    if (watcher != NULL && watcher->is_lagging) {
        watcher->is_lagging = false;
        service_watch_resume(watcher->door->service, &watcher->watch);
    }
}

static void on_close(struct grpc_call *call) {
    struct watcher_of_service *watcher = grpc_call_data(call);
    if (watcher == NULL) {
        return;
    }
    service_unwatch(watcher->door->service, &watcher->watch);
    grpc_call_release(call, watcher->held);
    watcher->door->stats.watchers--;
    watcher->call = NULL;
    if (!watcher->is_reading) {
        free(watcher);
    }
}

static const struct grpc_method methods[] = {
    {.path = "/leased.v1.Registry/WatchService",
     .is_prompt = true,
     .answers_refused = true,
     .kind = GRPC_SERVER_STREAM,
     .on_message = on_message,
     .on_writable = on_writable,
     .on_close = on_close},
};
const struct registry_api_methods registry_api_watch_methods = {methods,
                                                                sizeof methods / sizeof methods[0]};
