#include "bench/bench_driver.h"

#include "base/clock.h"
#include "base/progress.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* How long the last answers may take; then the server does not answer any more. */
#define DRAIN_NS (60 * BENCH_NS_PER_SECOND)
#define PROGRESS_MS 200

enum phase { PHASE_WARM_UP, PHASE_WINDOW, PHASE_DRAIN };

struct bench_driver {
    struct bench *bench;
    bench_start *start;
    struct bench_tally *tally;
    enum phase phase;
    struct bench_client *clients;
    size_t n_clients;
    size_t n_busy;
    uint64_t done; /* since the phase began, for the progress line */
    uint64_t phase_begin_ns;
    uint64_t phase_end_ns;
    struct progress progress;

    /* Open loop. */
    double interval_ns;
    double next_due_ns;
    struct bench_client *idle;
    int timer; /* timerfd: the loop's own timers know only whole milliseconds */
    bool timer_is_armed;
    uv_poll_t timer_poll;
};

/* ---- clients ------------------------------------------------------------------------------------
 */

struct bench_driver *bench_driver_create(struct bench *bench, bench_start *start,
                                         struct bench_tally *tally) {
    struct bench_driver *driver = bench_allocate(1, sizeof *driver);
    *driver = (struct bench_driver){
        .bench = bench, .start = start, .tally = tally, .n_clients = bench->n_clients};
    driver->clients = bench_allocate(driver->n_clients, sizeof *driver->clients);
    driver->timer = -1;
    for (size_t i = 0; i < driver->n_clients; i++) {
        driver->clients[i] = (struct bench_client){
            .driver = driver,
            .connection =
                bench->connections == NULL ? NULL : bench->connections[i % bench->n_connections],
            .tally = tally,
            .index = i,
        };
    }
    return driver;
}

void bench_driver_destroy(struct bench_driver *driver) {
    free(driver->clients);
    free(driver);
}

struct bench *bench_driver_bench(const struct bench_driver *driver) {
    return driver->bench;
}

struct bench_client *bench_driver_client(struct bench_driver *driver, size_t index) {
    assert(index < driver->n_clients);
    return &driver->clients[index];
}

/* Only while a client is idle: otherwise the next one that is answered goes on by itself. */
static void arm_timer(struct bench_driver *driver) {
    uint64_t due_ns = (uint64_t)driver->next_due_ns;
    const struct itimerspec when = {
        .it_value.tv_sec = (time_t)(due_ns / BENCH_NS_PER_SECOND),
        .it_value.tv_nsec = (long)(due_ns % BENCH_NS_PER_SECOND),
    };
    timerfd_settime(driver->timer, TFD_TIMER_ABSTIME, &when, NULL);
    driver->timer_is_armed = true;
}

static void start_client(struct bench_client *client, uint64_t due_ns) {
    client->due_ns = due_ns;
    client->driver->n_busy++;
    client->driver->start(client);
}

static uint64_t take_due(struct bench_driver *driver) {
    uint64_t due_ns = (uint64_t)driver->next_due_ns;
    driver->next_due_ns += driver->interval_ns;
    return due_ns;
}

void bench_driver_done(struct bench_client *client) {
    struct bench_driver *driver = client->driver;
    uint64_t now_ns = clock_boottime_ns();
    assert(driver->n_busy > 0);
    driver->n_busy--;
    driver->done++;
    if (client->tally != NULL) {
        bench_record(driver->bench, client->tally, client->due_ns, now_ns);
    }
    if (driver->phase == PHASE_DRAIN) {
        if (driver->n_busy == 0) {
            uv_stop(driver->bench->loop);
        }
    } else if (driver->interval_ns == 0) {
        start_client(client, now_ns);
    } else if (driver->next_due_ns <= (double)now_ns) {
        start_client(client, take_due(driver));
    } else {
        client->next_idle = driver->idle;
        driver->idle = client;
        if (!driver->timer_is_armed) {
            arm_timer(driver);
        }
    }
}

/* ---- the open loop ------------------------------------------------------------------------------
 */

/* Starts what is due while there are clients. */
static void on_due(uv_poll_t *poll, int status, int events) {
    struct bench_driver *driver = poll->data;
    uint64_t expirations;
    (void)status;
    (void)events;
    if (read(driver->timer, &expirations, sizeof expirations) < 0 || driver->phase == PHASE_DRAIN) {
        return;
    }
    driver->timer_is_armed = false;
    double now_ns = (double)clock_boottime_ns();
    while (driver->idle != NULL && driver->next_due_ns <= now_ns) {
        struct bench_client *client = driver->idle;
        driver->idle = client->next_idle;
        start_client(client, take_due(driver));
    }
    if (driver->idle != NULL) {
        arm_timer(driver);
    }
}

static void start_open_loop(struct bench_driver *driver) {
    uv_loop_t *loop = driver->bench->loop;
    driver->timer = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    if (driver->timer < 0 || uv_poll_init(loop, &driver->timer_poll, driver->timer) != 0) {
        bench_die("no timer for --rate");
    }
    driver->timer_poll.data = driver;
    uv_poll_start(&driver->timer_poll, UV_READABLE, on_due);
    driver->interval_ns = 1e9 / driver->bench->rate;
    driver->next_due_ns = (double)clock_boottime_ns();
    for (size_t i = driver->n_clients; i > 0; i--) {
        driver->clients[i - 1].next_idle = driver->idle;
        driver->idle = &driver->clients[i - 1];
    }
    arm_timer(driver);
}

/* What was due within the window and never sent has waited at least until its end. */
static void stop_open_loop(struct bench_driver *driver) {
    struct bench *bench = driver->bench;
    struct bench_tally *tally = driver->tally;
    for (; driver->next_due_ns < (double)bench->end_ns;
         driver->next_due_ns += driver->interval_ns) {
        tally->unsent++;
        histogram_add(tally->latency_ns, bench->end_ns - (uint64_t)driver->next_due_ns);
    }
    tally->scheduled = (uint64_t)((double)(bench->end_ns - bench->begin_ns) / driver->interval_ns);
    uv_close((uv_handle_t *)&driver->timer_poll, NULL);
    uv_run(bench->loop, UV_RUN_NOWAIT);
    close(driver->timer);
}

/* ---- phases -------------------------------------------------------------------------------------
 */

static void show_progress(struct bench_driver *driver, uint64_t now_ns) {
    double gone = (double)(now_ns - driver->phase_begin_ns) / 1e9;
    double whole = (double)(driver->phase_end_ns - driver->phase_begin_ns) / 1e9;
    progress_text(&driver->progress, "%s%s: %.1f of %.1f s, %.0f/s", driver->bench->workload->name,
                  driver->phase == PHASE_WARM_UP ? " (warm-up)" : "", gone, whole,
                  gone > 0 ? (double)driver->done / gone : 0.0);
}

static void run_phase(struct bench_driver *driver, enum phase phase, uint64_t duration_ns) {
    uint64_t now_ns = clock_boottime_ns();
    driver->phase = phase;
    driver->done = 0;
    driver->phase_begin_ns = now_ns;
    driver->phase_end_ns = now_ns + duration_ns;
    while (now_ns < driver->phase_end_ns) {
        uint64_t left_ns = driver->phase_end_ns - now_ns;
        uint64_t step_ns = PROGRESS_MS * UINT64_C(1000000);
        bench_sleep(driver->bench, left_ns < step_ns ? left_ns : step_ns);
        now_ns = clock_boottime_ns();
        show_progress(driver, now_ns);
    }
}

static bool is_drained(void *context) {
    struct bench_driver *driver = context;
    return driver->n_busy == 0;
}

void bench_driver_run(struct bench_driver *driver) {
    struct bench *bench = driver->bench;
    progress_init(&driver->progress, "");
    driver->phase = PHASE_WARM_UP;
    if (bench->rate > 0) {
        start_open_loop(driver);
    } else {
        for (size_t i = 0; i < driver->n_clients; i++) {
            start_client(&driver->clients[i], clock_boottime_ns());
        }
    }
    run_phase(driver, PHASE_WARM_UP, bench->warm_up_ns);
    bench_measure_begin(bench);
    run_phase(driver, PHASE_WINDOW, bench->duration_ns);
    bench_measure_end(bench);
    driver->phase = PHASE_DRAIN;
    if (bench->rate > 0) {
        stop_open_loop(driver);
    }
    progress_end(&driver->progress);
    if (!bench_wait(bench, is_drained, driver, DRAIN_NS)) {
        bench_die("%zu operations were not answered within a minute", driver->n_busy);
    }
}
