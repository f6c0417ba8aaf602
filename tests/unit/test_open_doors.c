#include "server/open_doors.h"

#include "base/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* --- Two doors that would serve the same, and one that hides a route. --- */

static void answer(struct http_exchange *exchange) {
    http_reply(exchange, 200, "text/plain", bytes_from_text("ok"));
}

static const struct http_route by_key = {
    .method = "PUT", .pattern = "/v1/{key}", .on_request = answer};
static const struct http_route by_name = {
    .method = "PUT", .pattern = "/v1/{name}", .on_request = answer};

static void serve_by_key(void *door, struct net_scope *scope) {
    net_scope_add_routes(scope, &by_key, 1, door);
}

static void serve_by_name(void *door, struct net_scope *scope) {
    net_scope_add_routes(scope, &by_name, 1, door);
}

static const struct door_request key_requests[] = {{"PUT /v1/{key}", DOOR_RIGHT_WRITE}, {NULL, 0}};
static const struct door_request name_requests[] = {{"PUT /v1/{name}", DOOR_RIGHT_WRITE},
                                                    {NULL, 0}};
static enum status no_run(struct rule_run *run, struct bytes request, struct buffer *out) {
    return STATUS_INVALID;
}
static const struct rule rule_a = {.number = 1, .name = "a", .run = no_run};
static const struct rule rule_b = {.number = 2, .name = "b", .run = no_run};
static const struct rule *const rules[] = {&rule_a, &rule_b};

static const struct door by_key_door = {
    .name = "bykey", .requests = key_requests, .serve = serve_by_key, .rules = rules, .n_rules = 1};
static const struct door by_name_door = {.name = "byname",
                                         .requests = name_requests,
                                         .serve = serve_by_name,
                                         .rules = rules + 1,
                                         .n_rules = 1};
static const struct door hiding_door = {
    .name = "hiding", .requests = key_requests, .serve = serve_by_name};

/* --- A server to serve them on. --- */

struct fixture {
    uv_loop_t loop;
    struct net_server *net;
    struct options options;
    struct open_doors doors;
    struct door_list list;
    const struct door *at[2];
    bool is_closed;
};

static void closed(void *data) {
    ((struct fixture *)data)->is_closed = true;
}

static void fixture_open(struct fixture *fixture, const struct door *a, const struct door *b) {
    log_configure(LOG_ERROR, LOG_FORMAT_TEXT);
    memset(fixture, 0, sizeof *fixture);
    uv_loop_init(&fixture->loop);
    fixture->net = net_server_create(&fixture->loop, &net_limits_default);
    fixture->at[0] = a;
    fixture->at[1] = b;
    fixture->list = (struct door_list){.doors = fixture->at, .n_doors = b == NULL ? 1 : 2};
    fixture->options.doors = &fixture->list;
    fixture->options.door_settings[0].is_chosen = true;
    fixture->options.door_settings[1].is_chosen = true;
}

static void fixture_close(struct fixture *fixture) {
    open_doors_close(&fixture->doors);
    net_server_shutdown(fixture->net, 0, closed, fixture);
    uv_run(&fixture->loop, UV_RUN_DEFAULT);
    assert_true(fixture->is_closed);
    net_server_destroy(fixture->net);
    assert_int_equal(uv_loop_close(&fixture->loop), 0);
}

static enum status serve(struct fixture *fixture, char *error, size_t error_size) {
    const struct door_environment environment = {.loop = &fixture->loop};
    open_doors_open(&fixture->doors, &fixture->options, &environment);
    return open_doors_serve(&fixture->doors, fixture->net, error, error_size);
}

/* --- Tests. --- */

static void doors_that_serve_the_same_cannot_share_a_port(void **state) {
    struct fixture fixture;
    char error[512] = "";
    fixture_open(&fixture, &by_key_door, &by_name_door);
    assert_int_equal(serve(&fixture, error, sizeof error), STATUS_INVALID);
    assert_non_null(strstr(error, "both serve PUT /v1/{name}"));
    assert_non_null(strstr(error, "--listen-byname"));
    fixture_close(&fixture);
}

static void each_may_have_a_listener_of_its_own(void **state) {
    struct fixture fixture;
    char error[512] = "";
    fixture_open(&fixture, &by_key_door, &by_name_door);
    fixture.options.door_settings[1].is_chosen = false;
    fixture.options.door_settings[1].listen.n = 1;
    assert_int_equal(serve(&fixture, error, sizeof error), STATUS_OK);
    assert_null(open_doors_own_scope(&fixture.doors, fixture.net, 0));
    struct net_scope *scope = open_doors_own_scope(&fixture.doors, fixture.net, 1);
    const struct net_request *requests = NULL;
    assert_int_equal(net_scope_requests(scope, &requests), 1);
    assert_string_equal(requests[0].path, "/v1/{name}");
    fixture_close(&fixture);
}

static void a_door_that_is_neither_chosen_nor_listens_is_not_opened(void **state) {
    struct fixture fixture;
    char error[512] = "";
    fixture_open(&fixture, &by_key_door, NULL);
    fixture.options.door_settings[0].is_chosen = false;
    assert_int_equal(serve(&fixture, error, sizeof error), STATUS_OK);
    assert_null(fixture.doors.instances[0]);
    fixture_close(&fixture);
}

static void a_route_that_is_not_listed_does_not_start(void **state) {
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO);
        struct fixture fixture;
        char error[512] = "";
        fixture_open(&fixture, &hiding_door, NULL);
        serve(&fixture, error, sizeof error);
        _exit(0);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void rules_are_those_of_all_doors_whichever_are_served(void **state) {
    struct fixture fixture;
    struct arena arena;
    fixture_open(&fixture, &by_key_door, &by_name_door);
    arena_init(&arena);
    const struct rule_set *set = open_doors_rules(&fixture.list, &arena);
    assert_int_equal(set->n, 2);
    assert_ptr_equal(set->rules[0], &rule_a);
    assert_ptr_equal(set->rules[1], &rule_b);
    arena_clear(&arena);
    const struct door_environment environment = {.loop = &fixture.loop};
    open_doors_open(&fixture.doors, &fixture.options, &environment);
    fixture_close(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doors_that_serve_the_same_cannot_share_a_port),
        cmocka_unit_test(each_may_have_a_listener_of_its_own),
        cmocka_unit_test(a_door_that_is_neither_chosen_nor_listens_is_not_opened),
        cmocka_unit_test(a_route_that_is_not_listed_does_not_start),
        cmocka_unit_test(rules_are_those_of_all_doors_whichever_are_served),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
