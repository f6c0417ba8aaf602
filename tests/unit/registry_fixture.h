/* A state machine that knows the registry's rules, and short ways to ask them. */
#ifndef LEASED_TESTS_REGISTRY_FIXTURE_H
#define LEASED_TESTS_REGISTRY_FIXTURE_H

#include "core/cluster_version.h"
#include "registry/registry_keys.h"
#include "registry/registry_rules.h"
#include "registry/registry_view.h"
#include "registry_values.h"
#include "state_machine_fixture.h"

static const struct rule_set registry_rule_set = {registry_rules, REGISTRY_N_RULES};

/* Validating every structure after every command takes long when there are thousands. */
static bool registry_is_quick;

static inline void registry_fixture_init(struct fixture *fixture) {
    fixture_init(fixture);
    state_machine_destroy(fixture->machine);
    fixture->machine =
        state_machine_create(&(struct state_machine_options){.rules = &registry_rule_set});
    struct command raise = {.type = COMMAND_CLUSTER_VERSION,
                            .cluster_version = {.version = CLUSTER_VERSION_RULES}};
    assert_int_equal(fixture_apply(fixture, &raise).status, STATUS_OK);
}

/* The request is cleared. */
static inline struct outcome registry_run(struct fixture *fixture, uint32_t number,
                                          struct buffer *request) {
    struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = number, .request = bytes_of(request->data, request->size)}};
    struct outcome outcome;
    if (registry_is_quick) {
        command.rule.request =
            bytes_of(arena_copy(&fixture->arena, request->data, request->size), request->size);
        state_machine_apply(fixture->machine, &command, &fixture->context, &fixture->arena,
                            &outcome);
    } else {
        outcome = fixture_apply(fixture, &command);
    }
    buffer_clear(request);
    return outcome;
}

/* What a request may be in work; it is cleared. */
static inline size_t registry_work_of(struct fixture *fixture, uint32_t number,
                                      struct buffer *request) {
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = number, .request = bytes_of(request->data, request->size)}};
    size_t work = state_machine_rule_work(fixture->machine, &command);
    buffer_clear(request);
    return work;
}

/* --- Asking. --- */

static inline struct registry_register registering(const char *service, const char *id) {
    return (struct registry_register){.instance = registry_test_instance(service, id)};
}

static inline enum status try_register(struct fixture *fixture,
                                       const struct registry_register *request,
                                       struct registry_registered *out_registered) {
    struct buffer buffer;
    buffer_init(&buffer);
    registry_register_encode(&buffer, request);
    struct outcome outcome = registry_run(fixture, REGISTRY_RULE_REGISTER, &buffer);
    if (outcome.status == STATUS_OK) {
        assert_true(registry_registered_decode(outcome.rule.answer, out_registered));
    }
    return outcome.status;
}

static inline struct registry_registered registered(struct fixture *fixture, const char *service,
                                                    const char *id) {
    struct registry_register request = registering(service, id);
    struct registry_registered answer = {0};
    assert_int_equal(try_register(fixture, &request, &answer), STATUS_OK);
    return answer;
}

static inline struct registry_registered registered_with(struct fixture *fixture,
                                                         const char *service, const char *id,
                                                         const struct registry_check *checks,
                                                         size_t n) {
    struct registry_register request = registering(service, id);
    struct registry_registered answer = {0};
    request.checks = checks;
    request.n_checks = n;
    assert_int_equal(try_register(fixture, &request, &answer), STATUS_OK);
    return answer;
}

static inline enum status deregister(struct fixture *fixture, const char *service, const char *id,
                                     int64_t token, int64_t drain_ms) {
    const struct registry_deregister request = {.service = bytes_from_text(service),
                                                .id = bytes_from_text(id),
                                                .token = token,
                                                .drain_ms = drain_ms};
    struct buffer buffer;
    buffer_init(&buffer);
    registry_deregister_encode(&buffer, &request);
    return registry_run(fixture, REGISTRY_RULE_DEREGISTER, &buffer).status;
}

static inline enum status set_state(struct fixture *fixture, const char *service, const char *id,
                                    int64_t token, bool is_override, enum registry_state state) {
    const struct registry_set_state request = {.service = bytes_from_text(service),
                                               .id = bytes_from_text(id),
                                               .token = token,
                                               .is_override = is_override,
                                               .state = (uint8_t)state};
    struct buffer buffer;
    buffer_init(&buffer);
    registry_set_state_encode(&buffer, &request);
    return registry_run(fixture, REGISTRY_RULE_SET_STATE, &buffer).status;
}

static inline enum status set_settings(struct fixture *fixture, const char *service,
                                       struct registry_service_settings settings) {
    const struct registry_settings request = {.service = bytes_from_text(service),
                                              .settings = settings};
    struct buffer buffer;
    buffer_init(&buffer);
    registry_settings_encode(&buffer, &request);
    return registry_run(fixture, REGISTRY_RULE_SETTINGS, &buffer).status;
}

static inline enum status report(struct fixture *fixture, const char *service, const char *id,
                                 const char *check, enum registry_health health,
                                 const char *output) {
    const struct registry_report request = {.service = bytes_from_text(service),
                                            .id = bytes_from_text(id),
                                            .check = bytes_from_text(check),
                                            .health = (uint8_t)health,
                                            .output = bytes_from_text(output)};
    struct buffer buffer;
    buffer_init(&buffer);
    registry_reports_encode(&buffer, &request, 1);
    return registry_run(fixture, REGISTRY_RULE_REPORT, &buffer).status;
}

static inline enum status put_check(struct fixture *fixture, const char *service, const char *id,
                                    struct registry_check check) {
    const struct registry_put_check request = {
        .service = bytes_from_text(service), .id = bytes_from_text(id), .check = check};
    struct buffer buffer;
    buffer_init(&buffer);
    registry_put_check_encode(&buffer, &request);
    return registry_run(fixture, REGISTRY_RULE_PUT_CHECK, &buffer).status;
}

static inline enum status delete_check(struct fixture *fixture, const char *service, const char *id,
                                       const char *check) {
    const struct registry_delete_check request = {.service = bytes_from_text(service),
                                                  .id = bytes_from_text(id),
                                                  .check = bytes_from_text(check)};
    struct buffer buffer;
    buffer_init(&buffer);
    registry_delete_check_encode(&buffer, &request);
    return registry_run(fixture, REGISTRY_RULE_DELETE_CHECK, &buffer).status;
}

static inline void time_is_up(struct fixture *fixture, int64_t lease_id) {
    assert_int_not_equal(lease_id, 0);
    if (!registry_is_quick) {
        assert_int_equal(expire(fixture, 1, &lease_id, 1).expire.n_ended, 1);
        return;
    }
    uint32_t epoch = epoch_of(fixture, lease_id);
    struct outcome outcome;
    struct command command = {.type = COMMAND_LEASE_EXPIRE,
                              .expire = {.term = 1, .n = 1, .ids = &lease_id, .epochs = &epoch}};
    state_machine_apply(fixture->machine, &command, &fixture->context, &fixture->arena, &outcome);
    assert_int_equal(outcome.expire.n_ended, 1);
}

/* --- Looking. --- */

static inline const struct key_store *store_of(struct fixture *fixture) {
    return state_machine_keys(fixture->machine);
}

static inline bool look(struct fixture *fixture, const char *service, const char *id,
                        struct registry_entry *out_entry) {
    return registry_view_find(store_of(fixture), &fixture->arena, bytes_from_text(service),
                              bytes_from_text(id), out_entry);
}

/* All zero: there is none. */
static inline struct registry_service service_of(struct fixture *fixture, const char *name) {
    struct registry_service service = {0};
    (void)registry_view_service(store_of(fixture), &fixture->arena, bytes_from_text(name),
                                &service);
    return service;
}

static inline int64_t revision_of(struct fixture *fixture) {
    return key_store_revision(store_of(fixture));
}

static inline size_t count_in(struct fixture *fixture, struct key_range range) {
    return key_store_count(store_of(fixture), range.space, range.key, range.range_end);
}

static inline size_t count_all(struct fixture *fixture, struct key_space_id space) {
    return key_store_count(store_of(fixture), space, bytes_of("", 1), bytes_of("", 1));
}

static inline size_t count_leases(struct fixture *fixture) {
    return lease_table_count(state_machine_leases(fixture->machine));
}

static inline bool write_entry(void *context, const struct registry_entry *entry) {
    char *text = context;
    size_t size = strlen(text);
    snprintf(text + size, 512 - size, "%.*s%s ", (int)entry->instance.id.size,
             (const char *)entry->instance.id.data,
             entry->is_kept      ? ":kept"
             : entry->is_serving ? ""
                                 : ":hidden");
    return true;
}

static inline const char *list(struct fixture *fixture, const char *service) {
    char *text = arena_calloc(&fixture->arena, 1, 512);
    registry_view_visit(store_of(fixture), &fixture->arena, bytes_from_text(service), write_entry,
                        text);
    return text;
}

struct newest_event {
    struct registry_event event;
    size_t n;
};

static inline bool note_event(void *context, const struct record *record) {
    struct newest_event *newest = context;
    struct registry_event event;
    assert_true(registry_event_decode(record_value(record), &event));
    newest->n++;
    if (event.number > newest->event.number) {
        newest->event = event;
    }
    return true;
}

static inline struct newest_event newest_event(struct fixture *fixture) {
    struct newest_event newest = {0};
    struct key_range range = registry_records('e');
    key_store_visit(store_of(fixture), range.space, range.key, range.range_end, note_event,
                    &newest);
    return newest;
}

static inline const struct record *mirror_of(struct fixture *fixture, const char *service,
                                             const char *id) {
    return key_store_find(
        store_of(fixture), KEY_SPACE_ETCD,
        registry_key_mirror(&fixture->arena, bytes_from_text(service), bytes_from_text(id)));
}

#endif
