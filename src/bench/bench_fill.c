#include "bench/bench_fill.h"

#include "base/clock.h"
#include "base/progress.h"
#include "client/lease_hot.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#define DEPTH 64
/* etcd raises a shorter TTL to this. */
#define TTL_SECONDS_MIN 2

struct filling {
    struct bench_fill *fill;
    uint64_t started;
    uint64_t finished;
    uint64_t total;
    struct progress progress;
};

struct worker {
    struct filling *filling;
    struct lease_client *connection;
    uint64_t index;
    uint64_t keys_left;
    int64_t lease;
    uint64_t sent_ns;
    int64_t ttl_seconds;
};

static void start_next(struct worker *worker);
static void put_next(struct worker *worker);

static void on_put(void *context, enum grpc_code code, const char *text, struct bytes message) {
    (void)message;
    bench_check_code(code, text, "put");
    put_next(context);
}

static void put_next(struct worker *worker) {
    struct filling *filling = worker->filling;
    struct bench_fill *fill = filling->fill;
    if (worker->keys_left == 0) {
        filling->finished++;
        progress_update(&filling->progress, filling->finished, filling->total);
        start_next(worker);
        return;
    }
    worker->keys_left--;
    uint64_t index = worker->index;
    if (fill->n_leases > 0) {
        index = worker->index * fill->n_keys + worker->keys_left;
    }
    char key[BENCH_KEY_SIZE_MAX];
    size_t key_size = bench_key(fill->bench, index, key);
    if (!lease_hot_put(worker->connection, bytes_of(key, key_size), fill->value, worker->lease,
                       on_put, worker)) {
        bench_die("put: the connection is closed");
    }
}

static void on_grant(void *context, const struct lease_answer *answer) {
    struct worker *worker = context;
    struct bench_fill *fill = worker->filling->fill;
    uint64_t now_ns = clock_boottime_ns();
    bench_check(answer, "grant");
    if (answer->grant->ttl != worker->ttl_seconds) {
        bench_die("asked for a TTL of %" PRId64 " s and got %" PRId64 " s", worker->ttl_seconds,
                  answer->grant->ttl);
    }
    uint64_t ttl_ns = (uint64_t)worker->ttl_seconds * BENCH_NS_PER_SECOND;
    if (now_ns + ttl_ns > fill->latest_ns) {
        fill->latest_ns = now_ns + ttl_ns;
    }
    if (fill->earliest_ns != NULL) {
        fill->earliest_ns[worker->index] = worker->sent_ns + ttl_ns;
    }
    worker->lease = answer->grant->id;
    worker->keys_left = fill->n_keys;
    put_next(worker);
}

static int64_t ttl_of(const struct worker *worker) {
    const struct filling *filling = worker->filling;
    const struct bench_fill *fill = filling->fill;
    if (fill->due_ns == 0) {
        return fill->ttl_seconds;
    }
    int64_t left_ns = (int64_t)(fill->due_ns - worker->sent_ns);
    int64_t second_ns = (int64_t)BENCH_NS_PER_SECOND;
    int64_t seconds = (left_ns + second_ns - 1) / second_ns;
    if (seconds < TTL_SECONDS_MIN) {
        bench_die("%" PRIu64 " of %" PRIu64 " leases granted, then the time was up: give a longer "
                  "--ttl",
                  worker->index, filling->total);
    }
    return seconds;
}

static void start_next(struct worker *worker) {
    struct filling *filling = worker->filling;
    struct bench_fill *fill = filling->fill;
    if (filling->started == filling->total) {
        return;
    }
    worker->index = filling->started++;
    if (fill->n_leases == 0) {
        worker->keys_left = 1;
        put_next(worker);
        return;
    }
    if (fill->is_granted) {
        worker->lease = fill->first_id + (int64_t)worker->index;
        worker->keys_left = fill->n_keys;
        put_next(worker);
        return;
    }
    worker->sent_ns = clock_boottime_ns();
    worker->ttl_seconds = ttl_of(worker);
    int64_t id = fill->first_id != 0 ? fill->first_id + (int64_t)worker->index : 0;
    if (!lease_client_grant(worker->connection, worker->ttl_seconds, id, on_grant, worker)) {
        bench_die("grant: the connection is closed");
    }
}

void bench_fill_run(struct bench_fill *fill) {
    struct bench *bench = fill->bench;
    struct filling filling = {.fill = fill,
                              .total = fill->n_leases > 0 ? fill->n_leases : fill->n_keys};
    size_t n_workers = bench->n_connections * DEPTH;
    struct worker *workers = bench_allocate(n_workers, sizeof *workers);
    progress_init(&filling.progress,
                  fill->n_leases > 0 && !fill->is_granted ? "leases granted" : "keys written");
    for (size_t i = 0; i < n_workers; i++) {
        workers[i].filling = &filling;
        workers[i].connection = bench->connections[i % bench->n_connections];
        start_next(&workers[i]);
    }
    while (filling.finished < filling.total) {
        uv_run(bench->loop, UV_RUN_ONCE);
    }
    progress_end(&filling.progress);
    free(workers);
}

void bench_fill_attach(struct bench_fill *fill, uint64_t n_keys) {
    assert(fill->first_id != 0);
    assert(fill->n_keys == 0);
    fill->is_granted = true;
    fill->n_keys = n_keys;
    bench_fill_run(fill);
}

int64_t bench_fill_first_id(void) {
    /* Spread the clock over all bits (the golden ratio as 64-bit fraction), stay positive, and
     * leave room to count. */
    uint64_t spread = clock_boottime_ns() * UINT64_C(0x9e3779b97f4a7c15);
    return (int64_t)((spread >> 1 & ~(uint64_t)0x3ffffff) | 1);
}
