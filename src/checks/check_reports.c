/* What checks have found, on its way through the log: many in one entry, and again when it could
 * not be committed. */
#include "checks/check_runner_internal.h"

enum {
    BATCH_SIZE_MAX = 128 * 1024,
    RETRY_MS = 250 /* there was no leader */
};

void check_reports_init(struct check_runner *runner) {
    list_init(&runner->reports);
    for (size_t i = 0; i < CHECK_REPORTS_IN_FLIGHT_MAX; i++) {
        runner->batches[i].runner = runner;
    }
}

void check_reports_add(struct check_runner *runner, struct check_job *job) {
    if (list_is_empty(&job->in_reports)) {
        list_append(&runner->reports, &job->in_reports);
    }
    check_runner_wake(runner, check_runner_now(runner));
}

static struct check_job *job_of(const struct check_report_batch *batch, size_t i) {
    const struct check_jobs *jobs = &batch->runner->jobs;
    uint32_t handle = batch->handles[i];
    struct check_job *job = handle < jobs->n_handles ? jobs->jobs[handle] : NULL;
    return job != NULL && job->hash == batch->hashes[i] ? job : NULL;
}

/* Its own log entry, or that of somebody else, shows itself in the watch. */
static bool is_final(enum status status) {
    return status == STATUS_OK || status == STATUS_KEY_NOT_FOUND || status == STATUS_INVALID ||
           status == STATUS_STOPPED || status == STATUS_REQUEST_TOO_LARGE;
}

/* How many of them the rule has looked at: the rest is sent again. */
static size_t done_of(const struct check_report_batch *batch, const struct outcome *outcome) {
    struct registry_reported reported;
    if (outcome->status != STATUS_OK) {
        return is_final(outcome->status) ? batch->n : 0;
    }
    return registry_reported_decode(outcome->rule.answer, &reported) ? reported.n_done : batch->n;
}

static void answered(struct service_request *request, const struct outcome *outcome) {
    struct check_report_batch *batch = list_entry(request, struct check_report_batch, request);
    struct check_runner *runner = batch->runner;
    size_t n_done = done_of(batch, outcome);
    batch->is_used = false;
    if (outcome->status == STATUS_OK) {
        runner->stats.reports += n_done;
    } else {
        runner->stats.reports_failed += batch->n;
    }
    for (size_t i = 0; i < batch->n; i++) {
        struct check_job *job = job_of(batch, i);
        if (job != NULL) {
            job->is_reporting = false;
            if (i >= n_done) {
                check_reports_add(runner, job);
            }
        }
    }
    if (!is_final(outcome->status)) {
        runner->next_report_ms = check_runner_now(runner) + RETRY_MS;
    }
    check_runner_wake(runner, runner->next_report_ms);
}

static void describe(struct check_job *job, struct registry_report *out_report) {
    *out_report = (struct registry_report){
        .service = job->service,
        .id = job->id,
        .check = job->check,
        .token = job->token,
        .health = (uint8_t)job->state.health,
        .output = bytes_of(job->output.data, job->output.size),
    };
}

static size_t gather(struct check_runner *runner, struct check_report_batch *batch,
                     struct registry_report *reports) {
    size_t size = 0;
    batch->n = 0;
    while (batch->n < REGISTRY_REPORTS_MAX && size < BATCH_SIZE_MAX &&
           !list_is_empty(&runner->reports)) {
        struct check_job *job =
            list_entry(list_pop_first(&runner->reports), struct check_job, in_reports);
        describe(job, &reports[batch->n]);
        batch->handles[batch->n] = job->handle;
        batch->hashes[batch->n] = job->hash;
        job->is_reporting = true;
        job->reported_ms = check_runner_now(runner);
        size += job->key.size + job->output.size;
        batch->n++;
    }
    return batch->n;
}

static void submit(struct check_runner *runner, struct check_report_batch *batch) {
    struct registry_report *reports =
        arena_calloc(&runner->arena, REGISTRY_REPORTS_MAX, sizeof *reports);
    size_t n = gather(runner, batch, reports);
    struct buffer request;
    buffer_init(&request);
    registry_reports_encode(&request, reports, n);
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = REGISTRY_RULE_REPORT, .request = bytes_of(request.data, request.size)}};
    batch->is_used = true;
    batch->request.done = answered;
    service_submit(runner->service, &caller_server, &batch->request, &command);
    buffer_clear(&request);
}

void check_reports_poll(struct check_runner *runner) {
    if (list_is_empty(&runner->reports)) {
        return;
    }
    uint64_t now_ms = check_runner_now(runner);
    if (now_ms < runner->next_report_ms || service_is_congested(runner->service)) {
        check_runner_wake(runner, now_ms + (now_ms < runner->next_report_ms ? RETRY_MS : 1));
        return;
    }
    for (size_t i = 0; i < CHECK_REPORTS_IN_FLIGHT_MAX; i++) {
        if (!runner->batches[i].is_used && !list_is_empty(&runner->reports)) {
            submit(runner, &runner->batches[i]);
        }
    }
}
