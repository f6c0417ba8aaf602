/*
 * `lease bench lock`: contenders queue for locks as etcd's own recipe does. Each has a lease; it
 * creates a key under the lock's prefix, attached to the lease, asks for the newest key older than
 * its own, waits for that one's deletion, asks again, and holds the lock when there is none. It
 * gives the lock back at once by deleting its key, and queues again. A hand-over is the time from
 * when the holder sent its deletion until the next contender knows that it holds the lock.
 */
#include "base/clock.h"
#include "bench/bench_driver.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct lock {
    uint64_t released_ns; /* when its last holder sent the deletion; 0: none did */
};

struct contender {
    struct lock_run *run;
    struct bench_client *client;
    struct lock *lock;
    size_t lock_index;
    int64_t lease;
    int64_t create_revision; /* of our key: its place in the queue */
    bool has_waited;
    struct grpc_client_call *watch; /* one stream for all our waits */
    bool is_watching;
    int64_t watch_id;
    char key[BENCH_KEY_SIZE_MAX];
    size_t key_size;
    size_t prefix_size; /* of the lock: the key up to the contender's own part */
};

struct lock_run {
    struct bench *bench;
    struct lock *locks;
    size_t n_locks;
    struct contender *contenders;
    size_t n_granted;
    bool stopping;
    struct bench_tally *hand_overs;
};

static void ask_predecessor(struct contender *contender);

static ProtobufCBinaryData key_of(struct contender *contender) {
    return (ProtobufCBinaryData){.data = (uint8_t *)contender->key, .len = contender->key_size};
}

/* ---- giving it back -----------------------------------------------------------------------------
 */

static void on_deleted(void *context, const struct lease_answer *answer) {
    struct contender *contender = context;
    bench_check(answer, "delete");
    bench_driver_done(contender->client);
}

static void hold(struct contender *contender) {
    struct lock_run *run = contender->run;
    uint64_t now_ns = clock_boottime_ns();
    if (contender->has_waited && contender->lock->released_ns != 0) {
        bench_record(run->bench, run->hand_overs, contender->lock->released_ns, now_ns);
    }
    contender->lock->released_ns = now_ns;
    Etcdserverpb__DeleteRangeRequest request = ETCDSERVERPB__DELETE_RANGE_REQUEST__INIT;
    request.key = key_of(contender);
    if (!lease_client_delete_range(contender->client->connection, &request, on_deleted,
                                   contender)) {
        bench_die("delete: the connection is closed");
    }
}

/* ---- waiting ------------------------------------------------------------------------------------
 */

static void on_watch(void *context, const Etcdserverpb__WatchResponse *response) {
    struct contender *contender = context;
    if (response->canceled && response->watch_id == contender->watch_id && contender->is_watching) {
        bench_die("a watch was cancelled: %s", response->cancel_reason);
    }
    if (response->created) {
        contender->watch_id = response->watch_id;
    }
    for (size_t i = 0; i < response->n_events; i++) {
        bool is_end = response->events[i]->type == MVCCPB__EVENT__EVENT_TYPE__DELETE;
        if (is_end && contender->is_watching && response->watch_id == contender->watch_id) {
            contender->is_watching = false;
            Etcdserverpb__WatchCancelRequest cancel = ETCDSERVERPB__WATCH_CANCEL_REQUEST__INIT;
            cancel.watch_id = contender->watch_id;
            Etcdserverpb__WatchRequest request = ETCDSERVERPB__WATCH_REQUEST__INIT;
            request.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CANCEL_REQUEST;
            request.cancel_request = &cancel;
            lease_client_watch_send(contender->watch, &request);
            ask_predecessor(contender);
        }
    }
}

static void on_watch_end(void *context, enum grpc_code code, const char *text) {
    const struct contender *contender = context;
    if (!contender->run->stopping) {
        bench_die("a watch stream ended: %s (gRPC status %d)", text, (int)code);
    }
}

static const struct lease_watch_events events = {.on_response = on_watch, .on_end = on_watch_end};

static void wait_for(struct contender *contender, const Mvccpb__KeyValue *predecessor,
                     int64_t revision) {
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;
    create.key = predecessor->key;
    create.start_revision = revision + 1;
    contender->is_watching = true;
    contender->has_waited = true;
    if (contender->watch == NULL) {
        contender->watch =
            lease_client_watch(contender->client->connection, &create, &events, contender);
        if (contender->watch == NULL) {
            bench_die("watch: the connection is closed");
        }
        return;
    }
    Etcdserverpb__WatchRequest request = ETCDSERVERPB__WATCH_REQUEST__INIT;
    request.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    request.create_request = &create;
    lease_client_watch_send(contender->watch, &request);
}

static void on_predecessor(void *context, const struct lease_answer *answer) {
    struct contender *contender = context;
    bench_check(answer, "range");
    if (answer->range->n_kvs == 0) {
        hold(contender);
    } else {
        wait_for(contender, answer->range->kvs[0], answer->range->header->revision);
    }
}

static void ask_predecessor(struct contender *contender) {
    uint8_t end[BENCH_KEY_SIZE_MAX];
    struct bytes prefix = bytes_of(contender->key, contender->prefix_size);
    Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
    request.key = (ProtobufCBinaryData){.data = (uint8_t *)contender->key, .len = prefix.size};
    request.range_end.data = end;
    request.range_end.len = lease_client_prefix_end(prefix, end);
    request.limit = 1;
    request.sort_order = ETCDSERVERPB__RANGE_REQUEST__SORT_ORDER__DESCEND;
    request.sort_target = ETCDSERVERPB__RANGE_REQUEST__SORT_TARGET__CREATE;
    request.max_create_revision = contender->create_revision - 1;
    if (!lease_client_range(contender->client->connection, &request, on_predecessor, contender)) {
        bench_die("range: the connection is closed");
    }
}

/* ---- queueing -----------------------------------------------------------------------------------
 */

static void on_queued(void *context, const struct lease_answer *answer) {
    struct contender *contender = context;
    bench_check(answer, "put");
    contender->create_revision = answer->put->header->revision;
    ask_predecessor(contender);
}

static void start(struct bench_client *client) {
    struct contender *contender = client->context;
    contender->has_waited = false;
    /* The key is gone, so the put creates it. */
    if (!lease_client_put(client->connection, bytes_of(contender->key, contender->key_size),
                          bytes_of("", 0), contender->lease, on_queued, contender)) {
        bench_die("put: the connection is closed");
    }
}

static void on_granted(void *context, const struct lease_answer *answer) {
    struct contender *contender = context;
    bench_check(answer, "grant");
    contender->lease = answer->grant->id;
    /* Named by the lease, as in the recipe: a key that an earlier run left is another's. */
    int size = snprintf(contender->key + contender->prefix_size,
                        sizeof contender->key - contender->prefix_size, "%" PRIx64,
                        (uint64_t)contender->lease);
    contender->key_size = contender->prefix_size + (size_t)size;
    contender->run->n_granted++;
}

static bool all_granted(void *context) {
    const struct lock_run *run = context;
    return run->n_granted == run->bench->n_clients;
}

static void init_contender(struct lock_run *run, struct bench_client *client) {
    struct contender *contender = &run->contenders[client->index];
    *contender = (struct contender){.run = run, .client = client};
    contender->lock_index = client->index % run->n_locks;
    contender->lock = &run->locks[contender->lock_index];
    client->context = contender;
    contender->prefix_size = bench_key(run->bench, contender->lock_index, contender->key);
    contender->key[contender->prefix_size++] = '/';
    lease_client_grant(client->connection, bench_option(run->bench, "--ttl", 600, 1, INT32_MAX), 0,
                       on_granted, contender);
}

static void run(struct bench *bench) {
    struct lock_run run = {.bench = bench};
    run.n_locks = (size_t)bench_option(bench, "--locks", 1, 1, BENCH_CLIENTS_MAX);
    run.locks = bench_allocate(run.n_locks, sizeof *run.locks);
    run.contenders = bench_allocate(bench->n_clients, sizeof *run.contenders);
    run.hand_overs = bench_tally_add(bench, "hand-overs");
    struct bench_driver *driver =
        bench_driver_create(bench, start, bench_tally_add(bench, "acquisitions"));
    bench_fact(bench, "locks", json_integer((json_int_t)run.n_locks), "locks",
               "%zu, %zu contenders", run.n_locks, bench->n_clients);
    for (size_t i = 0; i < bench->n_clients; i++) {
        init_contender(&run, bench_driver_client(driver, i));
    }
    if (!bench_wait(bench, all_granted, &run, 60 * BENCH_NS_PER_SECOND)) {
        bench_die("the contenders' leases were not granted within a minute");
    }
    bench_driver_run(driver);
    run.stopping = true;
    for (size_t i = 0; i < bench->n_clients; i++) {
        if (run.contenders[i].watch != NULL) {
            grpc_client_call_cancel(run.contenders[i].watch);
        }
    }
    bench_driver_destroy(driver);
    free(run.contenders);
    free(run.locks);
}

const struct bench_workload bench_lock = {
    .name = "lock",
    .help = "contenders for locks, by etcd's recipe: hand-over from one to the next",
    .takes = {"--clients", "--duration", "--warm-up", "--locks", "--ttl"},
    .clients_default = 10,
    .connections_default = 10,
    .run = run,
};
