/* The rules of locks and elections, and the plain transactions of the client libraries between
 * them. */
#include "core/cluster_version.h"
#include "core/txn.h"
#include "doors/etcd/etcd_queue_rules.h"
#include "state_machine_fixture.h"

static const struct rule *const rules[] = {&etcd_rule_join, &etcd_rule_withdraw, &etcd_rule_release,
                                           &etcd_rule_proclaim};
static const struct rule_set rule_set = {rules, sizeof rules / sizeof rules[0]};

enum { TTL_MS = 60 * 1000 };

static void queue_fixture_init(struct fixture *fixture) {
    fixture_init(fixture);
    state_machine_destroy(fixture->machine);
    fixture->machine = state_machine_create(&(struct state_machine_options){.rules = &rule_set});
    struct command raise = {.type = COMMAND_CLUSTER_VERSION,
                            .cluster_version = {.version = CLUSTER_VERSION_RULES}};
    assert_int_equal(fixture_apply(fixture, &raise).status, STATUS_OK);
    for (int64_t id = 1; id <= 3; id++) {
        assert_int_equal(grant(fixture, id, TTL_MS).status, STATUS_OK);
    }
}

static struct outcome run(struct fixture *fixture, uint32_t number, struct buffer *request) {
    struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = number, .request = bytes_of(request->data, request->size)}};
    struct outcome outcome = fixture_apply(fixture, &command);
    buffer_clear(request);
    return outcome;
}

static enum status try_join(struct fixture *fixture, const char *name, int64_t lease_id,
                            const char *value, struct etcd_joined *out_joined) {
    const struct etcd_join join = {.name = bytes_from_text(name),
                                   .value = bytes_from_text(value == NULL ? "" : value),
                                   .lease_id = lease_id,
                                   .ttl_ms = TTL_MS,
                                   .keeps_value = value == NULL};
    struct buffer request;
    buffer_init(&request);
    etcd_join_encode(&request, &join);
    struct outcome outcome = run(fixture, ETCD_RULE_JOIN, &request);
    if (outcome.status == STATUS_OK) {
        assert_true(etcd_joined_decode(outcome.rule.answer, out_joined));
    }
    return outcome.status;
}

static struct etcd_joined join(struct fixture *fixture, const char *name, int64_t lease_id) {
    struct etcd_joined joined = {0};
    assert_int_equal(try_join(fixture, name, lease_id, NULL, &joined), STATUS_OK);
    return joined;
}

static void withdraw(struct fixture *fixture, const char *name, const struct etcd_joined *joined,
                     bool ends_lease) {
    const struct etcd_withdrawal withdrawal = {.name = bytes_from_text(name),
                                               .lease_id = joined->lease_id,
                                               .create_revision = joined->create_revision,
                                               .version = joined->version,
                                               .epoch = joined->epoch,
                                               .ends_lease = ends_lease};
    struct buffer request;
    buffer_init(&request);
    etcd_withdrawal_encode(&request, &withdrawal);
    assert_int_equal(run(fixture, ETCD_RULE_WITHDRAW, &request).status, STATUS_OK);
}

static enum status release(struct fixture *fixture, const char *key, int64_t revision,
                           bool takes_any_lock) {
    const struct etcd_release release = {
        .key = bytes_from_text(key), .revision = revision, .takes_any_lock = takes_any_lock};
    struct buffer request;
    buffer_init(&request);
    etcd_release_encode(&request, &release);
    return run(fixture, ETCD_RULE_RELEASE, &request).status;
}

static enum status proclaim(struct fixture *fixture, const char *key, int64_t revision,
                            int64_t lease_id, bool *out_is_done) {
    const struct etcd_proclamation proclamation = {.key = bytes_from_text(key),
                                                   .value = bytes_from_text("new"),
                                                   .revision = revision,
                                                   .lease_id = lease_id};
    struct buffer request;
    buffer_init(&request);
    etcd_proclamation_encode(&request, &proclamation);
    struct outcome outcome = run(fixture, ETCD_RULE_PROCLAIM, &request);
    if (outcome.status == STATUS_OK) {
        assert_true(etcd_proclaimed_decode(outcome.rule.answer, out_is_done));
    }
    return outcome.status;
}

/* --- Join. --- */

static void the_key_is_that_of_the_recipe(void **state) {
    static const struct {
        int64_t lease_id;
        const char *key;
    } cases[] = {{1, "n/1"},
                 {255, "n/ff"},
                 {-5, "n/-5"},
                 {INT64_MAX, "n/7fffffffffffffff"},
                 {INT64_MIN, "n/-8000000000000000"}};
    struct arena arena;
    (void)state;
    arena_init(&arena);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct bytes key = etcd_queue_key(&arena, bytes_from_text("n"), cases[i].lease_id);
        assert_true(bytes_equal(key, bytes_from_text(cases[i].key)));
    }
    struct key_range range = etcd_queue_range(&arena, bytes_from_text(""));
    assert_true(bytes_equal(range.key, bytes_from_text("/")));
    assert_true(bytes_equal(range.range_end, bytes_from_text("0")));
    arena_clear(&arena);
}

static void the_first_has_it_and_others_queue(void **state) {
    struct fixture fixture;
    (void)state;
    queue_fixture_init(&fixture);
    struct etcd_joined first = join(&fixture, "n", 1);
    assert_true(first.is_first);
    assert_int_equal(first.version, 1);
    assert_int_equal(first.create_revision, find(&fixture, "n/1")->create_revision);
    assert_int_equal(find(&fixture, "n/1")->lease_id, 1);
    assert_false(join(&fixture, "n", 2).is_first);
    assert_true(join(&fixture, "other", 2).is_first);
    fixture_clear(&fixture);
}

static void a_key_of_a_library_is_in_the_same_queue(void **state) {
    struct fixture fixture;
    (void)state;
    queue_fixture_init(&fixture);
    assert_int_equal(put(&fixture, "n/3", "", 3).status, STATUS_OK);
    assert_false(join(&fixture, "n", 1).is_first);
    del(&fixture, "n/3", "");
    assert_true(join(&fixture, "other", 2).is_first);
    fixture_clear(&fixture);
}

static void a_missing_lease_is_refused(void **state) {
    struct fixture fixture;
    struct etcd_joined joined;
    (void)state;
    queue_fixture_init(&fixture);
    assert_int_equal(try_join(&fixture, "n", 99, NULL, &joined), STATUS_LEASE_NOT_FOUND);
    assert_null(find(&fixture, "n/63"));
    fixture_clear(&fixture);
}

static void without_a_lease_one_is_granted_with_the_key(void **state) {
    struct fixture fixture;
    (void)state;
    queue_fixture_init(&fixture);
    int64_t before = key_store_revision(state_machine_keys(fixture.machine));
    struct etcd_joined joined = join(&fixture, "n", 0);
    assert_true(joined.is_first);
    assert_int_equal(joined.create_revision, before + 1);
    assert_true(has_lease(&fixture, joined.lease_id));
    revoke(&fixture, joined.lease_id);
    assert_true(join(&fixture, "n", 1).is_first);
    fixture_clear(&fixture);
}

static void joining_again_keeps_the_place(void **state) {
    struct fixture fixture;
    struct etcd_joined again;
    (void)state;
    queue_fixture_init(&fixture);
    join(&fixture, "n", 1);
    struct etcd_joined waiting = join(&fixture, "n", 2);
    join(&fixture, "n", 3);
    assert_int_equal(try_join(&fixture, "n", 2, "value", &again), STATUS_OK);
    assert_int_equal(again.create_revision, waiting.create_revision);
    assert_int_equal(again.version, 2);
    assert_int_equal(find(&fixture, "n/2")->value_size, strlen("value"));
    assert_int_equal(join(&fixture, "n", 2).version, 3);
    assert_int_equal(find(&fixture, "n/2")->value_size, strlen("value"));
    fixture_clear(&fixture);
}

/* One of many: nothing is validated. */
static void put_quickly(struct fixture *fixture, const char *key, int64_t lease_id) {
    const struct txn_target target = {.keys = state_machine_keys(fixture->machine),
                                      .leases = state_machine_leases(fixture->machine),
                                      .space = KEY_SPACE_ETCD};
    const struct put_request request = {.key = bytes_from_text(key), .lease_id = lease_id};
    struct put_outcome outcome;
    assert_int_equal(txn_put(&target, &request, &outcome), STATUS_OK);
}

static void a_key_of_a_full_lease_may_be_joined_again(void **state) {
    struct fixture fixture;
    struct etcd_joined joined;
    char key[16];
    (void)state;
    queue_fixture_init(&fixture);
    join(&fixture, "n", 1);
    for (unsigned i = 1; i < LEASE_KEYS_MAX; i++) {
        snprintf(key, sizeof key, "k%06u", i);
        put_quickly(&fixture, key, 1);
    }
    assert_int_equal(try_join(&fixture, "other", 1, NULL, &joined), STATUS_TOO_MANY_KEYS);
    assert_int_equal(join(&fixture, "n", 1).version, 1);
    assert_int_equal(try_join(&fixture, "n", 1, "value", &joined), STATUS_OK);
    assert_int_equal(joined.version, 2);
    fixture_clear(&fixture);
}

/* --- Withdraw. --- */

static void a_call_that_is_over_takes_its_key(void **state) {
    struct fixture fixture;
    (void)state;
    queue_fixture_init(&fixture);
    struct etcd_joined first = join(&fixture, "n", 1);
    struct etcd_joined waiting = join(&fixture, "n", 2);
    withdraw(&fixture, "n", &waiting, false);
    assert_null(find(&fixture, "n/2"));
    assert_true(has_lease(&fixture, 2));
    withdraw(&fixture, "n", &first, false); /* not answered yet, and nobody shares it */
    assert_null(find(&fixture, "n/1"));
    fixture_clear(&fixture);
}

static void a_lease_of_the_server_ends_with_its_call(void **state) {
    struct fixture fixture;
    (void)state;
    queue_fixture_init(&fixture);
    struct etcd_joined joined = join(&fixture, "n", 0);
    withdraw(&fixture, "n", &joined, true);
    assert_false(has_lease(&fixture, joined.lease_id));
    withdraw(&fixture, "n", &joined, true); /* again, after a lost answer */
    assert_true(join(&fixture, "n", 1).is_first);
    fixture_clear(&fixture);
}

static void the_last_that_shares_a_key_takes_it(void **state) {
    struct fixture fixture;
    (void)state;
    queue_fixture_init(&fixture);
    join(&fixture, "n", 1);
    struct etcd_joined early = join(&fixture, "n", 2);
    struct etcd_joined late = join(&fixture, "n", 2);
    withdraw(&fixture, "n", &early, false);
    assert_non_null(find(&fixture, "n/2"));
    withdraw(&fixture, "n", &late, false);
    assert_null(find(&fixture, "n/2"));
    fixture_clear(&fixture);
}

static void a_shared_key_that_is_first_stays(void **state) {
    struct fixture fixture;
    (void)state;
    queue_fixture_init(&fixture);
    struct etcd_joined early = join(&fixture, "n", 1);
    struct etcd_joined late = join(&fixture, "n", 1);
    withdraw(&fixture, "n", &late, false);
    withdraw(&fixture, "n", &early, false);
    assert_non_null(find(&fixture, "n/1"));
    fixture_clear(&fixture);
}

static void a_later_key_of_the_same_lease_stays(void **state) {
    struct fixture fixture;
    (void)state;
    queue_fixture_init(&fixture);
    struct etcd_joined stale = join(&fixture, "n", 1);
    del(&fixture, "n/1", "");
    join(&fixture, "n", 1);
    withdraw(&fixture, "n", &stale, false);
    assert_non_null(find(&fixture, "n/1"));
    fixture_clear(&fixture);
}

static size_t work_of_withdrawal(struct fixture *fixture, const struct etcd_joined *joined) {
    struct buffer request;
    buffer_init(&request);
    etcd_withdrawal_encode(&request, &(struct etcd_withdrawal){.name = bytes_from_text("n"),
                                                               .lease_id = joined->lease_id,
                                                               .version = joined->version,
                                                               .epoch = joined->epoch});
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = ETCD_RULE_WITHDRAW, .request = bytes_of(request.data, request.size)}};
    size_t work = state_machine_rule_work(fixture->machine, &command);
    buffer_clear(&request);
    return work;
}

static void a_key_in_a_long_queue_is_not_looked_for(void **state) {
    enum { KEYS = 40 * 1000, SEEN = RULE_RECORDS_MAX / 2 };
    struct fixture fixture;
    char key[16];
    (void)state;
    queue_fixture_init(&fixture);
    for (unsigned i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "n/%05u", i);
        if (i == 1) {
            join(&fixture, "n", 1); /* the second of the queue */
        }
        put_quickly(&fixture, key, 0);
    }
    struct etcd_joined shared = join(&fixture, "n", 1);
    assert_false(shared.is_first);
    assert_int_equal(work_of_withdrawal(&fixture, &shared), SEEN);
    struct etcd_joined alone = shared;
    struct lease_facts lease;
    assert_true(lease_table_find(state_machine_leases(fixture.machine), 1, &lease));
    alone.version = 1;
    assert_int_equal(work_of_withdrawal(&fixture, &alone), SEEN);
    alone.epoch = lease.epoch;
    assert_int_equal(work_of_withdrawal(&fixture, &alone), 0);
    /* With the first one gone, whoever would know had to look at them all: it stays. */
    del(&fixture, "n/00000", "");
    withdraw(&fixture, "n", &shared, false);
    assert_non_null(find(&fixture, "n/1"));
    fixture_clear(&fixture);
}

static int64_t revision_of(const struct fixture *fixture) {
    return key_store_revision(state_machine_keys(fixture->machine));
}

/* As in etcd: the key is not written, so no watch sees anything. */
static void a_holder_that_joins_again_makes_no_revision(void **state) {
    struct fixture fixture;
    struct etcd_joined again;
    (void)state;
    queue_fixture_init(&fixture);
    struct etcd_joined first = join(&fixture, "n", 1);
    join(&fixture, "n", 2);
    int64_t revision = revision_of(&fixture);
    for (int i = 0; i < 3; i++) {
        again = join(&fixture, "n", 1);
        assert_true(again.is_first);
        assert_int_equal(again.create_revision, first.create_revision);
        assert_int_equal(again.version, 1);
    }
    assert_int_equal(try_join(&fixture, "n", 1, "", &again), STATUS_OK);
    assert_int_equal(revision_of(&fixture), revision);
    /* Another value is written, as Campaign does in etcd; so is the key of one that waits, because
     * calls that share it are counted. */
    assert_int_equal(try_join(&fixture, "n", 1, "value", &again), STATUS_OK);
    assert_int_equal(again.version, 2);
    assert_int_equal(revision_of(&fixture), revision + 1);
    assert_int_equal(join(&fixture, "n", 2).version, 2);
    assert_int_equal(revision_of(&fixture), revision + 2);
    fixture_clear(&fixture);
}

/* The first call left without an answer; the second was told that it has the lock. */
static void a_call_that_left_does_not_take_the_key_of_one_that_was_told(void **state) {
    struct fixture fixture;
    (void)state;
    queue_fixture_init(&fixture);
    for (int64_t lease_id = 0; lease_id < 2; lease_id++) {
        struct etcd_joined left = join(&fixture, "n", lease_id);
        struct etcd_joined told = join(&fixture, "n", left.lease_id);
        assert_true(told.is_first);
        int64_t revision = revision_of(&fixture);
        withdraw(&fixture, "n", &left, lease_id == 0);
        withdraw(&fixture, "n", &told, false);
        assert_int_equal(revision_of(&fixture), revision);
        revoke(&fixture, left.lease_id);
    }
    fixture_clear(&fixture);
}

static void a_key_that_was_written_again_is_looked_for_by_the_door(void **state) {
    struct fixture fixture;
    struct etcd_joined again;
    (void)state;
    queue_fixture_init(&fixture);
    assert_true(join(&fixture, "n", 1).is_first);
    assert_int_equal(try_join(&fixture, "n", 1, "value", &again), STATUS_OK);
    assert_false(again.is_first);
    fixture_clear(&fixture);
}

/* --- Release and proclaim. --- */

static void unlock_takes_only_keys_of_queues(void **state) {
    struct fixture fixture;
    (void)state;
    queue_fixture_init(&fixture);
    join(&fixture, "n", 1);
    put(&fixture, "n/2", "", 1); /* of another lease than its name says */
    put(&fixture, "n/3", "", 0);
    put(&fixture, "1", "", 1);
    static const char *const others[] = {"n/2", "n/3", "1"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(release(&fixture, others[i], 0, true), STATUS_OK);
        assert_non_null(find(&fixture, others[i]));
    }
    assert_int_equal(release(&fixture, "n/1", 0, true), STATUS_OK);
    assert_null(find(&fixture, "n/1"));
    assert_int_equal(release(&fixture, "n/1", 0, true), STATUS_OK);
    assert_int_equal(release(&fixture, "", 0, true), STATUS_KEY_EMPTY);
    fixture_clear(&fixture);
}

static void a_release_with_a_revision_is_of_that_hold_alone(void **state) {
    struct fixture fixture;
    (void)state;
    queue_fixture_init(&fixture);
    int64_t stale = join(&fixture, "n", 1).create_revision;
    del(&fixture, "n/1", "");
    int64_t held = join(&fixture, "n", 1).create_revision;
    assert_int_equal(release(&fixture, "n/1", stale, false), STATUS_OK);
    assert_int_equal(release(&fixture, "n/1", 0, false), STATUS_OK);
    assert_non_null(find(&fixture, "n/1"));
    assert_int_equal(release(&fixture, "n/1", held, false), STATUS_OK);
    assert_null(find(&fixture, "n/1"));
    fixture_clear(&fixture);
}

static void a_leader_proclaims_while_it_leads(void **state) {
    struct fixture fixture;
    bool is_done = false;
    (void)state;
    queue_fixture_init(&fixture);
    int64_t rev = join(&fixture, "n", 1).create_revision;
    assert_int_equal(proclaim(&fixture, "n/1", rev, 0, &is_done), STATUS_OK);
    assert_true(is_done);
    assert_int_equal(find(&fixture, "n/1")->lease_id, 1);
    assert_int_equal(find(&fixture, "n/1")->value_size, strlen("new"));
    assert_int_equal(proclaim(&fixture, "n/1", rev, 99, &is_done), STATUS_LEASE_NOT_FOUND);
    assert_int_equal(proclaim(&fixture, "", 0, 0, &is_done), STATUS_KEY_EMPTY);
    assert_int_equal(proclaim(&fixture, "n/1", rev - 1, 0, &is_done), STATUS_OK);
    assert_false(is_done);
    /* In etcd a revision of 0 would create the key. */
    assert_int_equal(proclaim(&fixture, "n/2", 0, 0, &is_done), STATUS_OK);
    assert_false(is_done);
    assert_null(find(&fixture, "n/2"));
    fixture_clear(&fixture);
}

/* --- Hostile requests. --- */

static void a_request_is_checked_to_its_last_byte(void **state) {
    struct fixture fixture;
    struct buffer whole;
    (void)state;
    queue_fixture_init(&fixture);
    buffer_init(&whole);
    etcd_join_encode(&whole, &(struct etcd_join){.name = bytes_from_text("n"), .lease_id = 1});
    buffer_put_u8(&whole, 0);
    for (size_t size = 0; size <= whole.size; size++) {
        for (uint32_t number = ETCD_RULE_JOIN; number <= ETCD_RULE_PROCLAIM; number++) {
            struct buffer request;
            buffer_init(&request);
            buffer_append(&request, whole.data, size);
            bool is_whole = number == ETCD_RULE_JOIN && size == whole.size - 1;
            enum status status = run(&fixture, number, &request).status;
            assert_true(is_whole ? status == STATUS_OK : status != STATUS_OK || size > 2);
        }
    }
    buffer_clear(&whole);
    fixture_clear(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_key_is_that_of_the_recipe),
        cmocka_unit_test(the_first_has_it_and_others_queue),
        cmocka_unit_test(a_key_of_a_library_is_in_the_same_queue),
        cmocka_unit_test(a_missing_lease_is_refused),
        cmocka_unit_test(without_a_lease_one_is_granted_with_the_key),
        cmocka_unit_test(joining_again_keeps_the_place),
        cmocka_unit_test(a_key_of_a_full_lease_may_be_joined_again),
        cmocka_unit_test(a_call_that_is_over_takes_its_key),
        cmocka_unit_test(a_lease_of_the_server_ends_with_its_call),
        cmocka_unit_test(the_last_that_shares_a_key_takes_it),
        cmocka_unit_test(a_shared_key_that_is_first_stays),
        cmocka_unit_test(a_later_key_of_the_same_lease_stays),
        cmocka_unit_test(a_key_in_a_long_queue_is_not_looked_for),
        cmocka_unit_test(a_holder_that_joins_again_makes_no_revision),
        cmocka_unit_test(a_call_that_left_does_not_take_the_key_of_one_that_was_told),
        cmocka_unit_test(a_key_that_was_written_again_is_looked_for_by_the_door),
        cmocka_unit_test(unlock_takes_only_keys_of_queues),
        cmocka_unit_test(a_release_with_a_revision_is_of_that_hold_alone),
        cmocka_unit_test(a_leader_proclaims_while_it_leads),
        cmocka_unit_test(a_request_is_checked_to_its_last_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
