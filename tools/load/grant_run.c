#include "tools/load/grant_run.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* etcd raises a shorter TTL to this. */
#define TTL_SECONDS_MIN 2

struct worker {
    struct grant_run *run;
    struct lease_client *client;
    uint64_t index;
    uint64_t sent_us;
    int64_t ttl_seconds;
};

static void start_next(struct worker *worker);

static void finish(struct worker *worker) {
    worker->run->answered++;
    start_next(worker);
}

static void on_put(void *context, const struct lease_answer *answer) {
    struct worker *worker = context;
    load_check(answer, "put");
    histogram_add(&worker->run->put_us, clock_boottime_us() - worker->sent_us);
    finish(worker);
}

static void on_grant(void *context, const struct lease_answer *answer) {
    struct worker *worker = context;
    struct grant_run *run = worker->run;
    load_check(answer, "grant");
    uint64_t now_us = clock_boottime_us();
    histogram_add(&run->grant_us, now_us - worker->sent_us);
    if (answer->grant->ttl != worker->ttl_seconds) {
        load_die("asked for a TTL of %lld s and got %lld s", (long long)worker->ttl_seconds,
                 (long long)answer->grant->ttl);
    }
    uint64_t ttl_us = (uint64_t)worker->ttl_seconds * 1000000;
    uint64_t id = (uint64_t)answer->grant->id;
    if (now_us + ttl_us > run->latest_us) {
        run->latest_us = now_us + ttl_us;
    }
    if (run->id_min == 0 || id < run->id_min) {
        run->id_min = id;
    }
    if (id > run->id_max) {
        run->id_max = id;
    }
    if (run->ids != NULL) {
        run->ids[worker->index] = answer->grant->id;
    }
    if (run->earliest_us != NULL) {
        run->earliest_us[worker->index] = worker->sent_us + ttl_us;
    }
    if (!run->with_keys) {
        finish(worker);
        return;
    }
    char key[LOAD_KEY_SIZE_MAX];
    size_t key_size = load_key(run->load, worker->index, key);
    worker->sent_us = now_us;
    if (!lease_client_put(worker->client, bytes_of(key, key_size), bytes_from_text("v"),
                          answer->grant->id, on_put, worker)) {
        load_die("put: the connection is closed");
    }
}

static void start_next(struct worker *worker) {
    struct grant_run *run = worker->run;
    if (run->started == run->total) {
        return;
    }
    worker->index = run->started++;
    worker->sent_us = clock_boottime_us();
    worker->ttl_seconds = run->ttl_seconds;
    if (run->due_us != 0) {
        int64_t left_us = (int64_t)(run->due_us - worker->sent_us);
        worker->ttl_seconds = (left_us + 999999) / 1000000;
        if (worker->ttl_seconds < TTL_SECONDS_MIN) {
            load_die("%llu of %llu leases granted, then the time was up: give a longer --ttl",
                     (unsigned long long)worker->index, (unsigned long long)run->total);
        }
    }
    if (!lease_client_grant(worker->client, worker->ttl_seconds, 0, on_grant, worker)) {
        load_die("grant: the connection is closed");
    }
}

void grant_run(struct grant_run *run) {
    struct load *load = run->load;
    size_t n_workers = load->n_clients * run->depth;
    struct worker *workers = calloc(n_workers, sizeof *workers);
    if (workers == NULL) {
        load_die("out of memory");
    }
    for (size_t i = 0; i < n_workers; i++) {
        workers[i].run = run;
        workers[i].client = load->clients[i % load->n_clients];
        start_next(&workers[i]);
    }
    while (run->answered < run->total) {
        uv_run(load->loop, UV_RUN_ONCE);
    }
    free(workers);
}
