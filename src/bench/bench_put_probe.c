#include "bench/bench_put_probe.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct bench_put_probe {
    struct bench *bench;
    uv_thread_t thread;
    uv_sem_t connected;
    uv_loop_t loop;
    uv_async_t stop_signal; /* the loop may wait for an answer that does not come */
    struct lease_client *client;
    atomic_int phase;
    uint64_t sent_ns;
    size_t value_size;
    uint8_t *value;
    struct histogram times_ns[BENCH_PUT_PROBE_PHASES];
};

static void put_next(struct bench_put_probe *probe);

static void on_put(void *context, const struct lease_answer *answer) {
    struct bench_put_probe *probe = context;
    bench_check(answer, "put of the second client");
    histogram_add(&probe->times_ns[atomic_load(&probe->phase)],
                  clock_boottime_ns() - probe->sent_ns);
    put_next(probe);
}

static void put_next(struct bench_put_probe *probe) {
    /* Outside the watched prefix, and without a lease. */
    static const char key[] = "lease-bench-probe";
    probe->sent_ns = clock_boottime_ns();
    if (!lease_client_put(probe->client, bytes_from_text(key),
                          bytes_of(probe->value, probe->value_size), 0, on_put, probe)) {
        bench_die("put of the second client: the connection is closed");
    }
}

static void on_stop(uv_async_t *signal) {
    struct bench_put_probe *probe = signal->data;
    histogram_add(&probe->times_ns[atomic_load(&probe->phase)],
                  clock_boottime_ns() - probe->sent_ns);
    lease_client_destroy(probe->client);
    uv_close((uv_handle_t *)signal, NULL);
}

static void run(void *context) {
    struct bench_put_probe *probe = context;
    probe->client = bench_connect(probe->bench, &probe->loop, 0);
    uv_sem_post(&probe->connected);
    put_next(probe);
    uv_run(&probe->loop, UV_RUN_DEFAULT);
    uv_loop_close(&probe->loop);
}

struct bench_put_probe *bench_put_probe_start(struct bench *bench, size_t value_size) {
    struct bench_put_probe *probe = calloc(1, sizeof *probe);
    uint8_t *value = malloc(value_size + 1);
    if (probe == NULL || value == NULL) {
        bench_die("out of memory");
    }
    memset(value, 'p', value_size + 1);
    probe->bench = bench;
    probe->value = value;
    probe->value_size = value_size;
    if (uv_loop_init(&probe->loop) != 0 || uv_sem_init(&probe->connected, 0) != 0 ||
        uv_async_init(&probe->loop, &probe->stop_signal, on_stop) != 0 ||
        uv_thread_create(&probe->thread, run, probe) != 0) {
        bench_die("the second client cannot be started");
    }
    probe->stop_signal.data = probe;
    uv_sem_wait(&probe->connected);
    return probe;
}

void bench_put_probe_enter(struct bench_put_probe *probe, enum bench_put_probe_phase phase) {
    atomic_store(&probe->phase, (int)phase);
}

void bench_put_probe_stop(struct bench_put_probe *probe) {
    uv_async_send(&probe->stop_signal);
    uv_thread_join(&probe->thread);
}

const struct histogram *bench_put_probe_times_ns(const struct bench_put_probe *probe,
                                                 enum bench_put_probe_phase phase) {
    return &probe->times_ns[phase];
}

void bench_put_probe_destroy(struct bench_put_probe *probe) {
    uv_sem_destroy(&probe->connected);
    free(probe->value);
    free(probe);
}
