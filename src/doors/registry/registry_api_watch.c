/* WatchService: the whole service first, then the instances that a change was about, as they are by
 * then. One range holds all of a service, so that nothing else wakes it; what happened while a
 * client did not read is told as one change. */
#include "base/pb_append.h"
#include "doors/leased_v1/leased_v1_stream.h"
#include "doors/registry/registry_api_call.h"
#include "doors/registry/registry_api_request.h"
#include "doors/registry/registry_api_show.h"
#include "registry/registry_keys.h"

#include <stdlib.h>
#include <string.h>

struct watcher_of_service {
    struct leased_v1_stream base; /* its name is the service */
    bool with_checks;
    bool is_blocked; /* the whole service is to be told when the client can take it */
    struct registry_api_later later;
    uint8_t message[1 + REGISTRY_NAME_SIZE_MAX]; /* for write_whole() */
};

static struct registry_api *door_of(const struct watcher_of_service *watcher) {
    return registry_api_of(watcher->base.call);
}

static struct buffer *begin_answer(struct watcher_of_service *watcher) {
    struct registry_api *door = door_of(watcher);
    watcher->base.seen_revision = key_store_revision(registry_api_keys(door));
    struct buffer *out = registry_api_answer_begin(door);
    registry_api_show_service(out, 2, registry_api_keys(door), &door->arena, watcher->base.name);
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

/* `message` is the service, behind a byte that says whether checks are told. */
static void write_whole(struct bytes message, const struct key_store *keys, struct arena *arena,
                        struct buffer *out) {
    struct bytes service = bytes_of(message.data + 1, message.size - 1);
    struct showing showing = {.out = out, .with_checks = message.data[0] != 0};
    registry_api_show_service(out, 2, keys, arena, service);
    pb_append_bool(out, 3, true);
    registry_view_visit(keys, arena, service, show, &showing);
}

/* What changed since waits in the history. */
static void tell_whole(struct registry_api_later *later, enum status status, struct bytes body,
                       int64_t revision) {
    struct watcher_of_service *watcher = list_entry(later, struct watcher_of_service, later);
    struct leased_v1_stream *base = &watcher->base;
    if (base->is_finished) {
        return;
    }
    if (status != STATUS_OK) {
        leased_v1_stream_finish(base, registry_api_error_of(status));
        return;
    }
    if (!grpc_call_is_writable(base->call)) {
        watcher->is_blocked = true;
        return;
    }
    struct buffer *out = leased_v1_answer_begin_at(base->api, revision);
    buffer_append(out, body.data, body.size);
    base->seen_revision = revision;
    leased_v1_answer_send(base->call, out);
    leased_v1_stream_release(base);
}

/* When the client can take it. */
static void tell_whole_later(struct watcher_of_service *watcher) {
    watcher->is_blocked = !grpc_call_is_writable(watcher->base.call);
    if (!watcher->is_blocked) {
        registry_api_later(door_of(watcher), &watcher->later);
    }
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
    struct registry_api *door = door_of(watcher);
    struct bytes *ids = NULL;
    size_t n = changed_ids(&door->arena, batch, &ids);
    struct buffer *out = begin_answer(watcher);
    for (size_t i = 0; i < n; i++) {
        struct registry_entry entry;
        if (registry_view_find(registry_api_keys(door), &door->arena, watcher->base.name, ids[i],
                               &entry)) {
            registry_api_show_instance(out, 4, &entry, watcher->with_checks);
        } else {
            pb_append_element(out, 5, ids[i]);
        }
    }
    door->stats.changes_told++;
    leased_v1_answer_send(watcher->base.call, out);
    arena_reset(&door->arena);
}

static void deliver(struct leased_v1_stream *base, const struct watch_batch *batch) {
    struct watcher_of_service *watcher = list_entry(base, struct watcher_of_service, base);
    if (batch->n_events > 0) {
        tell_changes(watcher, batch);
    }
}

/* --- The stream. --- */

static enum status begin(struct leased_v1_stream *base) {
    struct watcher_of_service *watcher = list_entry(base, struct watcher_of_service, base);
    struct registry_api *door = door_of(watcher);
    const struct service_watch_options options = {
        .range = registry_service_range(&door->arena, base->name)};
    enum status status = leased_v1_stream_watch(base, &options);
    arena_reset(&door->arena);
    if (status == STATUS_OK) {
        leased_v1_stream_hold(base);
        tell_whole_later(watcher);
    }
    return status;
}

static const struct leased_v1_stream_kind kind = {
    .size = sizeof(struct watcher_of_service),
    .name_copies = 4,
    .missed = &registry_api_error_missed,
    .begin = begin,
    .deliver = deliver,
};

static void on_message(struct grpc_call *call, struct bytes message) {
    struct registry_api *door = registry_api_of(call);
    struct registry_api_name request;
    const struct leased_v1_error *error =
        registry_api_request_name(message, REGISTRY_API_NAME_OF_WATCH, &request);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
        return;
    }
    struct watcher_of_service *watcher =
        leased_v1_stream_create(&door->api, call, &kind, request.service, &door->stats.watchers);
    if (watcher != NULL) {
        const struct key_range range = registry_service_range(&door->arena, request.service);
        watcher->with_checks = request.with_checks;
        watcher->message[0] = request.with_checks;
        memcpy(watcher->message + 1, request.service.data, request.service.size);
        list_init(&watcher->later.link);
        watcher->later.call = call;
        watcher->later.service = watcher->base.name;
        watcher->later.message = bytes_of(watcher->message, 1 + request.service.size);
        watcher->later.write = write_whole;
        watcher->later.done = tell_whole;
        leased_v1_stream_start(&watcher->base, &range, 1);
        arena_reset(&door->arena);
    }
}

static void on_writable(struct grpc_call *call) {
    struct watcher_of_service *watcher = grpc_call_data(call);
    if (watcher != NULL && watcher->is_blocked && !watcher->base.is_finished) {
        tell_whole_later(watcher);
    }
    leased_v1_stream_writable(call);
}

static void on_close(struct grpc_call *call) {
    struct watcher_of_service *watcher = grpc_call_data(call);
    if (watcher != NULL) {
        registry_api_later_cancel(&watcher->later);
    }
    leased_v1_stream_closed(call);
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
