#include "doors/consul/consul_batch.h"
#include "doors/consul/consul_call_internal.h"

enum { BATCH_SIZE_FIRST = 8, STEPS_AT_ONCE = 64, BYTES_AT_ONCE = 256 * 1024 };

struct consul_batch {
    struct consul_call *call;
    struct consul_step *steps; /* all of them arena memory */
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

static struct bytes copy(struct arena *arena, struct bytes bytes) {
    return bytes_of(arena_copy(arena, bytes.data, bytes.size), bytes.size);
}

static void add(struct consul_batch *batch, uint32_t rule, const struct registry_delete_check *what,
                struct buffer *request) {
    struct arena *arena = &batch->call->arena;
    if (batch->n == batch->capacity) {
        size_t capacity = batch->capacity == 0 ? BATCH_SIZE_FIRST : 2 * batch->capacity;
        struct consul_step *steps = arena_calloc(arena, capacity, sizeof *steps);
        for (size_t i = 0; i < batch->n; i++) {
            steps[i] = batch->steps[i];
        }
        batch->steps = steps;
        batch->capacity = capacity;
    }
    batch->steps[batch->n++] =
        (struct consul_step){.rule = rule,
                             .service = copy(arena, what->service),
                             .id = copy(arena, what->id),
                             .check = copy(arena, what->check),
                             .request = copy(arena, bytes_of(request->data, request->size))};
    buffer_clear(request);
}

struct consul_step *consul_batch_last(struct consul_batch *batch) {
    return &batch->steps[batch->n - 1];
}

const struct consul_step *consul_batch_steps(const struct consul_batch *batch, size_t *out_n) {
    *out_n = batch->n;
    return batch->steps;
}

void consul_batch_show(struct consul_batch *batch, struct bytes service, struct bytes id,
                       struct bytes check) {
    const struct registry_delete_check what = {.service = service, .id = id, .check = check};
    struct buffer nothing;
    buffer_init(&nothing);
    add(batch, 0, &what, &nothing);
    consul_batch_last(batch)->shows = true;
}

void consul_batch_register(struct consul_batch *batch, const struct registry_register *request) {
    struct buffer encoded;
    buffer_init(&encoded);
    registry_register_encode(&encoded, request);
    const struct registry_delete_check what = {.service = request->instance.service,
                                               .id = request->instance.id};
    add(batch, REGISTRY_RULE_REGISTER, &what, &encoded);
}

void consul_batch_deregister(struct consul_batch *batch, struct bytes service, struct bytes id) {
    const struct registry_deregister request = {.service = service, .id = id};
    struct buffer encoded;
    buffer_init(&encoded);
    registry_deregister_encode(&encoded, &request);
    const struct registry_delete_check what = {.service = service, .id = id};
    add(batch, REGISTRY_RULE_DEREGISTER, &what, &encoded);
}

void consul_batch_put_check(struct consul_batch *batch, const struct registry_put_check *request) {
    struct buffer encoded;
    buffer_init(&encoded);
    registry_put_check_encode(&encoded, request);
    const struct registry_delete_check what = {
        .service = request->service, .id = request->id, .check = request->check.id};
    add(batch, REGISTRY_RULE_PUT_CHECK, &what, &encoded);
}

void consul_batch_delete_check(struct consul_batch *batch, struct bytes service, struct bytes id,
                               struct bytes check) {
    const struct registry_delete_check request = {.service = service, .id = id, .check = check};
    struct buffer encoded;
    buffer_init(&encoded);
    registry_delete_check_encode(&encoded, &request);
    add(batch, REGISTRY_RULE_DELETE_CHECK, &request, &encoded);
}

/* Alone: a report may be left for later, which a transaction may not. */
void consul_batch_report(struct consul_batch *batch, const struct registry_report *report) {
    struct buffer encoded;
    buffer_init(&encoded);
    registry_reports_encode(&encoded, report, 1);
    const struct registry_delete_check what = {
        .service = report->service, .id = report->id, .check = report->check};
    add(batch, REGISTRY_RULE_REPORT, &what, &encoded);
}

/* What gives room back goes alone: so it is done while the space alarm stands, too. */
static size_t count_next(const struct consul_batch *batch) {
    uint32_t first = batch->steps[batch->next].rule;
    size_t size = 0;
    size_t n = 0;
    if (first != REGISTRY_RULE_REGISTER && first != REGISTRY_RULE_PUT_CHECK) {
        return 1;
    }
    while (batch->next + n < batch->n && n < STEPS_AT_ONCE && size <= BYTES_AT_ONCE) {
        size += batch->steps[batch->next + n].request.size;
        n++;
    }
    return n;
}

static void step(struct consul_call *call, const struct outcome *outcome) {
    struct consul_batch *batch = call->data;
    struct buffer request;
    if (outcome != NULL && outcome->status != STATUS_OK &&
        outcome->status != STATUS_KEY_NOT_FOUND) {
        consul_call_fail_status(call, outcome->status);
        return;
    }
    if (batch->next == batch->n) {
        batch->done(call);
        return;
    }
    size_t n = count_next(batch);
    const struct consul_step *next = &batch->steps[batch->next];
    batch->next += n;
    buffer_init(&request);
    if (n == 1) {
        buffer_append(&request, next->request.data, next->request.size);
        consul_call_submit(call, next->rule, &request, step);
    } else {
        consul_txn_encode(&request, NULL, 0, next, n);
        consul_call_submit(call, CONSUL_RULE_TXN, &request, step);
    }
    buffer_clear(&request);
}

void consul_batch_run(struct consul_batch *batch, void (*done)(struct consul_call *call)) {
    batch->done = done;
    batch->call->status = 0;
    if (consul_search_start(batch->call)) {
        return;
    }
    batch->call->data = batch;
    batch->call->query = NULL;
    step(batch->call, NULL);
}

void consul_reply_ok(struct consul_call *call) {
    consul_call_reply_empty(call, 200);
}

void consul_reply_true(struct consul_call *call) {
    consul_call_reply_bool(call, true);
}
