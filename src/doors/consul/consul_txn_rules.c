/* Pure: run by every replica when the command is applied, with the same result. */
#include "core/cluster_version.h"
#include "doors/consul/consul_kv_work_rules.h"
#include "registry/registry_keys.h"
#include "registry/registry_request_model.h"
#include "registry/registry_text_model.h"

/* --- The request. --- */

void consul_txn_encode(struct buffer *out, const struct consul_op *ops, size_t n_ops,
                       const struct consul_step *steps, size_t n_steps) {
    consul_ops_encode(out, ops, n_ops);
    buffer_put_varint(out, n_steps);
    for (size_t i = 0; i < n_steps; i++) {
        buffer_put_bytes(out, steps[i].service);
        buffer_put_bytes(out, steps[i].id);
        buffer_put_bytes(out, steps[i].check);
        buffer_put_varint(out, steps[i].rule);
        buffer_put_bytes(out, steps[i].request);
        buffer_put_u8(out, (uint8_t)((steps[i].has_index ? 1 : 0) | (steps[i].shows ? 2 : 0)));
        buffer_put_varint(out, steps[i].index);
    }
}

static const struct rule *rule_of(uint32_t number) {
    for (size_t i = 0; i < REGISTRY_N_RULES; i++) {
        if (registry_rules[i]->number == number) {
            return registry_rules[i];
        }
    }
    return NULL;
}

/* What the request concerns. False: it is none that a step may have. */
static bool read_names(const struct consul_step *step, struct arena *arena,
                       struct registry_delete_check *out) {
    struct registry_register registration;
    struct registry_deregister removal;
    struct registry_put_check put;
    *out = (struct registry_delete_check){0};
    switch (step->rule) {
    case REGISTRY_RULE_REGISTER:
        if (!registry_register_decode(step->request, arena, &registration)) {
            return false;
        }
        out->service = registration.instance.service;
        out->id = registration.instance.id;
        return true;
    case REGISTRY_RULE_DEREGISTER:
        if (!registry_deregister_decode(step->request, &removal)) {
            return false;
        }
        out->service = removal.service;
        out->id = removal.id;
        return true;
    case REGISTRY_RULE_PUT_CHECK:
        if (!registry_put_check_decode(step->request, arena, &put)) {
            return false;
        }
        *out = (struct registry_delete_check){
            .service = put.service, .id = put.id, .check = put.check.id};
        return true;
    case REGISTRY_RULE_DELETE_CHECK:
        return registry_delete_check_decode(step->request, out);
    default:
        return false;
    }
}

/* The rights to a step are those to the service that it names, so its request names the same. */
static bool is_valid(const struct consul_step *step, struct arena *arena) {
    struct registry_delete_check names;
    if (!registry_name_is_valid(step->service) || !registry_name_is_valid(step->id) ||
        !registry_word_is_valid(step->check)) {
        return false;
    }
    if (step->rule == 0) {
        return step->request.size == 0;
    }
    return read_names(step, arena, &names) && bytes_equal(names.service, step->service) &&
           bytes_equal(names.id, step->id) && bytes_equal(names.check, step->check);
}

static const struct consul_step *decode_steps(struct reader *reader, struct arena *arena,
                                              size_t *out_n) {
    uint64_t n = reader_get_varint(reader);
    if (reader->failed || n > CONSUL_STEPS_MAX) {
        return NULL;
    }
    struct consul_step *steps = arena_calloc(arena, n, sizeof *steps);
    for (size_t i = 0; i < n; i++) {
        steps[i].service = reader_get_bytes(reader);
        steps[i].id = reader_get_bytes(reader);
        steps[i].check = reader_get_bytes(reader);
        uint64_t rule = reader_get_varint(reader);
        steps[i].request = reader_get_bytes(reader);
        uint8_t bits = reader_get_u8(reader);
        steps[i].index = reader_get_varint(reader);
        steps[i].rule = rule <= UINT32_MAX ? (uint32_t)rule : UINT32_MAX;
        steps[i].has_index = (bits & 1) != 0;
        steps[i].shows = (bits & 2) != 0;
        if (reader->failed || bits > 3 || !is_valid(&steps[i], arena)) {
            return NULL;
        }
    }
    *out_n = n;
    return reader_left(reader) == 0 ? steps : NULL;
}

/* --- Rights: of all before anything is read. --- */

static bool may_step(struct rule_run *run, const struct consul_step *step) {
    struct key_range range = registry_service_range(rule_arena(run), step->service);
    return rule_may(run, step->rule != 0 ? RIGHT_WRITE : RIGHT_READ, &range);
}

/* --- Trying. --- */

struct trial {
    struct rule_run *run;
    const struct consul_step *steps;
    size_t n;
    struct buffer failures;
    size_t n_failures;
};

static bool is_of_instance(const struct consul_step *a, const struct consul_step *b) {
    return bytes_equal(a->service, b->service) && bytes_equal(a->id, b->id);
}

/* 0: it is not there. */
static int64_t stored_index(struct trial *trial, const struct consul_step *step,
                            struct bytes check) {
    struct arena *arena = rule_arena(trial->run);
    const struct record *record =
        rule_get(trial->run, KEY_SPACE_REGISTRY,
                 check.size > 0 ? registry_key_check(arena, step->service, step->id, check)
                                : registry_key_instance(arena, step->service, step->id));
    return record != NULL ? record->mod_revision : 0;
}

/* Its index as the steps before leave it: 0 when it is not there. A check is put only where its
 * instance is. */
static int64_t index_before(struct trial *trial, size_t i) {
    const struct consul_step *step = &trial->steps[i];
    int64_t now = rule_revision(trial->run);
    int64_t index = stored_index(trial, step, step->check);
    bool has_instance = stored_index(trial, step, bytes_of(NULL, 0)) != 0;
    for (size_t j = 0; j < i; j++) {
        const struct consul_step *earlier = &trial->steps[j];
        if (earlier->rule == 0 || !is_of_instance(step, earlier)) {
            continue;
        }
        bool is_same = bytes_equal(step->check, earlier->check);
        if (earlier->rule == REGISTRY_RULE_DEREGISTER) {
            has_instance = false;
            index = 0;
        } else if (earlier->rule == REGISTRY_RULE_DELETE_CHECK) {
            index = is_same ? 0 : index;
        } else {
            has_instance = has_instance || earlier->rule == REGISTRY_RULE_REGISTER;
            index = is_same && has_instance ? now : index;
        }
    }
    return index;
}

static void fail(struct trial *trial, size_t i, enum consul_failure failure) {
    buffer_put_varint(&trial->failures, i);
    buffer_put_u8(&trial->failures, (uint8_t)failure);
    trial->n_failures++;
}

static void try_step(struct trial *trial, size_t i) {
    const struct consul_step *step = &trial->steps[i];
    if (step->has_index && (uint64_t)index_before(trial, i) != step->index) {
        fail(trial, i, CONSUL_FAILED_STALE);
    } else if (step->rule == 0 && step->shows && index_before(trial, i) == 0) {
        fail(trial, i, CONSUL_FAILED_MISSING);
    }
}

/* --- Doing. --- */

static enum status do_step(struct rule_run *run, const struct consul_step *step) {
    struct buffer ignored;
    if (step->rule == 0) {
        return STATUS_OK;
    }
    buffer_init(&ignored);
    enum status status = rule_of(step->rule)->run(run, step->request, &ignored);
    buffer_clear(&ignored);
    return status == STATUS_KEY_NOT_FOUND ? STATUS_OK : status;
}

/* False: it is not there. */
static bool show(struct rule_run *run, const struct consul_step *step, size_t i,
                 struct buffer *out) {
    struct arena *arena = rule_arena(run);
    const struct record *record = rule_get(
        run, KEY_SPACE_REGISTRY,
        step->check.size > 0 ? registry_key_check(arena, step->service, step->id, step->check)
                             : registry_key_instance(arena, step->service, step->id));
    const struct record *instance =
        rule_get(run, KEY_SPACE_REGISTRY, registry_key_instance(arena, step->service, step->id));
    if (record == NULL || instance == NULL) {
        return false;
    }
    buffer_put_varint(out, i);
    buffer_put_u8(out, 0);
    buffer_put_zigzag(out, instance->create_revision);
    buffer_put_zigzag(out, record->mod_revision);
    buffer_put_bytes(out, record_value(record));
    return true;
}

static enum status do_steps(struct rule_run *run, const struct consul_step *steps, size_t n,
                            struct buffer *answer) {
    struct buffer shown;
    size_t n_shown = 0;
    enum status status = STATUS_OK;
    buffer_init(&shown);
    for (size_t i = 0; i < n && status == STATUS_OK; i++) {
        status = do_step(run, &steps[i]);
        /* What is too large already is refused at the end. */
        if (status == STATUS_OK && steps[i].shows && shown.size <= RULE_ANSWER_SIZE_MAX) {
            n_shown += show(run, &steps[i], i, &shown) ? 1 : 0;
        }
    }
    buffer_put_varint(answer, n_shown);
    buffer_append(answer, shown.data, shown.size);
    buffer_clear(&shown);
    return status;
}

static enum status run_both(struct rule_run *run, const struct consul_op *ops, size_t n_ops,
                            const struct consul_step *steps, size_t n_steps,
                            struct buffer *answer) {
    struct consul_work *work = arena_calloc(rule_arena(run), 1, sizeof *work);
    struct trial trial = {.run = run, .steps = steps, .n = n_steps};
    struct buffer keys;
    enum status status = STATUS_OK;
    buffer_init(&keys);
    buffer_init(&trial.failures);
    consul_work_init(work, run);
    bool is_done = consul_ops_try(work, ops, n_ops, &keys);
    for (size_t i = 0; i < n_steps; i++) {
        try_step(&trial, i);
    }
    buffer_put_bytes(answer, bytes_of(keys.data, keys.size));
    buffer_put_u8(answer, trial.n_failures > 0);
    if (is_done && trial.n_failures == 0) {
        consul_work_store(work);
        status = do_steps(run, steps, n_steps, answer);
    } else {
        buffer_put_varint(answer, trial.n_failures);
        buffer_append(answer, trial.failures.data, trial.failures.size);
    }
    buffer_clear(&trial.failures);
    buffer_clear(&keys);
    return status;
}

static enum status run_txn(struct rule_run *run, struct bytes request, struct buffer *answer) {
    struct reader reader;
    size_t n_ops = 0;
    size_t n_steps = 0;
    reader_init(&reader, request);
    const struct consul_op *ops = consul_ops_decode(&reader, rule_arena(run), &n_ops);
    const struct consul_step *steps =
        ops != NULL ? decode_steps(&reader, rule_arena(run), &n_steps) : NULL;
    if (steps == NULL || n_ops + n_steps == 0) {
        return STATUS_MALFORMED;
    }
    if (!consul_ops_may(run, ops, n_ops)) {
        return STATUS_PERMISSION_DENIED;
    }
    for (size_t i = 0; i < n_steps; i++) {
        if (!may_step(run, &steps[i])) {
            return STATUS_PERMISSION_DENIED;
        }
    }
    rule_act_for_server(run);
    return run_both(run, ops, n_ops, steps, n_steps, answer);
}

/* Of the keys, and of each step that of its own rule. */
static size_t estimate_txn(const struct key_store *keys, const struct lease_table *leases,
                           struct bytes request) {
    struct reader reader;
    reader_init(&reader, request);
    size_t work = consul_ops_estimate(keys, &reader);
    uint64_t n = reader_get_varint(&reader);
    for (size_t i = 0; i < n && i < CONSUL_STEPS_MAX && !reader.failed; i++) {
        (void)reader_get_bytes(&reader);
        (void)reader_get_bytes(&reader);
        (void)reader_get_bytes(&reader);
        uint64_t number = reader_get_varint(&reader);
        struct bytes step = reader_get_bytes(&reader);
        (void)reader_get_u8(&reader);
        (void)reader_get_varint(&reader);
        const struct rule *rule = number <= UINT32_MAX ? rule_of((uint32_t)number) : NULL;
        if (!reader.failed && rule != NULL && rule->estimate != NULL) {
            work += rule->estimate(keys, leases, step);
        }
    }
    return work;
}

const struct rule consul_rule_txn = {.number = CONSUL_RULE_TXN,
                                     .name = "consul_txn",
                                     .since_version = CLUSTER_VERSION_RULES,
                                     /* Leases that it grants are the registry's. */
                                     .spaces = {KEY_SPACE_REGISTRY, KEY_SPACE_REGISTRY_RECORDS,
                                                KEY_SPACE_ETCD, KEY_SPACE_CONSUL,
                                                KEY_SPACE_CONSUL_RECORDS},
                                     .run = run_txn,
                                     .estimate = estimate_txn};

/* --- The answer. --- */

static void decode_record(struct reader *reader, struct consul_shown_record *out) {
    out->step = reader_get_varint(reader);
    out->failure = reader_get_u8(reader);
    if (out->failure == 0) {
        out->create_index = reader_get_zigzag(reader);
        out->modify_index = reader_get_zigzag(reader);
        out->value = reader_get_bytes(reader);
    }
}

bool consul_txn_results_decode(struct bytes answer, struct arena *arena,
                               struct consul_txn_results *out_results) {
    struct reader reader;
    reader_init(&reader, answer);
    struct bytes keys = reader_get_bytes(&reader);
    out_results->is_failed = reader_get_u8(&reader) != 0;
    uint64_t n = reader_get_varint(&reader);
    if (reader.failed || n > answer.size ||
        !consul_results_decode(keys, arena, &out_results->keys)) {
        return false;
    }
    struct consul_shown_record *records = arena_calloc(arena, n, sizeof *records);
    for (size_t i = 0; i < n; i++) {
        decode_record(&reader, &records[i]);
    }
    out_results->n = n;
    out_results->records = records;
    out_results->is_failed = out_results->is_failed || out_results->keys.is_failed;
    return !reader.failed && reader_left(&reader) == 0;
}
