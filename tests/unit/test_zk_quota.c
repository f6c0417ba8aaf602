#include "doors/zookeeper/zk_quota.h"

#include "zk_fixture.h"

static struct fixture fixture;
static struct zk_asker ann;

static int begin(void **state) {
    zk_fixture_init(&fixture);
    ann = zk_session_of(&fixture, 1);
    return 0;
}

static int end(void **state) {
    fixture_clear(&fixture);
    return 0;
}

static void create(const char *path) {
    assert_int_equal(zk_do(&fixture, &ann, zk_create_of(path, 0)), ZK_OK);
}

static void count_part(struct zk_quota_count *count, const char *path, size_t n_max) {
    zk_quota_count_part(count, state_machine_keys(fixture.machine), &fixture.arena,
                        bytes_from_text(path), n_max);
}

/* In parts of every size. */
static void assert_counts(const char *path, int64_t expected) {
    for (size_t n_max = 1; n_max <= (size_t)expected + 2; n_max++) {
        struct zk_quota_count count = {0};
        size_t n = 0;
        for (; !count.is_done; n++) {
            int64_t before = count.count;
            assert_true(n <= (size_t)expected + 2);
            count_part(&count, path, n_max);
            assert_in_range(count.count - before, 0, n_max);
        }
        assert_int_equal(count.count, expected);
        assert_int_equal(count.bytes, 4 * expected); /* of "data" each */
        zk_quota_count_clear(&count);
    }
}

static void a_node_and_all_below_it_is_counted(void **state) {
    static const char *const paths[] = {"/a",      "/ab",       "/a/b",   "/a/c",
                                        "/a/b/c",  "/a.b",      "/a/b/d", "/a/c/de",
                                        "/a/c/df", "/a/c/de/f", "/b",     "/b/a"};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        create(paths[i]);
    }
    assert_counts("/a", 8);
    assert_counts("/a/b", 3);
    assert_counts("/a/c", 4);
    assert_counts("/a/c/de/f", 1);
    assert_counts("/b", 2);
    assert_counts("/ab", 1);
    assert_counts("/c", 0);
    assert_counts("/a/b/cd", 0);
}

static void a_deep_tree_is_counted(void **state) {
    enum { DEPTH = 300 };
    char path[2 * DEPTH + 1] = "";
    for (size_t i = 0; i < DEPTH; i++) {
        memcpy(path + 2 * i, "/d", 3);
        create(path);
    }
    assert_counts("/d", DEPTH);
    path[2 * DEPTH - 20] = '\0';
    assert_counts(path, 11);
}

static void what_goes_between_two_parts_is_no_trouble(void **state) {
    struct zk_quota_count count = {0};
    create("/a");
    create("/a/b");
    create("/a/b/c");
    create("/a/d");
    count_part(&count, "/a", 2);
    assert_false(count.is_done);
    assert_int_equal(count.count, 2);
    assert_int_equal(zk_do(&fixture, &ann, zk_delete_of("/a/b/c")), ZK_OK);
    assert_int_equal(zk_do(&fixture, &ann, zk_delete_of("/a/b")), ZK_OK);
    assert_int_equal(zk_do(&fixture, &ann, zk_delete_of("/a/d")), ZK_OK);
    assert_int_equal(zk_do(&fixture, &ann, zk_delete_of("/a")), ZK_OK);
    for (size_t i = 0; i < 3 && !count.is_done; i++) {
        count_part(&count, "/a", 2);
    }
    assert_true(count.is_done);
    assert_int_equal(count.count, 2);
    zk_quota_count_clear(&count);
}

static struct bytes path_of(const char *stats_path) {
    return zk_quota_path(bytes_from_text(stats_path));
}

static void statistics_have_their_names(void **state) {
    static const char *const others[] = {"",
                                         "/",
                                         "/a",
                                         "/zookeeper/quota",
                                         "/zookeeper/quota/zookeeper_stats",
                                         "/zookeeper/quota/a",
                                         "/zookeeper/quota/a/zookeeper_limits",
                                         "/zookeeper/quota/a/zookeeper_stats/b",
                                         "/zookeeper/quota/azookeeper_stats",
                                         "/zookeeper/quotas/a/zookeeper_stats",
                                         "/a/zookeeper/quota/a/zookeeper_stats",
                                         "/zookeeper_stats"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(path_of(others[i]).size, 0);
    }
    assert_true(bytes_equal(path_of("/zookeeper/quota/a/zookeeper_stats"), bytes_from_text("/a")));
    assert_true(
        bytes_equal(path_of("/zookeeper/quota/a/b/zookeeper_stats"), bytes_from_text("/a/b")));
}

static void statistics_are_written_as_zookeeper_does(void **state) {
    const struct zk_quota_count count = {.count = INT64_MAX, .bytes = INT64_MAX};
    const struct zk_quota_count nothing = {0};
    assert_true(
        bytes_equal(zk_quota_text(&nothing, &fixture.arena), bytes_from_text("count=0,bytes=0")));
    assert_true(
        bytes_equal(zk_quota_text(&count, &fixture.arena),
                    bytes_from_text("count=9223372036854775807,bytes=9223372036854775807")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_node_and_all_below_it_is_counted, begin, end),
        cmocka_unit_test_setup_teardown(a_deep_tree_is_counted, begin, end),
        cmocka_unit_test_setup_teardown(what_goes_between_two_parts_is_no_trouble, begin, end),
        cmocka_unit_test_setup_teardown(statistics_have_their_names, begin, end),
        cmocka_unit_test_setup_teardown(statistics_are_written_as_zookeeper_does, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
