/* Long reads: views of the state that workers read, part by part. Who may have a view is decided
 * here: a view keeps the memory of what was compacted, and the leader's snapshot cannot replace a
 * state that is being read, so whoever holds one and does not go on has to give it back. */
#include "base/clock.h"
#include "core/auth_command.h"
#include "replication/service_internal.h"

#include <assert.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    /* Views that are open at the same time. */
    SCANS_OPEN_MAX = 16,
    /* Scans that wait for a view; more are refused. */
    SCANS_WAITING_MAX = 1024,
    /* A scan whose reader asks for no further part for so long is ended; much sooner when others
     * wait. */
    IDLE_MS_MAX = 10 * 1000,
    IDLE_WANTED_MS_MAX = 1000,
    /* When memory waits to be given back for so long, no new view is opened; and views that are
     * older than this must go. */
    RECLAIM_AFTER_MS = 10 * 1000,
    OPEN_UNRECLAIMED_MS_MAX = 60 * 1000,
    LOOK_INTERVAL_MS = 250,
    WORKER_NICE = 10
};

static void start_jobs(struct service *service);

/* Nothing was freed, or not all, since the last view was closed, and there was little time. */
static bool was_pause_short(const struct service *service, uint64_t now_ms) {
    return service->background.is_reclaiming &&
           clock_elapsed_ms(now_ms, service->scans.last_end_ms) <= RECLAIM_AFTER_MS;
}

/* Scans that follow each other without a pause would keep what was compacted for ever; so would one
 * that has waited for the last view to be closed and opens the next at once. */
static bool must_reclaim(const struct service *service, uint64_t now_ms) {
    return service->background.is_reclaiming &&
           clock_elapsed_ms(now_ms, service->scans.first_open_ms) > RECLAIM_AFTER_MS &&
           (service->scans.n_open > 0 || was_pause_short(service, now_ms));
}

static bool must_give_back(const struct service *service, const struct service_scan *scan,
                           uint64_t now_ms) {
    if (service->closing || raft_engine_is_installing(service->engine)) {
        return true;
    }
    uint64_t idle_ms_max = service->scans.n_waiting > 0 ? IDLE_WANTED_MS_MAX : IDLE_MS_MAX;
    return clock_elapsed_ms(now_ms, scan->private.idle_since_ms) >= idle_ms_max ||
           (must_reclaim(service, now_ms) &&
            clock_elapsed_ms(now_ms, scan->private.opened_ms) >= OPEN_UNRECLAIMED_MS_MAX);
}

static void revoke_idle(struct service *service, uint64_t now_ms) {
    struct list open;
    list_init(&open);
    list_append_all(&open, &service->scans.open);
    struct list *node = NULL;
    while ((node = list_pop_first(&open)) != NULL) {
        struct service_scan *scan = list_entry(node, struct service_scan, private.link);
        list_append(&service->scans.open, node);
        if (must_give_back(service, scan, now_ms)) {
            scan->revoked(scan, STATUS_TOO_MANY_REQUESTS);
        }
    }
}

/* --- Rights. --- */

static enum status check_lease(struct service *service, const struct service_scan *scan,
                               const struct caller *caller) {
    if (scan->lease_id == 0) {
        return STATUS_OK;
    }
    return refusals_note(service, caller,
                         auth_check_lease(state_machine_auth(service->machine),
                                          state_machine_leases(service->machine), caller,
                                          scan->lease_id, RIGHT_READ),
                         "read");
}

/* The state that will be read is that of now, not that of when the scan was asked for. */
static enum status check_again(struct service *service, const struct service_scan *scan) {
    const struct auth *auth = state_machine_auth(service->machine);
    if (!auth_is_enabled(auth)) {
        return STATUS_OK;
    }
    return auth_generation(auth) != scan->private.auth_generation
               ? STATUS_AUTH_OLD_REVISION
               : check_lease(service, scan, &scan->private.caller);
}

/* Scans that may not begin any more are told from the timer, where nobody is in the middle of
 * something. */
static void set_refused_aside(struct service *service) {
    struct scans *scans = &service->scans;
    while (!list_is_empty(&scans->waiting)) {
        struct service_scan *scan =
            list_entry(scans->waiting.next, struct service_scan, private.link);
        scan->private.refused = check_again(service, scan);
        if (scan->private.refused == STATUS_OK) {
            return;
        }
        list_append(&scans->refused, list_pop_first(&scans->waiting));
    }
}

static void revoke_refused(struct service *service) {
    while (!list_is_empty(&service->scans.refused)) {
        struct service_scan *scan =
            list_entry(service->scans.refused.next, struct service_scan, private.link);
        scan->revoked(scan, scan->private.refused);
    }
}

static void on_look(uv_timer_t *timer) {
    struct service *service = timer->data;
    revoke_idle(service, clock_boottime_ms());
    revoke_refused(service);
    start_jobs(service);
    if (service->scans.n_open == 0 && service->scans.n_waiting == 0) {
        service->scans.is_looking = false;
        uv_timer_stop(timer);
    }
}

static void open_view(struct service *service, struct service_scan *scan, uint64_t now_ms) {
    if (service->scans.n_open == 0 && !was_pause_short(service, now_ms)) {
        service->scans.first_open_ms = now_ms;
    }
    scan->view = snapshot_view_open(service->machine);
    scan->private.opened_ms = now_ms;
    service->scans.n_open++;
}

/* The loop comes first where there are fewer processors than threads, however nice the process is.
 * What else workers do can wait as well. */
static void step_back(void) {
    static _Thread_local bool has_stepped_back;
    if (!has_stepped_back && gettid() != getpid()) {
        has_stepped_back = true;
        (void)setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, getpid()) + WORKER_NICE);
    }
}

static void run_part(uv_work_t *work) {
    step_back();
    struct service_scan *scan = list_entry(work, struct scan_job, work)->scan;
    scan->run(scan);
}

static void part_ran(uv_work_t *work, int result) {
    struct scan_job *job = list_entry(work, struct scan_job, work);
    struct service_scan *scan = job->scan;
    struct service *service = scan->private.service;
    assert(result == 0);
    assert(scan->private.state == SCAN_RUNNING);
    job->scan = NULL;
    scan->private.state = SCAN_IDLE;
    scan->private.idle_since_ms = clock_boottime_ms();
    list_append(&service->scans.open, &scan->private.link);
    if (service->closing) {
        scan->revoked(scan, STATUS_STOPPED);
        return;
    }
    scan->ran(scan);
    start_jobs(service);
}

/* Opens a view for the scan that has waited longest, if there may be one more. */
static struct service_scan *open_next(struct service *service) {
    struct scans *scans = &service->scans;
    uint64_t now_ms = clock_boottime_ms();
    bool may_open = scans->n_open < SCANS_OPEN_MAX && !service->closing &&
                    !raft_engine_is_installing(service->engine) && !must_reclaim(service, now_ms);
    if (may_open) {
        set_refused_aside(service);
    }
    struct list *node = may_open ? list_pop_first(&scans->waiting) : NULL;
    if (node == NULL) {
        return NULL;
    }
    struct service_scan *scan = list_entry(node, struct service_scan, private.link);
    scans->n_waiting--;
    open_view(service, scan, now_ms);
    return scan;
}

static struct service_scan *continue_next(struct service *service) {
    struct list *node = list_pop_first(&service->scans.continuing);
    return node != NULL ? list_entry(node, struct service_scan, private.link) : NULL;
}

/* Those that begin and those that go on take turns: the first part of a small scan does not wait
 * for the end of large ones. */
static struct service_scan *next_scan(struct service *service) {
    struct scans *scans = &service->scans;
    scans->prefers_new = !scans->prefers_new;
    struct service_scan *scan = scans->prefers_new ? open_next(service) : continue_next(service);
    if (scan == NULL) {
        scan = scans->prefers_new ? continue_next(service) : open_next(service);
    }
    return scan;
}

static void start_jobs(struct service *service) {
    for (size_t i = 0; i < SCANS_RUNNING_MAX; i++) {
        struct scan_job *job = &service->scans.jobs[i];
        struct service_scan *scan = job->scan == NULL ? next_scan(service) : NULL;
        if (scan != NULL) {
            job->scan = scan;
            scan->private.state = SCAN_RUNNING;
            int result = uv_queue_work(service->loop, &job->work, run_part, part_ran);
            assert(result == 0);
        }
    }
}

enum status service_scan_start(struct service *service, const struct caller *caller,
                               struct service_scan *scan, const struct key_range *ranges,
                               size_t n_ranges) {
    enum status status = service_read_local(service, caller, ranges, n_ranges);
    if (status == STATUS_OK) {
        status = check_lease(service, scan, caller);
    }
    if (status == STATUS_OK && scan->is_whole) {
        status = service_check_admin(service, caller, "snapshot");
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (service->scans.n_waiting >= SCANS_WAITING_MAX) {
        return STATUS_TOO_MANY_REQUESTS;
    }
    scan->private.service = service;
    scan->private.caller = *caller;
    scan->private.auth_generation = auth_generation(state_machine_auth(service->machine));
    scan->view = NULL;
    scan->private.state = SCAN_WAITING;
    list_init(&scan->private.link);
    list_append(&service->scans.waiting, &scan->private.link);
    service->scans.n_waiting++;
    if (!service->scans.is_looking) {
        service->scans.is_looking = true;
        uv_timer_start(&service->scans.timer, on_look, LOOK_INTERVAL_MS, LOOK_INTERVAL_MS);
    }
    start_jobs(service);
    return STATUS_PENDING;
}

void service_scan_continue(struct service_scan *scan) {
    assert(scan->private.state == SCAN_IDLE);
    list_remove(&scan->private.link);
    scan->private.state = SCAN_CONTINUING;
    list_append(&scan->private.service->scans.continuing, &scan->private.link);
    start_jobs(scan->private.service);
}

bool service_scan_end(struct service_scan *scan) {
    struct service *service = scan->private.service;
    if (scan->private.state == SCAN_RUNNING) {
        return false;
    }
    assert(scan->private.state != SCAN_ENDED);
    service->scans.n_waiting -= scan->private.state == SCAN_WAITING;
    scan->private.state = SCAN_ENDED;
    list_remove(&scan->private.link);
    if (scan->view != NULL) {
        snapshot_view_close(scan->view);
        scan->view = NULL;
        service->scans.n_open--;
        service->scans.last_end_ms = clock_boottime_ms();
        /* What compaction could not free while views were open. */
        service->background.is_reclaiming |= service->scans.n_open == 0;
    }
    if (service->closing && !service->scans.is_closing) {
        service_close_node(service);
    } else if (!service->closing) {
        start_jobs(service);
    }
    return true;
}

/* Whoever closes the service goes on itself. */
void scans_close(struct service *service) {
    service->scans.is_closing = true;
    struct list *lists[] = {&service->scans.refused, &service->scans.waiting,
                            &service->scans.continuing, &service->scans.open};
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        while (!list_is_empty(lists[i])) {
            struct service_scan *scan =
                list_entry(lists[i]->next, struct service_scan, private.link);
            scan->revoked(scan, STATUS_STOPPED);
            assert(lists[i]->next != &scan->private.link);
        }
    }
    service->scans.is_closing = false;
}

bool scans_are_open(const struct service *service) {
    return service->scans.n_open > 0;
}

void scans_init(struct service *service) {
    list_init(&service->scans.open);
    list_init(&service->scans.continuing);
    list_init(&service->scans.waiting);
    list_init(&service->scans.refused);
    uv_timer_init(service->loop, &service->scans.timer);
    service->scans.timer.data = service;
}
