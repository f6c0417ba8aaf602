/*
 * `lease-load put` and `lease-load range`: clients that each do one call at a time, spread over
 * connections, for a given time.
 */
#include "base/clock.h"
#include "tools/load/load.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct kv_run {
    struct load *load;
    bool is_range;
    bool serializable;
    uint64_t n_keys;
    uint64_t next_key;
    uint64_t to_fill; /* keys still to be put before the ranges start */
    uint64_t in_flight;
    uint64_t done;
    bool stopping;
    size_t value_size;
    uint8_t *value;
    struct histogram latency_us;
};

struct kv_client {
    struct kv_run *run;
    struct lease_client *client;
    uint64_t sent_us;
};

static const struct option_entry options[] = {
    {"--clients", 0, "N", "calls in flight in all (100)"},
    {"--seconds", 's', "S", "how long (5)"},
    {"--keys", 0, "K", "different keys (10000)"},
    {"--value-size", 0, "B", "bytes of each value (256)"},
    {"--serializable", 0, NULL, "range: do not ask for a quorum"},
    {NULL, 0, NULL, NULL},
};

static void call_next(struct kv_client *client);

static void on_answer(void *context, const struct lease_answer *answer) {
    struct kv_client *client = context;
    struct kv_run *run = client->run;
    load_check(answer, run->is_range ? "range" : "put");
    if (run->is_range && answer->range->n_kvs != 1) {
        load_die("range: %zu keys instead of one", answer->range->n_kvs);
    }
    run->in_flight--;
    if (!run->stopping) {
        histogram_add(&run->latency_us, clock_boottime_us() - client->sent_us);
        run->done++;
        call_next(client);
    }
}

static void call_next(struct kv_client *client) {
    struct kv_run *run = client->run;
    char key[LOAD_KEY_SIZE_MAX];
    size_t key_size = load_key(run->load, run->next_key++ % run->n_keys, key);
    client->sent_us = clock_boottime_us();
    bool started;
    if (run->is_range) {
        Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
        request.key = (ProtobufCBinaryData){.data = (uint8_t *)key, .len = key_size};
        request.serializable = run->serializable;
        started = lease_client_range(client->client, &request, on_answer, client);
    } else {
        started = lease_client_put(client->client, bytes_of(key, key_size),
                                   bytes_of(run->value, run->value_size), 0, on_answer, client);
    }
    if (!started) {
        load_die("the connection is closed");
    }
    run->in_flight++;
}

static void on_filled(void *context, const struct lease_answer *answer) {
    struct kv_client *client = context;
    struct kv_run *run = client->run;
    load_check(answer, "put");
    run->in_flight--;
    if (run->to_fill > 0) {
        char key[LOAD_KEY_SIZE_MAX];
        size_t key_size = load_key(run->load, --run->to_fill, key);
        lease_client_put(client->client, bytes_of(key, key_size),
                         bytes_of(run->value, run->value_size), 0, on_filled, client);
        run->in_flight++;
    }
}

/* Every key exists before it is asked for. */
static void fill(struct kv_run *run, struct kv_client *clients, size_t n_clients) {
    const struct lease_answer good = {.code = GRPC_OK, .text = ""};
    run->to_fill = run->n_keys;
    for (size_t i = 0; i < n_clients; i++) {
        run->in_flight++; /* as if one had been answered */
        on_filled(&clients[i], &good);
    }
    while (run->in_flight > 0) {
        uv_run(run->load->loop, UV_RUN_ONCE);
    }
}

static void measure(struct kv_run *run, struct kv_client *clients, size_t n_clients,
                    uint64_t duration_us) {
    struct load *load = run->load;
    load_measure(load);
    for (size_t i = 0; i < n_clients; i++) {
        call_next(&clients[i]);
    }
    load_run_for(load, duration_us);
    run->stopping = true;
    double seconds = load_elapsed_seconds(load);
    double rate = (double)run->done / seconds;
    const char *name = load->command->name;
    char latency[128];
    json_t *result =
        json_pack("{s:s, s:I, s:I, s:I, s:f, s:f}", "load", name, "clients", (json_int_t)n_clients,
                  "connections", (json_int_t)load->n_clients, "operations", (json_int_t)run->done,
                  "seconds", seconds, "operations_per_second", rate);
    load_latency(&run->latency_us, result, latency);
    load_report(load, result, "%s: %" PRIu64 " in %.2f s by %zu clients, %.0f/s, %s", name,
                run->done, seconds, n_clients, rate, latency);
    while (run->in_flight > 0) {
        uv_run(load->loop, UV_RUN_ONCE);
    }
}

static void run_kv(struct load *load, bool is_range) {
    struct kv_run *run = calloc(1, sizeof *run);
    size_t n_clients = (size_t)load_option(load, "--clients", 100, 1, 100000);
    struct kv_client *clients = calloc(n_clients, sizeof *clients);
    if (run == NULL || clients == NULL) {
        load_die("out of memory");
    }
    run->load = load;
    run->is_range = is_range;
    run->serializable = arguments_has(&load->arguments, "--serializable");
    run->n_keys = (uint64_t)load_option(load, "--keys", 10000, 1, LOAD_LEASES_MAX);
    run->value_size = (size_t)load_option(load, "--value-size", 256, 0, LOAD_VALUE_SIZE_MAX);
    run->value = malloc(run->value_size + 1);
    if (run->value == NULL) {
        load_die("out of memory");
    }
    memset(run->value, 'v', run->value_size + 1);
    size_t connections = (size_t)load_option(load, "--connections", 4, 1, LOAD_CONNECTIONS_MAX);
    load_connect_many(load, connections < n_clients ? connections : n_clients);
    for (size_t i = 0; i < n_clients; i++) {
        clients[i].run = run;
        clients[i].client = load->clients[i % load->n_clients];
    }
    if (is_range) {
        fill(run, clients, n_clients);
    }
    measure(run, clients, n_clients,
            (uint64_t)load_option(load, "--seconds", 5, 1, 86400) * 1000000);
    free(run->value);
    free(clients);
    free(run);
}

static void run_put(struct load *load, uint64_t count) {
    (void)count;
    run_kv(load, false);
}

static void run_range(struct load *load, uint64_t count) {
    (void)count;
    run_kv(load, true);
}

const struct load_command load_put = {
    .name = "put",
    .usage = "",
    .help = "write keys",
    .options = options,
    .run = run_put,
};

const struct load_command load_range = {
    .name = "range",
    .usage = "",
    .help = "read single keys, linearizable unless told otherwise",
    .options = options,
    .run = run_range,
};
