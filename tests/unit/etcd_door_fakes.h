/*
 * A network and a service for tests of the etcd door. Calls are plain objects that remember what
 * was sent; the service carries out commands on a real state machine when it is told to. Included
 * once by each test program, which gets its own copy of everything.
 */
#ifndef LEASED_TESTS_UNIT_ETCD_DOOR_FAKES_H
#define LEASED_TESTS_UNIT_ETCD_DOOR_FAKES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/service.h"
#include "core/service_monitor.h"
#include "doors/authenticator.h"
#include "doors/etcd/etcd_door.h"
#include "doors/etcd/etcd_gateway.h"
#include "net/grpc.h"
#include "proto/etcd.pb-c.h"

enum { FAKE_MESSAGES_MAX = 256, REQUESTS_MAX = 64 };

struct grpc_call {
    const struct grpc_method *method;
    void *data;
    void *context;
    const char *metadata_name; /* one header, or NULL */
    const char *metadata_value;
    bool is_blocked; /* not writable */
    bool is_crowded; /* no room for large answers */
    struct buffer sent[FAKE_MESSAGES_MAX];
    size_t n_sent;
    size_t n_taken; /* read by the test */
    size_t announced_size;
    size_t held_bytes;
    size_t held_bytes_max; /* 0: no limit */
    bool is_gone;          /* and on_close is still to come */
    bool is_finished;
    enum grpc_code code;
    char text[256];
};

struct service {
    struct state_machine *machine;
    uint64_t now_ms;
    uint64_t now_step_ms; /* the clock moves so much at each look */
    uint64_t leader_id;
    struct list requests;
    struct buffer encoded[REQUESTS_MAX]; /* the commands of the requests */
    enum status refusals[REQUESTS_MAX];
    size_t n_requests;
    bool reads_wait;
    struct list reads;
    bool renewals_wait;
    struct list renewals;
    size_t n_renewals;
    bool refuses_work;
    bool scans_wait;
    struct service_scan *scan;
    size_t n_scans; /* begun */
};

/* --- The network. --- */

enum { METHODS_MAX = 64 };
static const struct grpc_method *registered[METHODS_MAX];
static size_t n_registered;

void net_scope_add_methods(struct net_scope *scope, const struct grpc_method *methods,
                           size_t n_methods, void *context) {
    for (size_t i = 0; i < n_methods; i++) {
        assert_true(n_registered < METHODS_MAX);
        registered[n_registered++] = &methods[i];
    }
}

/* The gateway needs a real network. */
void etcd_gateway_register(struct net_scope *scope) {
    (void)scope;
}

void net_scope_set_filter(struct net_scope *scope, const struct http_filter *filter,
                          void *context) {
    (void)scope;
    (void)filter;
    (void)context;
}

bool http_is_encrypted(const struct http_exchange *exchange) {
    (void)exchange;
    return false;
}

bool http_header(const struct http_exchange *exchange, const char *name, struct bytes *out_value) {
    (void)exchange;
    (void)name;
    (void)out_value;
    return false;
}

struct bytes http_method(const struct http_exchange *exchange) {
    (void)exchange;
    return bytes_of("", 0);
}

void grpc_call_set_data(struct grpc_call *call, void *data) {
    call->data = data;
}

void *grpc_call_data(const struct grpc_call *call) {
    return call->data;
}

void *grpc_call_context(const struct grpc_call *call) {
    return call->context;
}

bool grpc_call_metadata(const struct grpc_call *call, const char *name, struct bytes *out_value) {
    if (call->metadata_name == NULL || strcmp(call->metadata_name, name) != 0) {
        return false;
    }
    *out_value = bytes_from_text(call->metadata_value);
    return true;
}

uint8_t *grpc_call_reserve(struct grpc_call *call, size_t size) {
    assert_true(call->n_sent < FAKE_MESSAGES_MAX);
    struct buffer *buffer = &call->sent[call->n_sent];
    buffer_init(buffer);
    return buffer_reserve(buffer, size);
}

void grpc_call_commit(struct grpc_call *call, size_t size) {
    assert_false(call->is_finished);
    call->sent[call->n_sent++].size = size;
}

void grpc_call_send(struct grpc_call *call, struct bytes message) {
    uint8_t *memory = grpc_call_reserve(call, message.size);
    if (message.size > 0) {
        memcpy(memory, message.data, message.size);
    }
    grpc_call_commit(call, message.size);
}

void grpc_call_begin_message(struct grpc_call *call, size_t size) {
    (void)grpc_call_reserve(call, size);
    call->announced_size = size;
}

void grpc_call_append(struct grpc_call *call, struct bytes piece) {
    struct buffer *buffer = &call->sent[call->n_sent];
    assert_false(call->is_finished);
    assert_true(piece.size <= call->announced_size - buffer->size);
    buffer_append(buffer, piece.data, piece.size);
    call->n_sent += buffer->size == call->announced_size;
}

bool grpc_call_hold(struct grpc_call *call, size_t size) {
    if (call->held_bytes + size > call->held_bytes_max && call->held_bytes_max > 0) {
        return false;
    }
    call->held_bytes += size;
    return true;
}

void grpc_call_release(struct grpc_call *call, size_t size) {
    assert_true(call->held_bytes >= size);
    call->held_bytes -= size;
}

bool grpc_call_has_room(const struct grpc_call *call) {
    return !call->is_crowded;
}

bool grpc_call_is_writable(struct grpc_call *call) {
    return !call->is_blocked;
}

bool grpc_call_is_over(const struct grpc_call *call) {
    return call->is_gone || call->is_finished;
}

void grpc_call_finish(struct grpc_call *call, enum grpc_code code, const char *text) {
    assert_false(call->is_finished);
    call->is_finished = true;
    call->code = code;
    snprintf(call->text, sizeof call->text, "%s", text != NULL ? text : "");
}

static inline struct grpc_call *fake_call_open_with(struct etcd_door *door, const char *path,
                                                    const char *name, const char *value) {
    struct grpc_call *call = calloc(1, sizeof *call);
    assert_non_null(call);
    call->context = door;
    call->metadata_name = name;
    call->metadata_value = value;
    for (size_t i = 0; i < n_registered; i++) {
        if (strcmp(registered[i]->path, path) == 0) {
            call->method = registered[i];
        }
    }
    assert_non_null(call->method);
    if (call->method->on_open != NULL) {
        call->method->on_open(call);
    }
    return call;
}

static inline struct grpc_call *fake_call_open(struct etcd_door *door, const char *path) {
    return fake_call_open_with(door, path, NULL, NULL);
}

static inline void fake_call_message(struct grpc_call *call, struct bytes message) {
    call->method->on_message(call, message);
}

static inline void fake_call_half_close(struct grpc_call *call) {
    if (call->method->on_half_close != NULL) {
        call->method->on_half_close(call);
    }
}

static inline void fake_call_unblock(struct grpc_call *call) {
    call->is_blocked = false;
    call->method->on_writable(call);
}

static inline void fake_call_close(struct grpc_call *call) {
    if (call->method->on_close != NULL) {
        call->method->on_close(call);
    }
    /* The last one may be unfinished. */
    for (size_t i = 0; i < FAKE_MESSAGES_MAX; i++) {
        buffer_clear(&call->sent[i]);
    }
    free(call);
}

static inline struct bytes fake_call_take(struct grpc_call *call) {
    assert_true(call->n_taken < call->n_sent);
    struct buffer *buffer = &call->sent[call->n_taken++];
    return bytes_of(buffer->data, buffer->size);
}

/* --- The service. --- */

static inline void fake_service_init(struct service *service) {
    *service =
        (struct service){.machine = state_machine_create(NULL), .now_ms = 1000, .leader_id = 9};
    list_init(&service->requests);
    list_init(&service->reads);
    list_init(&service->renewals);
    lease_table_lead(state_machine_leases(service->machine), service->now_ms);
}

static inline void fake_service_clear(struct service *service) {
    assert_true(list_is_empty(&service->requests));
    state_machine_destroy(service->machine);
}

/* Kept encoded, as the real one does: what a command borrows is gone when it is carried out. */
void service_submit(struct service *service, const struct caller *caller,
                    struct service_request *request, const struct command *command) {
    assert_non_null(caller);
    assert_true(service->n_requests < REQUESTS_MAX);
    service->refusals[service->n_requests] = command_check(command);
    struct buffer *encoded = &service->encoded[service->n_requests++];
    struct command copy = *command;
    if (copy.type == COMMAND_LEASE_GRANT && copy.grant.id == 0) {
        copy.grant.id = 4711;
    }
    buffer_init(encoded);
    command_encode(encoded, &copy);
    list_append(&service->requests, &request->private.link);
}

static inline void fake_service_run(struct service *service) {
    struct apply_context context = {.term = 1, .now_ms = service->now_ms};
    size_t n = service->n_requests;
    /* What is told of one may submit the next. */
    struct buffer commands[REQUESTS_MAX];
    enum status refusals[REQUESTS_MAX];
    memcpy(commands, service->encoded, sizeof commands);
    memcpy(refusals, service->refusals, sizeof refusals);
    service->n_requests = 0;
    for (size_t i = 0; i < n; i++) {
        struct arena arena;
        struct reader reader;
        struct command command;
        struct outcome outcome;
        arena_init(&arena);
        reader_init(&reader, bytes_of(commands[i].data, commands[i].size));
        assert_int_equal(command_decode(&reader, &arena, &command), STATUS_OK);
        if (refusals[i] == STATUS_OK) {
            state_machine_apply(service->machine, &command, &context, &arena, &outcome);
        } else {
            outcome = (struct outcome){.status = refusals[i]};
        }
        struct list *link = list_pop_first(&service->requests);
        struct service_request *request = list_entry(link, struct service_request, private.link);
        request->done(request, &outcome);
        arena_clear(&arena);
        buffer_clear(&commands[i]);
    }
    watch_hub_publish(state_machine_watches(service->machine));
}

enum status service_read_now(struct service *service, const struct caller *caller,
                             const struct key_range *ranges, size_t n_ranges) {
    assert_non_null(caller);
    assert_true(ranges != NULL || n_ranges == 0);
    return service->reads_wait ? STATUS_PENDING : STATUS_OK;
}

enum status service_read(struct service *service, const struct caller *caller,
                         struct service_read *read, const struct key_range *ranges,
                         size_t n_ranges) {
    assert_non_null(caller);
    assert_true(ranges != NULL || n_ranges == 0);
    if (!service->reads_wait) {
        return STATUS_OK;
    }
    list_append(&service->reads, &read->private.link);
    return STATUS_PENDING;
}

enum status service_read_local(struct service *service, const struct caller *caller,
                               const struct key_range *ranges, size_t n_ranges) {
    assert_non_null(service);
    assert_non_null(caller);
    assert_true(ranges != NULL || n_ranges == 0);
    return STATUS_OK;
}

static inline void fake_service_read(struct service *service, enum status status) {
    struct list *link = list_pop_first(&service->reads);
    assert_non_null(link);
    struct service_read *read = list_entry(link, struct service_read, private.link);
    read->ready(read, status);
}

enum status service_renew(struct service *service, const struct caller *caller,
                          struct service_renewal *renewal, int64_t *out_ttl_ms) {
    assert_non_null(caller);
    assert_true(++service->n_renewals < 1000); /* it would go on for ever */
    if (service->renewals_wait) {
        list_append(&service->renewals, &renewal->private.link);
        return STATUS_PENDING;
    }
    bool checkpointed;
    return lease_table_renew(state_machine_leases(service->machine), renewal->id, service->now_ms,
                             out_ttl_ms, &checkpointed);
}

/* A cluster of one: only the member itself can lead. */
enum status service_move_leader(struct service *service, const struct caller *caller,
                                struct service_transfer *transfer, uint64_t member_id) {
    struct service_info info;
    assert_non_null(caller);
    (void)transfer;
    service_info(service, &info);
    return member_id == info.member_id ? STATUS_OK : STATUS_INVALID;
}

enum status service_time_left(struct service *service, const struct caller *caller,
                              struct service_renewal *question, int64_t *out_remaining_ms) {
    assert_non_null(caller);
    return lease_table_remaining(state_machine_leases(service->machine), question->id,
                                 service->now_ms, out_remaining_ms);
}

static inline struct service_renewal *fake_service_renewal(struct service *service,
                                                           size_t position) {
    struct list *link = service->renewals.next;
    while (position-- > 0) {
        link = link->next;
    }
    assert_ptr_not_equal(link, &service->renewals);
    list_remove(link);
    return list_entry(link, struct service_renewal, private.link);
}

const struct state_view *service_view(const struct service *service) {
    return state_machine_view(service->machine);
}

/* --- Watches, as replication has them. --- */

static bool fake_deliver(void *data, const struct watch_batch *batch) {
    struct service_watch *watch = data;
    return watch->deliver(watch, batch);
}

static void fake_compacted(void *data, int64_t compacted_revision) {
    struct service_watch *watch = data;
    watch->private.watcher = NULL;
    watch->compacted(watch, compacted_revision);
}

enum status service_watch(struct service *service, const struct caller *caller,
                          struct service_watch *watch,
                          const struct service_watch_options *watch_options) {
    static const struct watcher_callbacks callbacks = {.deliver = fake_deliver,
                                                       .compacted = fake_compacted};
    assert_non_null(caller);
    const struct watcher_options watcher = {.space = watch_options->range.space,
                                            .key = watch_options->range.key,
                                            .range_end = watch_options->range.range_end,
                                            .start_revision = watch_options->start_revision,
                                            .without_puts = watch_options->without_puts,
                                            .without_deletes = watch_options->without_deletes,
                                            .callbacks = &callbacks,
                                            .data = watch};
    watch->private.watcher = watch_hub_add(state_machine_watches(service->machine), &watcher);
    return STATUS_OK;
}

void service_unwatch(struct service *service, struct service_watch *watch) {
    if (watch->private.watcher != NULL) {
        watch_hub_remove(state_machine_watches(service->machine), watch->private.watcher);
        watch->private.watcher = NULL;
    }
}

void service_watch_resume(struct service *service, struct service_watch *watch) {
    watch_hub_resume(state_machine_watches(service->machine), watch->private.watcher);
}

bool service_watch_is_current(struct service *service, const struct service_watch *watch) {
    return watcher_is_current(state_machine_watches(service->machine), watch->private.watcher);
}

bool service_allow_work(struct service *service, size_t work) {
    (void)work;
    return !service->refuses_work;
}

uint64_t service_now_ms(struct service *service) {
    uint64_t now_ms = service->now_ms;
    service->now_ms += service->now_step_ms;
    return now_ms;
}

uint64_t service_iteration(const struct service *service) {
    static uint64_t iteration;
    (void)service;
    return ++iteration;
}

/* --- Long reads: the part is read at once, or when the test says so. --- */

static inline void fake_scan_run(struct service_scan *scan) {
    scan->private.state = SCAN_RUNNING;
    scan->run(scan);
    scan->private.state = SCAN_IDLE;
    scan->ran(scan);
}

enum status service_scan_start(struct service *service, const struct caller *caller,
                               struct service_scan *scan, const struct key_range *ranges,
                               size_t n_ranges) {
    (void)ranges;
    (void)n_ranges;
    assert_non_null(caller);
    scan->private.service = service;
    scan->view = snapshot_view_open(service->machine);
    service->n_scans++;
    if (service->scans_wait) {
        scan->private.state = SCAN_WAITING;
        service->scan = scan;
    } else {
        fake_scan_run(scan);
    }
    return STATUS_PENDING;
}

void service_scan_continue(struct service_scan *scan) {
    fake_scan_run(scan);
}

bool service_scan_end(struct service_scan *scan) {
    if (scan->private.state == SCAN_RUNNING) {
        return false;
    }
    snapshot_view_close(scan->view);
    scan->private.state = SCAN_ENDED;
    return true;
}

void net_server_stats(const struct net_server *server, struct net_stats *out_stats) {
    (void)server;
    *out_stats = (struct net_stats){0};
}

void net_server_each_method(const struct net_server *server,
                            void (*visit)(void *data, const struct grpc_method *method,
                                          const struct grpc_stats *stats),
                            void *data) {
    (void)server;
    (void)visit;
    (void)data;
}

void service_monitor(struct service *service, struct service_monitor *out_monitor) {
    (void)service;
    *out_monitor = (struct service_monitor){0};
}

void service_info(struct service *service, struct service_info *out_info) {
    *out_info = (struct service_info){
        .cluster_id = 7, .member_id = 9, .leader_id = service->leader_id, .term = 1};
}

size_t service_differing_timers(struct service *service, struct service_timers *out_timers,
                                size_t capacity) {
    (void)service;
    (void)out_timers;
    (void)capacity;
    return 0;
}

size_t service_members(struct service *service, struct service_member *out_members,
                       size_t capacity) {
    return 0;
}

void service_change_members(struct service *service, const struct caller *caller,
                            struct service_change *change, enum member_action action,
                            const struct member_facts *facts) {
    assert_non_null(caller);
    change->done(change, STATUS_MEMBERS_NOT_ENOUGH);
}

/* --- Callers: everybody may do everything. --- */

const struct caller *grpc_call_caller(const struct grpc_call *call) {
    assert_non_null(call);
    return &caller_anonymous;
}

bool grpc_call_has_service(const struct grpc_call *call, const char *service) {
    (void)call;
    (void)service;
    return true;
}

void grpc_call_address(const struct grpc_call *call, char out_text[GRPC_ADDRESS_SIZE]) {
    assert_non_null(call);
    snprintf(out_text, GRPC_ADDRESS_SIZE, "127.0.0.1:1");
}

enum status service_check_user(struct service *service, const struct caller *caller,
                               const char *what) {
    assert_non_null(service);
    assert_non_null(caller);
    assert_non_null(what);
    return STATUS_OK;
}

enum status service_check_admin(struct service *service, const struct caller *caller,
                                const char *what) {
    return service_check_user(service, caller, what);
}

/* A password that waits for a worker, which never comes. */
static struct authenticator_hash *fake_hash;

enum status authenticator_hash_password(struct authenticator *authenticator,
                                        struct authenticator_hash *hash, struct bytes password) {
    assert_null(authenticator);
    assert_true(password.size > 0);
    fake_hash = hash;
    return STATUS_PENDING;
}

void authenticator_cancel_hash(struct authenticator_hash *hash) {
    assert_ptr_equal(hash, fake_hash);
    fake_hash = NULL;
}

bool authenticator_log_in(struct authenticator *authenticator, struct authenticator_login *login,
                          struct bytes name, struct bytes password, const char *address,
                          enum status *out_status) {
    assert_null(authenticator);
    assert_non_null(login);
    assert_non_null(address);
    assert_true(name.size + password.size > 0);
    *out_status = STATUS_AUTH_FAILED;
    return false;
}

void authenticator_cancel(struct authenticator_login *login) {
    assert_non_null(login);
}

bool authenticator_make_token(struct authenticator *authenticator, const struct caller *caller,
                              char out_token[AUTHENTICATOR_TOKEN_SIZE]) {
    assert_null(authenticator);
    assert_non_null(caller);
    out_token[0] = '\0';
    return true;
}

/* --- The fixture. --- */

struct fixture {
    uv_loop_t loop;
    struct service service;
    struct etcd_door *door;
};

static const struct etcd_door_options options = {
    .progress_interval_ms = 1,
    .watches_per_stream_max = 3,
    .request_size_max = (size_t)2 * 1024 * 1024,
    .progress_at_once_watches_max = 2,
    .watch_bytes_per_stream_max = 1000,
    .renewals_per_stream_max = 6,
    .renewals_asked_max = 3,
    .fragment_size = 600,
    .previous_bytes_max = 1020,
    .queued_calls_max = 3,
};

static inline int setup(void **state) {
    struct fixture *fixture = calloc(1, sizeof *fixture);
    uv_loop_init(&fixture->loop);
    fake_service_init(&fixture->service);
    fixture->door = etcd_door_create(&fixture->loop, &fixture->service, NULL, &options);
    n_registered = 0;
    etcd_door_register(fixture->door, NULL);
    *state = fixture;
    return 0;
}

static inline int teardown(void **state) {
    struct fixture *fixture = *state;
    etcd_door_destroy(fixture->door);
    uv_run(&fixture->loop, UV_RUN_DEFAULT);
    fake_service_clear(&fixture->service);
    int result = uv_loop_close(&fixture->loop);
    free(fixture);
    return result;
}

/* Lets the door's timer fire at least once. */
static inline void tick(struct fixture *fixture) {
    fixture->service.now_ms += 1000;
    uv_run(&fixture->loop, UV_RUN_ONCE);
}

static inline void send_packed(struct grpc_call *call, const ProtobufCMessage *message) {
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = malloc(size > 0 ? size : 1);
    protobuf_c_message_pack(message, packed);
    fake_call_message(call, bytes_of(packed, size));
    free(packed); /* what the door keeps of a message it must have copied */
}

static inline ProtobufCBinaryData binary(const char *text) {
    return (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t)text, .len = strlen(text)};
}

static inline struct grpc_call *begin_put(struct fixture *fixture, const char *key,
                                          const char *value, int64_t lease) {
    struct grpc_call *call = fake_call_open(fixture->door, "/etcdserverpb.KV/Put");
    Etcdserverpb__PutRequest put = ETCDSERVERPB__PUT_REQUEST__INIT;
    put.key = binary(key);
    put.value = binary(value);
    put.lease = lease;
    send_packed(call, &put.base);
    return call;
}

static inline void put(struct fixture *fixture, const char *key, const char *value) {
    struct grpc_call *call = begin_put(fixture, key, value, 0);
    fake_service_run(&fixture->service);
    assert_int_equal(call->code, GRPC_OK);
    fake_call_close(call);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

#endif
