/*
 * `lease bench zk-create`: ephemeral nodes, created as fast as they are answered; each connection
 * is a session, and they go with it. Of leased's ZooKeeper door, and of ZooKeeper itself.
 */
#include "bench/bench_driver.h"
#include "bench/bench_wire.h"
#include "client/zk_codec.h"

#include <string.h>

enum { HEAD_SIZE = 4, SESSION_TIMEOUT_MS = 30000, FRAME_SIZE_MAX = 1024 * 1024 };

static struct bench_wire **wires;
static size_t n_wires;
static int32_t *xids; /* of each session, the newest */
static uint64_t n_created;
static struct bytes value;
static struct buffer request;

static size_t measure(struct bytes input) {
    if (input.size < HEAD_SIZE) {
        return 0;
    }
    size_t size = (size_t)input.data[0] << 24 | (size_t)input.data[1] << 16 |
                  (size_t)input.data[2] << 8 | input.data[3];
    if (size > FRAME_SIZE_MAX) {
        bench_die("the server does not speak ZooKeeper's protocol");
    }
    return input.size < HEAD_SIZE + size ? 0 : HEAD_SIZE + size;
}

static struct bytes body_of(struct bytes reply) {
    return bytes_of(reply.data + HEAD_SIZE, reply.size - HEAD_SIZE);
}

static void expect(struct bytes reply, int32_t also_right) {
    struct zk_answer answer;
    if (!zk_get_answer(body_of(reply), &answer)) {
        bench_die("the server does not speak ZooKeeper's protocol");
    }
    if (answer.error != ZK_ANSWER_OK && answer.error != also_right) {
        bench_die("the server answered with error %d", answer.error);
    }
}

static void put_create(size_t session, enum zk_node_kind kind, struct bytes path) {
    const struct zk_new_node node = {
        .kind = kind, .path = path, .data = value, .acl = zk_acl_open()};
    request.size = 0;
    zk_put_create(&request, ++xids[session], &node);
}

static void on_created(void *context, struct bytes reply) {
    expect(reply, ZK_ANSWER_OK);
    bench_driver_done(context);
}

static void start(struct bench_client *client) {
    char path[BENCH_KEY_SIZE_MAX];
    size_t session = client->index % n_wires;
    size_t size = bench_key(bench_driver_bench(client->driver), n_created++, path);
    put_create(session, ZK_KIND_EPHEMERAL, bytes_of((uint8_t *)path, size));
    bench_wire_ask(wires[session], bytes_of(request.data, request.size), on_created, client);
}

static void on_connected(void *context, struct bytes reply) {
    (void)context;
    struct zk_connected connected;
    if (!zk_get_connected(body_of(reply), &connected) || connected.timeout_ms == 0) {
        bench_die("the server refused a session");
    }
}

static void on_parent(void *context, struct bytes reply) {
    (void)context;
    expect(reply, ZK_ANSWER_NODE_EXISTS);
}

static void on_ended(void *context, struct bytes reply) {
    (void)context;
    expect(reply, ZK_ANSWER_OK);
}

/* What is before the last slash of the prefix. */
static void create_parent(struct bench *bench) {
    const char *end = strrchr(bench->prefix, '/');
    if (bench->prefix[0] != '/' || strchr(bench->prefix + 1, '/') != end) {
        bench_usage(bench, "--prefix: \"/\" or \"/name/\" is needed");
    }
    if (end > bench->prefix) {
        put_create(0, ZK_KIND_PERSISTENT,
                   bytes_of((const uint8_t *)bench->prefix, (size_t)(end - bench->prefix)));
        bench_wire_ask(wires[0], bytes_of(request.data, request.size), on_parent, NULL);
        bench_wire_wait(wires[0]);
    }
}

static void run(struct bench *bench) {
    value = bench_value(bench, 16);
    n_wires = (size_t)bench_option(bench, "--connections", 4, 1, BENCH_CONNECTIONS_MAX);
    wires = bench_allocate(n_wires, sizeof *wires);
    xids = bench_allocate(n_wires, sizeof *xids);
    for (size_t i = 0; i < n_wires; i++) {
        wires[i] = bench_wire_connect(bench, i, measure);
        request.size = 0;
        zk_put_connect(&request, SESSION_TIMEOUT_MS);
        bench_wire_ask(wires[i], bytes_of(request.data, request.size), on_connected, NULL);
        bench_wire_wait(wires[i]);
    }
    bench->n_connections = n_wires;
    create_parent(bench);
    struct bench_driver *driver =
        bench_driver_create(bench, start, bench_tally_add(bench, "creates"));
    bench_driver_run(driver);
    bench_driver_destroy(driver);
    for (size_t i = 0; i < n_wires; i++) {
        request.size = 0;
        zk_put_plain(&request, ++xids[i], ZK_OP_CLOSE);
        bench_wire_end(wires[i], bytes_of(request.data, request.size), on_ended);
    }
    free(wires);
    free(xids);
    buffer_clear(&request);
}

const struct bench_workload bench_zk_create = {
    .name = "zk-create",
    .help = "over the ZooKeeper protocol: create ephemeral nodes",
    .takes = {"--clients", "--rate", "--duration", "--warm-up", "--value-size"},
    .clients_default = 100,
    .connects_itself = true,
    .run = run,
};
