#include "raft/raft_lane.h"

#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum {
    REST_SECONDS = 1,
    /* About as long as one write to a fast disk takes. */
    SPIN_US = 250,
    /* Spins without success double the number of waits without a spin, up to 63. */
    SPIN_FAILURES_MAX = 6,
    /* A yield that takes longer gave the processor to a thread that computes: our own loop and its
     * clients sleep again sooner, */
    YIELD_US_MAX = 1000,
    /* and that will be there for a while. */
    SPINS_SKIPPED = 1000
};

struct raft_lane {
    uv_async_t wake;
    struct raft_lane_work work;
    pthread_t thread;
    bool is_polling;          /* the loop's own */
    unsigned n_spin_failures; /* the thread's own, as the next */
    unsigned n_spins_to_skip;
    void (*closed)(void *data);
    void *closed_data;

    pthread_mutex_t mutex; /* of all below */
    pthread_cond_t submitted;
    struct list waiting;
    struct list running;
    struct list finished;
    bool is_stopping;
    bool has_come; /* a job waits, or is_stopping: read without the mutex while spinning */
};

static bool is_idle(const struct raft_lane *lane) {
    return list_is_empty(&lane->waiting) && !lane->is_stopping;
}

/* With the mutex held. */
static void set_come(struct raft_lane *lane, bool has_come) {
    __atomic_store_n(&lane->has_come, has_come, __ATOMIC_RELAXED);
}

/* Waking a thread takes as long as a quarter of a write to a fast disk. The processor is yielded to
 * anybody who wants it. Whoever computes keeps it for milliseconds, though, while a thread that
 * sleeps gets it as soon as it is woken: then the next waits go without a spin. So they do without
 * success, twice as many each time, so that jobs that come seldom cost nothing. */
static void spin_wait(struct raft_lane *lane) {
    if (lane->n_spins_to_skip > 0) {
        lane->n_spins_to_skip--;
        return;
    }
    uint64_t begun_us = clock_boottime_us();
    uint64_t now_us = begun_us;
    while (!__atomic_load_n(&lane->has_come, __ATOMIC_RELAXED)) {
        uint64_t yielded_us = now_us;
        sched_yield();
        now_us = clock_boottime_us();
        if (now_us - yielded_us > YIELD_US_MAX) {
            lane->n_spins_to_skip = SPINS_SKIPPED;
            return;
        }
        if (now_us - begun_us >= SPIN_US) {
            lane->n_spin_failures += lane->n_spin_failures < SPIN_FAILURES_MAX;
            lane->n_spins_to_skip = (1U << lane->n_spin_failures) - 1;
            return;
        }
    }
    lane->n_spin_failures = 0;
}

static void run_waiting(struct raft_lane *lane) {
    list_append_all(&lane->running, &lane->waiting);
    set_come(lane, false);
    pthread_mutex_unlock(&lane->mutex);
    lane->work.run(lane->work.data, &lane->running);
    pthread_mutex_lock(&lane->mutex);
    bool is_first = list_is_empty(&lane->finished);
    list_append_all(&lane->finished, &lane->running);
    if (is_first) { /* else the loop is awake already */
        uv_async_send(&lane->wake);
    }
}

static void work_ahead(struct raft_lane *lane, bool is_resting) {
    pthread_mutex_unlock(&lane->mutex);
    lane->work.idle(lane->work.data, is_resting);
    pthread_mutex_lock(&lane->mutex);
}

/* False: something came, or the lane is to stop. */
static bool rest(struct raft_lane *lane) {
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += REST_SECONDS;
    while (is_idle(lane)) {
        if (pthread_cond_timedwait(&lane->submitted, &lane->mutex, &end) == ETIMEDOUT) {
            return is_idle(lane);
        }
    }
    return false;
}

static void wait_for_work(struct raft_lane *lane) {
    if (lane->work.is_prompt) {
        pthread_mutex_unlock(&lane->mutex);
        spin_wait(lane);
        pthread_mutex_lock(&lane->mutex);
    }
    if (lane->work.idle != NULL && is_idle(lane)) {
        work_ahead(lane, false);
        if (rest(lane)) {
            work_ahead(lane, true);
        }
    }
    while (is_idle(lane)) {
        pthread_cond_wait(&lane->submitted, &lane->mutex);
    }
}

static void *run_lane(void *data) {
    struct raft_lane *lane = data;
    pthread_mutex_lock(&lane->mutex);
    while (!lane->is_stopping) {
        if (!list_is_empty(&lane->waiting)) {
            run_waiting(lane);
        } else {
            wait_for_work(lane);
        }
    }
    pthread_mutex_unlock(&lane->mutex);
    return NULL;
}

static void on_wake(uv_async_t *wake) {
    raft_lane_poll(wake->data);
}

/* Signals are the loop's business. */
static int start_thread(struct raft_lane *lane) {
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    int error = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (error != 0) {
        return error;
    }
    error = pthread_create(&lane->thread, NULL, run_lane, lane);
    int restore_error = pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert(restore_error == 0);
    return error;
}

static void free_lane(uv_handle_t *handle) {
    struct raft_lane *lane = handle->data;
    void (*closed)(void *data) = lane->closed;
    void *data = lane->closed_data;
    pthread_cond_destroy(&lane->submitted);
    pthread_mutex_destroy(&lane->mutex);
    free(lane);
    if (closed != NULL) {
        closed(data);
    }
}

int raft_lane_open(uv_loop_t *loop, const struct raft_lane_work *work,
                   struct raft_lane **out_lane) {
    struct raft_lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL) {
        abort();
    }
    int error = uv_async_init(loop, &lane->wake, on_wake);
    if (error != 0) {
        free(lane);
        return -error;
    }
    lane->wake.data = lane;
    lane->work = *work;
    list_init(&lane->waiting);
    list_init(&lane->running);
    list_init(&lane->finished);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&lane->submitted, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&lane->mutex, NULL);
    error = start_thread(lane);
    if (error != 0) {
        uv_close((uv_handle_t *)&lane->wake, free_lane);
        return error;
    }
    *out_lane = lane;
    return 0;
}

void raft_lane_submit(struct raft_lane *lane, struct raft_job *job) {
    pthread_mutex_lock(&lane->mutex);
    assert(!lane->is_stopping);
    bool is_first = list_is_empty(&lane->waiting);
    list_append(&lane->waiting, &job->link);
    set_come(lane, true);
    pthread_mutex_unlock(&lane->mutex);
    if (is_first) {
        pthread_cond_signal(&lane->submitted);
    }
}

void raft_lane_poll(struct raft_lane *lane) {
    if (lane->is_polling) {
        return; /* from within done(): what is next in line comes first */
    }
    struct list finished;
    list_init(&finished);
    pthread_mutex_lock(&lane->mutex);
    list_append_all(&finished, &lane->finished);
    pthread_mutex_unlock(&lane->mutex);
    lane->is_polling = true;
    for (struct list *node = list_pop_first(&finished); node != NULL;
         node = list_pop_first(&finished)) {
        struct raft_job *job = list_entry(node, struct raft_job, link);
        job->done(job);
    }
    lane->is_polling = false;
}

void raft_lane_close(struct raft_lane *lane, void (*closed)(void *data), void *data) {
    pthread_mutex_lock(&lane->mutex);
    assert(list_is_empty(&lane->waiting));
    assert(list_is_empty(&lane->running));
    assert(list_is_empty(&lane->finished));
    lane->is_stopping = true;
    set_come(lane, true);
    pthread_mutex_unlock(&lane->mutex);
    pthread_cond_signal(&lane->submitted);
    pthread_join(lane->thread, NULL);
    lane->closed = closed;
    lane->closed_data = data;
    uv_close((uv_handle_t *)&lane->wake, free_lane);
}
