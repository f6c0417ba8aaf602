#include "raft/raft_lane.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

enum { JOBS = 1000 };

struct fixture {
    uv_loop_t loop;
    struct raft_lane *lane;
    bool is_closed;
    /* Of the lane's thread, read by the loop when a job came back. */
    pthread_t worker;
    int n_runs;
    int n_run_jobs;
    bool is_order_right;
    int last_run;
    sigset_t signals;
    /* A gate that holds the thread. */
    uv_sem_t entered;
    uv_sem_t gate;
    bool is_gated;
    /* Calls of idle: 1 plain, 2 resting; behind the mutex because nothing comes back. */
    uv_mutex_t mutex;
    uv_cond_t changed;
    int n_idle;
    int n_resting;
    /* Of the loop. */
    int n_done;
    int last_done;
    bool should_poll_again;
    bool should_submit_again;
};

struct job {
    struct raft_job job;
    struct fixture *fixture;
    int number;
};

static void run(void *data, struct list *jobs) {
    struct fixture *fixture = data;
    if (fixture->is_gated) {
        uv_sem_post(&fixture->entered);
        uv_sem_wait(&fixture->gate);
    }
    fixture->worker = pthread_self();
    pthread_sigmask(SIG_BLOCK, NULL, &fixture->signals);
    fixture->n_runs++;
    for (struct list *node = jobs->next; node != jobs; node = node->next) {
        const struct job *job = (const struct job *)list_entry(node, struct raft_job, link);
        fixture->is_order_right = fixture->is_order_right && job->number == fixture->last_run + 1;
        fixture->last_run = job->number;
        fixture->n_run_jobs++;
    }
}

static void idle(void *data, bool is_resting) {
    struct fixture *fixture = data;
    uv_mutex_lock(&fixture->mutex);
    fixture->n_idle += !is_resting;
    fixture->n_resting += is_resting;
    uv_cond_signal(&fixture->changed);
    uv_mutex_unlock(&fixture->mutex);
}

static struct job jobs[JOBS];

static void done(struct raft_job *raft_job) {
    struct job *job = (struct job *)raft_job;
    struct fixture *fixture = job->fixture;
    assert_int_equal(job->number, fixture->last_done + 1);
    fixture->last_done = job->number;
    fixture->n_done++;
    if (fixture->should_poll_again) {
        raft_lane_poll(fixture->lane);
        assert_int_equal(fixture->last_done, job->number);
    }
    if (fixture->should_submit_again && job->number + 1 < JOBS) {
        jobs[job->number + 1].number = job->number + 1;
        raft_lane_submit(fixture->lane, &jobs[job->number + 1].job);
    }
}

static void closed(void *data) {
    struct fixture *fixture = data;
    fixture->is_closed = true;
}

/* Everything holds for a lane that spins, too. */
static bool is_prompt;

static int make_prompt(void **state) {
    (void)state;
    is_prompt = true;
    return 0;
}

static void set_up(struct fixture *fixture, bool has_idle) {
    *fixture = (struct fixture){.is_order_right = true, .last_run = -1, .last_done = -1};
    assert_int_equal(uv_loop_init(&fixture->loop), 0);
    uv_sem_init(&fixture->entered, 0);
    uv_sem_init(&fixture->gate, 0);
    uv_mutex_init(&fixture->mutex);
    uv_cond_init(&fixture->changed);
    struct raft_lane_work work = {
        .run = run, .idle = has_idle ? idle : NULL, .data = fixture, .is_prompt = is_prompt};
    assert_int_equal(raft_lane_open(&fixture->loop, &work, &fixture->lane), 0);
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = (struct job){.job = {.done = done}, .fixture = fixture, .number = i};
    }
}

static void tear_down(struct fixture *fixture) {
    raft_lane_close(fixture->lane, closed, fixture);
    assert_false(fixture->is_closed);
    uv_run(&fixture->loop, UV_RUN_DEFAULT);
    assert_true(fixture->is_closed);
    assert_int_equal(uv_loop_close(&fixture->loop), 0);
    uv_sem_destroy(&fixture->entered);
    uv_sem_destroy(&fixture->gate);
    uv_mutex_destroy(&fixture->mutex);
    uv_cond_destroy(&fixture->changed);
}

static void run_until(struct fixture *fixture, int n_done) {
    while (fixture->n_done < n_done) {
        uv_run(&fixture->loop, UV_RUN_ONCE);
    }
}

static void a_job_runs_in_the_thread_and_is_done_on_the_loop(void **state) {
    struct fixture fixture;
    set_up(&fixture, false);
    raft_lane_submit(fixture.lane, &jobs[0].job);
    run_until(&fixture, 1);
    assert_int_equal(fixture.n_run_jobs, 1);
    assert_false(pthread_equal(fixture.worker, pthread_self()));
    tear_down(&fixture);
}

static void what_gathers_meanwhile_is_one_call(void **state) {
    struct fixture fixture;
    set_up(&fixture, false);
    fixture.is_gated = true;
    raft_lane_submit(fixture.lane, &jobs[0].job);
    uv_sem_wait(&fixture.entered);
    for (int i = 1; i < JOBS; i++) {
        raft_lane_submit(fixture.lane, &jobs[i].job);
    }
    uv_sem_post(&fixture.gate);
    uv_sem_wait(&fixture.entered);
    uv_sem_post(&fixture.gate);
    run_until(&fixture, JOBS);
    assert_int_equal(fixture.n_runs, 2);
    assert_int_equal(fixture.n_run_jobs, JOBS);
    assert_true(fixture.is_order_right);
    tear_down(&fixture);
}

static void poll_hands_out_without_the_loop(void **state) {
    struct fixture fixture;
    set_up(&fixture, false);
    raft_lane_submit(fixture.lane, &jobs[0].job);
    while (fixture.n_done == 0) {
        raft_lane_poll(fixture.lane);
    }
    tear_down(&fixture);
}

static void a_poll_within_done_keeps_the_order(void **state) {
    struct fixture fixture;
    set_up(&fixture, false);
    fixture.should_poll_again = true;
    for (int i = 0; i < JOBS; i++) {
        raft_lane_submit(fixture.lane, &jobs[i].job);
        raft_lane_poll(fixture.lane);
    }
    run_until(&fixture, JOBS);
    tear_down(&fixture);
}

static void done_may_submit(void **state) {
    struct fixture fixture;
    set_up(&fixture, false);
    fixture.should_submit_again = true;
    raft_lane_submit(fixture.lane, &jobs[0].job);
    run_until(&fixture, JOBS);
    assert_int_equal(fixture.n_run_jobs, JOBS);
    tear_down(&fixture);
}

static void signals_are_blocked_in_the_thread_and_not_outside(void **state) {
    struct fixture fixture;
    set_up(&fixture, false);
    raft_lane_submit(fixture.lane, &jobs[0].job);
    run_until(&fixture, 1);
    assert_int_equal(sigismember(&fixture.signals, SIGTERM), 1);
    assert_int_equal(sigismember(&fixture.signals, SIGHUP), 1);
    sigset_t own;
    pthread_sigmask(SIG_BLOCK, NULL, &own);
    assert_int_equal(sigismember(&own, SIGTERM), 0);
    tear_down(&fixture);
}

/* Waits for the event itself: a second of rest. */
static void rest_is_told_once_after_work(void **state) {
    struct fixture fixture;
    set_up(&fixture, true);
    raft_lane_submit(fixture.lane, &jobs[0].job);
    run_until(&fixture, 1);
    uint64_t begin = uv_hrtime();
    uv_mutex_lock(&fixture.mutex);
    while (fixture.n_resting == 0) {
        uv_cond_wait(&fixture.changed, &fixture.mutex);
    }
    assert_true(fixture.n_idle >= 1);
    uv_mutex_unlock(&fixture.mutex);
    assert_true(uv_hrtime() - begin > UINT64_C(900000000));
    int n_idle = fixture.n_idle;
    raft_lane_submit(fixture.lane, &jobs[1].job);
    run_until(&fixture, 2);
    uv_mutex_lock(&fixture.mutex);
    while (fixture.n_idle == n_idle) {
        uv_cond_wait(&fixture.changed, &fixture.mutex);
    }
    assert_int_equal(fixture.n_resting, 1);
    uv_mutex_unlock(&fixture.mutex);
    tear_down(&fixture);
}

static void a_lane_that_did_nothing_closes_at_once(void **state) {
    struct fixture fixture;
    set_up(&fixture, true);
    uint64_t begin = uv_hrtime();
    tear_down(&fixture);
    assert_true(uv_hrtime() - begin < UINT64_C(500000000));
}

/* --- A neighbour that computes. --- */

static void *compute(void *is_over) {
    setpriority(PRIO_PROCESS, (id_t)gettid(), 19);
    while (!__atomic_load_n((bool *)is_over, __ATOMIC_RELAXED)) {
    }
    return NULL;
}

/* This thread, and those that it makes, on the first of its processors. */
static cpu_set_t share_one_processor(void) {
    cpu_set_t all;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    int first = 0;
    while (!CPU_ISSET(first, &all)) {
        first++;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    return all;
}

/* Nobody who sleeps and is woken waits for it; so must not whoever spins and yields. */
static void a_neighbour_that_computes_does_not_hold_jobs_up(void **state) {
    static uint64_t sleeping_ns;
    bool is_over = false;
    pthread_t neighbour;
    struct fixture fixture;
    cpu_set_t all = share_one_processor();
    set_up(&fixture, false);
    assert_int_equal(pthread_create(&neighbour, NULL, compute, &is_over), 0);
    uint64_t begun_ns = uv_hrtime();
    for (int i = 0; i < JOBS; i++) {
        raft_lane_submit(fixture.lane, &jobs[i].job);
        run_until(&fixture, i + 1);
    }
    uint64_t took_ns = uv_hrtime() - begun_ns;
    __atomic_store_n(&is_over, true, __ATOMIC_RELAXED);
    pthread_join(neighbour, NULL);
    tear_down(&fixture);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    if (!is_prompt) {
        sleeping_ns = took_ns;
    } else {
        print_message("sleeping %.1f ms, spinning %.1f ms\n", (double)sleeping_ns / 1e6,
                      (double)took_ns / 1e6);
        assert_true(took_ns < 3 * sleeping_ns + UINT64_C(50000000));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_runs_in_the_thread_and_is_done_on_the_loop),
        cmocka_unit_test(what_gathers_meanwhile_is_one_call),
        cmocka_unit_test(poll_hands_out_without_the_loop),
        cmocka_unit_test(a_poll_within_done_keeps_the_order),
        cmocka_unit_test(done_may_submit),
        cmocka_unit_test(signals_are_blocked_in_the_thread_and_not_outside),
        cmocka_unit_test(rest_is_told_once_after_work),
        cmocka_unit_test(a_lane_that_did_nothing_closes_at_once),
        cmocka_unit_test(a_neighbour_that_computes_does_not_hold_jobs_up),
    };
    int failures = cmocka_run_group_tests_name("sleeping", tests, NULL, NULL);
    return failures + cmocka_run_group_tests_name("spinning", tests, make_prompt, NULL);
}
