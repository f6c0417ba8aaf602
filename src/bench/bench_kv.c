/*
 * `lease bench put`, `range` and `txn`: single keys, each client one call at a time. A range reads
 * a key that exists. A transaction swaps the value of a key that belongs to its client, if it has
 * not changed since.
 */
#include "bench/bench_driver.h"
#include "bench/bench_fill.h"
#include "client/lease_hot.h"

#include <inttypes.h>
#include <stdlib.h>

struct kv {
    struct bench *bench;
    uint64_t n_keys;
    uint64_t next_key;
    bool serializable;
    struct bytes value;
    int64_t *revisions; /* txn: of each client's key when it was last written */
};

static uint64_t take_key(struct kv *kv) {
    uint64_t key = kv->next_key++;
    if (kv->next_key == kv->n_keys) {
        kv->next_key = 0;
    }
    return key;
}

/* ---- put ----------------------------------------------------------------------------------------
 */

static void on_put(void *context, enum grpc_code code, const char *text, struct bytes message) {
    (void)message;
    bench_check_code(code, text, "put");
    bench_driver_done(context);
}

static void start_put(struct bench_client *client) {
    struct kv *kv = client->context;
    char key[BENCH_KEY_SIZE_MAX];
    size_t key_size = bench_key(kv->bench, take_key(kv), key);
    if (!lease_hot_put(client->connection, bytes_of(key, key_size), kv->value, 0, on_put, client)) {
        bench_die("put: the connection is closed");
    }
}

/* ---- range --------------------------------------------------------------------------------------
 */

static void on_range(void *context, enum grpc_code code, const char *text, struct bytes message) {
    size_t count;
    bench_check_code(code, text, "range");
    if (!lease_hot_range_count(message, &count) || count != 1) {
        bench_die("range: the answer does not hold one key");
    }
    bench_driver_done(context);
}

static void start_range(struct bench_client *client) {
    struct kv *kv = client->context;
    char key[BENCH_KEY_SIZE_MAX];
    size_t key_size = bench_key(kv->bench, take_key(kv), key);
    if (!lease_hot_range(client->connection, bytes_of(key, key_size), kv->serializable, on_range,
                         client)) {
        bench_die("range: the connection is closed");
    }
}

/* ---- txn ----------------------------------------------------------------------------------------
 */

static void on_txn(void *context, const struct lease_answer *answer) {
    struct bench_client *client = context;
    struct kv *kv = client->context;
    bench_check(answer, "txn");
    if (!answer->txn->succeeded) {
        bench_die("txn: another client wrote the key; is another benchmark running? (--prefix)");
    }
    kv->revisions[client->index] = answer->txn->header != NULL ? answer->txn->header->revision : 0;
    bench_driver_done(client);
}

static void start_txn(struct bench_client *client) {
    struct kv *kv = client->context;
    char room[BENCH_KEY_SIZE_MAX];
    ProtobufCBinaryData key = {
        .data = (uint8_t *)room,
        .len = bench_key(kv->bench, client->index, room),
    };
    Etcdserverpb__Compare compare = ETCDSERVERPB__COMPARE__INIT;
    compare.result = ETCDSERVERPB__COMPARE__COMPARE_RESULT__EQUAL;
    compare.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__MOD;
    compare.key = key;
    compare.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION;
    compare.mod_revision = kv->revisions[client->index];
    Etcdserverpb__PutRequest put = ETCDSERVERPB__PUT_REQUEST__INIT;
    put.key = key;
    put.value = (ProtobufCBinaryData){.data = (uint8_t *)kv->value.data, .len = kv->value.size};
    Etcdserverpb__RequestOp operation = ETCDSERVERPB__REQUEST_OP__INIT;
    operation.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
    operation.request_put = &put;
    Etcdserverpb__Compare *compares[] = {&compare};
    Etcdserverpb__RequestOp *operations[] = {&operation};
    Etcdserverpb__TxnRequest request = ETCDSERVERPB__TXN_REQUEST__INIT;
    request.compare = compares;
    request.n_compare = 1;
    request.success = operations;
    request.n_success = 1;
    if (!lease_client_txn(client->connection, &request, on_txn, client)) {
        bench_die("txn: the connection is closed");
    }
}

struct asking {
    struct kv *kv;
    size_t index;
    size_t *n_left;
};

static void on_revision(void *context, const struct lease_answer *answer) {
    struct asking *asking = context;
    bench_check(answer, "range");
    asking->kv->revisions[asking->index] =
        answer->range->n_kvs > 0 ? answer->range->kvs[0]->mod_revision : 0;
    --*asking->n_left;
}

/* A key may be left of an earlier run. */
static void ask_revisions(struct kv *kv) {
    struct bench *bench = kv->bench;
    size_t n_left = bench->n_clients;
    struct asking *askings = bench_allocate(n_left, sizeof *askings);
    kv->revisions = bench_allocate(n_left, sizeof *kv->revisions);
    for (size_t i = 0; i < bench->n_clients; i++) {
        askings[i] = (struct asking){.kv = kv, .index = i, .n_left = &n_left};
        char key[BENCH_KEY_SIZE_MAX];
        Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
        request.key.len = bench_key(bench, i, key);
        request.key.data = (uint8_t *)key;
        lease_client_range(bench->connections[i % bench->n_connections], &request, on_revision,
                           &askings[i]);
    }
    while (n_left > 0) {
        uv_run(bench->loop, UV_RUN_ONCE);
    }
    free(askings);
}

/* ---- all three ----------------------------------------------------------------------------------
 */

static void drive(struct kv *kv, bench_start *start, const char *name) {
    struct bench *bench = kv->bench;
    struct bench_driver *driver = bench_driver_create(bench, start, bench_tally_add(bench, name));
    for (size_t i = 0; i < bench->n_clients; i++) {
        bench_driver_client(driver, i)->context = kv;
    }
    bench_driver_run(driver);
    bench_driver_destroy(driver);
}

static void take_keys(struct kv *kv) {
    kv->n_keys = (uint64_t)bench_option(kv->bench, "--keys", 10000, 1, BENCH_COUNT_MAX);
    bench_fact(kv->bench, "keys", json_integer((json_int_t)kv->n_keys), NULL, "%s", "");
}

static void run_put(struct bench *bench) {
    struct kv kv = {.bench = bench, .value = bench_value(bench, 256)};
    take_keys(&kv);
    drive(&kv, start_put, "puts");
}

static void run_range(struct bench *bench) {
    struct kv kv = {.bench = bench, .value = bench_value(bench, 256)};
    kv.serializable = arguments_has(bench->arguments, "--serializable");
    take_keys(&kv);
    struct bench_fill fill = {.bench = bench, .n_keys = kv.n_keys, .value = kv.value};
    bench_fill_run(&fill);
    bench_fact(bench, "serializable", json_boolean(kv.serializable), NULL, "%s", "");
    drive(&kv, start_range, "ranges");
}

static void run_txn(struct bench *bench) {
    struct kv kv = {.bench = bench, .value = bench_value(bench, 256)};
    ask_revisions(&kv);
    drive(&kv, start_txn, "transactions");
    free(kv.revisions);
}

const struct bench_workload bench_put = {
    .name = "put",
    .help = "write keys",
    .takes = {"--clients", "--rate", "--duration", "--warm-up", "--keys", "--value-size"},
    .clients_default = 100,
    .connections_default = 4,
    .run = run_put,
};

const struct bench_workload bench_range = {
    .name = "range",
    .help = "read single keys, linearizable unless --serializable is given",
    .takes = {"--clients", "--rate", "--duration", "--warm-up", "--keys", "--value-size",
              "--serializable"},
    .clients_default = 100,
    .connections_default = 4,
    .run = run_range,
};

const struct bench_workload bench_txn = {
    .name = "txn",
    .help = "compare and swap, each client its own key",
    .takes = {"--clients", "--rate", "--duration", "--warm-up", "--value-size"},
    .clients_default = 100,
    .connections_default = 4,
    .run = run_txn,
};
