/*
 * Random transactions of the Consul API over keys and the catalog against a plain table of
 * instances, checks and one key, on two machines. Each step is judged by what the steps before it
 * leave, and all of a transaction is done or nothing: keys, instances and checks. The seed is
 * printed; give it as the first argument to replay a run.
 */
#include "../storage/thorough.h"
#include "doors/consul/consul_keys.h"
#include "doors/consul/consul_rules.h"
#include "model_machines.h"
#include "model_random.h"
#include "registry/registry_keys.h"
#include "registry/registry_rules.h"

#include <stdlib.h>
#include <string.h>

enum {
    STEPS = 4000,
    ROUNDS = THOROUGH(5),
    INSTANCES = 4,
    CHECKS = 2,
    STEPS_MAX = 5,
    REQUEST_SIZE = 512
};

static const char *const services[INSTANCES] = {"web", "web", "webs", "a/b"};
static const char *const ids[INSTANCES] = {"i1", "i2", "i1", "i1"};
static const char *const check_names[CHECKS] = {"c", "d"};

/* --- The reference. --- */

struct ref_record {
    bool exists;
    int64_t index;
};
struct ref_instance {
    struct ref_record self;
    struct ref_record checks[CHECKS];
};
struct ref {
    struct ref_instance instances[INSTANCES];
    bool has_key;
};

/* What a step names: the instance, or with check < CHECKS one of its checks. */
struct ref_step {
    size_t instance;
    size_t check;
    struct consul_step step;
    uint8_t request[REQUEST_SIZE];
};

static struct ref ref;
static uint32_t n_registrations;

static struct ref_record *named(struct ref *of, const struct ref_step *step) {
    struct ref_instance *instance = &of->instances[step->instance];
    return step->check < CHECKS ? &instance->checks[step->check] : &instance->self;
}

static uint8_t ref_try(struct ref *of, const struct ref_step *step, int64_t now) {
    struct ref_record *record = named(of, step);
    int64_t index = record->exists ? record->index : 0;
    uint8_t failure = 0;
    if (step->step.has_index && (uint64_t)index != step->step.index) {
        failure = CONSUL_FAILED_STALE;
    } else if (step->step.rule == 0 && step->step.shows && !record->exists) {
        failure = CONSUL_FAILED_MISSING;
    }
    switch (step->step.rule) {
    case REGISTRY_RULE_REGISTER:
        *record = (struct ref_record){.exists = true, .index = now};
        break;
    case REGISTRY_RULE_DEREGISTER:
        of->instances[step->instance] = (struct ref_instance){0};
        break;
    case REGISTRY_RULE_PUT_CHECK:
        if (of->instances[step->instance].self.exists) {
            *record = (struct ref_record){.exists = true, .index = now};
        }
        break;
    case REGISTRY_RULE_DELETE_CHECK:
        *record = (struct ref_record){0};
        break;
    default:
        break;
    }
    return failure;
}

/* --- What is there. --- */

static const struct record *record_of(size_t instance, size_t check) {
    struct bytes service = bytes_from_text(services[instance]);
    struct bytes id = bytes_from_text(ids[instance]);
    return key_store_find(state_machine_keys(machine), KEY_SPACE_REGISTRY,
                          check < CHECKS ? registry_key_check(&arena, service, id,
                                                              bytes_from_text(check_names[check]))
                                         : registry_key_instance(&arena, service, id));
}

/* An instance's index also grows with the health of its checks, and those that it keeps are written
 * again with it: both are looked up, never before the transaction that wrote them. */
static void check_record(struct ref_record *expected, const struct record *record) {
    assert(expected->exists == (record != NULL));
    if (record != NULL) {
        assert(record->mod_revision >= expected->index);
        expected->index = record->mod_revision;
    }
}

static void check(bool is_changed) {
    int64_t indexes[INSTANCES][CHECKS + 1];
    for (size_t i = 0; i < INSTANCES; i++) {
        for (size_t c = 0; c <= CHECKS; c++) {
            struct ref_record *expected =
                c < CHECKS ? &ref.instances[i].checks[c] : &ref.instances[i].self;
            indexes[i][c] = expected->index;
            check_record(expected, record_of(i, c));
            assert(is_changed || expected->index == indexes[i][c]);
        }
    }
    assert(ref.has_key == (key_store_find(state_machine_keys(machine), KEY_SPACE_CONSUL,
                                          consul_key_value(&arena, bytes_from_text("k"))) != NULL));
}

/* --- Steps. --- */

static void encode_request(struct ref_step *step, struct buffer *out) {
    const struct registry_check check = {.id = step->step.check,
                                         .kind = REGISTRY_CHECK_TTL,
                                         .origin = REGISTRY_ORIGIN_NATIVE,
                                         .ttl_ms = 5000};
    const struct registry_register registration = {
        .instance = {.service = step->step.service,
                     .id = step->step.id,
                     .origin = REGISTRY_ORIGIN_NATIVE,
                     .state = REGISTRY_UP,
                     .weight = 1 + ++n_registrations % 1000, /* never what is there already */
                     .ttl_ms = 10000},
        .keeps_checks = true,
        .is_idempotent = true};
    const struct registry_deregister removal = {.service = step->step.service, .id = step->step.id};
    const struct registry_put_check put = {
        .service = step->step.service, .id = step->step.id, .check = check};
    const struct registry_delete_check deletion = {
        .service = step->step.service, .id = step->step.id, .check = step->step.check};
    switch (step->step.rule) {
    case REGISTRY_RULE_REGISTER:
        registry_register_encode(out, &registration);
        break;
    case REGISTRY_RULE_DEREGISTER:
        registry_deregister_encode(out, &removal);
        break;
    case REGISTRY_RULE_PUT_CHECK:
        registry_put_check_encode(out, &put);
        break;
    case REGISTRY_RULE_DELETE_CHECK:
        registry_delete_check_encode(out, &deletion);
        break;
    default:
        break;
    }
}

static void random_step(struct ref_step *step) {
    static const uint32_t of_instance[] = {0, REGISTRY_RULE_REGISTER, REGISTRY_RULE_REGISTER,
                                           REGISTRY_RULE_DEREGISTER};
    static const uint32_t of_check[] = {0, REGISTRY_RULE_PUT_CHECK, REGISTRY_RULE_PUT_CHECK,
                                        REGISTRY_RULE_DELETE_CHECK};
    struct buffer request;
    *step =
        (struct ref_step){.instance = random_below(INSTANCES), .check = random_below(CHECKS * 2)};
    bool is_check = step->check < CHECKS;
    step->step = (struct consul_step){
        .service = bytes_from_text(services[step->instance]),
        .id = bytes_from_text(ids[step->instance]),
        .check = is_check ? bytes_from_text(check_names[step->check]) : bytes_of("", 0),
        .rule = is_check ? of_check[random_below(4)] : of_instance[random_below(4)],
        .has_index = random_one_in(3),
        .shows = random_one_in(2)};
    if (step->step.has_index) {
        const struct ref_record *record = named(&ref, step);
        step->step.index = random_one_in(3) ? 0 : (uint64_t)record->index;
    }
    buffer_init(&request);
    encode_request(step, &request);
    assert(request.size <= sizeof step->request);
    if (request.size > 0) {
        memcpy(step->request, request.data, request.size);
    }
    step->step.request = bytes_of(step->request, request.size);
    buffer_clear(&request);
}

/* Returns whether it was done. */
static bool step_txn(void) {
    static struct ref_step steps[STEPS_MAX];
    struct consul_step real[STEPS_MAX];
    struct ref attempt = ref;
    struct consul_shown_record expected[STEPS_MAX];
    struct consul_shown_record failures[STEPS_MAX];
    struct consul_txn_results results;
    struct buffer request;
    size_t n = 1 + random_below(STEPS_MAX);
    size_t n_expected = 0;
    size_t n_failures = 0;
    int64_t before = key_store_revision(state_machine_keys(machine));
    const struct consul_op op = {.verb = random_one_in(2)   ? CONSUL_SET
                                         : random_one_in(2) ? CONSUL_CAS
                                                            : CONSUL_DELETE,
                                 .key = bytes_from_text("k"),
                                 .value = bytes_from_text("v")};
    size_t n_ops = random_below(2);
    bool is_key_stale = n_ops == 1 && op.verb == CONSUL_CAS && ref.has_key;
    attempt.has_key = n_ops == 0 ? ref.has_key : op.verb != CONSUL_DELETE;
    for (size_t i = 0; i < n; i++) {
        random_step(&steps[i]);
        real[i] = steps[i].step;
        uint8_t failure = ref_try(&attempt, &steps[i], before + 1);
        if (failure != 0) {
            failures[n_failures++] = (struct consul_shown_record){.step = i, .failure = failure};
        } else if (real[i].shows && named(&attempt, &steps[i])->exists) {
            expected[n_expected++] = (struct consul_shown_record){.step = i};
        }
    }
    buffer_init(&request);
    consul_txn_encode(&request, &op, n_ops, real, n);
    struct outcome outcome = run_rule(CONSUL_RULE_TXN, &request);
    assert(outcome.status == STATUS_OK);
    assert(consul_txn_results_decode(outcome.rule.answer, &arena, &results));
    assert(results.keys.is_failed == is_key_stale);
    assert(results.is_failed == (is_key_stale || n_failures > 0));
    assert(results.n == (results.is_failed ? n_failures : n_expected));
    for (size_t i = 0; i < results.n; i++) {
        const struct consul_shown_record *one = results.is_failed ? &failures[i] : &expected[i];
        assert(results.records[i].step == one->step);
        assert(results.records[i].failure == one->failure);
    }
    if (results.is_failed) {
        assert(outcome.revision == before);
        return false;
    }
    ref = attempt;
    return true;
}

/* An instance that nobody renews takes its checks with it. */
static void step_expire(size_t instance) {
    const struct record *record = record_of(instance, CHECKS);
    struct lease_facts facts;
    if (record == NULL) {
        return;
    }
    assert(lease_table_find(state_machine_leases(machine), record->lease_id, &facts));
    const struct command command = {
        .type = COMMAND_LEASE_EXPIRE,
        .expire = {.term = 1, .n = 1, .ids = &facts.id, .epochs = &facts.epoch}};
    assert(apply(&command).expire.n_ended == 1);
    ref.instances[instance] = (struct ref_instance){0};
}

static void step(void) {
    bool is_changed = true;
    if (random_one_in(12)) {
        step_expire(random_below(INSTANCES));
    } else {
        is_changed = step_txn();
    }
    check(is_changed);
    if (random_one_in(60)) {
        machines_compare(true);
    }
    arena_reset(&arena);
}

int main(int argc, char **argv) {
    static const struct rule *all[REGISTRY_N_RULES + CONSUL_N_RULES];
    const struct rule_set rules = {all, REGISTRY_N_RULES + CONSUL_N_RULES};
    memcpy(all, registry_rules, REGISTRY_N_RULES * sizeof all[0]);
    memcpy(all + REGISTRY_N_RULES, consul_rules, CONSUL_N_RULES * sizeof all[0]);
    random_seed(argc, argv);
    arena_init(&arena);
    for (size_t round = 0; round < ROUNDS; round++) {
        ref = (struct ref){0};
        machines_open(&rules);
        for (size_t i = 0; i < STEPS; i++) {
            step();
        }
        machines_close();
    }
    arena_clear(&arena);
    return 0;
}
