/* The Watch service: one stream, many watches. What the hub delivers is in etcd_watch_events.c. */
#include "doors/etcd/etcd_watch.h"

#include "doors/etcd/etcd_request.h"

#include <assert.h>
#include <stdlib.h>

/* etcd's texts. */
static const char reason_duplicate[] = "mvcc: duplicate watch ID provided on the WatchStream";
static const char reason_compacted[] = "etcdserver: mvcc: required revision has been compacted";
static const char reason_empty_range[] = "mvcc: watcher range is empty";
/* Ours: etcd has no such limit. */
static const char reason_too_many[] = "etcdserver: too many watches";

/* Names no watch: refusals and progress of the whole stream. */
enum { NO_WATCH_ID = -1 };

enum { WATCH_BYTES = 256 };

static void finish(struct etcd_watch_stream *stream, const struct etcd_error *error) {
    stream->finished = true;
    etcd_error_finish(stream->call, error);
}

/* Memory of a watch, here and in the hub, where keys are kept once more. */
static size_t watch_cost(size_t key_bytes) {
    return WATCH_BYTES + 2 * key_bytes;
}

void etcd_watch_forget(struct etcd_watch *watch) {
    struct etcd_watch_stream *stream = watch->stream;
    etcd_watch_table_remove(&stream->table, &watch->node);
    list_remove(&watch->link);
    list_remove(&watch->lagging_link);
    stream->key_bytes -= watch->key_bytes;
    grpc_call_release(stream->call, watch_cost(watch->key_bytes));
    stream->n_progress -= watch->progress_notify;
    stream->door->stats.watches--;
    free(watch);
}

const char *etcd_watch_reason(enum status status) {
    switch (status) {
    case STATUS_PERMISSION_DENIED:
        return "rpc error: code = PermissionDenied desc = etcdserver: permission denied";
    case STATUS_USER_EMPTY:
        return "rpc error: code = InvalidArgument desc = etcdserver: user name is empty";
    case STATUS_AUTH_TOKEN_INVALID:
        return "rpc error: code = Unauthenticated desc = etcdserver: invalid auth token";
    default:
        return etcd_error_of(status)->text;
    }
}

/* --- Creating and cancelling. --- */

static void refuse(struct etcd_watch_stream *stream, const char *reason) {
    etcd_watch_send(stream, &(struct etcd_watch_response){
                                .header = etcd_header_now(stream->door),
                                .watch_id = NO_WATCH_ID,
                                .created = true,
                                .canceled = true,
                                .cancel_reason = reason,
                            });
}

/* NULL, or why the watch cannot be. */
static const char *reason_against(const struct etcd_watch_stream *stream,
                                  const struct etcd_watch_request *request) {
    const struct etcd_door_options *options = &stream->door->options;
    bool to_the_end = request->range_end.size == 1 && request->range_end.data[0] == 0;
    if (request->range_end.size > 0 && !to_the_end &&
        bytes_compare(request->key, request->range_end) >= 0) {
        return reason_empty_range;
    }
    if (request->start_revision < 0) {
        return reason_compacted;
    }
    if (request->watch_id != 0 &&
        etcd_watch_table_find(&stream->table, request->watch_id) != NULL) {
        return reason_duplicate;
    }
    if (stream->table.count >= options->watches_per_stream_max ||
        stream->key_bytes + request->key.size + request->range_end.size >
            options->watch_bytes_per_stream_max) {
        return reason_too_many;
    }
    return NULL;
}

static int64_t choose_id(struct etcd_watch_stream *stream) {
    while (etcd_watch_table_find(&stream->table, stream->next_id) != NULL) {
        stream->next_id++;
    }
    return stream->next_id++;
}

static struct etcd_watch *add_watch(struct etcd_watch_stream *stream,
                                    const struct etcd_watch_request *request) {
    struct etcd_watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL) {
        return NULL;
    }
    watch->stream = stream;
    watch->node.id = request->watch_id != 0 ? request->watch_id : choose_id(stream);
    watch->start_revision = request->start_revision;
    watch->want_previous = request->want_previous;
    watch->fragment = request->fragment;
    watch->progress_notify = request->progress_notify;
    watch->key_bytes = request->key.size + request->range_end.size;
    list_init(&watch->lagging_link);
    if (!etcd_watch_table_add(&stream->table, &watch->node)) {
        free(watch);
        return NULL;
    }
    list_append(&stream->watches, &watch->link);
    stream->key_bytes += watch->key_bytes;
    stream->n_progress += watch->progress_notify;
    stream->door->stats.watches++;
    return watch;
}

static void start_progress(struct etcd_watch_stream *stream) {
    if (stream->n_progress == 1) {
        stream->progress_due_ms =
            service_now_ms(stream->door->service) + stream->door->options.progress_interval_ms;
    }
    etcd_ticker_start(stream->door, &stream->ticker);
}

static enum status begin(struct etcd_watch *watch, const struct etcd_watch_request *request,
                         int64_t start_revision) {
    struct etcd_watch_stream *stream = watch->stream;
    watch->watch.deliver = etcd_watch_deliver;
    watch->watch.compacted = etcd_watch_compacted;
    watch->watch.revoked = etcd_watch_revoked;
    const struct service_watch_options options = {
        .range = {KEY_SPACE_ETCD, request->key, request->range_end},
        .start_revision = start_revision,
        .without_puts = request->without_puts,
        .without_deletes = request->without_deletes};
    return service_watch(stream->door->service, etcd_caller(stream->call), &watch->watch, &options);
}

static void create(struct etcd_watch_stream *stream, const struct etcd_watch_request *request) {
    const char *reason = reason_against(stream, request);
    if (reason == NULL &&
        !grpc_call_hold(stream->call, watch_cost(request->key.size + request->range_end.size))) {
        reason = reason_too_many;
    }
    if (reason != NULL) {
        refuse(stream, reason);
        return;
    }
    struct etcd_watch *watch = add_watch(stream, request);
    if (watch == NULL) {
        finish(stream, etcd_error_of(STATUS_NO_MEMORY));
        return;
    }
    int64_t start = request->start_revision; /* 0: from now on */
    int64_t compacted = key_store_compacted_revision(etcd_keys(stream->door));
    bool is_compacted = start > 0 && start < compacted;
    enum status status = is_compacted ? STATUS_OK : begin(watch, request, start);
    if (status != STATUS_OK) {
        etcd_watch_forget(watch);
        refuse(stream, etcd_watch_reason(status));
        return;
    }
    etcd_watch_send(stream, &(struct etcd_watch_response){
                                .header = etcd_header_now(stream->door),
                                .watch_id = watch->node.id,
                                .created = true,
                            });
    if (is_compacted) {
        etcd_watch_compacted(&watch->watch, compacted);
    } else if (watch->progress_notify) {
        start_progress(stream);
    }
}

/* An unknown id is not answered, as in etcd. */
static void cancel(struct etcd_watch_stream *stream, int64_t id) {
    struct etcd_watch_node *node = etcd_watch_table_find(&stream->table, id);
    if (node == NULL) {
        return;
    }
    struct etcd_watch *watch = list_entry(node, struct etcd_watch, node);
    service_unwatch(stream->door->service, &watch->watch);
    etcd_watch_forget(watch);
    etcd_watch_send(stream, &(struct etcd_watch_response){
                                .header = etcd_header_now(stream->door),
                                .watch_id = id,
                                .canceled = true,
                            });
}

/* --- Progress. --- */

static void send_progress(struct etcd_watch_stream *stream, int64_t watch_id) {
    etcd_watch_send(stream, &(struct etcd_watch_response){
                                .header = etcd_header_now(stream->door),
                                .watch_id = watch_id,
                            });
}

/* A watch that begins in the future has not seen the present: progress would say that it has. */
static bool is_current(const struct etcd_watch *watch) {
    const struct etcd_door *door = watch->stream->door;
    return watch->start_revision <= key_store_revision(etcd_keys(door)) &&
           service_watch_is_current(door->service, &watch->watch);
}

/* The watch that is found to be owed something is looked at first next time: one that lags among a
 * hundred thousand must not cost a look at all of them at every tick. */
static bool find_all_current(struct etcd_watch_stream *stream) {
    for (struct list *link = stream->watches.next; link != &stream->watches; link = link->next) {
        struct etcd_watch *watch = list_entry(link, struct etcd_watch, link);
        if (!is_current(watch)) {
            list_remove(link);
            list_prepend(&stream->watches, link);
            return false;
        }
    }
    return true;
}

/* The client takes the revision of the answer as seen by all its watches: it must not overtake an
 * event that one of them is still owed. */
static void progress(struct etcd_watch_stream *stream) {
    /* The answer has the newest revision; a client with a watch may know it. */
    if (stream->table.count == 0) {
        enum status status = service_check_user(stream->door->service, etcd_caller(stream->call),
                                                "progress of watches");
        if (status != STATUS_OK) {
            finish(stream, etcd_error_of(status));
            return;
        }
    }
    /* Looking at many watches for each of many requests would delay all clients: those are answered
     * together, at the next tick. */
    bool is_cheap = stream->table.count <= stream->door->options.progress_at_once_watches_max;
    if (is_cheap && find_all_current(stream)) {
        send_progress(stream, NO_WATCH_ID);
    } else if (!stream->progress_owed) {
        stream->progress_owed = true;
        etcd_ticker_start(stream->door, &stream->ticker);
        etcd_ticker_hurry(stream->door, true);
    }
}

static void settle_progress(struct etcd_watch_stream *stream) {
    if (stream->progress_owed) {
        stream->progress_owed = false;
        etcd_ticker_hurry(stream->door, false);
    }
}

/* Only watches without events since the last round need a notification, and a stream that does
 * not read gets none. */
static void notify_progress(struct etcd_watch_stream *stream) {
    for (struct list *link = stream->watches.next; link != &stream->watches; link = link->next) {
        struct etcd_watch *watch = list_entry(link, struct etcd_watch, link);
        if (!watch->progress_notify) {
            continue;
        }
        if (!watch->had_events && is_current(watch) && grpc_call_is_writable(stream->call)) {
            send_progress(stream, watch->node.id);
        }
        watch->had_events = false;
    }
}

static void on_tick(struct etcd_ticker *ticker, uint64_t now_ms) {
    struct etcd_watch_stream *stream = list_entry(ticker, struct etcd_watch_stream, ticker);
    if (stream->finished) {
        return;
    }
    if (stream->wants_leader && !etcd_has_leader(stream->door)) {
        finish(stream, etcd_error_of(STATUS_NO_LEADER));
        return;
    }
    if (stream->progress_owed && find_all_current(stream)) {
        settle_progress(stream);
        send_progress(stream, NO_WATCH_ID);
    }
    if (stream->n_progress > 0 && now_ms >= stream->progress_due_ms) {
        stream->progress_due_ms = now_ms + stream->door->options.progress_interval_ms;
        notify_progress(stream);
    }
}

/* --- The stream. --- */

static void on_open(struct grpc_call *call) {
    struct etcd_door *door = etcd_door_of(call);
    struct etcd_watch_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL) {
        etcd_error_finish(call, etcd_error_of(STATUS_NO_MEMORY));
        return;
    }
    stream->call = call;
    stream->door = door;
    etcd_watch_table_init(&stream->table, &stream->door->hash_key);
    list_init(&stream->watches);
    list_init(&stream->lagging);
    etcd_ticker_init(&stream->ticker, on_tick);
    grpc_call_set_data(call, stream);
    door->stats.watch_streams++;
    etcd_count_client(call, ETCD_CLIENT_STREAM);
    stream->wants_leader = etcd_wants_leader(call);
    if (stream->wants_leader) {
        etcd_ticker_start(door, &stream->ticker);
        on_tick(&stream->ticker, 0);
    }
}

static void on_message(struct grpc_call *call, struct bytes message) {
    struct etcd_watch_stream *stream = grpc_call_data(call);
    if (stream == NULL || stream->finished) {
        return;
    }
    struct etcd_watch_request request;
    const struct etcd_error *error = etcd_request_watch(message, &request);
    if (error != NULL) {
        finish(stream, error);
        return;
    }
    switch (request.type) {
    case ETCD_WATCH_CREATE:
        create(stream, &request);
        break;
    case ETCD_WATCH_CANCEL:
        cancel(stream, request.watch_id);
        break;
    case ETCD_WATCH_PROGRESS:
        progress(stream);
        break;
    case ETCD_WATCH_NOTHING:
        break;
    }
}

static void on_writable(struct grpc_call *call) {
    struct etcd_watch_stream *stream = grpc_call_data(call);
    if (stream == NULL) {
        return;
    }
    /* Once round: a watch that cannot be served after all comes back to the end of the list. */
    struct list ready;
    list_init(&ready);
    list_append_all(&ready, &stream->lagging);
    struct list *link;
    while ((link = list_pop_first(&ready)) != NULL) {
        struct etcd_watch *watch = list_entry(link, struct etcd_watch, lagging_link);
        service_watch_resume(stream->door->service, &watch->watch);
    }
}

/* A client that sends no more still listens: etcd keeps the stream, and so there is no
 * on_half_close. */
static void on_close(struct grpc_call *call) {
    struct etcd_watch_stream *stream = grpc_call_data(call);
    if (stream == NULL) {
        return;
    }
    while (!list_is_empty(&stream->watches)) {
        struct etcd_watch *watch = list_entry(stream->watches.next, struct etcd_watch, link);
        service_unwatch(stream->door->service, &watch->watch);
        etcd_watch_forget(watch);
    }
    assert(stream->table.count == 0);
    settle_progress(stream);
    etcd_ticker_stop(stream->door, &stream->ticker);
    etcd_watch_table_clear(&stream->table);
    stream->door->stats.watch_streams--;
    free(stream);
}

static const struct grpc_method methods[] = {
    {.path = "/etcdserverpb.Watch/Watch",
     .is_prompt = true,
     .answers_refused = true,
     .kind = GRPC_BIDIRECTIONAL,
     .on_open = on_open,
     .on_message = on_message,
     .on_writable = on_writable,
     .on_close = on_close},
};
const struct etcd_methods etcd_watch_methods = {methods, sizeof methods / sizeof methods[0]};
