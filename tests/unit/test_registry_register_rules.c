/* Registering, replacing, leaving, changing. */
#include "registry_fixture.h"

static struct fixture fixture;

static int set_up(void **state) {
    registry_fixture_init(&fixture);
    return 0;
}

static int tear_down(void **state) {
    fixture_clear(&fixture);
    return 0;
}

static void a_registration_is_a_lease(void **state) {
    struct registry_entry entry;
    int64_t before = revision_of(&fixture);
    struct registry_registered web = registered(&fixture, "web", "a");
    assert_int_equal(revision_of(&fixture), before + 1);
    assert_int_equal(web.token, before + 1);
    assert_int_equal(web.ttl_ms, 10 * 1000);
    assert_int_equal(web.replaced_token, 0);
    assert_true(look(&fixture, "web", "a", &entry));
    assert_int_equal(entry.instance.token, web.token);
    assert_int_equal(entry.instance.lease_id, web.lease_id);
    assert_true(entry.is_serving);
    assert_int_equal(service_of(&fixture, "web").n_live, 1);
    assert_non_null(mirror_of(&fixture, "web", "a"));
    assert_int_equal(mirror_of(&fixture, "web", "a")->lease_id, web.lease_id);
}

static void everything_goes_with_the_lease_in_one_revision(void **state) {
    const struct registry_check checks[] = {registry_test_check("c1", REGISTRY_CHECK_HTTP),
                                            registry_test_check("c2", REGISTRY_CHECK_HTTP)};
    registered_with(&fixture, "web", "a", checks, 2);
    int64_t before = revision_of(&fixture);
    assert_int_equal(deregister(&fixture, "web", "a", 0, 0), STATUS_OK);
    assert_int_equal(revision_of(&fixture), before + 1);
    assert_int_equal(count_all(&fixture, KEY_SPACE_REGISTRY), 0);
    assert_int_equal(count_all(&fixture, KEY_SPACE_ETCD), 0);
    assert_int_equal(count_all(&fixture, KEY_SPACE_LEASE_HOOKS), 0);
    /* What is left is the mark of a service that is gone. */
    assert_int_equal(count_all(&fixture, KEY_SPACE_REGISTRY_RECORDS), 1);
    assert_int_equal(count_leases(&fixture), 0);
    assert_int_equal(
        registry_view_revision(store_of(&fixture), &fixture.arena, bytes_from_text("web")),
        before + 1);
}

static void a_later_registration_replaces_and_has_a_greater_token(void **state) {
    const struct registry_check check = registry_test_check("c1", REGISTRY_CHECK_TTL);
    struct registry_registered old = registered_with(&fixture, "web", "a", &check, 1);
    int64_t before = revision_of(&fixture);
    struct registry_registered new = registered(&fixture, "web", "a");
    struct registry_entry entry;
    assert_int_equal(revision_of(&fixture), before + 1);
    assert_true(new.token > old.token);
    assert_int_equal(new.replaced_token, old.token);
    assert_true(look(&fixture, "web", "a", &entry));
    assert_int_equal(entry.instance.token, new.token);
    assert_int_equal(entry.n_checks, 0);
    assert_int_equal(service_of(&fixture, "web").n_live, 1);
    assert_int_equal(count_leases(&fixture), 1);
    assert_int_equal(epoch_of(&fixture, old.lease_id), 0);
    /* The token stays when the record is changed. */
    assert_int_equal(set_state(&fixture, "web", "a", 0, false, REGISTRY_STARTING), STATUS_OK);
    assert_true(look(&fixture, "web", "a", &entry));
    assert_int_equal(entry.instance.token, new.token);
}

static void a_stale_process_can_do_nothing(void **state) {
    struct registry_registered old = registered(&fixture, "web", "a");
    registered(&fixture, "web", "a");
    struct registry_register again = registering("web", "a");
    struct registry_registered answer;
    again.previous_token = old.token;
    int64_t before = revision_of(&fixture);
    assert_int_equal(try_register(&fixture, &again, &answer), STATUS_FENCED);
    assert_int_equal(deregister(&fixture, "web", "a", old.token, 0), STATUS_FENCED);
    assert_int_equal(deregister(&fixture, "web", "a", old.token, 1000), STATUS_FENCED);
    assert_int_equal(set_state(&fixture, "web", "a", old.token, false, REGISTRY_DOWN),
                     STATUS_FENCED);
    assert_int_equal(revision_of(&fixture), before);
}

static void the_newest_process_may_register_again(void **state) {
    struct registry_register request = registering("web", "a");
    struct registry_registered answer = {0};
    request.previous_token = registered(&fixture, "web", "a").token;
    assert_int_equal(try_register(&fixture, &request, &answer), STATUS_OK);
    assert_int_equal(answer.replaced_token, request.previous_token);
}

static void the_same_content_again_only_counts_anew(void **state) {
    const struct registry_check check = registry_test_check("c1", REGISTRY_CHECK_HTTP);
    struct registry_register request = registering("web", "a");
    struct registry_registered first = {0};
    struct registry_registered second = {0};
    request.is_idempotent = true;
    request.checks = &check;
    request.n_checks = 1;
    assert_int_equal(try_register(&fixture, &request, &first), STATUS_OK);
    assert_int_equal(report(&fixture, "web", "a", "c1", REGISTRY_WARNING, "so so"), STATUS_OK);
    int64_t before = revision_of(&fixture);
    uint32_t epoch = epoch_of(&fixture, first.lease_id);
    assert_int_equal(try_register(&fixture, &request, &second), STATUS_OK);
    assert_int_equal(second.token, first.token);
    assert_int_equal(second.lease_id, first.lease_id);
    assert_int_equal(second.replaced_token, 0);
    assert_int_equal(revision_of(&fixture), before);
    assert_true(epoch_of(&fixture, first.lease_id) > epoch);
    /* Another port is another registration. */
    request.instance.port = 81;
    assert_int_equal(try_register(&fixture, &request, &second), STATUS_OK);
    assert_int_equal(second.replaced_token, first.token);
}

static void checks_of_an_older_registration_can_be_kept(void **state) {
    const struct registry_check checks[] = {registry_test_check("c1", REGISTRY_CHECK_TTL),
                                            registry_test_check("c2", REGISTRY_CHECK_HTTP)};
    struct registry_register request = registering("web", "a");
    struct registry_registered answer;
    struct registry_entry entry;
    registered_with(&fixture, "web", "a", checks, 2);
    assert_int_equal(report(&fixture, "web", "a", "c2", REGISTRY_WARNING, "hm"), STATUS_OK);
    request.keeps_checks = true;
    assert_int_equal(try_register(&fixture, &request, &answer), STATUS_OK);
    assert_true(look(&fixture, "web", "a", &entry));
    assert_int_equal(entry.n_checks, 2);
    assert_int_equal(entry.health, REGISTRY_WARNING);
    assert_int_not_equal(entry.checks[0].ttl_lease_id, 0);
    assert_int_not_equal(epoch_of(&fixture, entry.checks[0].ttl_lease_id), 0);
    assert_int_equal(count_leases(&fixture), 2);
}

static void one_that_drains_goes_after_its_time_and_is_no_loss(void **state) {
    struct registry_check check = registry_test_check("c1", REGISTRY_CHECK_TTL);
    struct registry_registered web = registered_with(&fixture, "web", "a", &check, 1);
    struct registry_entry entry;
    assert_int_equal(deregister(&fixture, "web", "a", web.token, 5000), STATUS_OK);
    assert_true(look(&fixture, "web", "a", &entry));
    assert_int_equal(registry_instance_state(&entry.instance), REGISTRY_DRAINING);
    assert_int_equal(entry.instance.token, web.token);
    assert_int_equal(entry.n_checks, 1);
    assert_false(entry.is_serving);
    /* Its old lease is gone, and the new one is not of those that clients renew. */
    assert_int_equal(epoch_of(&fixture, web.lease_id), 0);
    assert_false(lease_table_is_of(state_machine_leases(fixture.machine), entry.instance.lease_id,
                                   KEY_SPACE_REGISTRY));
    assert_int_equal(deregister(&fixture, "web", "a", web.token, 50000), STATUS_OK);
    time_is_up(&fixture, entry.instance.lease_id);
    assert_false(look(&fixture, "web", "a", &entry));
    assert_int_equal(service_of(&fixture, "web").n_lost, 0);
    assert_int_equal(newest_event(&fixture).n, 0);
    assert_int_equal(count_leases(&fixture), 0);
    assert_int_equal(count_all(&fixture, KEY_SPACE_ETCD), 0);
}

static void one_that_drains_can_be_replaced_and_taken_away(void **state) {
    registered(&fixture, "web", "a");
    assert_int_equal(deregister(&fixture, "web", "a", 0, 5000), STATUS_OK);
    struct registry_register request = registering("web", "a");
    struct registry_registered answer;
    request.is_idempotent = true;
    assert_int_equal(try_register(&fixture, &request, &answer), STATUS_OK);
    assert_string_equal(list(&fixture, "web"), "a ");
    assert_int_equal(service_of(&fixture, "web").n_live, 1);
    assert_int_equal(deregister(&fixture, "web", "a", 0, 5000), STATUS_OK);
    assert_int_equal(deregister(&fixture, "web", "a", 0, 0), STATUS_OK);
    assert_int_equal(count_leases(&fixture), 0);
}

static void the_operators_word_goes_before_and_outlives_a_process(void **state) {
    registered(&fixture, "web", "a");
    assert_int_equal(set_state(&fixture, "web", "a", 0, true, REGISTRY_OUT_OF_SERVICE), STATUS_OK);
    assert_string_equal(list(&fixture, "web"), "a:hidden ");
    registered(&fixture, "web", "a");
    assert_string_equal(list(&fixture, "web"), "a:hidden ");
    assert_int_equal(set_state(&fixture, "web", "a", 0, true, REGISTRY_STATE_NONE), STATUS_OK);
    assert_string_equal(list(&fixture, "web"), "a ");
    assert_int_equal(set_state(&fixture, "web", "a", 0, false, REGISTRY_STATE_NONE),
                     STATUS_INVALID);
}

static void metadata_is_set_and_taken_away(void **state) {
    const struct registry_pair pairs[] = {
        {bytes_from_text("new"), bytes_from_text("1")},
        {bytes_from_text("rack"), bytes_from_text("")},
    };
    const struct registry_set_metadata request = {.service = bytes_from_text("web"),
                                                  .id = bytes_from_text("a"),
                                                  .n_pairs = 2,
                                                  .pairs = pairs,
                                                  .replaces_extra = true,
                                                  .extra = bytes_from_text("x")};
    struct registry_entry entry;
    struct bytes value;
    struct buffer buffer;
    registered(&fixture, "web", "a");
    buffer_init(&buffer);
    registry_set_metadata_encode(&buffer, &request);
    assert_int_equal(registry_run(&fixture, REGISTRY_RULE_SET_METADATA, &buffer).status, STATUS_OK);
    assert_true(look(&fixture, "web", "a", &entry));
    assert_true(registry_instance_metadata(&entry.instance, "new", &value));
    assert_false(registry_instance_metadata(&entry.instance, "rack", &value));
    assert_true(registry_instance_metadata(&entry.instance, "empty", &value));
    assert_true(bytes_equal(entry.instance.extra, bytes_from_text("x")));
}

static void a_grace_period_is_added(void **state) {
    assert_int_equal(
        set_settings(&fixture, "web", (struct registry_service_settings){.grace_ms = 5000}),
        STATUS_OK);
    assert_int_equal(registered(&fixture, "web", "a").ttl_ms, 15 * 1000);
    assert_int_equal(deregister(&fixture, "web", "a", 0, 0), STATUS_OK);
    /* Settings outlive the instances, until they are taken away. */
    assert_int_equal(service_of(&fixture, "web").settings.grace_ms, 5000);
    assert_int_equal(set_settings(&fixture, "web", (struct registry_service_settings){0}),
                     STATUS_OK);
    assert_int_equal(count_all(&fixture, KEY_SPACE_REGISTRY), 0);
}

static void what_is_not_there_is_not_found(void **state) {
    assert_int_equal(deregister(&fixture, "web", "a", 0, 0), STATUS_KEY_NOT_FOUND);
    assert_int_equal(set_state(&fixture, "web", "a", 0, false, REGISTRY_UP), STATUS_KEY_NOT_FOUND);
    assert_int_equal(report(&fixture, "web", "a", "c", REGISTRY_PASSING, ""), STATUS_KEY_NOT_FOUND);
    assert_int_equal(deregister(&fixture, "web", "", 0, 0), STATUS_INVALID);
    registered(&fixture, "web", "a");
    registered(&fixture, "webs", "a");
    assert_int_equal(deregister(&fixture, "web", "a", 0, 0), STATUS_OK);
    assert_string_equal(list(&fixture, "webs"), "a ");
}

static void a_chosen_lease_is_granted_once(void **state) {
    struct registry_register request = registering("web", "a");
    struct registry_registered answer;
    request.lease_id = 77;
    assert_int_equal(try_register(&fixture, &request, &answer), STATUS_OK);
    assert_int_equal(answer.lease_id, 77);
    request.instance.id = bytes_from_text("b");
    assert_int_equal(try_register(&fixture, &request, &answer), STATUS_LEASE_EXISTS);
    assert_string_equal(list(&fixture, "web"), "a ");
    assert_int_equal(service_of(&fixture, "web").n_live, 1);
}

static void a_runner_has_one_key(void **state) {
    int64_t first = 0;
    for (int i = 0; i < 2; i++) {
        const struct registry_runner request = {.member_id = 5, .ttl_ms = 3000};
        struct reader reader;
        struct buffer buffer;
        buffer_init(&buffer);
        registry_runner_encode(&buffer, &request);
        struct outcome outcome = registry_run(&fixture, REGISTRY_RULE_RUNNER, &buffer);
        assert_int_equal(outcome.status, STATUS_OK);
        reader_init(&reader, outcome.rule.answer);
        int64_t id = reader_get_zigzag(&reader);
        assert_int_not_equal(id, first);
        first = id;
        assert_int_equal(count_leases(&fixture), 1);
        assert_int_equal(count_in(&fixture, registry_records('r')), 1);
    }
}

static void the_mirror_is_json(void **state) {
    struct registry_register request = registering("we\"b", "a");
    struct registry_registered answer;
    char expected[512];
    assert_int_equal(try_register(&fixture, &request, &answer), STATUS_OK);
    snprintf(expected, sizeof expected,
             "{\"id\":\"a\",\"service\":\"we\\\"b\",\"address\":\"10.0.0.1\",\"port\":80,"
             "\"tags\":[\"v2\",\"blue\"],\"metadata\":{\"rack\":\"r1\",\"empty\":\"\"},"
             "\"zone\":\"z1\",\"version\":\"1.2.3\",\"weight\":1,\"state\":\"up\","
             "\"health\":\"passing\",\"token\":%d}",
             (int)answer.token);
    struct bytes value = record_value(mirror_of(&fixture, "we\"b", "a"));
    assert_true(bytes_equal(value, bytes_from_text(expected)));
}

static void requests_are_checked_to_the_last_byte(void **state) {
    for (uint32_t number = REGISTRY_RULE_REGISTER; number <= REGISTRY_RULE_CHECK_CRITICAL;
         number++) {
        struct buffer buffer;
        buffer_init(&buffer);
        for (int i = 0; i < 64; i++) {
            buffer_put_u8(&buffer, 0);
        }
        enum status status = registry_run(&fixture, number, &buffer).status;
        if (number >= REGISTRY_RULE_CHECK_SILENT) {
            continue; /* hooks that find nothing have nothing to do */
        }
        assert_int_not_equal(status, STATUS_OK);
    }
    assert_int_equal(count_all(&fixture, KEY_SPACE_REGISTRY), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_registration_is_a_lease, set_up, tear_down),
        cmocka_unit_test_setup_teardown(everything_goes_with_the_lease_in_one_revision, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_later_registration_replaces_and_has_a_greater_token,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_stale_process_can_do_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_newest_process_may_register_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_same_content_again_only_counts_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(checks_of_an_older_registration_can_be_kept, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(one_that_drains_goes_after_its_time_and_is_no_loss, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(one_that_drains_can_be_replaced_and_taken_away, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_operators_word_goes_before_and_outlives_a_process,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(metadata_is_set_and_taken_away, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_grace_period_is_added, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_not_there_is_not_found, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_chosen_lease_is_granted_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_runner_has_one_key, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_mirror_is_json, set_up, tear_down),
        cmocka_unit_test_setup_teardown(requests_are_checked_to_the_last_byte, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
