#include "net/http_fields.h"
#include "net/route_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static void on_request(struct http_exchange *exchange) {
}

static const struct http_route routes[] = {
    {.method = "GET", .pattern = "/", .on_request = on_request},
    {.method = "GET", .pattern = "/a", .on_request = on_request},
    {.method = "PUT", .pattern = "/a", .on_request = on_request},
    {.method = "GET", .pattern = "/a/{x}/c", .on_request = on_request},
    {.method = "GET", .pattern = "/a/b/{y}", .on_request = on_request},
    {.method = "GET", .pattern = "/a/{rest...}", .on_request = on_request},
    {.pattern = "/any/{x}", .on_request = on_request},
    {.method = "GET", .pattern = "/a/b/", .on_request = on_request},
};
enum { ROUTES = sizeof routes / sizeof routes[0] };

struct expected {
    const char *method;
    const char *path;
    int route; /* -1: none with this method; -2: none with this path */
    const char *parameter;
    const char *value;
};

static const struct expected expectations[] = {
    {"GET", "/", 0, NULL, NULL},
    {"GET", "/a", 1, NULL, NULL},
    {"HEAD", "/a", 1, NULL, NULL},
    {"PUT", "/a", 2, NULL, NULL},
    {"POST", "/a", -1, NULL, NULL},
    {"GET", "/b", -2, NULL, NULL},
    {"GET", "/a/z/c", 3, "x", "z"},
    {"GET", "/a/b/z", 4, "y", "z"},
    /* A text is preferred, segment by segment. */
    {"GET", "/a/b/c", 4, "y", "c"},
    {"GET", "/a/b/", 7, NULL, NULL},
    /* Where it leads nowhere, the parameter and then the rest are tried. */
    {"GET", "/a/b/c/d", 5, "rest", "b/c/d"},
    {"GET", "/a/", 5, "rest", ""},
    {"GET", "/a/%62", 5, "rest", "b"},
    {"GET", "/a/z%2Fz/c", 3, "x", "z/z"},
    {"DELETE", "/any/1", 6, "x", "1"},
    {"HEAD", "/any/1", 6, "x", "1"},
    {"GET", "/any/", -2, NULL, NULL},
    {"GET", "/any/1/2", -2, NULL, NULL},
    {"GET", "//a", -2, NULL, NULL},
};

static void the_best_pattern_is_found(void **state) {
    struct route_tree tree;
    route_tree_init(&tree);
    for (size_t i = 0; i < ROUTES; i++) {
        route_tree_add(&tree, &routes[i], (void *)&routes[i]);
    }
    for (size_t i = 0; i < sizeof expectations / sizeof expectations[0]; i++) {
        const struct expected *expected = &expectations[i];
        struct route_match match;
        struct buffer parameters;
        buffer_init(&parameters);
        assert_true(route_tree_find(&tree, expected->method, bytes_from_text(expected->path),
                                    &match, &parameters));
        const struct http_route *route = expected->route >= 0 ? &routes[expected->route] : NULL;
        if (match.route != route || (match.node == NULL) != (expected->route == -2)) {
            fail_msg("%s %s", expected->method, expected->path);
        }
        assert_ptr_equal(match.context, route);
        if (expected->parameter != NULL) {
            struct bytes value;
            assert_true(http_fields_find(&parameters, expected->parameter, &value));
            assert_true(bytes_equal(value, bytes_from_text(expected->value)));
        } else {
            assert_int_equal(parameters.size, 0);
        }
        buffer_clear(&parameters);
    }
    route_tree_clear(&tree);
}

static void malformed_paths_are_found_out(void **state) {
    struct route_tree tree;
    struct route_match match;
    struct buffer parameters;
    route_tree_init(&tree);
    buffer_init(&parameters);
    assert_false(route_tree_find(&tree, "GET", bytes_from_text("a"), &match, &parameters));
    assert_false(route_tree_find(&tree, "GET", bytes_from_text("*"), &match, &parameters));
    assert_false(route_tree_find(&tree, "GET", bytes_from_text("/a%"), &match, &parameters));
    assert_true(route_tree_find(&tree, "GET", bytes_from_text("/a"), &match, &parameters));
    assert_null(match.node);
    buffer_clear(&parameters);
}

static void a_route_again_replaces_the_first(void **state) {
    struct route_tree tree;
    struct route_match match;
    struct buffer parameters;
    int contexts[2];
    route_tree_init(&tree);
    buffer_init(&parameters);
    route_tree_add(&tree, &routes[1], &contexts[0]);
    route_tree_add(&tree, &routes[1], &contexts[1]);
    assert_true(route_tree_find(&tree, "GET", bytes_from_text("/a"), &match, &parameters));
    assert_ptr_equal(match.context, &contexts[1]);
    struct buffer allowed;
    buffer_init(&allowed);
    route_tree_allowed(match.node, &allowed);
    assert_int_equal(allowed.size, strlen("GET, HEAD"));
    buffer_clear(&allowed);
    route_tree_clear(&tree);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_pattern_is_found),
        cmocka_unit_test(malformed_paths_are_found_out),
        cmocka_unit_test(a_route_again_replaces_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
