/* Long reads on a service with a real disk. */
#include "core/cluster_version.h"
#include "core/service.h"
#include "core/snapshot.h"
#include "replication/replication.h"
#include "replication/service_internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include <cmocka.h>

enum { MANY = 40, SOON_MS = 20000 };

struct node {
    char dir[64];
    uv_loop_t loop;
    struct service *service;
    bool closed;
};

static void on_failed(void *data, enum status status, const char *reason) {
    (void)data;
    (void)status;
    fail_msg("%s", reason);
}

static void on_closed(void *data) {
    ((struct node *)data)->closed = true;
}

static void on_begin_catch_up(void *data) {
    (void)data;
}

static bool on_is_caught_up(void *data) {
    (void)data;
    return true;
}

static int set_up(void **state) {
    static const char *const urls[] = {"http://127.0.0.1:1", NULL};
    struct node *node = calloc(1, sizeof *node);
    snprintf(node->dir, sizeof node->dir, "/tmp/test-scans-XXXXXX");
    assert_non_null(mkdtemp(node->dir));
    struct replication_options options = {.data_dir = node->dir,
                                          .name = "n1",
                                          .cluster_id = 7,
                                          .member_id = 9,
                                          .client_urls = urls,
                                          .peer_urls = urls,
                                          .peer_address = "127.0.0.1:1",
                                          .begin_catch_up = on_begin_catch_up,
                                          .is_caught_up = on_is_caught_up,
                                          .failed = on_failed,
                                          .data = node};
    char error[512] = "";
    uv_loop_init(&node->loop);
    assert_int_equal(replication_open(&node->loop, &options, &node->service, error, sizeof error),
                     STATUS_OK);
    *state = node;
    return 0;
}

static int tear_down(void **state) {
    struct node *node = *state;
    replication_close(node->service, on_closed, node);
    while (!node->closed) {
        uv_run(&node->loop, UV_RUN_ONCE);
    }
    uv_run(&node->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&node->loop), 0);
    DIR *directory = opendir(node->dir);
    for (struct dirent *file; (file = readdir(directory)) != NULL;) {
        unlinkat(dirfd(directory), file->d_name, 0);
    }
    closedir(directory);
    assert_int_equal(rmdir(node->dir), 0);
    free(node);
    return 0;
}

/* A scan that counts the keys, as often as it is told to. */
struct counting {
    struct service_scan scan;
    unsigned parts_wanted; /* more are asked for as long as there were fewer */
    unsigned n_parts;
    size_t n_keys;
    int64_t revision;
    bool is_ended;
    bool is_revoked;
    enum status reason;
    bool ends_itself;
    atomic_bool *gate; /* run() waits until it is open; NULL: it does not */
};

static struct counting *counting_of(struct service_scan *scan) {
    return (struct counting *)scan;
}

static void nap(void) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

static void on_run(struct service_scan *scan) {
    struct counting *counting = counting_of(scan);
    while (counting->gate != NULL && !atomic_load(counting->gate)) {
        nap();
    }
    counting->n_keys = key_view_key_count(snapshot_view_keys(scan->view));
    counting->revision = key_view_revision(snapshot_view_keys(scan->view));
}

static void on_ran(struct service_scan *scan) {
    struct counting *counting = counting_of(scan);
    counting->n_parts++;
    if (counting->n_parts < counting->parts_wanted) {
        service_scan_continue(scan);
    } else if (counting->ends_itself) {
        counting->is_ended = service_scan_end(scan);
        assert_true(counting->is_ended);
    }
}

static void on_revoked(struct service_scan *scan, enum status status) {
    counting_of(scan)->is_revoked = true;
    counting_of(scan)->reason = status;
    counting_of(scan)->is_ended = service_scan_end(scan);
}

static enum status start(struct node *node, struct counting *counting) {
    counting->scan = (struct service_scan){.run = on_run, .ran = on_ran, .revoked = on_revoked};
    return service_scan_start(node->service, &caller_server, &counting->scan, NULL, 0);
}

struct writer {
    struct service_request request;
    bool done;
};

static void on_done(struct service_request *request, const struct outcome *outcome) {
    assert_int_equal(outcome->status, STATUS_OK);
    ((struct writer *)request)->done = true;
}

static void submit(struct node *node, struct command command) {
    struct writer writer = {.request.done = on_done};
    service_submit(node->service, &caller_server, &writer.request, &command);
    while (!writer.done) {
        uv_run(&node->loop, UV_RUN_ONCE);
    }
}

static void put_with_lease(struct node *node, const char *key, int64_t lease_id) {
    submit(node, (struct command){.type = COMMAND_PUT,
                                  .put = {.key = bytes_from_text(key),
                                          .value = bytes_from_text("v"),
                                          .lease_id = lease_id}});
}

static void put(struct node *node, const char *key) {
    put_with_lease(node, key, 0);
}

static void run_until(struct node *node, const bool *condition) {
    uint64_t begun_ms = uv_hrtime() / 1000000;
    while (!*condition) {
        assert_true(uv_hrtime() / 1000000 - begun_ms < SOON_MS);
        uv_run(&node->loop, UV_RUN_NOWAIT);
        nap();
    }
}

static void a_scan_sees_the_state_as_it_was_when_it_began(void **state) {
    struct node *node = *state;
    put(node, "a");
    put(node, "b");
    struct counting counting = {.parts_wanted = 1};
    assert_int_equal(start(node, &counting), STATUS_PENDING);
    while (counting.n_parts < 1) {
        uv_run(&node->loop, UV_RUN_ONCE);
    }
    assert_int_equal(counting.n_keys, 2);
    int64_t revision = counting.revision;
    put(node, "c");
    counting.parts_wanted = 3;
    counting.ends_itself = true;
    service_scan_continue(&counting.scan);
    run_until(node, &counting.is_ended);
    assert_int_equal(counting.n_parts, 3);
    assert_int_equal(counting.n_keys, 2);
    assert_int_equal(counting.revision, revision);
}

static void the_loop_goes_on_while_scans_run(void **state) {
    struct node *node = *state;
    atomic_bool gate = false;
    struct counting counting[3] = {{.gate = &gate}, {.gate = &gate}, {.gate = &gate}};
    for (size_t i = 0; i < 3; i++) {
        counting[i].parts_wanted = 1;
        counting[i].ends_itself = true;
        assert_int_equal(start(node, &counting[i]), STATUS_PENDING);
    }
    put(node, "a");
    assert_int_equal(counting[0].n_parts, 0);
    assert_false(service_scan_end(&counting[0].scan)); /* it runs */
    atomic_store(&gate, true);
    for (size_t i = 0; i < 3; i++) {
        run_until(node, &counting[i].is_ended);
    }
    /* Two run at a time; the third got its view when it began, after the put. */
    assert_int_equal(counting[0].n_keys, 0);
    assert_int_equal(counting[2].n_keys, 1);
}

static void a_scan_that_waits_can_be_ended(void **state) {
    struct node *node = *state;
    atomic_bool gate = false;
    struct counting running[2] = {{.gate = &gate}, {.gate = &gate}};
    struct counting waiting = {.parts_wanted = 1};
    for (size_t i = 0; i < 2; i++) {
        running[i].ends_itself = true;
        assert_int_equal(start(node, &running[i]), STATUS_PENDING);
    }
    assert_int_equal(start(node, &waiting), STATUS_PENDING);
    assert_true(service_scan_end(&waiting.scan));
    atomic_store(&gate, true);
    run_until(node, &running[0].is_ended);
    run_until(node, &running[1].is_ended);
    assert_int_equal(waiting.n_parts, 0);
}

static void scans_that_are_not_continued_make_room_for_others(void **state) {
    struct node *node = *state;
    static struct counting idle[MANY];
    memset(idle, 0, sizeof idle);
    for (size_t i = 0; i < MANY; i++) {
        idle[i].parts_wanted = 1;
        assert_int_equal(start(node, &idle[i]), STATUS_PENDING);
    }
    struct counting late = {.parts_wanted = 1, .ends_itself = true};
    assert_int_equal(start(node, &late), STATUS_PENDING);
    run_until(node, &late.is_ended);
    size_t n_revoked = 0;
    for (size_t i = 0; i < MANY; i++) {
        n_revoked += idle[i].is_revoked;
        if (!idle[i].is_ended) {
            assert_true(service_scan_end(&idle[i].scan));
        }
    }
    assert_in_range(n_revoked, 1, MANY);
}

/* Views that follow each other keep all that was compacted. */
static void what_was_compacted_is_freed_before_the_next_view(void **state) {
    enum { LONG_MS = 11 * 1000 };
    struct node *node = *state;
    const struct scans *scans = &node->service->scans;
    struct counting first = {.parts_wanted = 1};
    struct counting second = {.parts_wanted = 1};
    struct counting third = {.parts_wanted = 1, .ends_itself = true};
    assert_int_equal(start(node, &first), STATUS_PENDING);
    while (first.n_parts < 1) {
        uv_run(&node->loop, UV_RUN_ONCE);
    }
    /* A pause in which nothing could be freed is none. */
    uint64_t since_ms = scans->first_open_ms - LONG_MS / 2;
    node->service->scans.first_open_ms = since_ms;
    node->service->background.is_reclaiming = true;
    assert_true(service_scan_end(&first.scan));
    assert_int_equal(start(node, &second), STATUS_PENDING);
    assert_int_equal(scans->n_open, 1);
    assert_int_equal(scans->first_open_ms, since_ms);
    while (second.n_parts < 1) {
        uv_run(&node->loop, UV_RUN_ONCE);
    }
    node->service->scans.first_open_ms = since_ms - LONG_MS;
    assert_true(node->service->background.is_reclaiming);
    assert_int_equal(start(node, &third), STATUS_PENDING);
    assert_int_equal(scans->n_open, 1);
    assert_true(service_scan_end(&second.scan));
    assert_int_equal(scans->n_open, 0);
    run_until(node, &third.is_ended);
    assert_true(scans->first_open_ms > since_ms);
}

static void too_many_that_wait_are_refused(void **state) {
    struct node *node = *state;
    enum { FLOOD = 2000 };
    struct counting *flood = calloc(FLOOD, sizeof *flood);
    size_t n_taken = 0;
    enum status status = STATUS_PENDING;
    while (n_taken < FLOOD && status == STATUS_PENDING) {
        status = start(node, &flood[n_taken]);
        n_taken += status == STATUS_PENDING;
    }
    assert_int_equal(status, STATUS_TOO_MANY_REQUESTS);
    for (size_t i = 0; i < n_taken; i++) {
        flood[i].ends_itself = true;
    }
    for (size_t i = 0; i < n_taken; i++) {
        run_until(node, &flood[i].is_ended);
    }
    free(flood);
}

static void change_auth(struct node *node, struct auth_change change) {
    submit(node, (struct command){.type = COMMAND_AUTH, .auth = change});
}

static void permit(struct node *node, enum auth_action action, const char *key) {
    change_auth(node, (struct auth_change){
                          .action = action,
                          .role = bytes_from_text("r"),
                          .permission = {RIGHT_READ, {KEY_SPACE_ETCD, bytes_from_text(key), {0}}}});
}

/* User "u" may read "a" and "b". */
static struct caller enable_auth(struct node *node) {
    static const uint8_t token_key[AUTH_TOKEN_KEY_SIZE];
    static const char *const names[] = {"root", "u"};
    static const char *const roles[] = {"root", "r"};
    struct auth_user user;
    submit(node, (struct command){.type = COMMAND_CLUSTER_VERSION,
                                  .cluster_version = {.version = CLUSTER_VERSION_RULES}});
    for (size_t i = 0; i < 2; i++) {
        struct auth_change change = {.user = bytes_from_text(names[i]),
                                     .role = bytes_from_text(roles[i])};
        static const enum auth_action actions[] = {AUTH_USER_ADD, AUTH_ROLE_ADD,
                                                   AUTH_USER_GRANT_ROLE};
        for (size_t j = 0; j < 3; j++) {
            change.action = actions[j];
            change_auth(node, change);
        }
    }
    permit(node, AUTH_ROLE_GRANT_PERMISSION, "a");
    permit(node, AUTH_ROLE_GRANT_PERMISSION, "b");
    change_auth(node, (struct auth_change){.action = AUTH_ENABLE,
                                           .token_key = bytes_of(token_key, sizeof token_key)});
    assert_true(
        auth_find_user(state_view_auth(service_view(node->service)), bytes_from_text("u"), &user));
    return (struct caller){.user_id = user.id, .auth_version = user.version};
}

/* What a scan reads is newer than the check that was made when it was asked for. */
static void a_scan_that_has_waited_has_its_rights_checked_again(void **state) {
    struct node *node = *state;
    struct caller user = enable_auth(node);
    submit(node,
           (struct command){.type = COMMAND_LEASE_GRANT, .grant = {.id = 1, .ttl_ms = 60000}});
    put_with_lease(node, "a", 1);
    const struct key_range range = {.space = KEY_SPACE_ETCD, .key = bytes_from_text("b")};
    const struct key_range others = {.space = KEY_SPACE_ETCD, .key = bytes_from_text("z")};
    for (int round = 0; round < 3; round++) {
        atomic_bool gate = false;
        struct counting running[2] = {{.gate = &gate}, {.gate = &gate}};
        struct counting waiting = {.parts_wanted = 1, .ends_itself = true};
        for (size_t i = 0; i < 2; i++) {
            running[i].ends_itself = true;
            assert_int_equal(start(node, &running[i]), STATUS_PENDING);
        }
        waiting.scan = (struct service_scan){.run = on_run, .ran = on_ran, .revoked = on_revoked};
        assert_int_equal(service_scan_start(node->service, &user, &waiting.scan, &others, 1),
                         STATUS_PERMISSION_DENIED);
        waiting.scan.lease_id = 1;
        assert_int_equal(service_scan_start(node->service, &user, &waiting.scan, &range, 1),
                         STATUS_PENDING);
        if (round == 1) {
            put_with_lease(node, "secret", 1);
        } else if (round == 2) {
            permit(node, AUTH_ROLE_REVOKE_PERMISSION, "b");
        }
        atomic_store(&gate, true);
        run_until(node, &running[0].is_ended);
        run_until(node, &running[1].is_ended);
        run_until(node, &waiting.is_ended);
        assert_int_equal(waiting.is_revoked, round > 0);
        assert_int_equal(waiting.n_parts, round == 0);
        if (round > 0) {
            assert_int_equal(waiting.reason,
                             round == 1 ? STATUS_PERMISSION_DENIED : STATUS_AUTH_OLD_REVISION);
        }
        submit(node, (struct command){.type = COMMAND_DELETE,
                                      .delete = {.key = bytes_from_text("secret")}});
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_scan_sees_the_state_as_it_was_when_it_began),
        TEST(the_loop_goes_on_while_scans_run),
        TEST(a_scan_that_waits_can_be_ended),
        TEST(scans_that_are_not_continued_make_room_for_others),
        TEST(what_was_compacted_is_freed_before_the_next_view),
        TEST(too_many_that_wait_are_refused),
        TEST(a_scan_that_has_waited_has_its_rights_checked_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
