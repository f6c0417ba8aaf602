#include "registry/registry_model.h"

#include "registry_values.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static struct arena arena;
static struct buffer out;

static int set_up(void **state) {
    arena_init(&arena);
    buffer_init(&out);
    return 0;
}

static int tear_down(void **state) {
    arena_clear(&arena);
    buffer_clear(&out);
    return 0;
}

static struct bytes encoded(void) {
    return bytes_of(out.data, out.size);
}

static bool name_is_valid(const char *name) {
    return registry_name_is_valid(bytes_from_text(name));
}

static void names_are_utf8_without_control_characters(void **state) {
    char longest[257];
    memset(longest, 'a', 256);
    longest[255] = 0;
    assert_true(name_is_valid("web"));
    assert_true(name_is_valid("a/b c:80"));
    assert_true(name_is_valid("gr\xc3\xbc\xc3\x9f"));
    assert_true(name_is_valid(longest));
    longest[255] = 'a';
    longest[256] = 0;
    assert_false(name_is_valid(longest));
    assert_false(name_is_valid(""));
    assert_false(name_is_valid("a\nb"));
    assert_false(name_is_valid("\x7f"));
    assert_false(name_is_valid("\xc2\x85"));
    assert_false(name_is_valid("\xff"));
    assert_false(name_is_valid("\xed\xa0\x80"));
    assert_false(registry_name_is_valid(bytes_of("a\0b", 3)));
}

static void an_instance_is_read_as_it_was_written(void **state) {
    struct registry_instance instance = registry_test_instance("web", "web-1");
    struct registry_instance read = {0};
    struct bytes value;
    instance.override_state = REGISTRY_OUT_OF_SERVICE;
    instance.user_id = 7;
    instance.state_wall_ms = -5;
    assert_true(registry_instance_is_valid(&instance));
    registry_instance_encode(&out, &instance);
    assert_true(registry_instance_decode(encoded(), &arena, &read));
    assert_int_equal(read.port, 80);
    assert_int_equal(read.user_id, 7);
    assert_int_equal(read.state_wall_ms, -5);
    assert_int_equal(registry_instance_state(&read), REGISTRY_OUT_OF_SERVICE);
    assert_int_equal(read.ttl_ms, 10 * 1000);
    assert_true(registry_instance_has_tag(&read, bytes_from_text("blue")));
    assert_false(registry_instance_has_tag(&read, bytes_from_text("blu")));
    assert_true(registry_instance_metadata(&read, "rack", &value));
    assert_true(bytes_equal(value, bytes_from_text("r1")));
    assert_true(registry_instance_metadata(&read, "empty", &value));
    assert_false(registry_instance_metadata(&read, "rac", &value));
    assert_true(bytes_equal(read.extra, bytes_of("\0\1\2", 3)));
}

static void no_part_of_an_encoded_value_is_a_value(void **state) {
    struct registry_instance instance = registry_test_instance("web", "web-1");
    struct registry_check check = registry_test_check("c", REGISTRY_CHECK_HTTP);
    struct registry_instance read;
    struct registry_check read_check;
    registry_instance_encode(&out, &instance);
    for (size_t i = 0; i < out.size; i++) {
        assert_false(registry_instance_decode(bytes_of(out.data, i), &arena, &read));
    }
    buffer_put_u8(&out, 0);
    assert_false(registry_instance_decode(encoded(), &arena, &read));
    out.size = 0;
    registry_check_encode(&out, &check);
    for (size_t i = 0; i < out.size; i++) {
        assert_false(registry_check_decode(bytes_of(out.data, i), &arena, &read_check));
    }
    buffer_put_u8(&out, 0);
    assert_false(registry_check_decode(encoded(), &arena, &read_check));
}

#define REFUSED(change)                                                                            \
    do {                                                                                           \
        struct registry_instance instance = registry_test_instance("web", "web-1");                \
        change;                                                                                    \
        assert_false(registry_instance_is_valid(&instance));                                       \
    } while (0)

static void instances_out_of_bounds_are_refused(void **state) {
    const struct bytes twice[] = {registry_test_tags[0], registry_test_tags[0]};
    const struct registry_pair pairs[] = {registry_test_pairs[0], registry_test_pairs[0]};
    uint8_t *much = calloc(1, REGISTRY_EXTRA_SIZE_MAX + 1);
    REFUSED(instance.service.size = 0);
    REFUSED(instance.id = bytes_from_text("\n"));
    REFUSED(instance.state = REGISTRY_STATE_NONE);
    REFUSED(instance.state = REGISTRY_STATES);
    REFUSED(instance.override_state = REGISTRY_STATES);
    REFUSED(instance.origin = 0);
    REFUSED(instance.weight = REGISTRY_WEIGHT_MAX + 1);
    REFUSED(instance.tags = twice);
    REFUSED(instance.metadata = pairs);
    REFUSED(instance.ttl_ms = REGISTRY_TTL_MS_MIN - 1);
    REFUSED(instance.ttl_ms = LEASE_TTL_MS_MAX + 1);
    REFUSED(instance.extra = bytes_of(much, REGISTRY_EXTRA_SIZE_MAX + 1));
    REFUSED(instance.zone = bytes_from_text("a\tb"));
    struct registry_instance forever = registry_test_instance("web", "web-1");
    forever.ttl_ms = LEASE_TTL_FOREVER;
    assert_true(registry_instance_is_valid(&forever));
    free(much);
}

static void a_check_is_read_as_it_was_written(void **state) {
    struct registry_check check = registry_test_check("c", REGISTRY_CHECK_HTTP);
    struct registry_check read = {0};
    check.health = REGISTRY_WARNING;
    check.status_max = 399;
    check.ttl_lease_id = -3;
    check.deregister_lease_id = INT64_MAX;
    check.skips_verification = true;
    assert_true(registry_check_is_valid(&check));
    registry_check_encode(&out, &check);
    assert_true(registry_check_decode(encoded(), &arena, &read));
    assert_int_equal(read.kind, REGISTRY_CHECK_HTTP);
    assert_int_equal(read.health, REGISTRY_WARNING);
    assert_int_equal(read.status_max, 399);
    assert_int_equal(read.ttl_lease_id, -3);
    assert_int_equal(read.deregister_lease_id, INT64_MAX);
    assert_true(read.skips_verification);
    assert_false(read.is_tls);
    assert_int_equal(read.n_headers, 2);
}

static void checks_need_what_they_ask(void **state) {
    struct registry_check check = registry_test_check("c", REGISTRY_CHECK_HTTP);
    check.interval_ms = REGISTRY_INTERVAL_MS_MIN - 1;
    assert_false(registry_check_is_valid(&check));
    check = registry_test_check("c", REGISTRY_CHECK_TCP);
    check.target.size = 0;
    assert_false(registry_check_is_valid(&check));
    check = registry_test_check("c", REGISTRY_CHECK_TTL);
    check.ttl_ms = 0;
    assert_false(registry_check_is_valid(&check));
    check = registry_test_check("c", REGISTRY_CHECK_ALIAS);
    check.alias_service.size = 0;
    assert_false(registry_check_is_valid(&check));
    check = registry_test_check("c", REGISTRY_CHECK_COMMAND);
    check.target = bytes_of("/bin/true\0-x", 12);
    assert_true(registry_check_is_valid(&check));
    check = registry_test_check("c", REGISTRY_CHECK_MANUAL);
    check.deregister_after_ms = 1;
    assert_false(registry_check_is_valid(&check));
}

static void services_and_events_are_read_as_they_were_written(void **state) {
    struct registry_service service = {.n_live = 5, .n_lost = 2, .guard_lease_id = 9, .round = 3};
    struct registry_service read;
    struct registry_event event = {.number = 1001,
                                   .kind = REGISTRY_EVENT_GUARD_ON,
                                   .service = bytes_from_text("web"),
                                   .n_lost = 3,
                                   .wall_ms = 5};
    struct registry_event read_event;
    registry_service_encode(&out, &service);
    assert_true(registry_service_decode(encoded(), &read));
    assert_int_equal(read.n_live, 5);
    assert_int_equal(read.round, 3);
    assert_int_equal(read.guard_lease_id, 9);
    assert_int_equal(registry_service_settings(&read).guard_percent, REGISTRY_GUARD_PERCENT);
    assert_int_equal(registry_service_settings(&read).guard_hold_ms, REGISTRY_GUARD_HOLD_MS);
    out.size = 0;
    registry_event_encode(&out, &event);
    assert_true(registry_event_decode(encoded(), &read_event));
    assert_int_equal(read_event.number, 1001);
    assert_int_equal(read_event.kind, REGISTRY_EVENT_GUARD_ON);
}

static void a_lost_instance_keeps_its_token(void **state) {
    struct registry_lost lost = {
        .instance = registry_test_instance("web", "1"), .health = REGISTRY_CRITICAL, .round = 4};
    struct registry_lost read;
    lost.instance.token = 77;
    registry_lost_encode(&out, &lost);
    assert_true(registry_lost_decode(encoded(), &arena, &read));
    assert_int_equal(read.instance.token, 77);
    assert_int_equal(read.health, REGISTRY_CRITICAL);
    assert_int_equal(read.round, 4);
    assert_int_equal(read.instance.port, 80);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names_are_utf8_without_control_characters, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_instance_is_read_as_it_was_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_part_of_an_encoded_value_is_a_value, set_up, tear_down),
        cmocka_unit_test_setup_teardown(instances_out_of_bounds_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_check_is_read_as_it_was_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(checks_need_what_they_ask, set_up, tear_down),
        cmocka_unit_test_setup_teardown(services_and_events_are_read_as_they_were_written, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_lost_instance_keeps_its_token, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
