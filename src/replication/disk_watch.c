/* raft_uv retries a failed write for ever and says nothing. When entries or a snapshot wait too
 * long, the disk is asked directly, in a worker: if it cannot take a file of a segment's size, the
 * node stops with the reason; if it can, it is only slow. */
#include "base/clock.h"
#include "base/log.h"
#include "replication/raft_calls.h"
#include "replication/service_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    DISK_WATCH_INTERVAL_MS = 1000,
    DISK_WATCH_PATIENCE_MS = 2000,
    DISK_PROBE_SIZE = 8 * 1024 * 1024 /* a segment of raft_uv */
};

static int probe_file(const char *path) {
    static const char bytes[4096];
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        return errno;
    }
    int error = posix_fallocate(fd, 0, DISK_PROBE_SIZE);
    if (error == 0 && pwrite(fd, bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        error = errno != 0 ? errno : EIO;
    }
    if (error == 0 && fdatasync(fd) != 0) {
        error = errno;
    }
    close(fd);
    unlink(path);
    return error;
}

static void probe_work(uv_work_t *work) {
    struct service *service = work->data;
    char path[4096];
    int n = snprintf(path, sizeof path, "%s/probe", service->options.data_dir);
    service->disk_errno = n < 0 || (size_t)n >= sizeof path ? ENAMETOOLONG : probe_file(path);
}

void disk_watch_fail(struct service *service, int error_number) {
    char reason[512];
    snprintf(reason, sizeof reason,
             "the disk under %s cannot be written: %s. Nothing more was acknowledged; make room or "
             "repair the disk, then start again",
             service->options.data_dir, strerror(error_number));
    bool is_full = error_number == ENOSPC || error_number == EDQUOT;
    service_fail(service, is_full ? STATUS_NO_SPACE : STATUS_IO, reason);
}

static void probe_done(uv_work_t *work, int status) {
    struct service *service = work->data;
    (void)status;
    service->disk_probing = false;
    if (service->closing) {
        service_close_raft(service);
        return;
    }
    if (service->disk_errno != 0) {
        disk_watch_fail(service, service->disk_errno);
    }
}

void disk_watch_expect(struct service *service, size_t snapshot_size) {
    struct statvfs info;
    if (statvfs(service->options.data_dir, &info) == 0 &&
        (uint64_t)info.f_bavail * info.f_frsize < snapshot_size) {
        disk_watch_fail(service, ENOSPC);
    }
}

/* How long this node's own disk has kept us waiting; a missing majority is none of its business. */
static uint64_t oldest_wait_ms(const struct service *service, uint64_t now_ms) {
    uint64_t since_ms = service->guard.n_appends > 0 ? service->guard.append_progress_ms : now_ms;
    if (service->snapshot_begun_ms != 0 && service->view == NULL &&
        service->snapshot_begun_ms < since_ms) {
        since_ms = service->snapshot_begun_ms;
    }
    return now_ms - since_ms;
}

static void disk_watch_tick(uv_timer_t *timer) {
    struct service *service = timer->data;
    if (service->failed || service->disk_probing || service->is_held) {
        return;
    }
    uint64_t wait_ms = oldest_wait_ms(service, clock_boottime_ms());
    if (wait_ms < DISK_WATCH_PATIENCE_MS) {
        return;
    }
    /* With other nodes it may be a word about a connection. */
    if (service->guard.io.errmsg[0] != '\0' && cluster_is_alone(service)) {
        service_fail(service, STATUS_IO, service->guard.io.errmsg);
        return;
    }
    /* A snapshot may have given room back since: the disk is well, and raft_uv does not know. */
    int error = service->guard.n_appends > 0 ? raft_calls_segment_error() : 0;
    if (error != 0) {
        disk_watch_fail(service, error);
        return;
    }
    log_warning("the disk is slow", LOG_NUMBER("oldest write waits ms", wait_ms));
    service->disk_probing = true;
    service->disk_work.data = service;
    uv_queue_work(service->loop, &service->disk_work, probe_work, probe_done);
}

void disk_watch_init(struct service *service) {
    uv_timer_init(service->loop, &service->disk_timer);
    service->disk_timer.data = service;
    uv_timer_start(&service->disk_timer, disk_watch_tick, DISK_WATCH_INTERVAL_MS,
                   DISK_WATCH_INTERVAL_MS);
}

void disk_watch_stop(struct service *service) {
    uv_timer_stop(&service->disk_timer);
}
