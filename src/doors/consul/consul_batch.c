#include "doors/consul/consul_batch.h"

enum { BATCH_SIZE_FIRST = 8 };

struct batch_step {
    uint32_t rule;
    struct bytes request; /* arena memory */
};

struct consul_batch {
    struct consul_call *call;
    struct batch_step *steps;
    size_t n;
    size_t capacity;
    size_t next;
    void (*done)(struct consul_call *call);
};

struct consul_batch *consul_batch_create(struct consul_call *call) {
    struct consul_batch *batch = arena_calloc(&call->arena, 1, sizeof *batch);
    batch->call = call;
    return batch;
}

static void add(struct consul_batch *batch, uint32_t rule, struct buffer *request) {
    struct arena *arena = &batch->call->arena;
    if (batch->n == batch->capacity) {
        size_t capacity = batch->capacity == 0 ? BATCH_SIZE_FIRST : 2 * batch->capacity;
        struct batch_step *steps = arena_calloc(arena, capacity, sizeof *steps);
        for (size_t i = 0; i < batch->n; i++) {
            steps[i] = batch->steps[i];
        }
        batch->steps = steps;
        batch->capacity = capacity;
    }
    batch->steps[batch->n++] = (struct batch_step){
        .rule = rule,
        .request = bytes_of(arena_copy(arena, request->data, request->size), request->size)};
    buffer_clear(request);
}

void consul_batch_register(struct consul_batch *batch, const struct registry_register *request) {
    struct buffer encoded;
    buffer_init(&encoded);
    registry_register_encode(&encoded, request);
    add(batch, REGISTRY_RULE_REGISTER, &encoded);
}

void consul_batch_deregister(struct consul_batch *batch, struct bytes service, struct bytes id) {
    const struct registry_deregister request = {.service = service, .id = id};
    struct buffer encoded;
    buffer_init(&encoded);
    registry_deregister_encode(&encoded, &request);
    add(batch, REGISTRY_RULE_DEREGISTER, &encoded);
}

void consul_batch_put_check(struct consul_batch *batch, const struct registry_put_check *request) {
    struct buffer encoded;
    buffer_init(&encoded);
    registry_put_check_encode(&encoded, request);
    add(batch, REGISTRY_RULE_PUT_CHECK, &encoded);
}

void consul_batch_delete_check(struct consul_batch *batch, struct bytes service, struct bytes id,
                               struct bytes check) {
    const struct registry_delete_check request = {.service = service, .id = id, .check = check};
    struct buffer encoded;
    buffer_init(&encoded);
    registry_delete_check_encode(&encoded, &request);
    add(batch, REGISTRY_RULE_DELETE_CHECK, &encoded);
}

void consul_batch_report(struct consul_batch *batch, const struct registry_report *report) {
    struct buffer encoded;
    buffer_init(&encoded);
    registry_reports_encode(&encoded, report, 1);
    add(batch, REGISTRY_RULE_REPORT, &encoded);
}

static void step(struct consul_call *call, const struct outcome *outcome) {
    struct consul_batch *batch = call->data;
    if (outcome != NULL && outcome->status != STATUS_OK &&
        outcome->status != STATUS_KEY_NOT_FOUND) {
        consul_call_fail_status(call, outcome->status);
        return;
    }
    if (batch->next == batch->n) {
        batch->done(call);
        return;
    }
    const struct batch_step *next = &batch->steps[batch->next++];
    const struct buffer request = {.data = (uint8_t *)(uintptr_t)next->request.data,
                                   .size = next->request.size,
                                   .capacity = next->request.size};
    consul_call_submit(call, next->rule, &request, step);
}

void consul_batch_run(struct consul_batch *batch, void (*done)(struct consul_call *call)) {
    batch->done = done;
    batch->call->data = batch;
    batch->call->status = 0;
    batch->call->query = NULL;
    step(batch->call, NULL);
}

void consul_reply_ok(struct consul_call *call) {
    consul_call_reply_empty(call, 200);
}

void consul_reply_true(struct consul_call *call) {
    consul_call_reply_bool(call, true);
}
