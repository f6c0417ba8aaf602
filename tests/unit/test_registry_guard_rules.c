/* Lost instances and the mass-failure guard. */
#include "registry_fixture.h"

#include <stdlib.h>
#include <time.h>

static struct fixture fixture;

static int set_up(void **state) {
    registry_is_quick = false;
    registry_fixture_init(&fixture);
    return 0;
}

static int tear_down(void **state) {
    fixture_clear(&fixture);
    return 0;
}

static int64_t leases[20000];

static void id_of(size_t i, char out_id[16]) {
    snprintf(out_id, 16, "i%05zu", i);
}

static void start_fleet(size_t n) {
    for (size_t i = 0; i < n; i++) {
        char id[16];
        id_of(i, id);
        leases[i] = registered(&fixture, "web", id).lease_id;
    }
}

static void lose(size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        time_is_up(&fixture, leases[i]);
    }
}

struct counted {
    size_t n;
    size_t n_kept;
};

static bool count_entry(void *context, const struct registry_entry *entry) {
    struct counted *counted = context;
    counted->n++;
    counted->n_kept += entry->is_kept;
    return true;
}

static struct counted count_listed(void) {
    struct counted counted = {0};
    registry_view_visit(store_of(&fixture), &fixture.arena, bytes_from_text("web"), count_entry,
                        &counted);
    return counted;
}

static bool is_on(void) {
    return service_of(&fixture, "web").guard_lease_id != 0;
}

static int64_t lease_of_lost(const char *id) {
    const struct record *record = key_store_find(
        store_of(&fixture), KEY_SPACE_REGISTRY,
        registry_key_lost(&fixture.arena, bytes_from_text("web"), bytes_from_text(id)));
    return record == NULL ? 0 : record->lease_id;
}

static void a_crash_is_removed_on_time(void **state) {
    start_fleet(1);
    int64_t before = revision_of(&fixture);
    lose(0, 1);
    assert_int_equal(revision_of(&fixture), before + 1);
    assert_int_equal(count_listed().n, 0);
    assert_int_equal(count_all(&fixture, KEY_SPACE_ETCD), 0);
    struct newest_event newest = newest_event(&fixture);
    assert_int_equal(newest.event.kind, REGISTRY_EVENT_LOST);
    assert_true(bytes_equal(newest.event.id, bytes_from_text("i00000")));
    assert_int_equal(newest.event.revision, before + 1);
    /* When the window is over, nothing is left but the event. */
    time_is_up(&fixture, lease_of_lost("i00000"));
    assert_int_equal(count_all(&fixture, KEY_SPACE_REGISTRY), 0);
    assert_int_equal(count_leases(&fixture), 0);
    assert_int_equal(count_all(&fixture, KEY_SPACE_LEASE_HOOKS), 0);
}

/* How many of a fleet must be lost within the window so that the guard goes on; 0: all are not
 * enough. */
static size_t losses_until_on(size_t size) {
    size_t n = 0;
    start_fleet(size);
    while (n < size && !is_on()) {
        lose(n, n + 1);
        n++;
        assert_int_equal(count_listed().n, is_on() ? size : size - n);
    }
    return is_on() ? n : 0;
}

static void from_which_loss_on_it_keeps(void **state) {
    static const struct {
        size_t size;
        size_t losses;
    } fleets[] = {{1, 0}, {2, 0}, {3, 3}, {4, 3}, {5, 3}, {6, 3}, {7, 4}, {10, 5}, {1000, 500}};
    for (size_t i = 0; i < sizeof fleets / sizeof fleets[0]; i++) {
        registry_is_quick = fleets[i].size > 10;
        assert_int_equal(losses_until_on(fleets[i].size), fleets[i].losses);
        tear_down(NULL);
        set_up(NULL);
    }
}

static void what_is_kept_is_listed_and_marked_and_has_no_lease(void **state) {
    start_fleet(5);
    lose(0, 3);
    assert_string_equal(list(&fixture, "web"),
                        "i00000:kept i00001:kept i00002:kept i00003 i00004 ");
    struct registry_entry entry;
    assert_true(look(&fixture, "web", "i00001", &entry));
    assert_int_equal(entry.instance.lease_id, 0);
    assert_true(entry.is_serving);
    struct newest_event newest = newest_event(&fixture);
    assert_int_equal(newest.event.kind, REGISTRY_EVENT_GUARD_ON);
    assert_int_equal(newest.event.n_lost, 3);
    assert_int_equal(newest.event.n_live, 2);
    assert_int_equal(service_of(&fixture, "web").n_guarded, 1);
    /* The mirror has only what is alive. */
    assert_null(mirror_of(&fixture, "web", "i00001"));
    assert_int_equal(count_all(&fixture, KEY_SPACE_ETCD), 2);
}

static void what_was_ill_is_not_served_when_it_is_kept(void **state) {
    struct registry_check check = registry_test_check("c", REGISTRY_CHECK_HTTP);
    struct registry_entry entry;
    start_fleet(3);
    check.health = REGISTRY_CRITICAL;
    assert_int_equal(put_check(&fixture, "web", "i00000", check), STATUS_OK);
    lose(0, 3);
    assert_true(look(&fixture, "web", "i00000", &entry));
    assert_true(entry.is_kept);
    assert_false(entry.is_serving);
    assert_true(look(&fixture, "web", "i00001", &entry));
    assert_true(entry.is_serving);
}

static void it_ends_when_its_time_is_over(void **state) {
    start_fleet(4);
    lose(0, 4);
    assert_int_equal(count_listed().n_kept, 4);
    /* Windows that end while it is on take nothing away. */
    time_is_up(&fixture, lease_of_lost("i00000"));
    time_is_up(&fixture, lease_of_lost("i00001"));
    assert_int_equal(count_listed().n_kept, 4);
    int64_t before = revision_of(&fixture);
    time_is_up(&fixture, service_of(&fixture, "web").guard_lease_id);
    assert_int_equal(revision_of(&fixture), before + 1);
    assert_int_equal(count_listed().n, 0);
    assert_int_equal(newest_event(&fixture).event.kind, REGISTRY_EVENT_GUARD_OFF);
    assert_int_equal(service_of(&fixture, "web").n_lost, 0);
    /* The records of that round go by and by. */
    assert_int_equal(service_of(&fixture, "web").n_tombstones, 4);
    time_is_up(&fixture, lease_of_lost("i00000")); /* the shared one: two of them, and the fourth */
    time_is_up(&fixture, lease_of_lost("i00002"));
    assert_int_equal(count_all(&fixture, KEY_SPACE_REGISTRY), 0);
    assert_int_equal(count_leases(&fixture), 0);
    assert_int_equal(count_all(&fixture, KEY_SPACE_LEASE_HOOKS), 0);
}

static void what_was_lost_in_an_older_round_does_not_count(void **state) {
    start_fleet(6);
    lose(0, 3);
    assert_true(is_on());
    time_is_up(&fixture, service_of(&fixture, "web").guard_lease_id);
    lose(3, 5);
    assert_false(is_on());
    assert_string_equal(list(&fixture, "web"), "i00005 ");
    lose(5, 6);
    assert_true(is_on());
    assert_string_equal(list(&fixture, "web"), "i00003:kept i00004:kept i00005:kept ");
}

static void it_ends_when_enough_are_back(void **state) {
    start_fleet(8);
    lose(0, 4);
    assert_true(is_on());
    registered(&fixture, "web", "i00000");
    registered(&fixture, "web", "i00001");
    /* Two of eight are lost: a quarter is not below half of one half. */
    assert_true(is_on());
    assert_int_equal(count_listed().n, 8);
    registered(&fixture, "web", "i00002");
    assert_false(is_on());
    assert_int_equal(count_listed().n, 7);
    assert_int_equal(newest_event(&fixture).event.kind, REGISTRY_EVENT_GUARD_OFF);
    assert_int_equal(service_of(&fixture, "web").n_live, 7);
}

static void what_comes_back_has_a_greater_token(void **state) {
    start_fleet(3);
    struct registry_entry entry;
    assert_true(look(&fixture, "web", "i00000", &entry));
    int64_t token = entry.instance.token;
    lose(0, 3);
    assert_true(look(&fixture, "web", "i00000", &entry));
    assert_int_equal(entry.instance.token, token);
    assert_true(registered(&fixture, "web", "i00000").token > token);
    assert_string_equal(list(&fixture, "web"), "i00000 i00001:kept i00002:kept ");
}

static void losses_that_are_spread_over_time_do_not_add_up(void **state) {
    start_fleet(5);
    for (size_t i = 0; i < 5; i++) {
        char id[16];
        id_of(i, id);
        lose(i, i + 1);
        assert_false(is_on());
        time_is_up(&fixture, lease_of_lost(id));
    }
    assert_int_equal(count_all(&fixture, KEY_SPACE_REGISTRY), 0);
}

static void what_leaves_by_itself_is_no_loss(void **state) {
    start_fleet(5);
    for (size_t i = 0; i < 5; i++) {
        char id[16];
        id_of(i, id);
        assert_int_equal(deregister(&fixture, "web", id, 0, 0), STATUS_OK);
    }
    assert_false(is_on());
    assert_int_equal(newest_event(&fixture).n, 0);
    assert_int_equal(count_all(&fixture, KEY_SPACE_REGISTRY), 0);
}

static void what_is_kept_can_be_deregistered(void **state) {
    start_fleet(3);
    struct registry_entry entry;
    assert_true(look(&fixture, "web", "i00000", &entry));
    lose(0, 3);
    assert_int_equal(deregister(&fixture, "web", "i00000", entry.instance.token + 1, 0),
                     STATUS_FENCED);
    assert_int_equal(deregister(&fixture, "web", "i00000", entry.instance.token, 0), STATUS_OK);
    assert_string_equal(list(&fixture, "web"), "i00001:kept i00002:kept ");
    assert_int_equal(deregister(&fixture, "web", "i00001", 0, 0), STATUS_OK);
    assert_int_equal(deregister(&fixture, "web", "i00002", 0, 0), STATUS_OK);
    assert_false(is_on());
    assert_int_equal(count_all(&fixture, KEY_SPACE_REGISTRY), 0);
    assert_int_equal(count_leases(&fixture), 0);
}

static void settings_decide(void **state) {
    assert_int_equal(
        set_settings(&fixture, "web",
                     (struct registry_service_settings){.guard_percent = 20, .guard_minimum = 1}),
        STATUS_OK);
    start_fleet(5);
    lose(0, 1);
    assert_true(is_on());
    assert_int_equal(
        set_settings(&fixture, "web",
                     (struct registry_service_settings){.guard_percent = REGISTRY_GUARD_OFF}),
        STATUS_OK);
    assert_false(is_on());
    lose(1, 5);
    assert_false(is_on());
    assert_int_equal(count_listed().n, 0);
    assert_int_equal(
        set_settings(&fixture, "web", (struct registry_service_settings){.guard_percent = 102}),
        STATUS_INVALID);
    assert_int_equal(
        set_settings(&fixture, "web", (struct registry_service_settings){.guard_window_ms = 1}),
        STATUS_INVALID);
}

static void services_are_counted_apart(void **state) {
    int64_t others[3];
    for (size_t i = 0; i < 3; i++) {
        char id[16];
        id_of(i, id);
        others[i] = registered(&fixture, "webs", id).lease_id;
    }
    start_fleet(2);
    lose(0, 2);
    time_is_up(&fixture, others[0]);
    time_is_up(&fixture, others[1]);
    assert_false(is_on());
    assert_int_equal(service_of(&fixture, "webs").guard_lease_id, 0);
    assert_string_equal(list(&fixture, "webs"), "i00002 ");
}

/* Batches as the leader proposes them; what is left of one is proposed again. */
static double expire_all(const int64_t *ids, size_t n) {
    double longest_ms = 0;
    for (size_t i = 0; i < n;) {
        static uint32_t epochs[2048];
        size_t size = n - i < 2048 ? n - i : 2048;
        struct outcome outcome;
        for (size_t j = 0; j < size; j++) {
            epochs[j] = epoch_of(&fixture, ids[i + j]);
        }
        struct command command = {
            .type = COMMAND_LEASE_EXPIRE,
            .expire = {.term = 1, .n = size, .ids = ids + i, .epochs = epochs}};
        clock_t began = clock();
        state_machine_apply(fixture.machine, &command, &fixture.context, &fixture.arena, &outcome);
        double ms = (double)(clock() - began) * 1000 / CLOCKS_PER_SEC;
        longest_ms = ms > longest_ms ? ms : longest_ms;
        assert_true(outcome.expire.n_ended > 0);
        i += outcome.expire.n_ended;
        arena_reset(&fixture.arena);
    }
    return longest_ms;
}

static void many_at_once_are_counted_and_no_command_takes_long(void **state) {
    enum { N = 20000 };
    registry_is_quick = true;
    start_fleet(N);
    double longest_ms = expire_all(leases, N);
    struct registry_service service = service_of(&fixture, "web");
    assert_int_equal(service.n_live, 0);
    assert_int_equal(service.n_lost, N);
    assert_int_equal(service.n_guarded, 1);
    assert_int_equal(count_listed().n_kept, N);
    /* Its event is not lost among those of the instances. */
    assert_int_equal(newest_event(&fixture).event.kind, REGISTRY_EVENT_GUARD_ON);
    assert_int_equal(newest_event(&fixture).n, REGISTRY_EVENTS_MAX);
    /* All windows end; then the guard; then what is left of it. */
    size_t n = 0;
    int64_t *ids = lease_table_ids(state_machine_leases(fixture.machine), &n);
    static int64_t windows[N];
    size_t n_windows = 0;
    for (size_t i = 0; i < n; i++) {
        struct lease_facts facts;
        assert_true(lease_table_find(state_machine_leases(fixture.machine), ids[i], &facts));
        if (facts.ttl_ms == REGISTRY_GUARD_WINDOW_MS) {
            windows[n_windows++] = ids[i];
        }
    }
    free(ids);
    assert_int_equal(n_windows, N / 2);
    double windows_ms = expire_all(windows, n_windows);
    assert_int_equal(count_listed().n_kept, N);
    time_is_up(&fixture, service_of(&fixture, "web").guard_lease_id);
    assert_int_equal(count_listed().n_kept, 0);
    ids = lease_table_ids(state_machine_leases(fixture.machine), &n);
    assert_in_range(n, N / 256, N / 256 + 2);
    double rest_ms = expire_all(ids, n);
    free(ids);
    assert_int_equal(count_all(&fixture, KEY_SPACE_REGISTRY), 0);
    assert_int_equal(count_all(&fixture, KEY_SPACE_LEASE_HOOKS), 0);
    print_message("longest command: %.1f ms of losses, %.1f ms of windows, %.1f ms at the end\n",
                  longest_ms, windows_ms, rest_ms);
    assert_true(longest_ms < 1000 && windows_ms < 1000 && rest_ms < 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_crash_is_removed_on_time, set_up, tear_down),
        cmocka_unit_test_setup_teardown(from_which_loss_on_it_keeps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_kept_is_listed_and_marked_and_has_no_lease, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_was_ill_is_not_served_when_it_is_kept, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(it_ends_when_its_time_is_over, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_lost_in_an_older_round_does_not_count, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(it_ends_when_enough_are_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_comes_back_has_a_greater_token, set_up, tear_down),
        cmocka_unit_test_setup_teardown(losses_that_are_spread_over_time_do_not_add_up, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_leaves_by_itself_is_no_loss, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_kept_can_be_deregistered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(settings_decide, set_up, tear_down),
        cmocka_unit_test_setup_teardown(services_are_counted_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(many_at_once_are_counted_and_no_command_takes_long, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
