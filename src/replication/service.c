/* The service's life: open, one iteration of the loop, close; and what it tells about itself. */
#include "base/clock.h"
#include "core/snapshot.h"
#include "replication/service_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    HEARTBEAT_MS_DEFAULT = 50,
    ELECTION_MS_DEFAULT = 300,
    /* How old the size of the data directory may be that we tell. */
    DISK_BYTES_MS = 1000
};

void service_fail(struct service *service, enum status status, const char *reason) {
    if (service->failed) {
        return;
    }
    service->failed = true;
    service->leadership.serving = false;
    service->options.failed(service->options.data, status, reason);
}

const struct state_view *service_view(const struct service *service) {
    return state_machine_view(service->machine);
}

/* --- One iteration of the loop. --- */

static void before_polling(uv_prepare_t *prepare) {
    struct service *service = prepare->data;
    service->iteration++;
    service->read_work = 0;
    if (service->is_node_closing) {
        return;
    }
    raft_node_complete_writes(service->node);
    if (service->closing && (service->transfer.is_over || transfer_is_late(service))) {
        service_close_node(service);
        return;
    }
    watches_poll(service);
    leadership_poll(service);
    checkpoints_poll(service);
    uint64_t now_ms = clock_boottime_ms();
    members_poll(service, now_ms);
    member_changes_poll(service, now_ms);
    quota_poll(service, now_ms);
    proposals_flush(service);
    cluster_poll(service);
    snapshots_poll(service);
    apply_background(service);
    expiry_arm(service);
}

static void after_polling(uv_check_t *check) {
    struct service *service = check->data;
    service->iteration++;
    if (service->is_node_closing) {
        return;
    }
    raft_node_complete_writes(service->node);
    expiry_run(service);
}

/* --- Opening. --- */

/* Who takes part in a new cluster. */
static void first_configuration(const struct service *service, struct raft_config *out_config) {
    const struct replication_options *options = &service->options;
    out_config->n = 0;
    if (options->is_joining) {
        return;
    }
    if (options->n_members == 0) {
        (void)raft_config_add(out_config, options->member_id, options->peer_address, CONFIG_VOTER);
    }
    for (size_t i = 0; i < options->n_members; i++) {
        (void)raft_config_add(out_config, options->members[i].id, options->members[i].address,
                              CONFIG_VOTER);
    }
}

static void configuration_changed(void *data) {
    struct service *service = data;
    if (service->engine != NULL && service->leader_lease.term != 0) {
        members_count_voters(service);
    }
}

static void node_failed(void *data, enum status status, const char *reason) {
    service_fail(data, status, reason);
}

static const struct raft_node_calls node_calls = {.check = apply_check,
                                                  .apply = apply_item,
                                                  .can_restore = snapshots_can_restore,
                                                  .check_received = snapshots_check_received,
                                                  .unreadable_snapshot = apply_unreadable_snapshot,
                                                  .check_snapshot = snapshot_check,
                                                  .restore = snapshots_restore,
                                                  .role_changed = leadership_role_changed,
                                                  .configuration_changed = configuration_changed,
                                                  .may_vote = cluster_may_vote,
                                                  .is_leaderless = cluster_is_leaderless,
                                                  .serialise = snapshots_serialise,
                                                  .snapshot_ended = snapshots_ended,
                                                  .room = cluster_room,
                                                  .frame_begin = cluster_frame_begin,
                                                  .frame_end = cluster_frame_end,
                                                  .failed = node_failed};

static enum status open_node(struct service *service, char *out_error, size_t error_size) {
    struct raft_config bootstrap;
    first_configuration(service, &bootstrap);
    struct raft_node_options options = {.files = service->files,
                                        .self_id = service->options.member_id,
                                        .heartbeat_ms = service->options.heartbeat_ms,
                                        .election_ms = service->options.election_ms,
                                        .bootstrap = &bootstrap,
                                        .self_address = service->options.peer_address,
                                        .force_new_cluster = service->options.force_new_cluster};
    ssize_t n = getrandom(&options.seed, sizeof options.seed, 0);
    assert(n == (ssize_t)sizeof options.seed);
    enum status status = raft_node_open(service->loop, &options, &node_calls, service,
                                        &service->node, out_error, error_size);
    if (status == STATUS_OK) {
        service->engine = raft_node_engine(service->node);
    }
    return status;
}

static void start_iterations(struct service *service) {
    uv_prepare_init(service->loop, &service->prepare);
    service->prepare.data = service;
    uv_prepare_start(&service->prepare, before_polling);
    uv_check_init(service->loop, &service->check);
    service->check.data = service;
    uv_check_start(&service->check, after_polling);
}

static struct service *service_create(uv_loop_t *loop, const struct replication_options *options) {
    struct service *service = calloc(1, sizeof *service);
    if (service == NULL) {
        abort();
    }
    service->loop = loop;
    service->options = *options;
    if (service->options.heartbeat_ms == 0) {
        service->options.heartbeat_ms = HEARTBEAT_MS_DEFAULT;
    }
    if (service->options.election_ms == 0) {
        service->options.election_ms = ELECTION_MS_DEFAULT;
    }
    struct hash_key hash_key;
    hash_key_fill(&hash_key);
    const struct state_machine_options machine = {.rules = service->options.rules,
                                                  .hash_key = &hash_key,
                                                  .cluster_version_known =
                                                      service->options.cluster_version_known};
    service->machine = state_machine_create(&machine);
    list_init(&service->revoked_watches);
    scans_init(service);
    proposals_init(service);
    quota_init(service);
    apply_init(service);
    return service;
}

enum status replication_open(uv_loop_t *loop, const struct replication_options *options,
                             struct service **out_service, char *out_error, size_t error_size) {
    struct service *service = service_create(loop, options);
    int error = raft_files_open(service->options.data_dir, &service->files);
    if (error != 0) {
        snprintf(out_error, error_size, "the data directory %s cannot be opened: %s",
                 service->options.data_dir, strerror(error));
        return STATUS_IO;
    }
    members_remember(service);
    enum status status = cluster_open(service, out_error, error_size);
    expiry_init_clock(service);
    if (status == STATUS_OK) {
        /* The process ends when this fails: a half-open node is not closed. */
        status = open_node(service, out_error, error_size);
    }
    if (status == STATUS_OK && cluster_has_company(service)) {
        status = cluster_open_peers(service, out_error, error_size);
    } else if (status == STATUS_OK) {
        cluster_listen_alone(service);
    }
    if (status != STATUS_OK || service->failed) {
        return service->failed ? STATUS_CORRUPT : status;
    }
    expiry_init(service);
    start_iterations(service);
    *out_service = service;
    return STATUS_OK;
}

/* --- Closing. --- */

static void handle_closed(uv_handle_t *handle) {
    struct service *service = handle->data;
    if (--service->n_handles_open > 0) {
        return;
    }
    void (*closed)(void *data) = service->closed;
    void *data = service->closed_data;
    proposals_clear(service);
    expiry_clear(service);
    arena_clear(&service->arena);
    state_machine_destroy(service->machine);
    raft_files_close(&service->files);
    free(service);
    closed(data);
}

static void node_closed(void *data) {
    struct service *service = data;
    uv_handle_t *handles[] = {
        (uv_handle_t *)&service->prepare,           (uv_handle_t *)&service->check,
        (uv_handle_t *)&service->background.handle, (uv_handle_t *)&service->expiry.timer,
        (uv_handle_t *)&service->scans.timer,       (uv_handle_t *)&service->cluster.ping_timer,
        (uv_handle_t *)&service->cluster.raft_timer};
    service->n_handles_open = sizeof handles / sizeof handles[0];
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
        uv_close(handles[i], handle_closed);
    }
}

static void peers_closed(void *data) {
    struct service *service = data;
    service->peers = NULL;
    service->cluster.lone_peers = NULL;
    raft_node_close(service->node, node_closed, service);
}

/* Links first, so that nothing is sent to or comes from a raft that is going. */
void service_close_node(struct service *service) {
    /* Workers that use the state must have come back. */
    if (service->is_node_closing || scans_are_open(service)) {
        return;
    }
    service->is_node_closing = true;
    version_inquiry_cancel(service);
    struct peers *peers = service->peers != NULL ? service->peers : service->cluster.lone_peers;
    if (peers == NULL) {
        peers_closed(service);
    } else {
        peers_close(peers, peers_closed, service);
    }
}

void replication_close(struct service *service, void (*closed)(void *data), void *data) {
    assert(!service->closing);
    service->closing = true;
    service->leadership.serving = false;
    service->closed = closed;
    service->closed_data = data;
    uv_timer_stop(&service->expiry.timer);
    uv_idle_stop(&service->background.handle);
    checkpoints_flush(service);
    proposals_fail_all(service, STATUS_STOPPED);
    forwarding_fail(service, STATUS_STOPPED);
    member_changes_fail(service, STATUS_STOPPED);
    expiry_fail_renewals(service, STATUS_STOPPED);
    scans_close(service);
    if (!transfer_on_stop(service)) {
        service_close_node(service);
    }
}

/* --- Telling. --- */

uint64_t service_iteration(const struct service *service) {
    return service->iteration;
}

/* Asked for by every answer that tells the term, so the directory is not read each time. */
static uint64_t disk_bytes(struct service *service) {
    uint64_t now_ms = clock_boottime_ms();
    if (service->snapshots.disk_bytes_ms == 0 ||
        now_ms - service->snapshots.disk_bytes_ms >= DISK_BYTES_MS) {
        service->snapshots.disk_bytes = raft_node_disk_bytes(service->node);
        service->snapshots.disk_bytes_ms = now_ms;
    }
    return service->snapshots.disk_bytes;
}

void service_info(struct service *service, struct service_info *out_info) {
    struct service_info info = service->counters;
    info.cluster_id = service->options.cluster_id;
    info.member_id = service->options.member_id;
    info.leader_id = service->failed ? 0 : cluster_leader(service);
    info.is_learner = members_is_learner(service);
    info.cluster_version = state_machine_cluster_version(service->machine);
    info.term = raft_engine_term(service->engine);
    info.last_index = raft_engine_last_index(service->engine);
    info.applied_index = raft_engine_applied_index(service->engine);
    info.disk_bytes = disk_bytes(service);
    info.log_bytes = service->snapshots.log_bytes;
    *out_info = info;
}
