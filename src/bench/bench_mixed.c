/*
 * `lease bench mixed`: a fleet. Each client is an instance of a service: a lease, and a key
 * attached to it. It renews most of the time, looks another service up, now and then restarts
 * (gives its lease back, takes a new one, registers again) or stands for election in its service,
 * and resigns when it had won. One stream on each connection watches every registration, as a mesh
 * would.
 */
#include "base/clock.h"
#include "bench/bench_driver.h"
#include "bench/bench_fill.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#define SERVICE_SIZE 10 /* instances of each service */
#define ELECTION_KEY UINT64_C(0x80000000)

/* In thousandths of the operations. */
enum { RENEWALS = 700, LOOKUPS = 220, RESTARTS = 50, CAMPAIGNS = 30 };
static_assert(RENEWALS + LOOKUPS + RESTARTS + CAMPAIGNS == 1000, "the shares are thousandths");

struct instance {
    struct mixed *mixed;
    struct bench_client *client;
    int64_t lease;
    bool is_renewing;
    bool is_leader;
    uint64_t random;
};

struct mixed {
    struct bench *bench;
    struct instance *instances;
    size_t n_ready;
    bool is_starting;
    bool stopping;
    struct grpc_client_call **renewals; /* of each connection */
    struct grpc_client_call **watches;
    int64_t first_id;
    int64_t next_id;
    uint32_t *instance_of_id; /* by id - first_id */
    uint64_t ids_max;
    uint64_t n_events;
    struct bench_tally *all;
    struct bench_tally *kinds[4];
};

/* xorshift64: the choices need not be good, only the same for every server. */
static uint64_t draw(struct instance *instance) {
    instance->random ^= instance->random << 13;
    instance->random ^= instance->random >> 7;
    instance->random ^= instance->random << 17;
    return instance->random;
}

static void finish(struct instance *instance) {
    struct mixed *mixed = instance->mixed;
    if (mixed->is_starting) {
        mixed->n_ready++;
        return;
    }
    struct bench_client *client = instance->client;
    bench_record(mixed->bench, mixed->all, client->due_ns, clock_boottime_ns());
    bench_driver_done(client);
}

static void must(bool started) {
    if (!started) {
        bench_die("the connection is closed");
    }
}

/* ---- a restart: revoke, grant, put --------------------------------------------------------------
 */

static void on_registered(void *context, const struct lease_answer *answer) {
    bench_check(answer, "put");
    finish(context);
}

static void on_granted(void *context, const struct lease_answer *answer) {
    struct instance *instance = context;
    char key[BENCH_KEY_SIZE_MAX];
    bench_check(answer, "grant");
    instance->lease = answer->grant->id;
    size_t size = bench_key(instance->mixed->bench, instance->client->index, key);
    must(lease_client_put(instance->client->connection, bytes_of(key, size),
                          bytes_from_text("10.0.0.1:80"), instance->lease, on_registered,
                          instance));
}

static void take_lease(struct instance *instance) {
    struct mixed *mixed = instance->mixed;
    int64_t id = mixed->next_id++;
    uint64_t slot = (uint64_t)(id - mixed->first_id);
    if (slot >= mixed->ids_max) {
        bench_die("mixed: more than %" PRIu64 " restarts; give a shorter --duration",
                  mixed->ids_max);
    }
    mixed->instance_of_id[slot] = (uint32_t)instance->client->index;
    must(lease_client_grant(instance->client->connection,
                            bench_option(mixed->bench, "--ttl", 600, 1, INT32_MAX), id, on_granted,
                            instance));
}

static void on_revoked(void *context, const struct lease_answer *answer) {
    bench_check(answer, "revoke");
    take_lease(context);
}

static void restart(struct instance *instance) {
    instance->is_leader = false; /* that key goes with the lease */
    must(lease_client_revoke(instance->client->connection, instance->lease, on_revoked, instance));
}

/* ---- looking up, standing for election ----------------------------------------------------------
 */

static void on_found(void *context, const struct lease_answer *answer) {
    bench_check(answer, "range");
    finish(context);
}

static void look_up(struct instance *instance) {
    struct bench *bench = instance->mixed->bench;
    uint64_t first = draw(instance) % bench->n_clients / SERVICE_SIZE * SERVICE_SIZE;
    char key[BENCH_KEY_SIZE_MAX];
    char end[BENCH_KEY_SIZE_MAX];
    Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
    request.key.len = bench_key(bench, first, key);
    request.key.data = (uint8_t *)key;
    request.range_end.len = bench_key(bench, first + SERVICE_SIZE, end);
    request.range_end.data = (uint8_t *)end;
    must(lease_client_range(instance->client->connection, &request, on_found, instance));
}

static void on_campaigned(void *context, const struct lease_answer *answer) {
    struct instance *instance = context;
    bench_check(answer, "txn");
    instance->is_leader = answer->txn->succeeded;
    finish(instance);
}

static void on_resigned(void *context, const struct lease_answer *answer) {
    struct instance *instance = context;
    bench_check(answer, "delete");
    instance->is_leader = false;
    finish(instance);
}

static void campaign(struct instance *instance) {
    struct bench *bench = instance->mixed->bench;
    char room[BENCH_KEY_SIZE_MAX];
    ProtobufCBinaryData key = {.data = (uint8_t *)room};
    key.len = bench_key(bench, ELECTION_KEY | instance->client->index / SERVICE_SIZE, room);
    if (instance->is_leader) {
        Etcdserverpb__DeleteRangeRequest request = ETCDSERVERPB__DELETE_RANGE_REQUEST__INIT;
        request.key = key;
        must(lease_client_delete_range(instance->client->connection, &request, on_resigned,
                                       instance));
        return;
    }
    Etcdserverpb__Compare compare = ETCDSERVERPB__COMPARE__INIT;
    compare.result = ETCDSERVERPB__COMPARE__COMPARE_RESULT__EQUAL;
    compare.target = ETCDSERVERPB__COMPARE__COMPARE_TARGET__CREATE;
    compare.key = key;
    compare.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION;
    Etcdserverpb__PutRequest put = ETCDSERVERPB__PUT_REQUEST__INIT;
    put.key = key;
    put.lease = instance->lease;
    Etcdserverpb__RangeRequest range = ETCDSERVERPB__RANGE_REQUEST__INIT;
    range.key = key;
    Etcdserverpb__RequestOp won = ETCDSERVERPB__REQUEST_OP__INIT;
    won.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
    won.request_put = &put;
    Etcdserverpb__RequestOp lost = ETCDSERVERPB__REQUEST_OP__INIT;
    lost.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
    lost.request_range = &range;
    Etcdserverpb__Compare *compares[] = {&compare};
    Etcdserverpb__RequestOp *success[] = {&won};
    Etcdserverpb__RequestOp *failure[] = {&lost};
    Etcdserverpb__TxnRequest request = ETCDSERVERPB__TXN_REQUEST__INIT;
    request.compare = compares;
    request.n_compare = 1;
    request.success = success;
    request.n_success = 1;
    request.failure = failure;
    request.n_failure = 1;
    must(lease_client_txn(instance->client->connection, &request, on_campaigned, instance));
}

/* ---- renewing, and the choice -------------------------------------------------------------------
 */

static void on_renewed(void *context, int64_t id, int64_t ttl_seconds) {
    struct mixed *mixed = context;
    uint64_t slot = (uint64_t)(id - mixed->first_id);
    if (ttl_seconds <= 0 || slot >= mixed->ids_max) {
        bench_die("lease %" PRIx64 " was not found", (uint64_t)id);
    }
    struct instance *instance = &mixed->instances[mixed->instance_of_id[slot]];
    if (!instance->is_renewing || instance->lease != id) {
        bench_die("the server renewed lease %" PRIx64 ", which was not asked for", (uint64_t)id);
    }
    instance->is_renewing = false;
    finish(instance);
}

static void start(struct bench_client *client) {
    struct instance *instance = client->context;
    struct mixed *mixed = instance->mixed;
    unsigned choice = (unsigned)(draw(instance) % 1000);
    if (choice < RENEWALS) {
        client->tally = mixed->kinds[0];
        instance->is_renewing = true;
        lease_client_renew(mixed->renewals[client->index % mixed->bench->n_connections],
                           instance->lease);
    } else if (choice < RENEWALS + LOOKUPS) {
        client->tally = mixed->kinds[1];
        look_up(instance);
    } else if (choice < RENEWALS + LOOKUPS + RESTARTS) {
        client->tally = mixed->kinds[2];
        restart(instance);
    } else {
        client->tally = mixed->kinds[3];
        campaign(instance);
    }
}

/* ---- streams ------------------------------------------------------------------------------------
 */

static void on_end(void *context, enum grpc_code code, const char *text) {
    const struct mixed *mixed = context;
    if (!mixed->stopping) {
        bench_die("a stream ended: %s (gRPC status %d)", text, (int)code);
    }
}

static void on_watched(void *context, const Etcdserverpb__WatchResponse *response) {
    struct mixed *mixed = context;
    if (response->canceled) {
        bench_die("a watch was cancelled: %s", response->cancel_reason);
    }
    if (mixed->bench->is_measuring) {
        mixed->n_events += response->n_events;
    }
}

static const struct lease_keepalive_events renewal_events = {.on_renewed = on_renewed,
                                                             .on_end = on_end};
static const struct lease_watch_events watch_events = {.on_response = on_watched, .on_end = on_end};

static void open_streams(struct mixed *mixed) {
    struct bench *bench = mixed->bench;
    struct bytes prefix = bytes_from_text(bench->prefix);
    uint8_t end[BENCH_KEY_SIZE_MAX];
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;
    create.key = (ProtobufCBinaryData){.data = (uint8_t *)prefix.data, .len = prefix.size};
    create.range_end.data = end;
    create.range_end.len = lease_client_prefix_end(prefix, end);
    mixed->renewals = bench_allocate(bench->n_connections, sizeof *mixed->renewals);
    mixed->watches = bench_allocate(bench->n_connections, sizeof *mixed->watches);
    for (size_t i = 0; i < bench->n_connections; i++) {
        struct lease_client *connection = bench->connections[i];
        mixed->renewals[i] = lease_client_keepalive(connection, &renewal_events, mixed);
        mixed->watches[i] = lease_client_watch(connection, &create, &watch_events, mixed);
        must(mixed->renewals[i] != NULL);
        must(mixed->watches[i] != NULL);
    }
}

static bool all_ready(void *context) {
    const struct mixed *mixed = context;
    return mixed->n_ready == mixed->bench->n_clients;
}

static void start_fleet(struct mixed *mixed, struct bench_driver *driver) {
    struct bench *bench = mixed->bench;
    mixed->is_starting = true;
    for (size_t i = 0; i < bench->n_clients; i++) {
        struct instance *instance = &mixed->instances[i];
        *instance = (struct instance){.mixed = mixed, .client = bench_driver_client(driver, i)};
        instance->random = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
        instance->client->context = instance;
        take_lease(instance);
    }
    if (!bench_wait(bench, all_ready, mixed, 60 * BENCH_NS_PER_SECOND)) {
        bench_die("the fleet did not start within a minute");
    }
    mixed->is_starting = false;
}

static void run(struct bench *bench) {
    struct mixed mixed = {.bench = bench, .ids_max = BENCH_COUNT_MAX};
    mixed.instances = bench_allocate(bench->n_clients, sizeof *mixed.instances);
    mixed.instance_of_id = bench_allocate(mixed.ids_max, sizeof *mixed.instance_of_id);
    mixed.first_id = bench_fill_first_id();
    mixed.next_id = mixed.first_id;
    mixed.all = bench_tally_add(bench, "operations");
    mixed.kinds[0] = bench_tally_add(bench, "renewals");
    mixed.kinds[1] = bench_tally_add(bench, "lookups");
    mixed.kinds[2] = bench_tally_add(bench, "restarts");
    mixed.kinds[3] = bench_tally_add(bench, "campaigns");
    struct bench_driver *driver = bench_driver_create(bench, start, mixed.all);
    open_streams(&mixed);
    start_fleet(&mixed, driver);
    bench_driver_run(driver);
    mixed.stopping = true;
    bench_fact(bench, "events", json_integer((json_int_t)mixed.n_events), "events",
               "%" PRIu64 " delivered to %zu watchers", mixed.n_events, bench->n_connections);
    for (size_t i = 0; i < bench->n_connections; i++) {
        grpc_client_call_cancel(mixed.renewals[i]);
        grpc_client_call_cancel(mixed.watches[i]);
    }
    bench_driver_destroy(driver);
    free(mixed.watches);
    free(mixed.renewals);
    free(mixed.instance_of_id);
    free(mixed.instances);
}

const struct bench_workload bench_mixed = {
    .name = "mixed",
    .help = "a fleet: sessions renew, services are looked up, come and go, elect leaders",
    .takes = {"--clients", "--rate", "--duration", "--warm-up", "--ttl"},
    .clients_default = 1000,
    .connections_default = 10,
    .run = run,
};
