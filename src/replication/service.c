/* The service's life: open, one turn of the loop, close; and what it tells about itself. */
#include "base/clock.h"
#include "base/log.h"
#include "replication/raft_calls.h"
#include "replication/segment_check.h"
#include "replication/service_internal.h"
#include "replication/store_check.h"

#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    HEARTBEAT_MS_DEFAULT = 50,
    ELECTION_MS_DEFAULT = 300,
    RAFT_INFLIGHT_ENTRIES_MAX = 1024,
    /* We look into a stuck disk ourselves before raft_uv would try again (its retry of a failed
     * write follows a wrong pointer in 0.22). */
    DISK_RETRY_MS = 3600 * 1000,
    CONNECT_RETRY_MS = 100,
    /* How old the size of the data directory may be that we tell. */
    DISK_BYTES_MS = 1000
};

void service_fail(struct service *service, enum status status, const char *reason) {
    if (service->failed) {
        return;
    }
    service->failed = true;
    service->serving = false;
    service->options.failed(service->options.data, status, reason);
}

struct state_machine *service_state(struct service *service) {
    return service->machine;
}

/* --- One turn of the loop. --- */

static void before_polling(uv_prepare_t *prepare) {
    struct service *service = prepare->data;
    raft_guard_tell_written(&service->guard);
    raft_guard_turn(&service->guard);
    if (service->closing && (service->is_handed_over || transfer_is_late(service))) {
        service_close_raft(service);
        return;
    }
    leadership_poll(service);
    checkpoints_turn(service);
    uint64_t now_ms = clock_boottime_ms();
    members_turn(service, now_ms);
    member_changes_turn(service, now_ms);
    proposals_flush(service);
    cluster_turn(service);
    apply_background(service);
    expiry_arm(service);
}

static void after_polling(uv_check_t *check) {
    struct service *service = check->data;
    raft_guard_tell_written(&service->guard);
    expiry_run(service);
}

/* --- Opening. --- */

static enum status status_of_start(int rv) {
    switch (rv) {
    case RAFT_CORRUPT:
        return STATUS_CORRUPT;
    case RAFT_NOSPACE:
        return STATUS_NO_SPACE;
    case RAFT_NOMEM:
        return STATUS_NO_MEMORY;
    default:
        return STATUS_IO;
    }
}

static enum status explain(struct service *service, const char *step, int rv, char *out_error,
                           size_t error_size) {
    const char *detail = raft_errmsg(&service->raft);
    if (detail == NULL || detail[0] == '\0') {
        detail = service->guard.io.errmsg[0] != '\0' ? service->guard.io.errmsg : raft_strerror(rv);
    }
    const char *advice =
        rv == RAFT_CORRUPT
            ? "Nothing was changed. Restore the data directory from a backup, or move it away to "
              "start empty"
            : "Check the disk and the permissions, then start again";
    snprintf(out_error, error_size, "%s in %s: %s. %s.", step, service->options.data_dir, detail,
             advice);
    return status_of_start(rv);
}

static int bootstrap(struct service *service) {
    struct raft_configuration configuration;
    raft_configuration_init(&configuration);
    int rv = 0;
    if (service->options.n_members == 0) {
        rv = raft_configuration_add(&configuration, service->options.member_id,
                                    service->options.peer_address, RAFT_VOTER);
    }
    for (size_t i = 0; i < service->options.n_members && rv == 0; i++) {
        const struct replication_member *member = &service->options.members[i];
        rv = raft_configuration_add(&configuration, member->id, member->address, RAFT_VOTER);
    }
    if (rv == 0 && service->options.force_new_cluster) {
        rv = raft_recover(&service->raft, &configuration);
    } else if (rv == 0 && !service->options.is_joining) {
        rv = raft_bootstrap(&service->raft, &configuration);
    }
    raft_configuration_close(&configuration);
    return rv == RAFT_CANTBOOTSTRAP ? 0 : rv;
}

static void configure(struct service *service) {
    struct raft *raft = &service->raft;
    raft_set_election_timeout(raft, service->options.election_ms);
    raft_set_heartbeat_timeout(raft, service->options.heartbeat_ms);
    raft_set_pre_vote(raft, true);
    /* Who is nearly there and then goes silent must not hold up other changes. */
    raft_set_max_catch_up_round_duration(raft, 2 * service->options.election_ms);
    raft_set_max_inflight_entries(raft, RAFT_INFLIGHT_ENTRIES_MAX);
    /* Snapshots are asked for by bytes: see log_size.c. */
    raft_set_snapshot_threshold(raft, UINT_MAX);
}

static void start_turns(struct service *service) {
    uv_prepare_init(service->loop, &service->prepare);
    service->prepare.data = service;
    uv_prepare_start(&service->prepare, before_polling);
    uv_check_init(service->loop, &service->check);
    service->check.data = service;
    uv_check_start(&service->check, after_polling);
}

enum status replication_open(uv_loop_t *loop, const struct replication_options *options,
                             struct service **out_service, char *out_error, size_t error_size) {
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
    service->machine = state_machine_create();
    proposals_init(service);
    apply_init(service);

    service->guard.io.version = 2;
    enum status status = segment_check(service->options.data_dir, out_error, error_size);
    if (status == STATUS_OK) {
        status = store_check(service->options.data_dir, out_error, error_size);
    }
    if (status == STATUS_OK) {
        members_remember(service);
        status = cluster_open(service, out_error, error_size);
    }
    if (status != STATUS_OK) {
        return status;
    }
    expiry_init_clock(service);
    peer_transport_init(&service->transport, service->peers);
    const char *step = "opening the log";
    int rv =
        raft_uv_init(&service->guard.io, loop, service->options.data_dir, &service->transport.raft);
    if (rv == 0) {
        raft_uv_set_auto_recovery(&service->guard.io, false);
        raft_calls_install(&service->guard.io);
        raft_uv_set_disk_retry(&service->guard.io, DISK_RETRY_MS);
        raft_uv_set_connect_retry_delay(&service->guard.io, CONNECT_RETRY_MS);
        raft_guard_install(&service->guard, loop, service->options.member_id,
                           &service_guard_callbacks, service);
        rv = raft_init(&service->raft, &service->guard.io, &service->fsm,
                       service->options.member_id, service->options.peer_address);
    }
    if (rv == 0) {
        service->guard.hold_ms = service->options.election_ms;
        configure(service);
        step = "preparing the log";
        rv = bootstrap(service);
    }
    if (rv == 0) {
        step = "reading the log";
        rv = raft_start(&service->raft);
    }
    if (rv != 0 || service->failed) {
        /* The process ends now; a half-open raft cannot be closed safely. */
        status =
            service->failed ? STATUS_CORRUPT : explain(service, step, rv, out_error, error_size);
        return status;
    }
    service->guard.io.errmsg[0] = '\0';
    expiry_init(service);
    disk_watch_init(service);
    start_turns(service);
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
    raft_uv_close(&service->guard.io);
    free(service);
    closed(data);
}

static void peers_closed(void *data) {
    struct service *service = data;
    uv_handle_t *handles[] = {
        (uv_handle_t *)&service->prepare,    (uv_handle_t *)&service->check,
        (uv_handle_t *)&service->idle,       (uv_handle_t *)&service->expiry_timer,
        (uv_handle_t *)&service->ping_timer, (uv_handle_t *)&service->election_timer,
        (uv_handle_t *)&service->disk_timer};
    service->n_handles_open = sizeof handles / sizeof handles[0];
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
        uv_close(handles[i], handle_closed);
    }
}

static void raft_closed(struct raft *raft) {
    struct service *service = list_entry(raft, struct service, raft);
    if (service->peers == NULL) {
        peers_closed(service);
    } else {
        peers_close(service->peers, peers_closed, service);
    }
}

void service_close_raft(struct service *service) {
    if (service->is_raft_closing) {
        return;
    }
    raft_guard_tell_written(&service->guard); /* which may begin a snapshot */
    /* Workers that use the service must have come back. */
    if (service->guard.is_serialising || service->disk_probing || service->n_snapshot_jobs > 0) {
        return;
    }
    service->is_raft_closing = true;
    raft_close(&service->raft, raft_closed);
}

void replication_close(struct service *service, void (*closed)(void *data), void *data) {
    assert(!service->closing);
    service->closing = true;
    service->guard.closing = true;
    service->serving = false;
    service->closed = closed;
    service->closed_data = data;
    disk_watch_stop(service);
    uv_timer_stop(&service->expiry_timer);
    uv_idle_stop(&service->idle);
    checkpoints_flush(service);
    proposals_fail_all(service, STATUS_STOPPED);
    questions_fail(service, STATUS_STOPPED);
    member_changes_fail(service, STATUS_STOPPED);
    expiry_fail_renewals(service, STATUS_STOPPED);
    if (!transfer_on_stop(service)) {
        service_close_raft(service);
    }
}

/* --- Telling. --- */

static uint64_t directory_bytes(const char *path) {
    uint64_t total = 0;
    DIR *directory = opendir(path);
    if (directory == NULL) {
        return 0;
    }
    for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
        struct stat info;
        if (fstatat(dirfd(directory), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(info.st_mode)) {
            total += (uint64_t)info.st_size;
        }
    }
    closedir(directory);
    return total;
}

/* Asked for by every answer that tells the term, so the directory is not read each time. */
static uint64_t disk_bytes(struct service *service) {
    uint64_t now_ms = clock_boottime_ms();
    if (service->disk_bytes_ms == 0 || now_ms - service->disk_bytes_ms >= DISK_BYTES_MS) {
        service->disk_bytes = directory_bytes(service->options.data_dir);
        service->disk_bytes_ms = now_ms;
    }
    return service->disk_bytes;
}

void service_info(struct service *service, struct service_info *out_info) {
    struct service_info info = service->counters;
    info.cluster_id = service->options.cluster_id;
    info.member_id = service->options.member_id;
    info.leader_id = service->failed ? 0 : cluster_leader(service);
    info.is_learner = members_is_learner(service);
    info.term = raft_current_term(&service->raft);
    info.last_index = raft_last_index(&service->raft);
    info.applied_index = raft_last_applied(&service->raft);
    info.disk_bytes = disk_bytes(service);
    info.log_bytes = service->log_bytes;
    *out_info = info;
}

/* --- A snapshot for a client. --- */

struct snapshot_job {
    uv_work_t work;
    struct service *service;
    struct service_snapshot *snapshot;
    struct snapshot_view *view;
    struct buffer bytes;
};

static void snapshot_write(uv_work_t *work) {
    struct snapshot_job *job = work->data;
    snapshot_view_write(job->view, &job->bytes);
}

static void snapshot_written(uv_work_t *work, int status) {
    struct snapshot_job *job = work->data;
    (void)status;
    struct service *service = job->service;
    snapshot_view_close(job->view);
    service->n_snapshot_jobs--;
    service->reclaiming = true;
    job->snapshot->done(job->snapshot, service->closing ? STATUS_STOPPED : STATUS_OK, &job->bytes);
    free(job);
    if (service->closing) {
        service_close_raft(service);
    }
}

void service_snapshot(struct service *service, struct service_snapshot *snapshot) {
    struct snapshot_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        abort();
    }
    job->service = service;
    job->snapshot = snapshot;
    job->view = snapshot_view_open(service->machine);
    service->n_snapshot_jobs++;
    job->work.data = job;
    buffer_init(&job->bytes);
    uv_queue_work(service->loop, &job->work, snapshot_write, snapshot_written);
}
