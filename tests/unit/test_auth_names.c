#include "core/auth_names.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define TEXT(text) bytes_of(text, sizeof(text) - 1)

static bool map(struct bytes key, struct bytes end, struct auth_name_range *memory,
                struct key_range *out) {
    const struct key_range range = {.space = KEY_SPACE_NATIVE, .key = key, .range_end = end};
    return auth_names_map(&range, memory, out);
}

static void keys_of_one_name_need_the_right_to_it(void **state) {
    struct auth_name_range memory;
    struct key_range out;
    const struct bytes keys[][2] = {
        {TEXT("rweb\0"), TEXT("rweb\1")},
        {TEXT("rweb\0h\0"), TEXT("")},
        {TEXT("rweb\0h"), TEXT("rweb\0i")},
    };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        assert_true(map(keys[i][0], keys[i][1], &memory, &out));
        assert_true(bytes_equal(out.key, TEXT("leased/resources/web")));
        assert_int_equal(out.range_end.size, 0);
        assert_true(key_space_equal(out.space, KEY_SPACE_ETCD));
    }
    assert_true(map(TEXT("pgpu\0c"), TEXT(""), &memory, &out));
    assert_true(bytes_equal(out.key, TEXT("leased/pools/gpu")));
}

static void keys_of_a_service_need_the_right_to_it(void **state) {
    struct auth_name_range memory;
    struct key_range out;
    struct key_range range = {
        .space = KEY_SPACE_REGISTRY, .key = TEXT("sweb\0"), .range_end = TEXT("sweb\1")};
    assert_true(auth_names_has(KEY_SPACE_REGISTRY));
    assert_true(auth_names_map(&range, &memory, &out));
    assert_true(bytes_equal(out.key, TEXT("leased/services/web")));
    assert_int_equal(out.range_end.size, 0);
    range = (struct key_range){.space = KEY_SPACE_REGISTRY, .key = TEXT("sweb\0ia\0c")};
    assert_true(auth_names_map(&range, &memory, &out));
    assert_true(bytes_equal(out.key, TEXT("leased/services/web")));
    range =
        (struct key_range){.space = KEY_SPACE_REGISTRY, .key = TEXT("s"), .range_end = TEXT("t")};
    assert_true(auth_names_map(&range, &memory, &out));
    assert_true(bytes_equal(out.key, TEXT("leased/services/")));
    assert_true(bytes_equal(out.range_end, TEXT("leased/services0")));
    range = (struct key_range){
        .space = KEY_SPACE_REGISTRY, .key = TEXT("rweb\0"), .range_end = TEXT("rweb\1")};
    assert_false(auth_names_map(&range, &memory, &out));
}

static void names_that_begin_so_are_a_range(void **state) {
    struct auth_name_range memory;
    struct key_range out;
    assert_true(map(TEXT("rweb/"), TEXT("rweb0"), &memory, &out));
    assert_true(bytes_equal(out.key, TEXT("leased/resources/web/")));
    assert_true(bytes_equal(out.range_end, TEXT("leased/resources/web0")));
    assert_true(map(TEXT("r"), TEXT("s"), &memory, &out));
    assert_true(bytes_equal(out.key, TEXT("leased/resources/")));
    assert_true(bytes_equal(out.range_end, TEXT("leased/resources0")));
}

static void whatever_reaches_beyond_is_for_root(void **state) {
    struct auth_name_range memory;
    struct key_range out;
    static uint8_t large[2 * AUTH_NAME_KEY_SIZE];
    large[0] = 'r';
    for (size_t i = 1; i < sizeof large; i++) {
        large[i] = 'x';
    }
    assert_false(map(TEXT(""), TEXT("\0"), &memory, &out));
    assert_false(map(TEXT("x"), TEXT("y"), &memory, &out));
    assert_false(map(TEXT("rweb"), TEXT(""), &memory, &out));
    assert_false(map(TEXT("rweb"), TEXT("\0"), &memory, &out));
    assert_false(map(TEXT("rweb"), TEXT("t"), &memory, &out));
    assert_false(map(TEXT("rweb\0"), TEXT("rweb\2"), &memory, &out));
    assert_false(map(TEXT("rweb\0"), TEXT("rweb\1x"), &memory, &out));
    assert_false(map(TEXT("rweb\0"), TEXT("rwec"), &memory, &out));
    assert_false(map(TEXT("rweb\0"), TEXT("\0"), &memory, &out));
    assert_false(map(TEXT("rweb\0"), TEXT("r"), &memory, &out));
    assert_false(map(bytes_of(large, sizeof large), TEXT("s"), &memory, &out));
    assert_false(map(TEXT("ra"), bytes_of(large, sizeof large), &memory, &out));
}

static bool map_redis(struct bytes key, struct bytes end, struct auth_redis_range *memory,
                      struct key_range *out) {
    const struct key_range range = {.space = KEY_SPACE_REDIS, .key = key, .range_end = end};
    return auth_names_map_redis(&range, memory, out);
}

static void a_key_of_redis_is_named_by_database_and_key(void **state) {
    static struct auth_redis_range memory;
    struct key_range out;
    assert_true(map_redis(TEXT("\0lock:a"), TEXT(""), &memory, &out));
    assert_true(bytes_equal(out.key, TEXT("leased/redis/0/lock:a")));
    assert_int_equal(out.range_end.size, 0);
    assert_true(key_space_equal(out.space, KEY_SPACE_ETCD));
    assert_true(map_redis(TEXT("\017x"), TEXT(""), &memory, &out));
    assert_true(bytes_equal(out.key, TEXT("leased/redis/15/x")));
    assert_true(map_redis(TEXT("\0"), TEXT(""), &memory, &out)); /* the empty key is one, too */
    assert_true(bytes_equal(out.key, TEXT("leased/redis/0/")));
}

static void a_database_of_redis_is_a_range(void **state) {
    static struct auth_redis_range memory;
    struct key_range out;
    assert_true(map_redis(TEXT("\1"), TEXT("\2"), &memory, &out));
    assert_true(bytes_equal(out.key, TEXT("leased/redis/1/")));
    assert_true(bytes_equal(out.range_end, TEXT("leased/redis/10")));
    assert_true(map_redis(TEXT("\1a"), TEXT("\1b"), &memory, &out));
    assert_true(bytes_equal(out.range_end, TEXT("leased/redis/1/b")));
    assert_false(map_redis(TEXT("\0"), TEXT("\0"), &memory, &out));
    assert_false(map_redis(TEXT("\0"), TEXT("\2"), &memory, &out));
    assert_false(map_redis(TEXT(""), TEXT(""), &memory, &out));
}

static bool map_in(struct key_space_id space, struct bytes key, struct bytes end,
                   struct auth_name_range *memory, struct key_range *out) {
    const struct key_range range = {.space = space, .key = key, .range_end = end};
    return auth_names_map(&range, memory, out);
}

static void keys_of_the_consul_api_are_names(void **state) {
    struct auth_name_range memory;
    struct key_range out;
    assert_true(map_in(KEY_SPACE_CONSUL, TEXT("a/b\0"), TEXT("a/b\1"), &memory, &out));
    assert_true(bytes_equal(out.key, TEXT("leased/consul/kv/a/b")));
    assert_int_equal(out.range_end.size, 0);
    assert_true(map_in(KEY_SPACE_CONSUL, TEXT("a/"), TEXT("a0"), &memory, &out));
    assert_true(bytes_equal(out.key, TEXT("leased/consul/kv/a/")));
    assert_true(bytes_equal(out.range_end, TEXT("leased/consul/kv/a0")));
    assert_true(map_in(KEY_SPACE_CONSUL, TEXT("\0"), TEXT("\0"), &memory, &out));
    assert_true(bytes_equal(out.key, TEXT("leased/consul/kv/")));
    assert_true(bytes_equal(out.range_end, TEXT("leased/consul/kv0")));
    assert_false(map_in(KEY_SPACE_CONSUL, TEXT("a\0"), TEXT("a\2"), &memory, &out));
    assert_false(map_in(KEY_SPACE_CONSUL, TEXT("a"), TEXT(""), &memory, &out));
    (void)state;
}

static void services_are_names(void **state) {
    struct auth_name_range memory;
    struct key_range out;
    assert_true(map_in(KEY_SPACE_REGISTRY, TEXT("sweb\0"), TEXT("sweb\1"), &memory, &out));
    assert_true(bytes_equal(out.key, TEXT("leased/services/web")));
    assert_true(map_in(KEY_SPACE_REGISTRY, TEXT("s"), TEXT("t"), &memory, &out));
    assert_true(bytes_equal(out.range_end, TEXT("leased/services0")));
    assert_false(map_in(KEY_SPACE_REGISTRY, TEXT("rweb\0"), TEXT(""), &memory, &out));
    (void)state;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_one_name_need_the_right_to_it),
        cmocka_unit_test(keys_of_a_service_need_the_right_to_it),
        cmocka_unit_test(names_that_begin_so_are_a_range),
        cmocka_unit_test(keys_of_the_consul_api_are_names),
        cmocka_unit_test(services_are_names),
        cmocka_unit_test(whatever_reaches_beyond_is_for_root),
        cmocka_unit_test(a_key_of_redis_is_named_by_database_and_key),
        cmocka_unit_test(a_database_of_redis_is_a_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
