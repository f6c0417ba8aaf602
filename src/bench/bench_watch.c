/*
 * `lease bench watch`: each of --streams watches all keys; the clients write, each its own key. A
 * client goes on when its put was answered and every stream has delivered it, so what is under way
 * is bounded and no stream has to be caught up from history. Deliveries are timed from when the put
 * was due.
 */
#include "base/clock.h"
#include "bench/bench_driver.h"
#include "client/lease_hot.h"

#include <stdlib.h>

struct writer {
    struct watch_run *run;
    struct bench_client *client;
    size_t missing; /* deliveries, and one for the put's answer */
};

struct watch_run {
    struct bench *bench;
    struct writer *writers;
    struct bytes value;
    size_t n_streams;
    size_t n_created;
    struct grpc_client_call **streams;
    struct bench_tally *deliveries;
    struct bench_tally *puts;
};

static void settle(struct writer *writer) {
    writer->missing--;
    if (writer->missing == 0) {
        bench_driver_done(writer->client);
    }
}

static void on_event(struct watch_run *run, struct bytes key, uint64_t now_ns) {
    struct bench *bench = run->bench;
    uint64_t index;
    bool is_ours = bench_key_index(bench, key, &index) && index < bench->n_clients;
    if (!is_ours || run->writers[index].missing == 0) {
        bench_die("watch: an event of another client; is another benchmark running? (--prefix)");
    }
    struct writer *writer = &run->writers[index];
    bench_record(bench, run->deliveries, writer->client->due_ns, now_ns);
    settle(writer);
}

static void on_message(void *context, struct bytes message) {
    struct watch_run *run = context;
    struct lease_hot_watch watch;
    struct lease_hot_event event;
    uint64_t now_ns = clock_boottime_ns();
    if (!lease_hot_watch_decode(message, &watch)) {
        bench_die("a watch sent what cannot be decoded");
    }
    if (watch.canceled) {
        bench_die("a watch was cancelled: %.*s", (int)watch.cancel_reason.size,
                  (const char *)watch.cancel_reason.data);
    }
    run->n_created += watch.created;
    while (lease_hot_watch_next(&watch, &event)) {
        on_event(run, event.key, now_ns);
    }
    if (watch.is_malformed) {
        bench_die("a watch sent what cannot be decoded");
    }
}

static void on_end(void *context, enum grpc_code code, const char *text) {
    (void)context;
    bench_die("a watch stream ended: %s (gRPC status %d)", text, (int)code);
}

static const struct lease_watch_events events = {.on_message = on_message, .on_end = on_end};

static void on_put(void *context, const struct lease_answer *answer) {
    struct writer *writer = context;
    struct watch_run *run = writer->run;
    bench_check(answer, "put");
    bench_record(run->bench, run->puts, writer->client->due_ns, clock_boottime_ns());
    settle(writer);
}

static void start(struct bench_client *client) {
    struct writer *writer = client->context;
    struct watch_run *run = writer->run;
    char key[BENCH_KEY_SIZE_MAX];
    size_t key_size = bench_key(run->bench, client->index, key);
    writer->missing = run->n_streams + 1;
    if (!lease_client_put(client->connection, bytes_of(key, key_size), run->value, 0, on_put,
                          writer)) {
        bench_die("put: the connection is closed");
    }
}

static bool all_created(void *context) {
    const struct watch_run *run = context;
    return run->n_created == run->n_streams;
}

static void open_streams(struct watch_run *run) {
    struct bench *bench = run->bench;
    struct bytes prefix = bytes_from_text(bench->prefix);
    uint8_t end[BENCH_KEY_SIZE_MAX];
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;
    create.key = (ProtobufCBinaryData){.data = (uint8_t *)prefix.data, .len = prefix.size};
    create.range_end.data = end;
    create.range_end.len = lease_client_prefix_end(prefix, end);
    run->streams = bench_allocate(run->n_streams, sizeof *run->streams);
    for (size_t i = 0; i < run->n_streams; i++) {
        run->streams[i] =
            lease_client_watch(bench->connections[i % bench->n_connections], &create, &events, run);
        if (run->streams[i] == NULL) {
            bench_die("watch: the connection is closed");
        }
    }
    if (!bench_wait(bench, all_created, run, 60 * BENCH_NS_PER_SECOND)) {
        bench_die("only %zu of %zu watches were created within a minute", run->n_created,
                  run->n_streams);
    }
}

static void run(struct bench *bench) {
    struct watch_run run = {.bench = bench, .value = bench_value(bench, 256)};
    run.n_streams = (size_t)bench_option(bench, "--streams", 1000, 1, BENCH_CLIENTS_MAX);
    run.deliveries = bench_tally_add(bench, "deliveries");
    run.puts = bench_tally_add(bench, "puts");
    bench_fact(bench, "streams", json_integer((json_int_t)run.n_streams), "streams", "%zu",
               run.n_streams);
    open_streams(&run);
    struct bench_driver *driver = bench_driver_create(bench, start, run.puts);
    run.writers = bench_allocate(bench->n_clients, sizeof *run.writers);
    for (size_t i = 0; i < bench->n_clients; i++) {
        struct bench_client *client = bench_driver_client(driver, i);
        run.writers[i] = (struct writer){.run = &run, .client = client};
        client->context = &run.writers[i];
        client->tally = NULL; /* a put is recorded when it is answered, not when it was delivered */
    }
    bench_driver_run(driver);
    for (size_t i = 0; i < run.n_streams; i++) {
        grpc_client_call_cancel(run.streams[i]);
    }
    bench_driver_destroy(driver);
    free(run.writers);
    free(run.streams);
}

const struct bench_workload bench_watch = {
    .name = "watch",
    .help = "writes seen by many watch streams: deliveries, timed from the write",
    .takes = {"--clients", "--rate", "--duration", "--warm-up", "--streams", "--value-size"},
    .clients_default = 4,
    .connections_default = 10,
    .run = run,
};
