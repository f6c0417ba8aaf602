/* Which instances a list shows, over a store that is written by hand. */
#include "doors/eureka/eureka_collection.h"

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

static void put(struct bytes key, const struct buffer *value) {
    key_store_begin(world.keys);
    key_store_put(world.keys, KEY_SPACE_REGISTRY, key, bytes_of(value->data, value->size), 0, NULL);
    key_store_end(world.keys);
}

static void put_service(const char *name, bool is_guarded) {
    struct buffer value;
    struct registry_service service = {.guard_lease_id = is_guarded ? 7 : 0, .round = 2};
    buffer_init(&value);
    registry_service_encode(&value, &service);
    put(registry_key_service(&world.arena, bytes_from_text(name)), &value);
    buffer_clear(&value);
}

static void put_instance(const char *service, const char *id, enum registry_state state) {
    struct buffer value;
    struct registry_instance instance = registry_test_instance(service, id);
    instance.state = (uint8_t)state;
    buffer_init(&value);
    registry_instance_encode(&value, &instance);
    put(registry_key_instance(&world.arena, instance.service, instance.id), &value);
    buffer_clear(&value);
}

static void put_check(const char *service, const char *id, enum registry_health health) {
    struct buffer value;
    struct registry_check check = registry_test_check("c", REGISTRY_CHECK_HTTP);
    check.health = (uint8_t)health;
    buffer_init(&value);
    registry_check_encode(&value, &check);
    put(registry_key_check(&world.arena, bytes_from_text(service), bytes_from_text(id), check.id),
        &value);
    buffer_clear(&value);
}

static void put_lost(const char *service, const char *id, uint64_t round) {
    struct buffer value;
    struct registry_lost lost = {.instance = registry_test_instance(service, id), .round = round};
    buffer_init(&value);
    registry_lost_encode(&value, &lost);
    put(registry_key_lost(&world.arena, bytes_from_text(service), bytes_from_text(id)), &value);
    buffer_clear(&value);
}

static void delete_instance(const char *service, const char *id) {
    struct bytes key =
        registry_key_instance(&world.arena, bytes_from_text(service), bytes_from_text(id));
    key_store_begin(world.keys);
    key_store_delete(world.keys, key_store_find(world.keys, KEY_SPACE_REGISTRY, key));
    key_store_end(world.keys);
}

static void add_item(const struct eureka_item *item, char *out, size_t size) {
    struct eureka_instance shown;
    size_t used = strlen(out);
    assert_true(eureka_item_show(item, &world.arena, &shown));
    snprintf(out + used, size - used, "%.*s/%.*s %s %c%s\n", (int)item->service.size,
             (const char *)item->service.data, (int)item->id.size, (const char *)item->id.data,
             eureka_status_name(shown.status), "AMD"[item->action], item -> is_kept ? " kept" : "");
}

/* "service/id STATUS action" a line, then the hash code. */
static void check(const struct eureka_query *query, const char *wanted) {
    char text[1024] = "";
    char hash_code[EUREKA_HASH_CODE_SIZE];
    struct key_view *view = key_view_open(world.keys);
    struct eureka_collection all;
    eureka_collection_init(&all);
    eureka_collection_fill(&all, view, query);
    for (size_t i = 0; i < all.n_items; i++) {
        add_item(eureka_collection_at(&all, i), text, sizeof text);
    }
    eureka_hash_code(&all.counts, hash_code);
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "%s", hash_code);
    assert_string_equal(text, wanted);
    eureka_collection_clear(&all);
    key_view_close(view);
}

static struct eureka_query query_of(enum eureka_list list) {
    return (struct eureka_query){.list = list,
                                 .ranges = {registry_prefix_range(&world.arena, bytes_of("", 0))},
                                 .n_ranges = 1};
}

static void write_some(void) {
    put_service("web", false);
    put_instance("web", "b", REGISTRY_UP);
    put_instance("web", "a", REGISTRY_UP);
    put_check("web", "a", REGISTRY_CRITICAL);
    put_service("Web", false);
    put_instance("Web", "c", REGISTRY_DRAINING);
    put_service("api", false);
    put_instance("api", "a", REGISTRY_STARTING);
}

static void all_are_listed_by_application(void **state) {
    struct eureka_query query = query_of(EUREKA_LIST_ALL);
    check(&query, "");
    write_some();
    check(&query, "api/a STARTING A\nWeb/c OUT_OF_SERVICE A\nweb/a DOWN A\nweb/b UP A\n"
                  "DOWN_1_OUT_OF_SERVICE_1_STARTING_1_UP_1_");
}

static void one_application_is_listed_under_any_spelling(void **state) {
    write_some();
    struct eureka_query query = {
        .list = EUREKA_LIST_APPLICATION,
        .ranges = {registry_service_range(&world.arena, bytes_from_text("web")),
                   registry_service_range(&world.arena, bytes_from_text("Web"))},
        .n_ranges = 2};
    check(&query, "Web/c OUT_OF_SERVICE A\nweb/a DOWN A\nweb/b UP A\n"
                  "DOWN_1_OUT_OF_SERVICE_1_UP_1_");
}

static void a_vip_lists_those_that_have_it(void **state) {
    write_some();
    struct eureka_query query = query_of(EUREKA_LIST_VIP);
    query.vip = bytes_from_text("Web");
    check(&query, "Web/c OUT_OF_SERVICE A\nOUT_OF_SERVICE_1_");
    query.list = EUREKA_LIST_SECURE_VIP;
    query.vip = bytes_from_text("we");
    check(&query, "");
}

static void the_delta_has_what_changed(void **state) {
    struct eureka_query query = query_of(EUREKA_LIST_DELTA);
    write_some();
    query.since_revision = key_store_revision(world.keys);
    const char *counts = "DOWN_1_OUT_OF_SERVICE_1_STARTING_1_UP_1_";
    check(&query, counts);
    put_instance("web", "new", REGISTRY_UP);
    put_instance("api", "a", REGISTRY_UP);
    delete_instance("Web", "c");
    check(&query, "api/a UP M\nWeb/c OUT_OF_SERVICE D\nweb/new UP A\nDOWN_1_UP_3_");
    /* One that came and went, and one that came again. */
    delete_instance("web", "new");
    put_instance("Web", "c", REGISTRY_UP);
    check(&query, "api/a UP M\nWeb/c UP A\nweb/new UP D\nDOWN_1_UP_3_");
}

static void a_check_that_changes_changes_the_instance(void **state) {
    struct eureka_query query = query_of(EUREKA_LIST_DELTA);
    write_some();
    query.since_revision = key_store_revision(world.keys);
    put_check("web", "a", REGISTRY_PASSING);
    check(&query, "web/a UP M\nOUT_OF_SERVICE_1_STARTING_1_UP_2_");
}

static void kept_instances_are_listed_while_the_guard_is_on(void **state) {
    struct eureka_query query = query_of(EUREKA_LIST_ALL);
    put_service("web", false);
    put_instance("web", "a", REGISTRY_UP);
    put_lost("web", "b", 2);
    put_lost("web", "old", 1);
    check(&query, "web/a UP A\nUP_1_");
    int64_t before = key_store_revision(world.keys);
    put_service("web", true);
    check(&query, "web/a UP A\nweb/b UP M kept\nUP_2_");
    query.list = EUREKA_LIST_DELTA;
    query.since_revision = before;
    delete_instance("web", "a");
    put_lost("web", "a", 2);
    check(&query, "web/a UP M kept\nUP_2_");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_are_listed_by_application, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_application_is_listed_under_any_spelling, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_vip_lists_those_that_have_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_delta_has_what_changed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_check_that_changes_changes_the_instance, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(kept_instances_are_listed_while_the_guard_is_on, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
