/* Checks: TTL, reports, deregistration of what is critical for too long. */
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

static struct registry_check look_check(const char *id, const char *check) {
    struct registry_entry entry;
    assert_true(look(&fixture, "web", id, &entry));
    for (size_t i = 0; i < entry.n_checks; i++) {
        if (bytes_equal(entry.checks[i].id, bytes_from_text(check))) {
            return entry.checks[i];
        }
    }
    fail();
    return (struct registry_check){0};
}

static void register_with(struct registry_check check) {
    registered_with(&fixture, "web", "a", &check, 1);
}

static void silence_of_a_ttl_check_is_critical(void **state) {
    register_with(registry_test_check("c", REGISTRY_CHECK_TTL));
    struct registry_check check = look_check("a", "c");
    int64_t before = revision_of(&fixture);
    time_is_up(&fixture, check.ttl_lease_id);
    assert_int_equal(revision_of(&fixture), before + 1);
    check = look_check("a", "c");
    assert_int_equal(check.health, REGISTRY_CRITICAL);
    assert_true(bytes_equal(check.output, bytes_from_text("TTL expired")));
    assert_int_equal(check.ttl_lease_id, 0);
    assert_string_equal(list(&fixture, "web"), "a:hidden ");
    assert_int_equal(service_of(&fixture, "web").revision, before + 1);
    assert_non_null(strstr((const char *)record_value(mirror_of(&fixture, "web", "a")).data,
                           "\"health\":\"critical\""));
    /* It reports again. */
    assert_int_equal(report(&fixture, "web", "a", "c", REGISTRY_PASSING, "ok"), STATUS_OK);
    assert_int_not_equal(look_check("a", "c").ttl_lease_id, 0);
    assert_string_equal(list(&fixture, "web"), "a ");
}

static void a_report_that_changes_nothing_takes_no_revision(void **state) {
    register_with(registry_test_check("c", REGISTRY_CHECK_TTL));
    assert_int_equal(report(&fixture, "web", "a", "c", REGISTRY_PASSING, "ok"), STATUS_OK);
    struct registry_check check = look_check("a", "c");
    uint32_t epoch = epoch_of(&fixture, check.ttl_lease_id);
    int64_t before = revision_of(&fixture);
    assert_int_equal(report(&fixture, "web", "a", "c", REGISTRY_PASSING, "ok"), STATUS_OK);
    assert_int_equal(revision_of(&fixture), before);
    assert_true(epoch_of(&fixture, check.ttl_lease_id) > epoch);
}

static void a_ttl_check_that_reports_critical_has_no_lease(void **state) {
    register_with(registry_test_check("c", REGISTRY_CHECK_TTL));
    assert_int_equal(count_leases(&fixture), 2);
    assert_int_equal(report(&fixture, "web", "a", "c", REGISTRY_CRITICAL, "ill"), STATUS_OK);
    assert_int_equal(count_leases(&fixture), 1);
    assert_int_equal(report(&fixture, "web", "a", "c", REGISTRY_WARNING, "hm"), STATUS_OK);
    assert_int_equal(count_leases(&fixture), 2);
    assert_string_equal(list(&fixture, "web"), "a ");
}

static void what_is_critical_for_too_long_is_deregistered(void **state) {
    struct registry_check check = registry_test_check("c", REGISTRY_CHECK_HTTP);
    check.deregister_after_ms = 60 * 1000;
    register_with(check);
    assert_int_equal(look_check("a", "c").deregister_lease_id, 0);
    assert_int_equal(report(&fixture, "web", "a", "c", REGISTRY_CRITICAL, "ill"), STATUS_OK);
    int64_t lease_id = look_check("a", "c").deregister_lease_id;
    assert_int_not_equal(lease_id, 0);
    /* It recovers. */
    assert_int_equal(report(&fixture, "web", "a", "c", REGISTRY_PASSING, "ok"), STATUS_OK);
    assert_int_equal(epoch_of(&fixture, lease_id), 0);
    assert_int_equal(look_check("a", "c").deregister_lease_id, 0);
    /* It does not. */
    assert_int_equal(report(&fixture, "web", "a", "c", REGISTRY_CRITICAL, "ill"), STATUS_OK);
    int64_t before = revision_of(&fixture);
    time_is_up(&fixture, look_check("a", "c").deregister_lease_id);
    assert_int_equal(revision_of(&fixture), before + 1);
    assert_string_equal(list(&fixture, "web"), "");
    assert_int_equal(newest_event(&fixture).event.kind, REGISTRY_EVENT_DEREGISTERED);
    assert_int_equal(service_of(&fixture, "web").n_live, 0);
    assert_int_equal(count_leases(&fixture), 0);
    assert_int_equal(count_all(&fixture, KEY_SPACE_LEASE_HOOKS), 0);
}

static void silence_and_then_deregistration(void **state) {
    struct registry_check check = registry_test_check("c", REGISTRY_CHECK_TTL);
    check.deregister_after_ms = 60 * 1000;
    register_with(check);
    time_is_up(&fixture, look_check("a", "c").ttl_lease_id);
    time_is_up(&fixture, look_check("a", "c").deregister_lease_id);
    assert_string_equal(list(&fixture, "web"), "");
    assert_int_equal(count_leases(&fixture), 0);
}

static void leases_of_checks_go_with_the_instance(void **state) {
    struct registry_check check = registry_test_check("c", REGISTRY_CHECK_TTL);
    check.deregister_after_ms = 60 * 1000;
    register_with(check);
    struct registry_entry entry;
    assert_true(look(&fixture, "web", "a", &entry));
    time_is_up(&fixture, entry.instance.lease_id);
    /* The window of the lost one is left. */
    assert_int_equal(count_leases(&fixture), 1);
    assert_int_equal(service_of(&fixture, "web").n_lost, 1);
}

static void checks_come_and_go(void **state) {
    registered(&fixture, "web", "a");
    char ids[REGISTRY_CHECKS_MAX + 1][8];
    for (size_t i = 0; i <= REGISTRY_CHECKS_MAX; i++) {
        snprintf(ids[i], sizeof ids[i], "c%02zu", i);
        assert_int_equal(
            put_check(&fixture, "web", "a", registry_test_check(ids[i], REGISTRY_CHECK_TTL)),
            i < REGISTRY_CHECKS_MAX ? STATUS_OK : STATUS_TOO_MANY_REQUESTS);
    }
    assert_int_equal(count_leases(&fixture), 1 + REGISTRY_CHECKS_MAX);
    /* The same id again is the same check. */
    assert_int_equal(
        put_check(&fixture, "web", "a", registry_test_check(ids[3], REGISTRY_CHECK_TTL)),
        STATUS_OK);
    assert_int_equal(count_leases(&fixture), 1 + REGISTRY_CHECKS_MAX);
    for (size_t i = 0; i < REGISTRY_CHECKS_MAX; i++) {
        assert_int_equal(delete_check(&fixture, "web", "a", ids[i]), STATUS_OK);
    }
    assert_int_equal(delete_check(&fixture, "web", "a", ids[0]), STATUS_KEY_NOT_FOUND);
    assert_int_equal(count_leases(&fixture), 1);
    assert_int_equal(put_check(&fixture, "web", "b", registry_test_check("c", REGISTRY_CHECK_TTL)),
                     STATUS_KEY_NOT_FOUND);
}

static void a_critical_check_that_is_deleted_hides_nothing(void **state) {
    struct registry_check check = registry_test_check("c", REGISTRY_CHECK_MANUAL);
    registered(&fixture, "web", "a");
    check.health = REGISTRY_CRITICAL;
    assert_int_equal(put_check(&fixture, "web", "a", check), STATUS_OK);
    assert_string_equal(list(&fixture, "web"), "a:hidden ");
    assert_int_equal(delete_check(&fixture, "web", "a", "c"), STATUS_OK);
    assert_string_equal(list(&fixture, "web"), "a ");
}

static void nobody_gives_a_check_leases(void **state) {
    struct registry_check check = registry_test_check("c", REGISTRY_CHECK_TTL);
    registered(&fixture, "web", "a");
    check.ttl_lease_id = 5;
    assert_int_equal(put_check(&fixture, "web", "a", check), STATUS_INVALID);
    check.ttl_lease_id = 0;
    check.deregister_lease_id = 5;
    assert_int_equal(put_check(&fixture, "web", "a", check), STATUS_INVALID);
}

static struct registry_reported report_many(const struct registry_report *reports, size_t n,
                                            enum status expected) {
    struct registry_reported reported = {0};
    struct buffer buffer;
    buffer_init(&buffer);
    registry_reports_encode(&buffer, reports, n);
    struct outcome outcome = registry_run(&fixture, REGISTRY_RULE_REPORT, &buffer);
    assert_int_equal(outcome.status, expected);
    if (expected == STATUS_OK) {
        assert_true(registry_reported_decode(outcome.rule.answer, &reported));
    }
    return reported;
}

static void reports_of_older_registrations_are_left_out(void **state) {
    register_with(registry_test_check("c", REGISTRY_CHECK_HTTP));
    struct registry_entry entry;
    assert_true(look(&fixture, "web", "a", &entry));
    const struct registry_report reports[] = {{.service = bytes_from_text("web"),
                                               .id = bytes_from_text("a"),
                                               .check = bytes_from_text("c"),
                                               .token = entry.instance.token,
                                               .health = REGISTRY_CRITICAL},
                                              {.service = bytes_from_text("no"),
                                               .id = bytes_from_text("a"),
                                               .check = bytes_from_text("c")}};
    register_with(registry_test_check("c", REGISTRY_CHECK_HTTP));
    (void)report_many(reports, 2, STATUS_KEY_NOT_FOUND);
    assert_string_equal(list(&fixture, "web"), "a ");
}

static void large_checks_are_reported_in_parts(void **state) {
    enum { N = 90, BIG = 15 };
    static char room[REGISTRY_TEXT_SIZE_MAX + 1];
    static char ids[N][8];
    struct registry_pair headers[BIG];
    struct registry_report reports[N];
    struct registry_check check = registry_test_check("c", REGISTRY_CHECK_HTTP);
    memset(room, 'x', REGISTRY_TEXT_SIZE_MAX - 200);
    for (size_t i = 0; i < BIG; i++) {
        headers[i] = (struct registry_pair){bytes_from_text("h"),
                                            bytes_of(room, REGISTRY_TEXT_SIZE_MAX - 400)};
    }
    check.headers = headers;
    check.n_headers = BIG;
    for (size_t i = 0; i < N; i++) {
        snprintf(ids[i], sizeof ids[i], "i%02zu", i);
        registered_with(&fixture, "web", ids[i], &check, 1);
        reports[i] = (struct registry_report){.service = bytes_from_text("web"),
                                              .id = bytes_from_text(ids[i]),
                                              .check = bytes_from_text("c"),
                                              .health = REGISTRY_CRITICAL,
                                              .output = bytes_from_text("ill")};
    }
    struct registry_reported reported = report_many(reports, N, STATUS_OK);
    assert_in_range(reported.n_done, 20, N - 1);
    assert_int_equal(reported.n_found, reported.n_done);
    assert_int_equal(look_check(ids[0], "c").health, REGISTRY_CRITICAL);
    assert_int_equal(look_check(ids[N - 1], "c").health, REGISTRY_PASSING);
    reported = report_many(reports + reported.n_done, N - reported.n_done, STATUS_OK);
    assert_true(reported.n_done > 0);
}

static size_t work_of_state(const char *id) {
    struct buffer request;
    buffer_init(&request);
    registry_set_state_encode(&request,
                              &(struct registry_set_state){.service = bytes_from_text("web"),
                                                           .id = bytes_from_text(id),
                                                           .state = REGISTRY_UP});
    return registry_work_of(&fixture, REGISTRY_RULE_SET_STATE, &request);
}

static size_t work_of_removal(const char *id) {
    struct buffer request;
    buffer_init(&request);
    registry_deregister_encode(&request,
                               &(struct registry_deregister){.service = bytes_from_text("web"),
                                                             .id = bytes_from_text(id),
                                                             .drain_ms = 1000});
    return registry_work_of(&fixture, REGISTRY_RULE_DEREGISTER, &request);
}

static size_t work_of_report(const char *id, size_t n) {
    const struct registry_report one = {.service = bytes_from_text("web"),
                                        .id = bytes_from_text(id),
                                        .check = bytes_from_text("c0"),
                                        .health = REGISTRY_CRITICAL};
    const struct registry_report reports[] = {one, one, one};
    struct buffer request;
    buffer_init(&request);
    registry_reports_encode(&request, reports, n);
    return registry_work_of(&fixture, REGISTRY_RULE_REPORT, &request);
}

/* What is stored decides, not the request. */
static void to_change_what_is_large_is_much_work(void **state) {
    enum { CHECKS = 16, HEADERS = 15, SIZE = 4000, MUCH = 1024 };
    static char room[SIZE];
    static char ids[CHECKS][4];
    struct registry_pair headers[HEADERS];
    struct registry_check checks[CHECKS];
    memset(room, 'x', sizeof room);
    for (size_t i = 0; i < HEADERS; i++) {
        headers[i] = (struct registry_pair){bytes_from_text("h"), bytes_of(room, SIZE)};
    }
    for (size_t i = 0; i < CHECKS; i++) {
        snprintf(ids[i], sizeof ids[i], "c%zu", i);
        checks[i] = registry_test_check(ids[i], REGISTRY_CHECK_HTTP);
        checks[i].headers = headers;
        checks[i].n_headers = HEADERS;
    }
    registered_with(&fixture, "web", "large", checks, CHECKS);
    checks[0].n_headers = 0;
    registered_with(&fixture, "web", "small", checks, 1);
    assert_int_equal(work_of_state("missing"), 0);
    assert_true(work_of_state("small") < MUCH);
    assert_true(work_of_report("small", 1) < MUCH);
    assert_true(work_of_state("large") > MUCH);
    assert_int_equal(work_of_report("large", 3), 3 * work_of_report("large", 1));
    assert_true(work_of_report("large", 1) > MUCH);
    /* With its checks. */
    assert_true(work_of_removal("large") > 8 * work_of_state("large"));
}

static void output_is_cut_between_letters(void **state) {
    static char text[REGISTRY_TEXT_SIZE_MAX + 3];
    memset(text, 'x', REGISTRY_TEXT_SIZE_MAX - 1);
    memcpy(text + REGISTRY_TEXT_SIZE_MAX - 1, "\xc3\xbc", 3);
    register_with(registry_test_check("c", REGISTRY_CHECK_HTTP));
    assert_int_equal(report(&fixture, "web", "a", "c", REGISTRY_PASSING, text), STATUS_OK);
    assert_int_equal(look_check("a", "c").output.size, REGISTRY_TEXT_SIZE_MAX - 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(silence_of_a_ttl_check_is_critical, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_report_that_changes_nothing_takes_no_revision, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_ttl_check_that_reports_critical_has_no_lease, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_critical_for_too_long_is_deregistered, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(silence_and_then_deregistration, set_up, tear_down),
        cmocka_unit_test_setup_teardown(leases_of_checks_go_with_the_instance, set_up, tear_down),
        cmocka_unit_test_setup_teardown(checks_come_and_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_critical_check_that_is_deleted_hides_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(nobody_gives_a_check_leases, set_up, tear_down),
        cmocka_unit_test_setup_teardown(reports_of_older_registrations_are_left_out, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(large_checks_are_reported_in_parts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(to_change_what_is_large_is_much_work, set_up, tear_down),
        cmocka_unit_test_setup_teardown(output_is_cut_between_letters, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
