#include "tools/load/put_probe.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct put_probe {
    const struct load *load;
    uv_thread_t thread;
    uv_sem_t connected;
    uv_loop_t loop;
    uv_async_t stop_signal; /* the loop may wait for an answer that does not come */
    struct lease_client *client;
    atomic_int phase;
    uint64_t sent_us;
    size_t value_size;
    uint8_t *value;
    struct histogram times_us[PUT_PROBE_PHASES];
};

static void put_next(struct put_probe *probe);

static void on_put(void *context, const struct lease_answer *answer) {
    struct put_probe *probe = context;
    load_check(answer, "put of the second client");
    histogram_add(&probe->times_us[atomic_load(&probe->phase)],
                  clock_boottime_us() - probe->sent_us);
    put_next(probe);
}

static void put_next(struct put_probe *probe) {
    /* Outside the watched prefix, and without a lease. */
    static const char key[] = "lease-load-probe";
    probe->sent_us = clock_boottime_us();
    if (!lease_client_put(probe->client, bytes_from_text(key),
                          bytes_of(probe->value, probe->value_size), 0, on_put, probe)) {
        load_die("put of the second client: the connection is closed");
    }
}

static void on_stop(uv_async_t *signal) {
    struct put_probe *probe = signal->data;
    histogram_add(&probe->times_us[atomic_load(&probe->phase)],
                  clock_boottime_us() - probe->sent_us);
    lease_client_destroy(probe->client);
    uv_close((uv_handle_t *)signal, NULL);
}

static void run(void *context) {
    struct put_probe *probe = context;
    probe->client = load_connect(probe->load, &probe->loop);
    uv_sem_post(&probe->connected);
    put_next(probe);
    uv_run(&probe->loop, UV_RUN_DEFAULT);
    uv_loop_close(&probe->loop);
}

struct put_probe *put_probe_start(const struct load *load, size_t value_size) {
    struct put_probe *probe = calloc(1, sizeof *probe);
    uint8_t *value = malloc(value_size + 1);
    if (probe == NULL || value == NULL) {
        load_die("out of memory");
    }
    memset(value, 'p', value_size + 1);
    probe->load = load;
    probe->value = value;
    probe->value_size = value_size;
    if (uv_loop_init(&probe->loop) != 0 || uv_sem_init(&probe->connected, 0) != 0 ||
        uv_async_init(&probe->loop, &probe->stop_signal, on_stop) != 0 ||
        uv_thread_create(&probe->thread, run, probe) != 0) {
        load_die("the second client cannot be started");
    }
    probe->stop_signal.data = probe;
    uv_sem_wait(&probe->connected);
    return probe;
}

void put_probe_enter(struct put_probe *probe, enum put_probe_phase phase) {
    atomic_store(&probe->phase, (int)phase);
}

void put_probe_stop(struct put_probe *probe) {
    uv_async_send(&probe->stop_signal);
    uv_thread_join(&probe->thread);
}

const struct histogram *put_probe_times_us(const struct put_probe *probe,
                                           enum put_probe_phase phase) {
    return &probe->times_us[phase];
}

void put_probe_destroy(struct put_probe *probe) {
    uv_sem_destroy(&probe->connected);
    free(probe->value);
    free(probe);
}
