/* Requests of the KV service, from the wire to the log and back to the wire. The first byte chooses
 * the request. What is accepted must be what the generated code reads too, survive the log, be
 * carried out, and be answered with as many bytes as were measured. */
#include "core/state_machine.h"
#include "doors/etcd/etcd_request.h"
#include "doors/etcd/etcd_response.h"
#include "doors/etcd/etcd_txn.h"
#include "proto/etcd.pb-c.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct apply_context context = {.term = 1, .now_ms = 1};

static struct state_machine *machine_create(void) {
    struct state_machine *machine = state_machine_create(NULL);
    static const char *const keys[] = {"a", "b", "k"};
    struct arena arena;
    arena_init(&arena);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        struct outcome outcome;
        struct command put = {
            .type = COMMAND_PUT,
            .put = {.key = bytes_from_text(keys[i]), .value = bytes_from_text("value")}};
        state_machine_apply(machine, &put, &context, &arena, &outcome);
        assert(outcome.status == STATUS_OK);
    }
    arena_clear(&arena);
    return machine;
}

/* Through the log, as replication would send it. */
static void apply(struct state_machine *machine, const struct command *command, struct arena *arena,
                  struct buffer *log, struct outcome *out_outcome) {
    struct reader reader;
    struct command again;
    command_encode(log, command);
    reader_init(&reader, bytes_of(log->data, log->size));
    enum status status = command_decode(&reader, arena, &again);
    assert(status == STATUS_OK);
    assert(reader_left(&reader) == 0);
    assert(again.type == command->type);
    state_machine_apply(machine, &again, &context, arena, out_outcome);
}

static void writer_check(const struct pb_writer *writer) {
    assert(writer->at == writer->end);
}

static void answer(const struct command *command, const struct outcome *outcome) {
    struct etcd_identity identity;
    etcd_identity_init(&identity, 1, 2, 3);
    struct etcd_header header = {.identity = &identity, .revision = outcome->revision};
    size_t size = 0;
    switch (command->type) {
    case COMMAND_PUT:
        size = etcd_put_size(&header, &outcome->put);
        break;
    case COMMAND_DELETE:
        size = etcd_delete_size(&header, &outcome->delete);
        break;
    case COMMAND_TXN:
        size = etcd_txn_size(&header, &outcome->txn, &command->txn);
        break;
    default:
        return;
    }
    uint8_t *memory = malloc(size);
    assert(memory != NULL);
    struct pb_writer writer;
    pb_writer_init(&writer, memory, size);
    if (command->type == COMMAND_PUT) {
        etcd_put_write(&writer, &header, &outcome->put);
    } else if (command->type == COMMAND_DELETE) {
        etcd_delete_write(&writer, &header, &outcome->delete);
    } else {
        etcd_txn_write(&writer, &header, &outcome->txn, &command->txn);
        Etcdserverpb__TxnResponse *response =
            etcdserverpb__txn_response__unpack(NULL, size, memory);
        assert(response != NULL);
        assert(response->n_responses == outcome->txn.n_outcomes);
        etcdserverpb__txn_response__free_unpacked(response, NULL);
    }
    writer_check(&writer);
    free(memory);
}

static void try_command(const struct etcd_error *error, const struct command *command,
                        struct arena *arena) {
    if (error != NULL) {
        assert(error->text != NULL);
        return;
    }
    if (command_check(command) != STATUS_OK) {
        return; /* as service_submit() does */
    }
    struct state_machine *machine = machine_create();
    struct buffer log;
    struct outcome outcome;
    buffer_init(&log);
    apply(machine, command, arena, &log, &outcome);
    if (outcome.status == STATUS_OK) {
        answer(command, &outcome);
    }
    key_store_validate(state_machine_keys(machine));
    buffer_clear(&log);
    state_machine_destroy(machine);
}

static void try_range(struct bytes message, struct arena *arena) {
    struct etcd_range_request request;
    if (etcd_request_range(message, &request) != NULL) {
        return;
    }
    /* protobuf-c is stricter in places (it refuses groups), but where both read a message they
     * must read the same. */
    Etcdserverpb__RangeRequest *other =
        etcdserverpb__range_request__unpack(NULL, message.size, message.data);
    if (other != NULL) {
        assert(bytes_equal(request.range.key, bytes_of(other->key.data, other->key.len)));
        assert(request.range.revision == other->revision);
        etcdserverpb__range_request__free_unpacked(other, NULL);
    }
    struct state_machine *machine = machine_create();
    struct range_outcome outcome;
    enum status status =
        key_store_range(state_machine_keys(machine), KEY_SPACE_ETCD, &request.range,
                        &(struct key_work){.left = SIZE_MAX}, arena, &outcome);
    if (status == STATUS_OK) {
        struct etcd_header header = {.revision = 4};
        size_t size = etcd_range_size(&header, &outcome, request.range.keys_only);
        uint8_t *memory = malloc(size);
        assert(memory != NULL);
        struct pb_writer writer;
        pb_writer_init(&writer, memory, size);
        etcd_range_write(&writer, &header, &outcome, request.range.keys_only);
        writer_check(&writer);
        free(memory);
    }
    state_machine_destroy(machine);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    struct bytes message = bytes_of(data + 1, size - 1);
    struct command command;
    bool serializable;
    struct arena arena;
    arena_init(&arena);
    switch (data[0] % 5) {
    case 0:
        try_range(message, &arena);
        break;
    case 1:
        try_command(etcd_request_put(message, &command), &command, &arena);
        break;
    case 2:
        try_command(etcd_request_delete(message, &command), &command, &arena);
        break;
    case 3:
        try_command(etcd_txn_request(message, &arena, &command, &serializable), &command, &arena);
        break;
    default:
        try_command(etcd_request_compact(message, &command), &command, &arena);
    }
    arena_clear(&arena);
    return 0;
}
