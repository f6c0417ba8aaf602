/* Committed entries come back here, on every replica in the same order. The requests of our own
 * entries are answered from this very place, so an answer always follows its write to disk. */
#include "base/clock.h"
#include "replication/log_entry.h"
#include "replication/service_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define LARGE_PAGE_SIZE ((uintptr_t)2 * 1024 * 1024)

enum {
    /* Records looked at in one turn by work that can wait. */
    BACKGROUND_BUDGET = 2000,
    SNAPSHOT_CAPACITY_MIN = 64 * 1024
};

static void apply_commands(struct service *service, const struct log_entry_header *header,
                           struct reader *reader, struct proposal *proposal) {
    struct apply_context context = {.term = header->term,
                                    .index = header->index,
                                    .now_ms = expiry_now_ms(service) + ANSWER_MARGIN_MS,
                                    .wall_ms = header->wall_ms};
    if (header->index <= service->loaded_index) {
        context.written_ms = service->loaded_ms;
    }
    for (uint64_t i = 0; i < header->n_commands; i++) {
        struct command command;
        struct outcome outcome;
        enum status status = command_decode(reader, &service->arena, &command);
        if (status != STATUS_OK) {
            service_fail(service, STATUS_UNSUPPORTED,
                         "an entry of the log passes its checksum but cannot be read: it was "
                         "written by another version");
            return;
        }
        if (command.type == COMMAND_COMPACT) {
            /* Watchers are given what this entry wrote before it becomes out of their reach. */
            watch_hub_publish(state_machine_watches(service->machine));
            service->reclaiming = true;
        }
        state_machine_apply(service->machine, &command, &context, &service->arena, &outcome);
        if (proposal != NULL) {
            struct list *node = list_pop_first(&proposal->requests);
            assert(node != NULL);
            struct service_request *request = list_entry(node, struct service_request, link);
            request->done(request, &outcome);
        }
        arena_reset(&service->arena);
    }
}

static int apply_entry(struct raft_fsm *fsm, const struct raft_buffer *entry, void **result) {
    struct service *service = fsm->data;
    struct log_entry_header header;
    struct reader reader;
    *result = NULL;
    if (service->failed) {
        return RAFT_CORRUPT;
    }
    enum status status = log_entry_decode(bytes_of(entry->base, entry->len), &header, &reader);
    if (status != STATUS_OK) {
        service_fail(service, status,
                     status == STATUS_UNSUPPORTED
                         ? "the log was written by a newer version of leased"
                         : "an entry of the log does not match its checksum");
        return RAFT_CORRUPT;
    }
    if (header.index != raft_last_applied(&service->raft) + 1) {
        service_fail(service, STATUS_CORRUPT,
                     "the log has a hole: an entry does not stand where it was written, so "
                     "a segment is missing. Restore the data directory from a backup");
        return RAFT_CORRUPT;
    }
    struct proposal *proposal = header.incarnation == service->incarnation
                                    ? proposals_match(service, header.sequence)
                                    : NULL;
    if (header.incarnation == service->incarnation) {
        service->sequence_applied = header.sequence;
    }
    apply_commands(service, &header, &reader, proposal);
    if (proposal != NULL && proposal->forwarded_to != 0) {
        proposal_finish_forwarded(service, proposal);
    }
    watch_hub_publish(state_machine_watches(service->machine));
    log_size_added(service, entry->len);
    return service->failed ? RAFT_CORRUPT : 0;
}

/* --- Snapshots. --- */

/* On the loop: only takes a view. raft_guard calls apply_serialise() in a worker afterwards. */
static int apply_snapshot(struct raft_fsm *fsm, struct raft_buffer **out_buffers,
                          unsigned *out_n_buffers) {
    struct service *service = fsm->data;
    assert(service->view == NULL);
    struct raft_buffer *buffers = raft_calloc(1, sizeof *buffers);
    if (buffers == NULL) {
        return RAFT_NOMEM;
    }
    service->view = snapshot_view_open(service->machine);
    log_size_view_opened(service);
    *out_buffers = buffers;
    *out_n_buffers = 1;
    return 0;
}

/* Room for a snapshot that is a half larger than the last one. Large pages where there are any: a
 * snapshot is written once from one end to the other, and most of its cost would be page faults. */
static void reserve_snapshot(struct buffer *bytes, size_t last_size) {
    (void)buffer_reserve(bytes, SNAPSHOT_CAPACITY_MIN + last_size + last_size / 2);
    uintptr_t start = ((uintptr_t)bytes->data + LARGE_PAGE_SIZE - 1) & ~(LARGE_PAGE_SIZE - 1);
    uintptr_t end = ((uintptr_t)bytes->data + bytes->capacity) & ~(LARGE_PAGE_SIZE - 1);
    if (end > start) {
        (void)madvise((void *)start, end - start, MADV_HUGEPAGE);
    }
}

static int apply_serialise(void *data, struct raft_buffer *out_buffer) {
    struct service *service = data;
    struct buffer bytes;
    buffer_init(&bytes);
    reserve_snapshot(&bytes, service->snapshot_bytes);
    /* raft_uv wants whole words; the checksum of the snapshot does not mind zeros behind it as the
     * size is kept in front. */
    buffer_put_u64(&bytes, 0);
    snapshot_view_write(service->view, &bytes);
    uint64_t size = bytes.size - sizeof size;
    while (bytes.size % sizeof size != 0) {
        buffer_put_u8(&bytes, 0);
    }
    for (unsigned i = 0; i < sizeof size; i++) {
        bytes.data[i] = (uint8_t)(size >> (8 * i));
    }
    /* raft's memory is the C library's, as ours is: what we have filled becomes raft's. */
    *out_buffer = (struct raft_buffer){.base = bytes.data, .len = bytes.size};
    return 0;
}

static void apply_serialised(void *data, size_t size) {
    struct service *service = data;
    snapshot_view_close(service->view);
    service->view = NULL;
    service->snapshot_bytes = size;
    disk_watch_expect(service, size);
    /* What compaction could not free while the view was open. */
    service->reclaiming = true;
}

/* A close that waited for the worker goes on. */
static void apply_handed_over(void *data) {
    struct service *service = data;
    if (service->closing) {
        service_close_raft(service);
    }
}

static void apply_stored(void *data) {
    struct service *service = data;
    service->snapshot_begun_ms = 0;
    service->counters.snapshots++;
    log_size_stored(service);
}

static void apply_disk_failed(void *data, const char *what, int status) {
    struct service *service = data;
    char reason[RAFT_ERRMSG_BUF_SIZE + 128];
    snprintf(reason, sizeof reason, "%s failed: %s%s%s", what, raft_strerror(status),
             service->guard.io.errmsg[0] != '\0' ? ": " : "", service->guard.io.errmsg);
    service_fail(service,
                 status == RAFT_NOSPACE   ? STATUS_NO_SPACE
                 : status == RAFT_CORRUPT ? STATUS_CORRUPT
                                          : STATUS_IO,
                 reason);
}

const struct raft_guard_callbacks service_guard_callbacks = {.serialise = apply_serialise,
                                                             .serialised = apply_serialised,
                                                             .handed_over = apply_handed_over,
                                                             .may_vote = cluster_may_vote,
                                                             .is_leaderless = cluster_is_leaderless,
                                                             .stored = apply_stored,
                                                             .failed = apply_disk_failed};

static int apply_restore(struct raft_fsm *fsm, struct raft_buffer *snapshot) {
    struct service *service = fsm->data;
    struct reader reader;
    reader_init(&reader, bytes_of(snapshot->base, snapshot->len));
    uint64_t size = reader_get_u64(&reader);
    enum status status = STATUS_CORRUPT;
    if (!reader.failed && size <= reader_left(&reader)) {
        status = state_machine_restore(service->machine,
                                       bytes_of(reader.data + reader.position, (size_t)size));
    }
    if (status != STATUS_OK) {
        /* raft_start() passes our code on but not a word of ours. */
        snprintf(service->raft.errmsg, sizeof service->raft.errmsg, "the newest snapshot: %s",
                 status_text(status));
        return RAFT_CORRUPT;
    }
    service->snapshot_bytes = snapshot->len;
    raft_free(snapshot->base);
    return 0;
}

/* --- Work that can wait. --- */

/* Nothing can be reclaimed while somebody reads a view. */
static bool can_reclaim(const struct service *service) {
    return service->reclaiming && service->view == NULL && service->n_snapshot_jobs == 0;
}

static void background_work(uv_idle_t *idle) {
    struct service *service = idle->data;
    bool more = watch_hub_work(state_machine_watches(service->machine), BACKGROUND_BUDGET);
    if (can_reclaim(service)) {
        service->reclaiming =
            key_store_reclaim(state_machine_keys(service->machine), BACKGROUND_BUDGET);
        more |= service->reclaiming;
    }
    if (!more) {
        uv_idle_stop(&service->idle);
        service->idle_runs = false;
    }
}

void apply_background(struct service *service) {
    bool has_work =
        watch_hub_has_work(state_machine_watches(service->machine)) || can_reclaim(service);
    if (has_work && !service->idle_runs && !service->closing) {
        uv_idle_start(&service->idle, background_work);
        service->idle_runs = true;
    }
}

void apply_init(struct service *service) {
    arena_init(&service->arena);
    service->fsm = (struct raft_fsm){.version = 1,
                                     .data = service,
                                     .apply = apply_entry,
                                     .snapshot = apply_snapshot,
                                     .restore = apply_restore};
    uv_idle_init(service->loop, &service->idle);
    service->idle.data = service;
}
