/* Requests of a Watch stream: each input is a run of messages, each with one byte of length in
 * front, sent to one stream's worth of watches on a store with a little history. */
#include "core/state_machine.h"
#include "doors/etcd/etcd_request.h"
#include "doors/etcd/etcd_response.h"
#include "proto/etcd.pb-c.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WATCHES_MAX = 16, REVISIONS = 6 };

struct stream {
    struct state_machine *machine;
    struct watcher *watchers[WATCHES_MAX];
    size_t n_watchers;
};

static bool deliver(void *data, const struct watch_batch *batch) {
    struct stream *stream = data;
    struct etcd_watch_response response = {.header = {.revision = batch->revision}, .watch_id = -1};
    size_t size = etcd_watch_size(&response);
    for (size_t i = 0; i < batch->n_events; i++) {
        assert(batch->events[i]->mod_revision <= batch->revision);
        size += etcd_event_size(
            batch->events[i],
            key_store_previous(state_machine_keys(stream->machine), batch->events[i]));
    }
    uint8_t *memory = malloc(size);
    assert(memory != NULL);
    struct pb_writer writer;
    pb_writer_init(&writer, memory, size);
    etcd_watch_write(&writer, &response);
    for (size_t i = 0; i < batch->n_events; i++) {
        etcd_event_write(&writer, batch->events[i],
                         key_store_previous(state_machine_keys(stream->machine), batch->events[i]));
    }
    assert(writer.at == writer.end);
    Etcdserverpb__WatchResponse *read = etcdserverpb__watch_response__unpack(NULL, size, memory);
    assert(read != NULL);
    assert(read->n_events == batch->n_events);
    etcdserverpb__watch_response__free_unpacked(read, NULL);
    free(memory);
    return true;
}

static void compacted(void *data, int64_t compacted_revision) {
    (void)data;
    (void)compacted_revision;
    abort(); /* nothing is compacted here */
}

static const struct watcher_callbacks callbacks = {.deliver = deliver, .compacted = compacted};

static void write_history(struct state_machine *machine) {
    static const struct apply_context context = {.term = 1, .now_ms = 1};
    struct arena arena;
    arena_init(&arena);
    for (int i = 0; i < REVISIONS; i++) {
        struct outcome outcome;
        struct command command = {
            .type = COMMAND_PUT,
            .put = {.key = bytes_from_text(i % 2 == 0 ? "a" : "k"), .value = bytes_from_text("v")}};
        if (i % 3 == 2) {
            command =
                (struct command){.type = COMMAND_DELETE, .delete = {.key = bytes_from_text("a")}};
        }
        state_machine_apply(machine, &command, &context, &arena, &outcome);
    }
    arena_clear(&arena);
}

static void handle(struct stream *stream, struct bytes message) {
    struct etcd_watch_request request;
    if (etcd_request_watch(message, &request) != NULL) {
        return;
    }
    struct watch_hub *hub = state_machine_watches(stream->machine);
    if (request.type == ETCD_WATCH_CREATE && stream->n_watchers < WATCHES_MAX) {
        assert(request.key.size > 0);
        stream->watchers[stream->n_watchers++] =
            watch_hub_add(hub, &(struct watcher_options){
                                   .space = KEY_SPACE_ETCD,
                                   .key = request.key,
                                   .range_end = request.range_end,
                                   .start_revision = request.start_revision,
                                   .without_puts = request.without_puts,
                                   .without_deletes = request.without_deletes,
                                   .callbacks = &callbacks,
                                   .data = stream,
                               });
    } else if (request.type == ETCD_WATCH_CANCEL && stream->n_watchers > 0) {
        watch_hub_remove(hub, stream->watchers[--stream->n_watchers]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct stream stream = {.machine = state_machine_create(NULL)};
    struct watch_hub *hub = state_machine_watches(stream.machine);
    write_history(stream.machine);
    watch_hub_publish(hub);
    for (size_t at = 0; at < size;) {
        size_t length = data[at++];
        if (length > size - at) {
            length = size - at;
        }
        handle(&stream, bytes_of(data + at, length));
        at += length;
    }
    while (watch_hub_work(hub, 100)) {
    }
    write_history(stream.machine);
    watch_hub_publish(hub);
    watch_hub_validate(hub);
    while (stream.n_watchers > 0) {
        watch_hub_remove(hub, stream.watchers[--stream.n_watchers]);
    }
    state_machine_destroy(stream.machine);
    return 0;
}
