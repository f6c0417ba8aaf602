#include "registry/registry_zones.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static const char *zone_of(const struct registry_zones *zones, const char *address) {
    static char text[64];
    struct registry_network network;
    assert_true(registry_network_parse(address, &network));
    struct bytes zone = registry_zones_find(zones, &network);
    snprintf(text, sizeof text, "%.*s", (int)zone.size, (const char *)zone.data);
    return text;
}

static void the_longest_prefix_counts(void **state) {
    struct registry_zones *zones =
        registry_zones_create("10.0.0.0/8=a,10.1.2.0/23=b,10.1.3.7=c,fd00::/12=d,::/0=rest");
    assert_non_null(zones);
    assert_string_equal(zone_of(zones, "10.9.9.9"), "a");
    assert_string_equal(zone_of(zones, "10.1.2.1:4711"), "b");
    assert_string_equal(zone_of(zones, "10.1.3.8"), "b");
    assert_string_equal(zone_of(zones, "10.1.4.1"), "a");
    assert_string_equal(zone_of(zones, "10.1.3.7"), "c");
    assert_string_equal(zone_of(zones, "[fd0f::1]:53"), "d");
    assert_string_equal(zone_of(zones, "fe80::1"), "rest");
    assert_string_equal(zone_of(zones, "192.0.2.1"), "rest");
    assert_string_equal(zone_of(zones, "::ffff:10.1.3.7"), "c");
    registry_zones_destroy(zones);
}

/* A resolver that says less than an entry needs is not guessed at. */
static void a_network_is_in_a_zone_with_all_of_it(void **state) {
    static const uint8_t address[] = {10, 1, 200, 3};
    struct registry_zones *zones = registry_zones_create("10.1.0.0/16=a");
    const struct registry_network inside = registry_network_of(address, sizeof address, 24);
    const struct registry_network larger = registry_network_of(address, sizeof address, 8);
    assert_int_equal(inside.bytes[15], 0);
    assert_int_equal(registry_zones_find(zones, &inside).size, 1);
    assert_int_equal(registry_zones_find(zones, &larger).size, 0);
    registry_zones_destroy(zones);
}

static void what_is_no_list_is_refused(void **state) {
    static const char *const wrong[] = {
        "10.0.0.0/8",    "10.0.0.0/33=a", "::/129=a",      "10.0.0.0/=a",
        "10.0.0.0/8=",   "10.0.0/8=a",    "web=a",         "=a",
        "10.0.0.0/-1=a", "10.0.0.0/8x=a", "10.0.0.0/8=a,x"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_null(registry_zones_create(wrong[i]));
    }
    struct registry_zones *zones = registry_zones_create("");
    assert_true(registry_zones_is_empty(zones));
    assert_string_equal(zone_of(zones, "10.0.0.1"), "");
    registry_zones_destroy(zones);
}

static void a_list_has_a_bound(void **state) {
    char text[(REGISTRY_ZONES_MAX + 1) * 16] = "";
    for (size_t i = 0, size = 0; i <= REGISTRY_ZONES_MAX; i++) {
        size += (size_t)snprintf(text + size, sizeof text - size, "10.0.0.%zu=a,", i % 256);
    }
    assert_null(registry_zones_create(text));
}

static void what_is_no_address_is_none(void **state) {
    struct registry_network network;
    assert_false(registry_network_parse("", &network));
    assert_false(registry_network_parse("unix", &network));
    assert_false(registry_network_parse("[::1", &network) && network.n_bits != 128);
    assert_false(registry_network_parse(
        "1111111111111111111111111111111111111111111111111111111111111111111111", &network));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_longest_prefix_counts),
        cmocka_unit_test(a_network_is_in_a_zone_with_all_of_it),
        cmocka_unit_test(what_is_no_list_is_refused),
        cmocka_unit_test(a_list_has_a_bound),
        cmocka_unit_test(what_is_no_address_is_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
