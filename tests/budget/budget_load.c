/*
 * `budget_load PORT WORK ROUNDS`: a fixed amount of work for a server whose instructions are being
 * counted. Each round sends WIDTH requests at once and waits for all answers, so that the server
 * sees the same batches whenever and wherever it runs. Prints how many operations it did.
 */
#include "base/buffer.h"
#include "base/pb_append.h"
#include "base/pb_reader.h"
#include "client/lease_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 64, VALUE_SIZE = 256, TTL_SECONDS = 3600, CONNECT_TIMEOUT_MS = 60000 };

struct budget_load {
    uv_loop_t *loop;
    struct lease_client *client;
    struct grpc_client_call *keepalive;
    uint64_t awaited; /* answers that are still to come in this round */
    uint64_t done;
    int64_t lease_ids[WIDTH];
    size_t n_lease_ids;
};

_Noreturn static void die(const char *reason) {
    fprintf(stderr, "budget_load: %s\n", reason);
    exit(1);
}

static void on_closed(void *context, const char *reason) {
    (void)context;
    die(reason);
}

static void count(struct budget_load *load) {
    if (load->awaited == 0) {
        die("more answers than questions");
    }
    load->awaited--;
    load->done++;
}

static void wait_for_all(struct budget_load *load) {
    while (load->awaited > 0) {
        uv_run(load->loop, UV_RUN_ONCE);
    }
}

static void check(bool is_good, const char *what) {
    if (!is_good) {
        die(what);
    }
}

/* --- Unary calls. --- */

static void on_answer(void *context, const struct lease_answer *answer) {
    check(answer->code == GRPC_OK, answer->text);
    count(context);
}

static void on_grant(void *context, const struct lease_answer *answer) {
    struct budget_load *load = context;
    check(answer->code == GRPC_OK, answer->text);
    if (load->n_lease_ids < WIDTH) {
        load->lease_ids[load->n_lease_ids++] = answer->grant->id;
    }
    count(load);
}

static void on_range(void *context, const struct lease_answer *answer) {
    check(answer->code == GRPC_OK, answer->text);
    check(answer->range->n_kvs == 1, "range: the key is not there, put first");
    count(context);
}

static size_t key_of(unsigned number, char room[16]) {
    return (size_t)snprintf(room, 16, "/budget/%04u", number);
}

static void put(struct budget_load *load, unsigned number) {
    static uint8_t value[VALUE_SIZE];
    char key[16];
    size_t key_size = key_of(number, key);
    memset(value, 'v', sizeof value);
    load->awaited++;
    check(lease_client_put(load->client, bytes_of(key, key_size), bytes_of(value, sizeof value), 0,
                           on_answer, load),
          "put: the connection is closed");
}

static void put_round(struct budget_load *load) {
    for (unsigned i = 0; i < WIDTH; i++) {
        put(load, i);
    }
}

static void range_round(struct budget_load *load) {
    for (unsigned i = 0; i < WIDTH; i++) {
        char key[16];
        Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
        request.key.len = key_of(i, key);
        request.key.data = (uint8_t *)key;
        load->awaited++;
        check(lease_client_range(load->client, &request, on_range, load),
              "range: the connection is closed");
    }
}

static void grant_round(struct budget_load *load) {
    for (unsigned i = 0; i < WIDTH; i++) {
        load->awaited++;
        check(lease_client_grant(load->client, TTL_SECONDS, 0, on_grant, load),
              "grant: the connection is closed");
    }
}

/* --- Streams. --- */

static void on_end(void *context, enum grpc_code code, const char *text) {
    (void)context;
    (void)code;
    die(text);
}

static void on_renewed(void *context, int64_t id, int64_t ttl_seconds) {
    (void)id;
    check(ttl_seconds > 0, "keepalive: the lease is not there");
    count(context);
}

static void keepalive_open(struct budget_load *load) {
    static const struct lease_keepalive_events events = {.on_renewed = on_renewed,
                                                         .on_end = on_end};
    grant_round(load);
    wait_for_all(load);
    load->done = 0;
    load->keepalive = lease_client_keepalive(load->client, &events, load);
    check(load->keepalive != NULL, "keepalive: the connection is closed");
}

static void keepalive_round(struct budget_load *load) {
    for (unsigned i = 0; i < WIDTH; i++) {
        load->awaited++;
        lease_client_renew(load->keepalive, load->lease_ids[i]);
    }
}

static void on_watch(void *context, const Etcdserverpb__WatchResponse *response) {
    check(!response->canceled, "watch: it was cancelled");
    if (response->created) {
        count(context);
    }
    for (size_t i = 0; i < response->n_events; i++) {
        count(context);
    }
}

static void watch_open(struct budget_load *load) {
    static const struct lease_watch_events events = {.on_response = on_watch, .on_end = on_end};
    char key[16];
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;
    create.key.len = key_of(0, key);
    create.key.data = (uint8_t *)key;
    for (unsigned i = 0; i < WIDTH; i++) {
        load->awaited++;
        check(lease_client_watch(load->client, &create, &events, load) != NULL,
              "watch: the connection is closed");
    }
    wait_for_all(load);
    load->done = 0;
}

/* One put, and a delivery to each stream. The put is not counted as an operation. */
static void watch_round(struct budget_load *load) {
    put(load, 0);
    load->done--;
    load->awaited += WIDTH;
}

/* --- The native API. --- */

static struct budget_load *load_of(struct grpc_client_call *call) {
    struct budget_load *load;
    memcpy(&load, grpc_client_call_room(call), sizeof load);
    return load;
}

static struct grpc_client_call *native_open(struct budget_load *load,
                                            const struct grpc_client_method *method) {
    struct grpc_client_call *call =
        grpc_client_open(lease_client_connection(load->client), method, 0);
    check(call != NULL, "native: the connection is closed");
    memcpy(grpc_client_call_room(call), &load, sizeof load);
    return call;
}

static void native_send(struct grpc_client_call *call, const struct buffer *message) {
    memcpy(grpc_client_call_reserve(call, message->size), message->data, message->size);
    grpc_client_call_commit(call, message->size);
}

/* A number in a message that is in a message: fields from the outside to the inside. */
static int64_t number_in(struct bytes message, const uint32_t *fields, size_t n_fields) {
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == fields[0]) {
            return n_fields == 1 ? pb_reader_int64(&reader)
                                 : number_in(pb_reader_bytes(&reader), fields + 1, n_fields - 1);
        }
        pb_reader_skip(&reader);
    }
    return 0;
}

static void on_session(struct grpc_client_call *call, enum grpc_code code, const char *text,
                       struct bytes message) {
    static const uint32_t id[] = {2, 1};
    struct budget_load *load = load_of(call);
    check(code == GRPC_OK, text);
    if (load->n_lease_ids < WIDTH) {
        load->lease_ids[load->n_lease_ids++] = number_in(message, id, 2);
    }
    count(load);
}

static void session_round(struct budget_load *load) {
    static const struct grpc_client_method method = {
        .path = "/leased.v1.Sessions/Create", .unary = true, .on_end = on_session};
    struct buffer message;
    buffer_init(&message);
    pb_append_bytes(&message, 1, bytes_from_text("budget"));
    pb_append_int64(&message, 2, TTL_SECONDS * 1000);
    for (unsigned i = 0; i < WIDTH; i++) {
        struct grpc_client_call *call = native_open(load, &method);
        load->awaited++;
        native_send(call, &message);
        grpc_client_call_half_close(call);
    }
    buffer_clear(&message);
}

static void on_session_renewed(struct grpc_client_call *call, struct bytes message) {
    static const uint32_t ttl_ms[] = {4};
    check(number_in(message, ttl_ms, 1) > 0, "renew: the session is not there");
    count(load_of(call));
}

static void on_renewals_end(struct grpc_client_call *call, enum grpc_code code, const char *text,
                            struct bytes message) {
    (void)call;
    (void)code;
    (void)message;
    die(text);
}

static void renew_open(struct budget_load *load) {
    static const struct grpc_client_method method = {.path = "/leased.v1.Sessions/Renew",
                                                     .on_message = on_session_renewed,
                                                     .on_end = on_renewals_end};
    session_round(load);
    wait_for_all(load);
    load->done = 0;
    load->keepalive = native_open(load, &method);
}

static void renew_round(struct budget_load *load) {
    struct buffer message;
    buffer_init(&message);
    for (unsigned i = 0; i < WIDTH; i++) {
        load->awaited++;
        message.size = 0;
        pb_append_int64(&message, 1, load->lease_ids[i]);
        native_send(load->keepalive, &message);
    }
    buffer_clear(&message);
}

/* --- What can be asked for. --- */

static const struct work {
    const char *name;
    void (*open)(struct budget_load *load);
    void (*round)(struct budget_load *load);
} works[] = {
    {"put", NULL, put_round},           {"range", NULL, range_round},
    {"grant", NULL, grant_round},       {"keepalive", keepalive_open, keepalive_round},
    {"watch", watch_open, watch_round}, {"session", NULL, session_round},
    {"renew", renew_open, renew_round},
};

static const struct work *find_work(const char *name) {
    for (size_t i = 0; i < sizeof works / sizeof works[0]; i++) {
        if (strcmp(works[i].name, name) == 0) {
            return &works[i];
        }
    }
    die("there is no such work");
}

int main(int argc, char **argv) {
    check(argc == 4, "PORT WORK ROUNDS are needed");
    struct budget_load load = {.loop = uv_default_loop()};
    const struct work *work = find_work(argv[2]);
    unsigned long n_rounds = strtoul(argv[3], NULL, 10);
    const struct grpc_client_options options = {.host = "127.0.0.1",
                                                .port = (uint16_t)strtoul(argv[1], NULL, 10),
                                                .connect_timeout_ms = CONNECT_TIMEOUT_MS,
                                                .on_closed = on_closed};
    check(lease_client_create(load.loop, &options, 0, &load.client) == STATUS_OK, "no connection");
    while (!grpc_client_is_ready(lease_client_connection(load.client))) {
        uv_run(load.loop, UV_RUN_ONCE);
    }
    if (work->open != NULL) {
        work->open(&load);
    }
    for (unsigned long i = 0; i < n_rounds; i++) {
        work->round(&load);
        wait_for_all(&load);
    }
    printf("%llu\n", (unsigned long long)load.done);
    return 0;
}
