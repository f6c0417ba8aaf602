/*
 * `lease bench redis-lock`: a lock that nobody else wants, taken with SET NX PX and given back with
 * the script that libraries use, again and again. Of leased's Redis door, and of Redis itself.
 */
#include "bench/bench_driver.h"
#include "bench/bench_wire.h"
#include "client/resp_codec.h"

#include <string.h>

enum { SHA_SIZE = 40 };
#define RELEASE                                                                                    \
    "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) "             \
    "else return 0 end"

static struct bench_wire **wires;
static size_t n_wires;
static char sha[SHA_SIZE + 1];
static int64_t ttl_ms;
static uint64_t n_taken;
static struct buffer request;

static size_t measure(struct bytes input) {
    struct resp_scanner scanner = {0};
    switch (resp_scan(&scanner, input)) {
    case RESP_WHOLE:
        return scanner.position;
    case RESP_MORE:
        return 0;
    default:
        bench_die("the server does not speak RESP");
    }
}

static void expect(struct bytes reply, const char *wanted) {
    if (!bytes_equal(reply, bytes_from_text(wanted))) {
        bench_die("the server answered %.*s", (int)reply.size, (const char *)reply.data);
    }
}

static struct bench_wire *wire_of(const struct bench_client *client) {
    return wires[client->index % n_wires];
}

static void put_key(struct bench_client *client) {
    char key[BENCH_KEY_SIZE_MAX];
    uint64_t number = (uint64_t)(uintptr_t)client->context;
    struct bench *bench = bench_driver_bench(client->driver);
    resp_put_word(&request, bytes_of((uint8_t *)key, bench_key(bench, number, key)));
}

static void on_released(void *context, struct bytes reply) {
    expect(reply, ":1\r\n");
    bench_driver_done(context);
}

static void on_taken(void *context, struct bytes reply) {
    struct bench_client *client = context;
    expect(reply, "+OK\r\n");
    request.size = 0;
    resp_put_count(&request, 5);
    resp_put_word(&request, bytes_from_text("EVALSHA"));
    resp_put_word(&request, bytes_from_text(sha));
    resp_put_word(&request, bytes_from_text("1"));
    put_key(client);
    resp_put_word(&request, bytes_from_text("holder"));
    bench_wire_ask(wire_of(client), bytes_of(request.data, request.size), on_released, client);
}

static void start(struct bench_client *client) {
    client->context = (void *)(uintptr_t)n_taken++;
    request.size = 0;
    resp_put_count(&request, 6);
    resp_put_word(&request, bytes_from_text("SET"));
    put_key(client);
    resp_put_word(&request, bytes_from_text("holder"));
    resp_put_word(&request, bytes_from_text("NX"));
    resp_put_word(&request, bytes_from_text("PX"));
    resp_put_number(&request, ttl_ms);
    bench_wire_ask(wire_of(client), bytes_of(request.data, request.size), on_taken, client);
}

static void on_loaded(void *context, struct bytes reply) {
    (void)context;
    static const char head[] = "$40\r\n";
    if (reply.size < sizeof head - 1 + SHA_SIZE || memcmp(reply.data, head, sizeof head - 1) != 0) {
        bench_die("SCRIPT LOAD: the server answered %.*s", (int)reply.size,
                  (const char *)reply.data);
    }
    memcpy(sha, reply.data + sizeof head - 1, SHA_SIZE);
}

static void run(struct bench *bench) {
    ttl_ms = 1000 * bench_option(bench, "--ttl", 300, 1, INT32_MAX);
    n_wires = (size_t)bench_option(bench, "--connections", (int64_t)bench->n_clients, 1,
                                   BENCH_CONNECTIONS_MAX);
    wires = bench_allocate(n_wires, sizeof *wires);
    for (size_t i = 0; i < n_wires; i++) {
        wires[i] = bench_wire_connect(bench, i, measure);
    }
    bench->n_connections = n_wires;
    resp_put_texts(&request, "SCRIPT", "LOAD", RELEASE, NULL);
    bench_wire_ask(wires[0], bytes_of(request.data, request.size), on_loaded, NULL);
    bench_wire_wait(wires[0]);
    struct bench_driver *driver =
        bench_driver_create(bench, start, bench_tally_add(bench, "locks"));
    bench_driver_run(driver);
    bench_driver_destroy(driver);
    for (size_t i = 0; i < n_wires; i++) {
        bench_wire_destroy(wires[i]);
    }
    free(wires);
    buffer_clear(&request);
}

const struct bench_workload bench_redis_lock = {
    .name = "redis-lock",
    .help = "over the Redis protocol: SET NX PX, then the script that gives it back",
    .takes = {"--clients", "--rate", "--duration", "--warm-up", "--ttl"},
    .clients_default = 50,
    .connects_itself = true,
    .run = run,
};
