#include "checks/check_runner.h"

#include "base/log.h"
#include "checks/check_runner_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    FIRST_LOOK_MS = 100,
    TICK_MS = 1000,
    DUE_MAX = 256,               /* looked at in one iteration of the loop */
    STARTS_MAX = 32,             /* in one iteration */
    RECORDS_MAX = 10 * 1000,     /* that aliases look at in one iteration, but for the last one */
    STALL_MS = 250,              /* the process was paused: answers wait to be read */
    JITTER_SHARE = 16,           /* of the interval, by which a run may come early */
    NO_ROOM_MS = 5,              /* until descriptors are looked at again */
    NOT_READY_MS = 50,           /* until TLS settings are asked for again */
    OUTPUT_PAUSE_MS = 60 * 1000, /* between reports that change the output alone */
    NAME_SHOWN_MAX = 256
};

static void on_timer(uv_timer_t *timer);

void check_runner_wake(struct check_runner *runner, uint64_t at_ms) {
    /* Not at once: the loop polls in between, so that others have their turn. */
    uint64_t now_ms = check_runner_now(runner);
    uint64_t due_ms = at_ms > now_ms ? at_ms : now_ms + 1;
    if (due_ms < runner->timer_due_ms && !runner->is_closing) {
        runner->timer_due_ms = due_ms;
        (void)uv_timer_start(&runner->timer, on_timer, due_ms - now_ms, 0);
    }
}

/* ---- results ---- */

static void log_change(const struct check_job *job, const enum registry_health *before) {
    static const char *const names[REGISTRY_HEALTHS] = {"passing", "warning", "critical"};
    char name[NAME_SHOWN_MAX];
    char output[NAME_SHOWN_MAX];
    snprintf(name, sizeof name, "%.*s/%.*s/%.*s", (int)job->service.size, job->service.data,
             (int)job->id.size, job->id.data, (int)job->check.size, job->check.data);
    snprintf(output, sizeof output, "%.*s", (int)job->output.size, job->output.data);
    log_info("a health check has changed", LOG_TEXT("check", name),
             LOG_TEXT("from", before != NULL ? names[*before] : "new"),
             LOG_TEXT("to", names[job->state.health]), LOG_TEXT("output", output));
}

/* Rarely, and only for those that are not passing: why they are not may have changed. */
static bool is_output_due(const struct check_runner *runner, const struct check_job *job,
                          const struct check_result *result) {
    struct bytes output = check_result_output(result);
    bool is_other = !bytes_equal(bytes_of(job->output.data, job->output.size), output);
    return job->state.health != REGISTRY_PASSING && result->health == job->state.health &&
           is_other && check_runner_now(runner) >= job->reported_ms + OUTPUT_PAUSE_MS;
}

static void take_result(struct check_runner *runner, struct check_job *job,
                        const struct check_result *result) {
    struct bytes output = check_result_output(result);
    enum registry_health before = job->state.health;
    bool was_known = job->state.is_known;
    bool is_changed = check_state_add(&job->state, &job->thresholds, result->health);
    /* An earlier report was not committed. */
    bool is_lost = job->state.health != job->recorded_health || !job->has_recorded_output;
    runner->stats.results[job->kind][result->health]++;
    if (!is_changed && !is_lost && !is_output_due(runner, job, result)) {
        return;
    }
    if (is_changed || result->health == job->state.health) {
        job->output.size = 0;
        buffer_append(&job->output, output.data, output.size);
    }
    if (is_changed && (!was_known || before != job->state.health)) {
        runner->stats.changes++;
        log_change(job, was_known ? &before : NULL);
    }
    check_reports_add(runner, job);
}

/* The next run is an interval after this one should have begun, and a little earlier, so that
 * checks which fell together drift apart; never later, so that a failure is seen in time. */
static void arm_next(struct check_runner *runner, struct check_job *job) {
    uint64_t now_ms = check_runner_now(runner);
    uint64_t interval_ms = (uint64_t)job->interval_ms;
    runner->random = runner->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    uint64_t jitter_ms = (runner->random >> 33) % (interval_ms / JITTER_SHARE + 1);
    job->due_ms += interval_ms - jitter_ms;
    if (job->due_ms < now_ms) {
        job->due_ms = now_ms;
    }
    check_jobs_arm(&runner->jobs, job, job->due_ms);
    check_runner_wake(runner, job->due_ms);
}

static void count_out(struct check_runner *runner, struct check_job *job) {
    job->probe = NULL;
    runner->n_running--;
    runner->n_running_critical -= job->runs_as_critical ? 1 : 0;
}

static bool has_ready(const struct check_runner *runner) {
    return !list_is_empty(&runner->ready) || !list_is_empty(&runner->ready_critical) ||
           !list_is_empty(&runner->ready_commands);
}

static void on_done(void *context, const struct check_result *result) {
    struct check_job *job = context;
    struct check_runner *runner = job->runner;
    count_out(runner, job);
    take_result(runner, job, result);
    arm_next(runner, job);
    if (has_ready(runner)) {
        check_runner_wake(runner, check_runner_now(runner)); /* there is room for another */
    }
}

void check_runner_stop(struct check_runner *runner, struct check_job *job) {
    list_remove(&job->in_ready);
    if (job->probe != NULL) {
        check_probe_cancel(job->probe);
        count_out(runner, job);
    }
}

/* After a pause of the whole process the answers that came meanwhile are read first. */
static void time_out(struct check_runner *runner, struct check_job *job, bool has_stalled) {
    uint64_t now_ms = check_runner_now(runner);
    if (has_stalled && !job->was_extended) {
        job->was_extended = true;
        check_jobs_arm(&runner->jobs, job, now_ms + (uint64_t)job->timeout_ms / 2 + 1);
        return;
    }
    struct check_result result;
    check_result_set(&result, REGISTRY_CRITICAL, "no answer within ");
    check_result_add_number(&result, job->timeout_ms);
    check_result_add_text(&result, " ms");
    check_runner_stop(runner, job);
    runner->stats.timeouts++;
    take_result(runner, job, &result);
    arm_next(runner, job);
}

/* ---- runs ---- */

static int64_t token_of(struct check_runner *runner, const struct check_job *job) {
    const struct record *record =
        key_store_find(check_runner_keys(runner), KEY_SPACE_REGISTRY,
                       registry_key_instance(&runner->arena, job->service, job->id));
    return record != NULL ? record->create_revision : 0;
}

static void count_start(struct check_runner *runner, struct check_job *job) {
    uint64_t now_ms = check_runner_now(runner);
    uint64_t late_ms = now_ms > job->due_ms ? now_ms - job->due_ms : 0;
    runner->stats.started++;
    runner->stats.late_ms_sum += late_ms;
    if (late_ms > runner->stats.late_ms_max) {
        runner->stats.late_ms_max = late_ms;
    }
    job->started_ms = now_ms;
    job->was_extended = false;
}

static void run_probe(struct check_runner *runner, struct check_job *job,
                      const struct registry_check *check) {
    const struct check_probe_owner owner = {.done = on_done, .context = job};
    struct check_result result;
    job->probe = check_probe_kind_of(job->kind)->start(runner->network, check, &owner, &result);
    if (job->probe == NULL) {
        take_result(runner, job, &result);
        arm_next(runner, job);
        return;
    }
    job->runs_as_critical = job->state.health == REGISTRY_CRITICAL;
    runner->n_running++;
    runner->n_running_critical += job->runs_as_critical ? 1 : 0;
    uint64_t ends_ms = job->started_ms + (uint64_t)job->timeout_ms;
    check_jobs_arm(&runner->jobs, job, ends_ms);
    check_runner_wake(runner, ends_ms);
}

static void start(struct check_runner *runner, struct check_job *job) {
    struct registry_check check;
    check_follow_decode(runner, job, &check);
    if (!check_network_is_ready(runner->network, &check)) {
        check_jobs_arm(&runner->jobs, job, check_runner_now(runner) + NOT_READY_MS);
        check_runner_wake(runner, check_runner_now(runner) + NOT_READY_MS);
        return;
    }
    count_start(runner, job);
    job->token = token_of(runner, job);
    if (job->kind == REGISTRY_CHECK_ALIAS) {
        struct check_result result;
        runner->n_records += check_alias_look(runner, &check, job, &result);
        take_result(runner, job, &result);
        arm_next(runner, job);
    } else {
        run_probe(runner, job, &check);
    }
    arena_reset(&runner->arena);
}

/* Those that are critical have at most half of the room: many dead targets, each of which is waited
 * for, must not delay the checks of the living. */
static struct list *next_queue(struct check_runner *runner) {
    if (!list_is_empty(&runner->ready)) {
        return &runner->ready;
    }
    bool has_room = runner->n_running_critical < (runner->network->sockets_max + 1) / 2;
    return has_room && !list_is_empty(&runner->ready_critical) ? &runner->ready_critical : NULL;
}

static void start_ready(struct check_runner *runner) {
    struct list *queue;
    size_t n = 0;
    runner->n_records = 0;
    while (n < STARTS_MAX && runner->n_records < RECORDS_MAX &&
           (queue = next_queue(runner)) != NULL && check_network_make_room(runner->network)) {
        start(runner, list_entry(list_pop_first(queue), struct check_job, in_ready));
        n++;
    }
    queue = &runner->ready_commands;
    while (n < STARTS_MAX && check_commands_have_room(runner->network->commands) &&
           !list_is_empty(queue)) {
        start(runner, list_entry(list_pop_first(queue), struct check_job, in_ready));
        n++;
    }
    bool has_begun_many = n == STARTS_MAX || runner->n_records >= RECORDS_MAX;
    if (has_ready(runner)) {
        check_runner_wake(runner, check_runner_now(runner) + (has_begun_many ? 0 : NO_ROOM_MS));
    }
}

static struct list *queue_of(struct check_runner *runner, const struct check_job *job) {
    if (job->kind == REGISTRY_CHECK_COMMAND) {
        return &runner->ready_commands;
    }
    bool is_critical = job->state.is_known && job->state.health == REGISTRY_CRITICAL;
    return is_critical ? &runner->ready_critical : &runner->ready;
}

static void take_due(struct check_runner *runner, bool has_stalled) {
    uint32_t handles[DUE_MAX];
    size_t n = timing_wheel_advance(runner->jobs.wheel, check_runner_now(runner), handles, DUE_MAX);
    for (size_t i = 0; i < n; i++) {
        struct check_job *job = runner->jobs.jobs[handles[i]];
        if (job->probe != NULL) {
            time_out(runner, job, has_stalled);
        } else if (list_is_empty(&job->in_ready)) {
            list_append(queue_of(runner, job), &job->in_ready);
        }
    }
    uint64_t next_ms = timing_wheel_next_ms(runner->jobs.wheel);
    if (next_ms != UINT64_MAX) {
        check_runner_wake(runner, n == DUE_MAX ? check_runner_now(runner) : next_ms);
    }
}

static void on_timer(uv_timer_t *timer) {
    struct check_runner *runner = timer->data;
    uint64_t now_ms = check_runner_now(runner);
    bool has_stalled = now_ms > runner->timer_due_ms + STALL_MS;
    runner->timer_due_ms = UINT64_MAX;
    check_runner_wake(runner, now_ms + TICK_MS);
    check_members_poll(runner);
    check_follow_poll(runner);
    take_due(runner, has_stalled);
    start_ready(runner);
    check_reports_poll(runner);
    if (now_ms >= runner->next_second_ms) {
        runner->next_second_ms = now_ms + TICK_MS;
        check_network_close_idle(runner->network, false);
    }
    arena_reset(&runner->arena);
}

/* ---- life ---- */

struct check_runner *check_runner_open(uv_loop_t *loop, struct service *service,
                                       const struct check_network_options *options) {
    struct check_runner *runner = calloc(1, sizeof *runner);
    if (runner == NULL || uv_timer_init(loop, &runner->timer) != 0) {
        abort();
    }
    runner->loop = loop;
    runner->service = service;
    runner->network = check_network_create(loop, options);
    runner->timer.data = runner;
    runner->timer_due_ms = UINT64_MAX;
    runner->random = uv_hrtime();
    arena_init(&runner->arena);
    check_jobs_init(&runner->jobs, uv_now(loop));
    list_init(&runner->ready);
    list_init(&runner->ready_critical);
    list_init(&runner->ready_commands);
    check_follow_init(runner);
    check_members_init(runner);
    check_reports_init(runner);
    check_runner_wake(runner, uv_now(loop) + FIRST_LOOK_MS);
    return runner;
}

static void on_timer_closed(uv_handle_t *handle) {
    struct check_runner *runner = handle->data;
    check_jobs_clear(&runner->jobs);
    check_aliases_clear(&runner->aliases);
    buffer_clear(&runner->scan_key);
    arena_clear(&runner->arena);
    free(runner);
}

void check_runner_halt(struct check_runner *runner) {
    runner->is_closing = true;
    (void)uv_timer_stop(&runner->timer);
}

void check_runner_close(struct check_runner *runner) {
    runner->is_closing = true;
    for (size_t i = 0; i < runner->jobs.n_handles; i++) {
        if (runner->jobs.jobs[i] != NULL) {
            check_runner_drop(runner, runner->jobs.jobs[i]);
        }
    }
    check_network_destroy(runner->network);
    uv_close((uv_handle_t *)&runner->timer, on_timer_closed);
}
