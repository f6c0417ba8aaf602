/* Committed entries come back here, on every replica in the same order. The requests of our own
 * entries are answered from this very place, so an answer always follows its write to disk. */
#include "base/clock.h"
#include "base/log.h"
#include "replication/entry_check.h"
#include "replication/log_entry.h"
#include "replication/monitor.h"
#include "replication/service_internal.h"

#include <assert.h>
#include <stdio.h>

enum {
    /* Records looked at in one iteration by work that can wait. */
    BACKGROUND_BUDGET = 2000,
    UNREADABLE_LOG_MS = 10000
};

/* Going on without it would make this member differ from the others. */
static void fail_unknown(struct service *service, const struct command *command) {
    char reason[256];
    if (command != NULL && command->type == COMMAND_CLUSTER_VERSION) {
        snprintf(reason, sizeof reason,
                 "the cluster was raised to version %u, and this release of leased knows versions "
                 "up to %u: start a newer release on this member",
                 command->cluster_version.version, versions_known(service));
    } else {
        snprintf(reason, sizeof reason,
                 "an entry of the log passes its checksum but cannot be read: it was written by "
                 "another version of leased. Start the release that the other members run");
    }
    service_fail(service, STATUS_UNSUPPORTED, reason);
}

/* Returns how much work it was, in units of key_work.h. */
static size_t apply_commands(struct service *service, const struct log_entry_header *header,
                             struct reader *reader, struct proposal *proposal) {
    size_t work = 0;
    struct apply_context context = {.term = header->term,
                                    .index = header->index,
                                    .now_ms = expiry_now_ms(service) + ANSWER_MARGIN_MS,
                                    .wall_ms = header->wall_ms};
    /* What raft applies while it is started is as old as now. */
    if (service->engine != NULL && header->index <= raft_engine_loaded_index(service->engine)) {
        context.written_ms = service->expiry.loaded_ms;
    }
    for (uint64_t i = 0; i < header->n_commands; i++) {
        struct command command;
        struct outcome outcome;
        enum status status = command_decode(reader, &service->arena, &command);
        if (status != STATUS_OK || !state_machine_knows(service->machine, &command)) {
            fail_unknown(service, status == STATUS_OK ? &command : NULL);
            return work;
        }
        if (command_inner(&command)->type == COMMAND_COMPACT) {
            /* Watchers are given what this entry wrote before it becomes out of their reach. */
            watch_hub_publish_all(state_machine_watches(service->machine));
            service->background.is_reclaiming = true;
        }
        state_machine_apply(service->machine, &command, &context, &service->arena, &outcome);
        work += outcome.work;
        if (proposal != NULL) {
            struct list *node = list_pop_first(&proposal->requests);
            assert(node != NULL);
            struct service_request *request =
                list_entry(node, struct service_request, private.link);
            if (command.type == COMMAND_AS) {
                (void)refusals_note(service, &command.as.caller, outcome.status,
                                    refusals_name_of(&command));
            }
            request->done(request, &outcome);
        }
        arena_reset(&service->arena);
    }
    return work;
}

bool apply_check(void *data, const struct log_item *item) {
    struct service *service = data;
    if (entry_check_item(item, service->machine, &service->arena)) {
        return true;
    }
    uint64_t now_ms = clock_boottime_ms();
    version_inquiry_start(service);
    if ((service->unreadable_ms == 0 ||
         clock_elapsed_ms(now_ms, service->unreadable_ms) > UNREADABLE_LOG_MS)) {
        service->unreadable_ms = now_ms;
        log_warning(
            "a member sent an entry that this release cannot read, which is refused; if the "
            "leader runs a newer release, start it here as well",
            LOG_NUMBER("index", item->index));
    }
    return false;
}

void apply_unreadable_snapshot(void *data) {
    version_inquiry_start(data);
}

bool apply_can_reclaim(const struct service *service) {
    return service->background.is_reclaiming && !snapshots_are_read(service);
}

static void reclaim(struct service *service) {
    service->background.is_reclaiming =
        key_store_reclaim(state_machine_keys(service->machine), BACKGROUND_BUDGET);
}

void apply_item(void *data, const struct log_item *item) {
    struct service *service = data;
    struct log_entry_header header;
    struct reader reader;
    if (service->failed || item->type != LOG_COMMAND) {
        return;
    }
    enum status status = log_entry_decode(bytes_of(item->bytes, item->size), &header, &reader);
    if (status != STATUS_OK) {
        service_fail(service, status,
                     status == STATUS_UNSUPPORTED
                         ? "the log was written by a newer version of leased"
                         : "an entry of the log does not match its checksum");
        return;
    }
    if (header.index != item->index) {
        service_fail(service, STATUS_CORRUPT,
                     "the log has a hole: an entry is not where it was written. Restore the data "
                     "directory from a backup");
        return;
    }
    bool is_ours = header.incarnation == service->proposals.incarnation;
    struct proposal *proposal = is_ours ? proposals_match(service, header.sequence) : NULL;
    if (proposal != NULL && proposal->n_commands != header.n_commands) {
        proposal = NULL; /* another member gave itself out as this one */
    }
    if (is_ours) {
        service->proposals.sequence_applied = header.sequence;
    }
    const struct key_store *keys = state_machine_keys(service->machine);
    uint64_t bytes_before = key_store_bytes(keys);
    uint64_t begun_us = clock_stopwatch_us();
    uint64_t submitted_us = proposal != NULL ? proposal->submitted_us : 0;
    size_t work = apply_commands(service, &header, &reader, proposal);
    monitor_applied(service, begun_us, submitted_us, header.n_commands);
    if (proposal != NULL && !service->failed) {
        proposals_finish(service, proposal);
    }
    watch_hub_publish(state_machine_watches(service->machine));
    uint64_t bytes_after = key_store_bytes(keys);
    snapshots_added(
        service, &(struct snapshots_addition){
                     .log_bytes = item->size,
                     .work = work,
                     .written_bytes = bytes_after > bytes_before ? bytes_after - bytes_before : 0,
                 });
    /* A start applies the whole log before the loop runs, and nothing else would free the history
     * that it compacts. Nobody borrows a record yet. */
    if (service->engine == NULL && apply_can_reclaim(service)) {
        reclaim(service);
    }
}

/* --- Work that can wait. --- */

static void background_work(uv_idle_t *idle) {
    struct service *service = idle->data;
    bool more = watch_hub_work(state_machine_watches(service->machine), BACKGROUND_BUDGET);
    if (apply_can_reclaim(service)) {
        reclaim(service);
        more |= service->background.is_reclaiming;
    }
    more |= service->forwarding.has_ready_reads;
    if (!more) {
        uv_idle_stop(&service->background.handle);
        service->background.is_running = false;
    }
}

void apply_background(struct service *service) {
    watch_hub_begin_iteration(state_machine_watches(service->machine));
    bool has_work = watch_hub_has_work(state_machine_watches(service->machine)) ||
                    apply_can_reclaim(service) || service->forwarding.has_ready_reads;
    if (has_work && !service->background.is_running && !service->closing) {
        uv_idle_start(&service->background.handle, background_work);
        service->background.is_running = true;
    }
}

void apply_init(struct service *service) {
    arena_init(&service->arena);
    uv_idle_init(service->loop, &service->background.handle);
    service->background.handle.data = service;
}
