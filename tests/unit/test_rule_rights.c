/* Rules that run for a client while authentication is on: they can do nothing that the client may
 * not. */
#include "core/cluster_version.h"
#include "core/rule.h"
#include "core/txn.h"
#include "state_machine_fixture.h"

#include <stdlib.h>

static const uint8_t token_key[AUTH_TOKEN_KEY_SIZE] = {1, 2, 3};

enum { RULE_PROBE = 250 * 65536 + 77, RULE_NOTHING };
static const struct bytes probe_key = {.data = (const uint8_t *)"a1", .size = 2};
static const struct bytes others_key = {.data = (const uint8_t *)"z", .size = 1};

static bool see(void *context, const struct record *record) {
    (void)record;
    return ++*(size_t *)context > 0;
}

enum probe {
    PUT,
    GRANT_CHILD,
    SET_TTL,
    END,
    HOOK,
    CANCEL_HOOK,
    GET,
    VISIT,
    WRITE,
    DELETE,
    COUNT_UP
};

/* The request: what to do, and a lease. What a call returns is ignored: a door may forget to look,
 * and gets nothing by it. */
static enum status run_probe(struct rule_run *run, struct bytes request, struct buffer *answer) {
    struct reader reader;
    int64_t id = 0;
    size_t n = 0;
    (void)answer;
    reader_init(&reader, request);
    enum probe probe = (enum probe)reader_get_u8(&reader);
    int64_t lease_id = reader_get_zigzag(&reader);
    switch (probe) {
    case PUT:
        (void)rule_put(run, KEY_SPACE_SAMPLE, probe_key, bytes_of(NULL, 0), lease_id);
        break;
    case GRANT_CHILD:
        (void)rule_lease_grant(run, &(struct rule_lease){.ttl_ms = 1000, .parent_id = lease_id},
                               &id);
        break;
    case SET_TTL:
        (void)rule_lease_set_ttl(run, lease_id, 2000);
        break;
    case END:
        (void)rule_lease_end(run, lease_id, LEASE_END_REVOKED);
        break;
    case HOOK:
        (void)rule_on_lease_end(run, lease_id, RULE_NOTHING, probe_key);
        break;
    case CANCEL_HOOK:
        (void)rule_cancel_on_lease_end(run, lease_id, RULE_NOTHING, probe_key);
        break;
    case GET:
        (void)rule_get(run, KEY_SPACE_SAMPLE, others_key);
        break;
    case VISIT:
        (void)rule_visit(run, KEY_SPACE_SAMPLE, probe_key, others_key, see, &n);
        break;
    case WRITE:
        (void)rule_put(run, KEY_SPACE_SAMPLE, others_key, bytes_of(NULL, 0), 0);
        break;
    case DELETE:
        (void)rule_delete(run, KEY_SPACE_SAMPLE, others_key);
        break;
    case COUNT_UP:
        (void)rule_count_up(run, KEY_SPACE_SAMPLE, others_key);
        break;
    }
    return STATUS_OK;
}

static enum status run_nothing(struct rule_run *run, struct bytes request, struct buffer *answer) {
    (void)run;
    (void)request;
    (void)answer;
    return STATUS_OK;
}

static const struct rule rule_probe = {.number = RULE_PROBE,
                                       .name = "probe",
                                       .since_version = CLUSTER_VERSION_RULES,
                                       .spaces = {KEY_SPACE_SAMPLE},
                                       .run = run_probe};
static const struct rule rule_nothing = {.number = RULE_NOTHING,
                                         .name = "nothing",
                                         .since_version = CLUSTER_VERSION_RULES,
                                         .spaces = {KEY_SPACE_SAMPLE},
                                         .run = run_nothing};
static const struct rule *const rules[] = {&rule_probe, &rule_nothing};
static const struct rule_set rule_set = {rules, 2};

static void change_auth(struct fixture *fixture, struct auth_change change) {
    struct command inner = {.type = COMMAND_AUTH, .auth = change};
    struct command as = {.type = COMMAND_AS, .as = {.caller = caller_server, .command = &inner}};
    assert_int_equal(fixture_apply(fixture, &as).status, STATUS_OK);
}

/* "u" may read and write [a, b) of the space, "root" everything. */
static void rights_fixture_init(struct fixture *fixture) {
    static const char *const users[] = {"root", "u"};
    static const char *const roles[] = {"root", "r"};
    fixture_init(fixture);
    state_machine_destroy(fixture->machine);
    fixture->machine = state_machine_create(&(struct state_machine_options){.rules = &rule_set});
    struct command raise = {.type = COMMAND_CLUSTER_VERSION,
                            .cluster_version = {.version = CLUSTER_VERSION_RULES}};
    assert_int_equal(fixture_apply(fixture, &raise).status, STATUS_OK);
    for (size_t i = 0; i < 2; i++) {
        change_auth(fixture, (struct auth_change){.action = AUTH_USER_ADD,
                                                  .user = bytes_from_text(users[i])});
        change_auth(fixture, (struct auth_change){.action = AUTH_ROLE_ADD,
                                                  .role = bytes_from_text(roles[i])});
        change_auth(fixture, (struct auth_change){.action = AUTH_USER_GRANT_ROLE,
                                                  .user = bytes_from_text(users[i]),
                                                  .role = bytes_from_text(roles[i])});
    }
    change_auth(fixture,
                (struct auth_change){.action = AUTH_ROLE_GRANT_PERMISSION,
                                     .role = bytes_from_text("r"),
                                     .permission = {RIGHT_READ_WRITE,
                                                    {KEY_SPACE_SAMPLE, bytes_from_text("a"),
                                                     bytes_from_text("b")}}});
    change_auth(fixture, (struct auth_change){.action = AUTH_ENABLE,
                                              .token_key = bytes_of(token_key, sizeof token_key)});
}

static struct caller caller_of(struct fixture *fixture, const char *name) {
    struct auth_user user;
    assert_true(auth_find_user(state_machine_auth(fixture->machine), bytes_from_text(name), &user));
    return (struct caller){.user_id = user.id, .auth_version = user.version};
}

static enum status probe_as(struct fixture *fixture, const struct caller *caller, enum probe probe,
                            int64_t lease_id) {
    struct buffer request;
    buffer_init(&request);
    buffer_put_u8(&request, (uint8_t)probe);
    buffer_put_zigzag(&request, lease_id);
    struct command inner = {
        .type = COMMAND_RULE,
        .rule = {.number = RULE_PROBE, .request = bytes_of(request.data, request.size)}};
    struct command as = {.type = COMMAND_AS, .as = {.caller = *caller, .command = &inner}};
    enum status status = fixture_apply(fixture, &as).status;
    buffer_clear(&request);
    return status;
}

/* A lease of the space, with a key of somebody else's or without. */
static int64_t make_lease(struct fixture *fixture, int64_t parent_id, bool is_others) {
    struct caller root = caller_of(fixture, "root");
    size_t n;
    assert_int_equal(probe_as(fixture, &root, GRANT_CHILD, parent_id), STATUS_OK);
    const struct lease_table *leases = state_machine_leases(fixture->machine);
    int64_t *ids = lease_table_ids(leases, &n);
    struct lease_facts facts = {0};
    /* The newest is that of the newest epoch. */
    while (n > 0 && facts.epoch != lease_table_epoch(leases)) {
        assert_true(lease_table_find(leases, ids[--n], &facts));
    }
    int64_t id = facts.id;
    free(ids);
    if (is_others) {
        struct put_request put = {.key = others_key, .lease_id = id};
        struct txn_target target = {.keys = state_machine_keys(fixture->machine),
                                    .leases = state_machine_leases(fixture->machine),
                                    .space = KEY_SPACE_SAMPLE};
        struct put_outcome ignored;
        assert_int_equal(txn_put(&target, &put, &ignored), STATUS_OK);
    }
    return id;
}

static void a_rule_reads_and_writes_what_its_caller_may(void **state) {
    (void)state;
    static const enum probe probes[] = {GET, VISIT, WRITE, DELETE, COUNT_UP};
    struct fixture fixture;
    rights_fixture_init(&fixture);
    struct caller user = caller_of(&fixture, "u");
    struct caller root = caller_of(&fixture, "root");
    for (size_t i = 0; i < sizeof probes / sizeof probes[0]; i++) {
        int64_t before = revision(&fixture);
        assert_int_equal(probe_as(&fixture, &user, probes[i], 0), STATUS_PERMISSION_DENIED);
        assert_int_equal(probe_as(&fixture, &caller_anonymous, probes[i], 0), STATUS_USER_EMPTY);
        assert_int_equal(revision(&fixture), before);
    }
    assert_int_equal(probe_as(&fixture, &user, PUT, 0), STATUS_OK);
    assert_int_equal(probe_as(&fixture, &root, WRITE, 0), STATUS_OK);
    fixture_clear(&fixture);
}

static void a_rule_uses_a_lease_whose_keys_its_caller_may_write(void **state) {
    (void)state;
    static const enum probe probes[] = {PUT, GRANT_CHILD, SET_TTL, END, HOOK, CANCEL_HOOK};
    struct fixture fixture;
    rights_fixture_init(&fixture);
    struct caller user = caller_of(&fixture, "u");
    int64_t own_id = make_lease(&fixture, 0, false);
    int64_t others_id = make_lease(&fixture, 0, true);
    for (size_t i = 0; i < sizeof probes / sizeof probes[0]; i++) {
        int64_t before = revision(&fixture);
        assert_int_equal(probe_as(&fixture, &user, probes[i], others_id), STATUS_PERMISSION_DENIED);
        assert_int_equal(revision(&fixture), before);
    }
    assert_int_equal(probe_as(&fixture, &user, PUT, own_id), STATUS_OK);
    assert_int_equal(probe_as(&fixture, &user, HOOK, own_id), STATUS_OK);
    assert_int_equal(probe_as(&fixture, &user, CANCEL_HOOK, own_id), STATUS_OK);
    assert_int_equal(probe_as(&fixture, &user, END, own_id), STATUS_OK);
    assert_false(has_lease(&fixture, own_id));
    fixture_clear(&fixture);
}

static void a_rule_ends_a_lease_with_its_whole_family(void **state) {
    (void)state;
    struct fixture fixture;
    rights_fixture_init(&fixture);
    struct caller user = caller_of(&fixture, "u");
    int64_t parent_id = make_lease(&fixture, 0, false);
    int64_t child_id = make_lease(&fixture, parent_id, false);
    int64_t grandchild_id = make_lease(&fixture, child_id, true);
    assert_int_equal(probe_as(&fixture, &user, END, parent_id), STATUS_PERMISSION_DENIED);
    assert_int_equal(probe_as(&fixture, &user, SET_TTL, parent_id), STATUS_PERMISSION_DENIED);
    assert_true(has_lease(&fixture, grandchild_id));
    fixture_clear(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_reads_and_writes_what_its_caller_may),
        cmocka_unit_test(a_rule_uses_a_lease_whose_keys_its_caller_may_write),
        cmocka_unit_test(a_rule_ends_a_lease_with_its_whole_family),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
