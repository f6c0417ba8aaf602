/* Keys and reads of the registry, over a store that is written by hand. */
#include "registry/registry_view.h"

#include "registry/registry_keys.h"
#include "registry_values.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

struct world {
    struct key_store *keys;
    struct arena arena;
};

static struct world world;

static int set_up(void **state) {
    world.keys = key_store_create();
    arena_init(&world.arena);
    return 0;
}

static int tear_down(void **state) {
    key_store_destroy(world.keys);
    arena_clear(&world.arena);
    return 0;
}

static void put(struct key_space_id space, struct bytes key, struct buffer *value) {
    key_store_begin(world.keys);
    key_store_put(world.keys, space, key, bytes_of(value->data, value->size), 0, NULL);
    key_store_end(world.keys);
    buffer_clear(value);
}

static void put_instance(const char *service, const char *id) {
    struct registry_instance instance = registry_test_instance(service, id);
    struct buffer value;
    buffer_init(&value);
    registry_instance_encode(&value, &instance);
    put(KEY_SPACE_REGISTRY, registry_key_instance(&world.arena, instance.service, instance.id),
        &value);
    put(KEY_SPACE_REGISTRY_RECORDS, registry_key_index(&world.arena, instance.id, instance.service),
        &value);
}

static void put_check(const char *service, const char *id, const char *check,
                      enum registry_health health) {
    struct registry_check written = registry_test_check(check, REGISTRY_CHECK_HTTP);
    struct buffer value;
    buffer_init(&value);
    written.health = (uint8_t)health;
    registry_check_encode(&value, &written);
    put(KEY_SPACE_REGISTRY,
        registry_key_check(&world.arena, bytes_from_text(service), bytes_from_text(id),
                           bytes_from_text(check)),
        &value);
}

static void put_lost(const char *service, const char *id, uint64_t round) {
    struct registry_lost lost = {.instance = registry_test_instance(service, id), .round = round};
    struct buffer value;
    buffer_init(&value);
    lost.instance.token = 5;
    registry_lost_encode(&value, &lost);
    put(KEY_SPACE_REGISTRY,
        registry_key_lost(&world.arena, lost.instance.service, lost.instance.id), &value);
}

static void put_service(const char *name, int64_t guard_lease_id, uint64_t round) {
    struct registry_service service = {.guard_lease_id = guard_lease_id, .round = round};
    struct buffer value;
    buffer_init(&value);
    registry_service_encode(&value, &service);
    put(KEY_SPACE_REGISTRY, registry_key_service(&world.arena, bytes_from_text(name)), &value);
    buffer_init(&value);
    put(KEY_SPACE_REGISTRY_RECORDS, registry_key_name(&world.arena, bytes_from_text(name)), &value);
}

/* Ids with a letter for each: h is hidden by its health, k is kept, s serves. */
static bool write_entry(void *context, const struct registry_entry *entry) {
    char *text = context;
    size_t size = strlen(text);
    snprintf(text + size, 256 - size, "%.*s:%s%zu ", (int)entry->instance.id.size,
             (const char *)entry->instance.id.data,
             entry->is_kept      ? "k"
             : entry->is_serving ? "s"
                                 : "h",
             entry->n_checks);
    return true;
}

static const char *list(const char *service) {
    static char text[256];
    text[0] = 0;
    registry_view_visit(world.keys, &world.arena, bytes_from_text(service), write_entry, text);
    return text;
}

static void instances_come_by_id_with_their_checks(void **state) {
    put_instance("web", "b");
    put_instance("web", "a");
    put_instance("web", "a!");
    put_instance("we", "x");
    put_instance("web2", "y");
    put_check("web", "a", "c1", REGISTRY_PASSING);
    put_check("web", "a", "c2", REGISTRY_WARNING);
    put_check("web", "b", "c1", REGISTRY_CRITICAL);
    assert_string_equal(list("web"), "a:s2 a!:s0 b:h1 ");
    assert_string_equal(list("we"), "x:s0 ");
    assert_string_equal(list("w"), "");
}

static void lost_instances_are_listed_only_while_the_guard_is_on(void **state) {
    put_instance("web", "b");
    put_lost("web", "a", 2);
    put_lost("web", "c", 2);
    put_lost("web", "d", 1);
    put_service("web", 0, 2);
    assert_string_equal(list("web"), "b:s0 ");
    put_service("web", 9, 2);
    assert_string_equal(list("web"), "a:k0 b:s0 c:k0 ");
    struct registry_entry entry;
    assert_true(registry_view_find(world.keys, &world.arena, bytes_from_text("web"),
                                   bytes_from_text("a"), &entry));
    assert_true(entry.is_kept);
    assert_int_equal(entry.instance.token, 5);
    assert_false(registry_view_find(world.keys, &world.arena, bytes_from_text("web"),
                                    bytes_from_text("d"), &entry));
}

static const char *list_after(const char *after) {
    static char text[256];
    text[0] = 0;
    registry_view_visit_after(world.keys, &world.arena, bytes_from_text("web"),
                              bytes_from_text(after), write_entry, text);
    return text;
}

static void a_visit_goes_on_after_an_id(void **state) {
    put_instance("web", "a");
    put_instance("web", "a!");
    put_instance("web", "c");
    put_check("web", "a", "c1", REGISTRY_PASSING);
    put_check("web", "c", "c1", REGISTRY_PASSING);
    put_lost("web", "b", 2);
    put_lost("web", "d", 2);
    put_service("web", 9, 2);
    assert_string_equal(list_after(""), "a:s1 a!:s0 b:k0 c:s1 d:k0 ");
    assert_string_equal(list_after("a"), "a!:s0 b:k0 c:s1 d:k0 ");
    assert_string_equal(list_after("a!"), "b:k0 c:s1 d:k0 ");
    assert_string_equal(list_after("b"), "c:s1 d:k0 ");
    assert_string_equal(list_after("c"), "d:k0 ");
    assert_string_equal(list_after("d"), "");
    assert_string_equal(list_after("aa"), "b:k0 c:s1 d:k0 ");
}

static void one_is_found_by_its_id(void **state) {
    struct registry_entry entry;
    char text[256] = "";
    put_instance("web", "a");
    put_instance("api", "a");
    put_instance("api", "a2");
    put_check("web", "a", "c", REGISTRY_CRITICAL);
    assert_true(registry_view_find(world.keys, &world.arena, bytes_from_text("web"),
                                   bytes_from_text("a"), &entry));
    assert_int_equal(entry.n_checks, 1);
    assert_true(bytes_equal(entry.checks[0].id, bytes_from_text("c")));
    assert_int_equal(entry.health, REGISTRY_CRITICAL);
    assert_int_equal(entry.instance.token, 2);
    assert_false(registry_view_find(world.keys, &world.arena, bytes_from_text("web"),
                                    bytes_from_text("a2"), &entry));
    assert_int_equal(
        registry_view_visit_id(world.keys, &world.arena, bytes_from_text("a"), write_entry, text),
        2);
    assert_string_equal(text, "a:s0 a:h1 ");
}

static bool write_name(void *context, struct bytes service) {
    char *text = context;
    strncat(text, (const char *)service.data, service.size);
    strcat(text, " ");
    return true;
}

static void names_are_listed_after_one(void **state) {
    char text[64] = "";
    put_service("b", 0, 0);
    put_service("a", 0, 0);
    put_service("ab", 0, 0);
    registry_view_visit_services(world.keys, &world.arena, bytes_of("", 0), write_name, text);
    assert_string_equal(text, "a ab b ");
    text[0] = 0;
    registry_view_visit_services(world.keys, &world.arena, bytes_from_text("a"), write_name, text);
    assert_string_equal(text, "ab b ");
}

static void a_service_that_is_not_there_has_a_revision(void **state) {
    struct buffer nothing;
    buffer_init(&nothing);
    assert_int_equal(registry_view_revision(world.keys, &world.arena, bytes_from_text("web")), 1);
    put_service("web", 0, 0);
    assert_int_equal(registry_view_revision(world.keys, &world.arena, bytes_from_text("web")), 2);
    put(KEY_SPACE_REGISTRY_RECORDS, registry_key_deleted(), &nothing);
    assert_int_equal(registry_view_revision(world.keys, &world.arena, bytes_from_text("no")), 4);
}

static bool is_within(struct bytes key, struct key_range range) {
    return bytes_compare(key, range.key) >= 0 && bytes_compare(key, range.range_end) < 0;
}

static void ranges_hold_what_they_name(void **state) {
    struct arena *arena = &world.arena;
    struct bytes web = bytes_from_text("web");
    struct bytes id = bytes_from_text("i");
    assert_true(is_within(registry_key_service(arena, web), registry_service_range(arena, web)));
    assert_true(is_within(registry_key_lost(arena, web, id), registry_service_range(arena, web)));
    assert_true(is_within(registry_key_lost(arena, web, id), registry_lost_range(arena, web)));
    assert_false(
        is_within(registry_key_lost(arena, web, id), registry_instances_range(arena, web)));
    assert_false(is_within(registry_key_service(arena, bytes_from_text("web2")),
                           registry_service_range(arena, web)));
    assert_true(is_within(registry_key_service(arena, bytes_from_text("web2")),
                          registry_prefix_range(arena, web)));
    assert_true(
        is_within(registry_key_service(arena, web), registry_prefix_range(arena, bytes_of("", 0))));
    assert_false(
        is_within(registry_key_instance(arena, web, id), registry_checks_range(arena, web, id)));
    assert_true(
        is_within(registry_key_check(arena, web, id, id), registry_checks_range(arena, web, id)));
    assert_true(is_within(registry_key_event(arena, 999), registry_records('e')));
    assert_true(is_within(registry_key_runner(arena, UINT64_MAX), registry_records('r')));
    /* A prefix that is no text. */
    struct key_range odd = registry_names_range(arena, bytes_of("a\xff\xff", 3));
    assert_true(bytes_equal(odd.range_end, bytes_from_text("nb")));
}

static void no_two_instances_share_a_mirror(void **state) {
    struct arena *arena = &world.arena;
    struct bytes first = registry_key_mirror(arena, bytes_from_text("a/b"), bytes_from_text("c"));
    struct bytes second = registry_key_mirror(arena, bytes_from_text("a"), bytes_from_text("b/c"));
    struct bytes third = registry_key_mirror(arena, bytes_from_text("a%2Fb"), bytes_from_text("c"));
    assert_true(bytes_equal(first, bytes_from_text("leased/services/a%2Fb/c")));
    assert_true(bytes_equal(second, bytes_from_text("leased/services/a/b/c")));
    assert_true(bytes_equal(third, bytes_from_text("leased/services/a%252Fb/c")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(instances_come_by_id_with_their_checks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lost_instances_are_listed_only_while_the_guard_is_on,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_visit_goes_on_after_an_id, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_is_found_by_its_id, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_are_listed_after_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_service_that_is_not_there_has_a_revision, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(ranges_hold_what_they_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_two_instances_share_a_mirror, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
