/* The service on a real libraft and a real disk, in one process. */
#include "replication_fixture.h"

#include "core/cluster_version.h"
#include "replication/log_entry.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* A question asked while a turn of the loop goes on is later than the turn's own time. */
static void what_lies_ahead_is_not_overdue(void **state) {
    (void)state;
    assert_int_equal(clock_elapsed_ms(100, 40), 60);
    assert_int_equal(clock_elapsed_ms(100, 100), 0);
    assert_int_equal(clock_elapsed_ms(100, 101), 0);
}

static void what_was_acknowledged_is_there_after_a_restart(void **state) {
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    struct command grant = grant_command(5, 60000);
    assert_int_equal(run(&node, &grant).status, STATUS_OK);
    for (int i = 0; i < 100; i++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", i);
        struct command put = put_command(key, "v", i % 2 ? 5 : 0);
        assert_int_equal(run(&node, &put).revision, i + 2);
    }
    uint32_t hash = hash_of(&node);
    node_close(&node);
    node_open(&node, 0);
    assert_int_equal(hash_of(&node), hash);
    assert_int_equal(lease_table_key_count(state_machine_leases(node.service->machine), 5), 50);
    struct command revoke = {.type = COMMAND_LEASE_REVOKE, .revoke.id = 5};
    assert_int_equal(run(&node, &revoke).revision, 102);
    node_close(&node);
    node_remove_dir(&node);
}

/* The first entry of the term is behind us: what is granted from now on has no checkpoint. */
static void begin_term(struct node *node) {
    struct command nothing = {.type = COMMAND_BARRIER};
    run(node, &nothing);
}

static void one_turn_of_the_loop_makes_one_entry(void **state) {
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    begin_term(&node);
    struct service_info before;
    service_info(node.service, &before);
    enum { N = 500 };
    static struct waiter waiters[N];
    for (int i = 0; i < N; i++) {
        struct command put = put_command("k", "v", 0);
        submit(&node, &waiters[i], &put);
    }
    wait_for(&node, &waiters[N - 1].done);
    for (int i = 0; i < N; i++) {
        assert_true(waiters[i].done);
        assert_int_equal(waiters[i].outcome.revision, i + 2);
    }
    struct service_info after;
    service_info(node.service, &after);
    assert_int_equal(after.entries - before.entries, 1);
    assert_int_equal(after.commands - before.commands, N);
    node_close(&node);
    node_remove_dir(&node);
}

/* Whatever a door forgot to look at. */
static void a_command_that_fails_its_check_never_reaches_the_log(void **state) {
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    begin_term(&node);
    struct service_info before;
    service_info(node.service, &before);
    struct command put = put_command("", "v", 0);
    assert_int_equal(run(&node, &put).status, STATUS_KEY_EMPTY);
    struct command grant = grant_command(1, -1);
    assert_int_equal(run(&node, &grant).status, STATUS_INVALID);
    static uint8_t large[COMMAND_SIZE_MAX + 1024 * 1024];
    put = put_command("k", "v", 0);
    put.put.value = bytes_of(large, sizeof large);
    assert_int_equal(run(&node, &put).status, STATUS_REQUEST_TOO_LARGE);
    struct service_info after;
    service_info(node.service, &after);
    assert_int_equal(after.entries, before.entries);
    put = put_command("k", "v", 0);
    assert_int_equal(run(&node, &put).status, STATUS_OK);
    node_close(&node);
    node_remove_dir(&node);
}

static void what_was_withdrawn_in_time_is_not_done_and_the_others_are(void **state) {
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    begin_term(&node);
    enum { N = 3000 }; /* more than one entry, the last of which is open */
    static struct waiter waiters[N];
    static char keys[N][16];
    static char value[200];
    memset(value, 'v', sizeof value - 1);
    for (int i = 0; i < N; i++) {
        snprintf(keys[i], sizeof keys[i], "%d", i);
        struct command put = put_command(keys[i], i % 5 == 0 ? value : "v", 0);
        submit(&node, &waiters[i], &put);
    }
    for (int i = 0; i < N; i++) {
        if (i % 3 == 1) {
            assert_true(service_withdraw(node.service, &waiters[i].request));
        }
    }
    wait_for(&node, &waiters[N - 1].done);
    for (int i = 0; i < N; i++) {
        bool is_there =
            key_store_find(keys_of(&node), KEY_SPACE_ETCD, bytes_from_text(keys[i])) != NULL;
        assert_int_equal(waiters[i].done, i % 3 != 1);
        assert_int_equal(is_there, i % 3 != 1);
    }
    /* All of an entry. */
    struct command put = put_command("k", "v", 0);
    submit(&node, &waiters[0], &put);
    assert_true(service_withdraw(node.service, &waiters[0].request));
    assert_int_equal(run(&node, &put).status, STATUS_OK);
    submit(&node, &waiters[0], &put);
    assert_true(service_withdraw(node.service, &waiters[0].request));
    node_close(&node);
    node_remove_dir(&node);
}

static void what_was_handed_on_is_not_withdrawn(void **state) {
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    begin_term(&node);
    struct waiter waiter;
    struct command put = put_command("k", "v", 0);
    submit(&node, &waiter, &put);
    while (list_is_empty(&node.service->proposals.in_flight) && !waiter.done) {
        uv_run(&node.loop, UV_RUN_NOWAIT);
    }
    assert_false(service_withdraw(node.service, &waiter.request));
    wait_for(&node, &waiter.done);
    assert_int_equal(waiter.outcome.status, STATUS_OK);
    node_close(&node);
    node_remove_dir(&node);
}

/* A member of release 0.2 ends its links over them. */
static void large_commands_wait_for_the_version_of_the_cluster(void **state) {
    (void)state;
    static uint8_t large[COMMAND_SIZE_MAX];
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    node.service->options.request_size_max = COMMAND_SIZE_MAX;
    node.service->options.cluster_version_known = CLUSTER_VERSION_FIRST;
    begin_term(&node);
    assert_int_equal(service_cluster_version(node.service), CLUSTER_VERSION_FIRST);
    struct command put = put_command("k", "v", 0);
    put.put.value = bytes_of(large, COMMAND_SIZE_DEFAULT);
    assert_int_equal(run(&node, &put).status, STATUS_OK);
    put.put.value = bytes_of(large, 2 * COMMAND_SIZE_DEFAULT);
    assert_int_equal(run(&node, &put).status, STATUS_REQUEST_TOO_LARGE);
    node.service->options.cluster_version_known = 0;
    struct command version = {.type = COMMAND_CLUSTER_VERSION,
                              .cluster_version = {.version = CLUSTER_VERSION_RULES,
                                                  .n = 1,
                                                  .member_ids = &node.service->options.member_id}};
    assert_int_equal(run(&node, &version).status, STATUS_OK);
    put.put.value = bytes_of(large, sizeof large);
    assert_int_equal(run(&node, &put).status, STATUS_OK);
    node.service->options.request_size_max = COMMAND_SIZE_DEFAULT;
    assert_int_equal(run(&node, &put).status, STATUS_REQUEST_TOO_LARGE);
    node_close(&node);
    node_remove_dir(&node);
}

static void a_large_command_is_an_entry_of_its_own(void **state) {
    (void)state;
    static uint8_t large[LOG_ENTRY_COMMANDS_SIZE_MAX];
    struct node node;
    static struct waiter waiters[5];
    node_make_dir(&node);
    node_open(&node, 0);
    begin_term(&node);
    struct service_info before, after;
    service_info(node.service, &before);
    for (size_t i = 0; i < 5; i++) {
        struct command put = put_command("k", "v", 0);
        if (i == 2) {
            put.put.value = bytes_of(large, sizeof large);
        }
        submit(&node, &waiters[i], &put);
    }
    for (size_t i = 0; i < 5; i++) {
        wait_for(&node, &waiters[i].done);
        assert_int_equal(waiters[i].outcome.status, STATUS_OK);
        assert_int_equal(waiters[i].outcome.revision, 2 + i);
    }
    service_info(node.service, &after);
    assert_int_equal(after.entries - before.entries, 3);
    node_close(&node);
    node_remove_dir(&node);
}

struct watch_waiter {
    struct service_watch watch;
    bool is_full;
    bool is_given;
    size_t n_events;
};

static bool watch_deliver(struct service_watch *watch, const struct watch_batch *batch) {
    struct watch_waiter *waiter = list_entry(watch, struct watch_waiter, watch);
    if (!waiter->is_full) {
        waiter->n_events += batch->n_events;
        waiter->is_given = true;
    }
    return !waiter->is_full;
}

static void watch_compacted(struct service_watch *watch, int64_t compacted_revision) {
    (void)watch;
    fail_msg("compacted at %lld", (long long)compacted_revision);
}

static void a_watch_gets_its_events_and_ends_when_it_is_told_to(void **state) {
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    struct watch_waiter waiter = {
        .watch = {.deliver = watch_deliver, .compacted = watch_compacted}};
    const struct service_watch_options options = {
        .range = {.space = KEY_SPACE_ETCD, .key = bytes_from_text("k")}};
    assert_int_equal(service_watch(node.service, &caller_anonymous, &waiter.watch, &options),
                     STATUS_OK);
    struct command put = put_command("k", "v", 0);
    run(&node, &put);
    assert_int_equal(waiter.n_events, 1);
    assert_true(service_watch_is_current(node.service, &waiter.watch));
    waiter.is_full = true;
    waiter.is_given = false;
    run(&node, &put);
    assert_false(service_watch_is_current(node.service, &waiter.watch));
    waiter.is_full = false;
    service_watch_resume(node.service, &waiter.watch);
    wait_for(&node, &waiter.is_given);
    assert_int_equal(waiter.n_events, 2);
    service_unwatch(node.service, &waiter.watch);
    service_unwatch(node.service, &waiter.watch);
    assert_false(service_watch_is_current(node.service, &waiter.watch));
    run(&node, &put);
    assert_int_equal(waiter.n_events, 2);
    node_close(&node);
    node_remove_dir(&node);
}

/* --- With authentication on. --- */

static enum status run_as(struct node *node, const struct caller *caller,
                          const struct command *command) {
    struct waiter waiter = {.request.done = waiter_done};
    service_submit(node->service, caller, &waiter.request, command);
    wait_for(node, &waiter.done);
    return waiter.outcome.status;
}

static void change_auth(struct node *node, struct auth_change change) {
    struct command command = {.type = COMMAND_AUTH, .auth = change};
    assert_int_equal(run_as(node, &caller_server, &command), STATUS_OK);
}

static void set_permission(struct node *node, enum auth_action action) {
    change_auth(node, (struct auth_change){
                          .action = action,
                          .role = bytes_from_text("r"),
                          .permission = {RIGHT_READ_WRITE,
                                         {.space = KEY_SPACE_ETCD, .key = bytes_from_text("k")}}});
}

/* User "u" may read and write the key "k". */
static struct caller enable_auth(struct node *node) {
    static const uint8_t token_key[AUTH_TOKEN_KEY_SIZE];
    struct command version = {.type = COMMAND_CLUSTER_VERSION,
                              .cluster_version = {.version = CLUSTER_VERSION_RULES}};
    assert_int_equal(run_as(node, &caller_server, &version), STATUS_OK);
    static const char *const names[] = {"root", "u"};
    static const char *const roles[] = {"root", "r"};
    for (size_t i = 0; i < 2; i++) {
        struct bytes user = bytes_from_text(names[i]);
        struct bytes role = bytes_from_text(roles[i]);
        change_auth(node, (struct auth_change){.action = AUTH_USER_ADD, .user = user});
        change_auth(node, (struct auth_change){.action = AUTH_ROLE_ADD, .role = role});
        change_auth(
            node, (struct auth_change){.action = AUTH_USER_GRANT_ROLE, .user = user, .role = role});
    }
    set_permission(node, AUTH_ROLE_GRANT_PERMISSION);
    change_auth(node, (struct auth_change){.action = AUTH_ENABLE,
                                           .token_key = bytes_of(token_key, sizeof token_key)});
    struct auth_user user;
    assert_true(
        auth_find_user(state_machine_auth(node->service->machine), bytes_from_text("u"), &user));
    return (struct caller){.user_id = user.id, .auth_version = user.version};
}

static enum status read_as(struct node *node, const struct caller *caller, const char *key) {
    const struct key_range range = {.space = KEY_SPACE_ETCD, .key = bytes_from_text(key)};
    struct service_read read = {0};
    enum status status = service_read(node->service, caller, &read, &range, 1);
    assert_int_equal(service_read_local(node->service, caller, &range, 1), status);
    return status;
}

static void rights_are_checked_for_everything_that_is_asked(void **state) {
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    struct caller user = enable_auth(&node);
    struct command put = put_command("k", "v", 0);
    struct command other = put_command("other", "v", 0);
    struct command grant = grant_command(5, 60000);
    assert_int_equal(run_as(&node, &user, &put), STATUS_OK);
    assert_int_equal(run_as(&node, &caller_anonymous, &put), STATUS_USER_EMPTY);
    assert_int_equal(run_as(&node, &user, &other), STATUS_PERMISSION_DENIED);
    assert_int_equal(run_as(&node, &caller_server, &other), STATUS_OK);
    assert_int_equal(read_as(&node, &user, "k"), STATUS_OK);
    assert_int_equal(read_as(&node, &user, "other"), STATUS_PERMISSION_DENIED);
    assert_int_equal(read_as(&node, &caller_anonymous, "k"), STATUS_USER_EMPTY);

    assert_int_equal(run_as(&node, &user, &grant), STATUS_OK);
    int64_t ttl_ms = 0;
    struct service_renewal renewal = {.id = 5, .owner = KEY_SPACE_ETCD};
    assert_int_equal(service_renew(node.service, &user, &renewal, &ttl_ms), STATUS_OK);
    assert_int_equal(service_renew(node.service, &caller_anonymous, &renewal, &ttl_ms),
                     STATUS_USER_EMPTY);
    other = put_command("other", "v", 5);
    assert_int_equal(run_as(&node, &caller_server, &other), STATUS_OK);
    assert_int_equal(service_renew(node.service, &user, &renewal, &ttl_ms),
                     STATUS_PERMISSION_DENIED);
    assert_int_equal(service_time_left(node.service, &user, &renewal, &ttl_ms), STATUS_OK);
    renewal.shows_keys = true;
    assert_int_equal(service_time_left(node.service, &user, &renewal, &ttl_ms),
                     STATUS_PERMISSION_DENIED);

    /* What was allowed is looked at again when users or roles change. */
    struct command mine = grant_command(7, 60000);
    struct command key = put_command("k", "v", 7);
    struct service_renewal own = {.id = 7, .owner = KEY_SPACE_ETCD};
    assert_int_equal(run_as(&node, &user, &mine), STATUS_OK);
    assert_int_equal(run_as(&node, &user, &key), STATUS_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(service_renew(node.service, &user, &own, &ttl_ms), STATUS_OK);
    }
    set_permission(&node, AUTH_ROLE_REVOKE_PERMISSION);
    assert_int_equal(service_renew(node.service, &user, &own, &ttl_ms), STATUS_PERMISSION_DENIED);
    set_permission(&node, AUTH_ROLE_GRANT_PERMISSION);
    assert_int_equal(service_renew(node.service, &user, &own, &ttl_ms), STATUS_OK);
    assert_int_equal(service_renew(node.service, &caller_anonymous, &own, &ttl_ms),
                     STATUS_USER_EMPTY);

    /* A lease of another protocol does not exist for this one. */
    struct lease_facts foreign = {.id = 6, .ttl_ms = 60000, .owner = KEY_SPACE_SAMPLE};
    assert_int_equal(lease_table_grant(state_machine_leases(node.service->machine), &foreign, 1),
                     STATUS_OK);
    renewal = (struct service_renewal){.id = 6, .owner = KEY_SPACE_ETCD};
    assert_int_equal(service_renew(node.service, &user, &renewal, &ttl_ms), STATUS_LEASE_NOT_FOUND);
    assert_int_equal(service_time_left(node.service, &user, &renewal, &ttl_ms),
                     STATUS_LEASE_NOT_FOUND);
    renewal.owner = KEY_SPACE_SAMPLE;
    assert_int_equal(service_renew(node.service, &user, &renewal, &ttl_ms), STATUS_OK);

    struct service_transfer transfer = {0};
    assert_int_equal(service_move_leader(node.service, &user, &transfer, 1),
                     STATUS_PERMISSION_DENIED);
    assert_int_equal(service_check_user(node.service, &user, "test"), STATUS_OK);
    assert_int_equal(service_check_admin(node.service, &user, "test"), STATUS_PERMISSION_DENIED);
    struct service_info info;
    service_info(node.service, &info);
    assert_in_range(info.unauthenticated, 3, 10);
    assert_in_range(info.denied, 5, 12);
    node_close(&node);
    /* The log is read again with the same rights. */
    node_open(&node, 0);
    assert_int_equal(run_as(&node, &user, &put), STATUS_OK);
    assert_int_equal(run_as(&node, &caller_anonymous, &put), STATUS_USER_EMPTY);
    node_close(&node);
    node_remove_dir(&node);
}

struct revoked_waiter {
    struct watch_waiter waiter;
    bool is_revoked;
};

static void watch_revoked(struct service_watch *watch, enum status status) {
    struct revoked_waiter *waiter = list_entry(watch, struct revoked_waiter, waiter.watch);
    assert_int_equal(status, STATUS_PERMISSION_DENIED);
    waiter->is_revoked = true;
}

static void a_watch_ends_with_the_right_to_it(void **state) {
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    struct caller user = enable_auth(&node);
    struct revoked_waiter waiter = {.waiter.watch = {.deliver = watch_deliver,
                                                     .compacted = watch_compacted,
                                                     .revoked = watch_revoked}};
    struct service_watch *watch = &waiter.waiter.watch;
    struct service_watch_options options = {
        .range = {.space = KEY_SPACE_ETCD, .key = bytes_from_text("k")}};
    assert_int_equal(service_watch(node.service, &caller_anonymous, watch, &options),
                     STATUS_USER_EMPTY);
    assert_int_equal(service_watch(node.service, &user, watch, &options), STATUS_OK);
    struct command put = put_command("k", "v", 0);
    assert_int_equal(run_as(&node, &user, &put), STATUS_OK);
    assert_int_equal(waiter.waiter.n_events, 1);
    /* A change that leaves it the right does not end it. */
    change_auth(&node, (struct auth_change){.action = AUTH_ROLE_ADD, .role = bytes_from_text("x")});
    assert_int_equal(run_as(&node, &user, &put), STATUS_OK);
    assert_int_equal(waiter.waiter.n_events, 2);
    set_permission(&node, AUTH_ROLE_REVOKE_PERMISSION);
    assert_int_equal(run_as(&node, &caller_server, &put), STATUS_OK);
    wait_for(&node, &waiter.is_revoked);
    assert_int_equal(waiter.waiter.n_events, 2);
    assert_false(service_watch_is_current(node.service, watch));
    service_unwatch(node.service, watch);
    node_close(&node);
    node_remove_dir(&node);
}

struct chain {
    struct node *node;
    struct waiter waiters[64];
    size_t n_done;
    size_t n_submitted;
};

/* Every answer brings a new request, from inside the answer, as busy clients do. */
static void chain_next(struct service_request *request, const struct outcome *outcome) {
    static struct chain *chain;
    if (outcome == NULL) {
        chain = (struct chain *)(void *)request;
        return;
    }
    assert_int_equal(outcome->status, STATUS_OK);
    chain->n_done++;
    if (chain->n_submitted < 20000) {
        chain->n_submitted++;
        struct command put = put_command("k", "v", 0);
        service_submit(chain->node->service, &caller_anonymous, request, &put);
    }
}

static void every_request_is_answered_when_several_entries_are_on_their_way(void **state) {
    (void)state;
    static struct chain chain;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    chain = (struct chain){.node = &node};
    chain_next((struct service_request *)(void *)&chain, NULL);
    /* One request a turn at first, so that entries follow one another closely. */
    for (size_t i = 0; i < 64; i++) {
        chain.waiters[i].request.done = chain_next;
        chain.n_submitted++;
        struct command put = put_command("k", "v", 0);
        service_submit(node.service, &caller_anonymous, &chain.waiters[i].request, &put);
        uv_run(&node.loop, UV_RUN_NOWAIT);
    }
    uint64_t give_up_ms = clock_boottime_ms() + 30000;
    while (chain.n_done < 20000 && clock_boottime_ms() < give_up_ms) {
        uv_run(&node.loop, UV_RUN_ONCE);
    }
    assert_int_equal(chain.n_done, 20000);
    node_close(&node);
    node_remove_dir(&node);
}

static void a_full_log_is_cut_by_a_snapshot_and_restarts_from_it(void **state) {
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 64 * 1024);
    char value[1025];
    memset(value, 'x', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    struct service_info info = {0};
    int writes = 0;
    for (; info.snapshots < 3 && writes < 5000; writes++) {
        char key[16];
        snprintf(key, sizeof key, "k%d", writes % 50);
        struct command put = put_command(key, value, 0);
        assert_int_equal(run(&node, &put).status, STATUS_OK);
        if (writes == 200) {
            struct command compact = {.type = COMMAND_COMPACT, .compact.revision = 150};
            assert_int_equal(run(&node, &compact).status, STATUS_OK);
        }
        service_info(node.service, &info);
    }
    assert_true(info.snapshots >= 3);
    uint32_t hash = hash_of(&node);
    int64_t revision = key_store_revision(keys_of(&node));
    node_close(&node);
    node_open(&node, 64 * 1024);
    assert_int_equal(key_store_revision(keys_of(&node)), revision);
    assert_int_equal(hash_of(&node), hash);
    node_close(&node);
    node_remove_dir(&node);
}

/* Nobody is told of the error any more, but what the snapshot was made from must be given back. */
static void a_snapshot_that_fails_while_closing_is_let_go(void **state) {
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    struct command put = put_command("k", "some value", 0);
    assert_int_equal(run(&node, &put).status, STATUS_OK);
    char in_the_way[128];
    snprintf(in_the_way, sizeof in_the_way, "%s/tmp-snap-taken", node.dir);
    assert_int_equal(mkdir(in_the_way, 0700), 0);
    node.service->options.log_bytes_max = 1;
    snapshots_poll(node.service);
    assert_true(raft_node_is_taking_snapshot(node.service->node));
    node_close(&node);
    assert_false(node.failed);
    assert_int_equal(rmdir(in_the_way), 0);
    node_remove_dir(&node);
}

static void a_lease_expires_on_time_and_never_early(void **state) {
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    struct waiter granted;
    struct command grant = grant_command(77, 150);
    submit(&node, &granted, &grant);
    wait_for(&node, &granted.done);
    struct command put = put_command("mine", "v", 77);
    assert_int_equal(run(&node, &put).status, STATUS_OK);
    uint64_t gone_ms = 0;
    while (gone_ms == 0) {
        uv_run(&node.loop, UV_RUN_ONCE);
        if (key_store_find(keys_of(&node), KEY_SPACE_ETCD, bytes_from_text("mine")) == NULL) {
            gone_ms = clock_boottime_ms();
        }
    }
    assert_true(gone_ms - granted.done_ms >= 150);
    /* Late is a matter of the machine; seconds would be a matter of ours. */
    assert_true(gone_ms - granted.done_ms < 1150);
    struct service_info info;
    service_info(node.service, &info);
    assert_int_equal(info.expired, 1);
    int64_t ttl_ms;
    struct service_renewal renewal = {.id = 77, .owner = KEY_SPACE_ETCD};
    assert_int_equal(service_renew(node.service, &caller_anonymous, &renewal, &ttl_ms),
                     STATUS_LEASE_NOT_FOUND);
    node_close(&node);
    node_remove_dir(&node);
}

struct renewal_waiter {
    struct service_renewal renewal;
    bool done;
    enum status status;
};

static void renewal_done(struct service_renewal *renewal, enum status status, int64_t ttl_ms) {
    struct renewal_waiter *waiter = list_entry(renewal, struct renewal_waiter, renewal);
    (void)ttl_ms;
    waiter->done = true;
    waiter->status = status;
}

static void a_renewal_that_meets_a_proposed_expiry_waits_and_is_told_not_found(void **state) {
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    begin_term(&node);
    struct command grant = grant_command(3, 50);
    assert_int_equal(run(&node, &grant).status, STATUS_OK);
    struct renewal_waiter waiter = {
        .renewal = {.id = 3, .owner = KEY_SPACE_ETCD, .done = renewal_done}};
    struct lease_table *leases = state_machine_leases(node.service->machine);
    int64_t ttl_ms;
    /* Between the proposal of the expiry and its end a turn of the loop passes at least. */
    enum status status = STATUS_OK;
    while (status == STATUS_OK) {
        uv_run(&node.loop, UV_RUN_ONCE);
        struct lease_facts facts;
        int64_t remaining_ms = 1;
        assert_true(lease_table_find(leases, 3, &facts));
        lease_table_remaining(leases, 3, clock_boottime_ms(), &remaining_ms);
        if (remaining_ms == 0) {
            status = service_renew(node.service, &caller_anonymous, &waiter.renewal, &ttl_ms);
            break;
        }
    }
    if (status == STATUS_PENDING) {
        wait_for(&node, &waiter.done);
        assert_int_equal(waiter.status, STATUS_LEASE_NOT_FOUND);
    } else {
        /* It was not proposed yet: then the renewal holds. */
        assert_int_equal(status, STATUS_OK);
    }
    node_close(&node);
    node_remove_dir(&node);
}

static int64_t checkpoint_of(struct node *node, int64_t id) {
    struct lease_facts facts = {0};
    lease_table_find(state_machine_leases(node->service->machine), id, &facts);
    return facts.checkpoint_ms;
}

static void renewing_a_checkpointed_lease_clears_it_through_the_log_first(void **state) {
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    begin_term(&node);
    struct command grant = grant_command(3, 2000);
    assert_int_equal(run(&node, &grant).status, STATUS_OK);
    /* Nobody renews it: at half of its time the next leader is told. */
    assert_int_equal(checkpoint_of(&node, 3), 0);
    while (checkpoint_of(&node, 3) == 0) {
        uv_run(&node.loop, UV_RUN_ONCE);
    }
    assert_in_range(checkpoint_of(&node, 3), 700, 1000);
    struct service_info before;
    service_info(node.service, &before);
    struct renewal_waiter waiter = {
        .renewal = {.id = 3, .owner = KEY_SPACE_ETCD, .done = renewal_done}};
    int64_t ttl_ms = 0;
    assert_int_equal(service_renew(node.service, &caller_anonymous, &waiter.renewal, &ttl_ms),
                     STATUS_PENDING);
    wait_for(&node, &waiter.done);
    assert_int_equal(waiter.status, STATUS_OK);
    assert_int_equal(checkpoint_of(&node, 3), 0);
    struct service_info after;
    service_info(node.service, &after);
    assert_int_equal(after.last_index, before.last_index + 1);
    /* Renewed in time, it costs nothing. */
    for (int i = 0; i < 100; i++) {
        assert_int_equal(service_renew(node.service, &caller_anonymous, &waiter.renewal, &ttl_ms),
                         STATUS_OK);
        assert_int_equal(ttl_ms, 2000);
    }
    service_info(node.service, &after);
    assert_int_equal(after.last_index, before.last_index + 1);
    node_close(&node);
    node_remove_dir(&node);
}

static void a_term_begins_with_a_checkpoint_of_what_there_was(void **state) {
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    begin_term(&node);
    struct command grant = grant_command(3, 60000);
    assert_int_equal(run(&node, &grant).status, STATUS_OK);
    assert_int_equal(checkpoint_of(&node, 3), 0);
    node_close(&node);
    node_open(&node, 0);
    begin_term(&node);
    assert_int_equal(checkpoint_of(&node, 3), 60000);
    struct renewal_waiter waiters[3];
    int64_t ttl_ms = 0;
    for (int i = 0; i < 3; i++) {
        waiters[i] = (struct renewal_waiter){
            .renewal = {.id = 3, .owner = KEY_SPACE_ETCD, .done = renewal_done}};
        assert_int_equal(
            service_renew(node.service, &caller_anonymous, &waiters[i].renewal, &ttl_ms),
            STATUS_PENDING);
    }
    wait_for(&node, &waiters[2].done);
    assert_int_equal(checkpoint_of(&node, 3), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(waiters[i].status, STATUS_OK);
    }
    node_close(&node);
    node_remove_dir(&node);
}

static void after_a_stall_nothing_expires_before_the_sockets_are_read(void **state) {
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    begin_term(&node);
    struct command grant = grant_command(3, 100);
    assert_int_equal(run(&node, &grant).status, STATUS_OK);
    node.caught_up = false;
    /* The process is away: nothing runs the loop. */
    uint64_t until_ms = clock_boottime_ms() + 700;
    while (clock_boottime_ms() < until_ms) {
        usleep(10000);
    }
    struct lease_table *leases = state_machine_leases(node.service->machine);
    struct lease_facts facts;
    for (int turn = 0; turn < 200; turn++) {
        uv_run(&node.loop, UV_RUN_ONCE);
        assert_true(lease_table_find(leases, 3, &facts));
    }
    assert_true(node.catch_ups >= 1);
    /* A heartbeat that had waited in a socket counts. */
    int64_t ttl_ms;
    struct service_renewal renewal = {.id = 3, .owner = KEY_SPACE_ETCD, .done = renewal_done};
    assert_int_equal(service_renew(node.service, &caller_anonymous, &renewal, &ttl_ms), STATUS_OK);
    node.caught_up = true;
    while (lease_table_find(leases, 3, &facts)) {
        uv_run(&node.loop, UV_RUN_ONCE);
    }
    node_close(&node);
    node_remove_dir(&node);
}

/* --- The process stops, for less than what counts as a stall, at the worst moment: the sockets
 * have been read, and expiry comes next. --- */

struct late_heartbeat {
    struct node *node;
    uv_check_t check;
    uv_pipe_t pipe;
    int end;
    bool is_sent;
    struct renewal_waiter renewal;
};

static void heartbeat_alloc(uv_handle_t *handle, size_t size, uv_buf_t *buffer) {
    static char bytes[16];
    (void)handle;
    (void)size;
    *buffer = uv_buf_init(bytes, sizeof bytes);
}

static void heartbeat_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer) {
    struct late_heartbeat *heartbeat = stream->data;
    (void)buffer;
    if (size > 0) {
        int64_t ttl_ms;
        struct renewal_waiter *waiter = &heartbeat->renewal;
        waiter->status =
            service_renew(heartbeat->node->service, &caller_anonymous, &waiter->renewal, &ttl_ms);
        waiter->done = waiter->status != STATUS_PENDING;
    }
}

/* Of libuv's check handles the one started last runs first: before the service's own. */
static void heartbeat_after_polling(uv_check_t *check) {
    struct late_heartbeat *heartbeat = check->data;
    struct lease_table *leases = state_machine_leases(heartbeat->node->service->machine);
    int64_t remaining_ms = INT64_MAX;
    lease_table_remaining(leases, heartbeat->renewal.renewal.id, clock_boottime_ms(),
                          &remaining_ms);
    if (heartbeat->is_sent || remaining_ms > 120) {
        return;
    }
    heartbeat->is_sent = true;
    assert_int_equal(write(heartbeat->end, "x", 1), 1);
    usleep(200 * 1000);
}

static void
a_heartbeat_that_came_before_the_deadline_counts_wherever_the_process_stopped(void **state) {
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    struct late_heartbeat heartbeat = {
        .node = &node,
        .renewal = {.renewal = {.id = 3, .owner = KEY_SPACE_ETCD, .done = renewal_done}}};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    heartbeat.end = ends[1];
    uv_pipe_init(&node.loop, &heartbeat.pipe, 0);
    assert_int_equal(uv_pipe_open(&heartbeat.pipe, ends[0]), 0);
    heartbeat.pipe.data = &heartbeat;
    uv_read_start((uv_stream_t *)&heartbeat.pipe, heartbeat_alloc, heartbeat_read);
    struct command grant = grant_command(3, 400);
    assert_int_equal(run(&node, &grant).status, STATUS_OK);
    uv_check_init(&node.loop, &heartbeat.check);
    heartbeat.check.data = &heartbeat;
    uv_check_start(&heartbeat.check, heartbeat_after_polling);
    wait_for(&node, &heartbeat.renewal.done);
    assert_int_equal(heartbeat.renewal.status, STATUS_OK);
    uv_close((uv_handle_t *)&heartbeat.check, NULL);
    uv_close((uv_handle_t *)&heartbeat.pipe, NULL);
    close(ends[1]);
    node_close(&node);
    node_remove_dir(&node);
}

/* Turns that are long because of our own work are no stall: who could keep us at work could keep a
 * dead holder's lease for ever. */
static void expiry_goes_on_while_every_turn_is_long(void **state) {
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    struct command grant = grant_command(3, 100);
    assert_int_equal(run(&node, &grant).status, STATUS_OK);
    struct lease_table *leases = state_machine_leases(node.service->machine);
    unsigned turns = 0;
    for (; turns < 12 && lease_table_count(leases) > 0; turns++) {
        uint64_t until_ms = clock_boottime_ms() + 400;
        while (clock_boottime_ms() < until_ms) {
        }
        uv_run(&node.loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(lease_table_count(leases), 0);
    node_close(&node);
    node_remove_dir(&node);
}

static void requests_in_flight_at_the_close_are_told_so(void **state) {
    (void)state;
    struct node node;
    node_make_dir(&node);
    node_open(&node, 0);
    struct waiter waiter;
    struct command put = put_command("k", "v", 0);
    submit(&node, &waiter, &put);
    node_close(&node);
    assert_true(waiter.done);
    assert_int_equal(waiter.outcome.status, STATUS_STOPPED);
    node_remove_dir(&node);
}

static void flip_in_file(const char *dir, const char *prefix, off_t offset) {
    DIR *directory = opendir(dir);
    bool found = false;
    for (struct dirent *file; !found && (file = readdir(directory)) != NULL;) {
        if (strncmp(file->d_name, prefix, strlen(prefix)) != 0 ||
            strstr(file->d_name, ".meta") != NULL) {
            continue;
        }
        int fd = openat(dirfd(directory), file->d_name, O_RDWR);
        uint8_t byte;
        assert_int_equal(pread(fd, &byte, 1, offset), 1);
        byte ^= 0x40;
        assert_int_equal(pwrite(fd, &byte, 1, offset), 1);
        close(fd);
        found = true;
    }
    closedir(directory);
    assert_true(found);
}

/* Opens in a process of its own, which ends as a server would: a start that failed is not taken
 * back piece by piece. */
static enum status open_in_child(struct node *node, char *error, size_t error_size) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        char text[512] = "";
        enum status status = node_try_open(node, 0, text, sizeof text);
        ssize_t written = write(ends[1], text, strlen(text));
        _exit(written < 0 ? 99 : (int)status);
    }
    close(ends[1]);
    ssize_t n = read(ends[0], error, error_size - 1);
    error[n > 0 ? n : 0] = '\0';
    close(ends[0]);
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result));
    return (enum status)WEXITSTATUS(result);
}

/* Writes in a process that ends without closing anything, like one that was killed. */
static void write_and_die(struct node *node, int writes) {
    pid_t child = fork();
    if (child == 0) {
        node_open(node, 0);
        for (int i = 0; i < writes; i++) {
            struct command put = put_command("k", "some value", 0);
            run(node, &put);
        }
        _exit(0);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
}

static void damage_among_acknowledged_entries_stops_the_start_with_a_reason(void **state) {
    (void)state;
    struct node node;
    node_make_dir(&node);
    write_and_die(&node, 20);
    flip_in_file(node.dir, "log-", 400);
    char error[512];
    assert_int_equal(open_in_child(&node, error, sizeof error), STATUS_CORRUPT);
    assert_non_null(strstr(error, "log-"));
    assert_non_null(strstr(error, "backup"));
    node_remove_dir(&node);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lies_ahead_is_not_overdue),
        cmocka_unit_test(what_was_acknowledged_is_there_after_a_restart),
        cmocka_unit_test(one_turn_of_the_loop_makes_one_entry),
        cmocka_unit_test(a_command_that_fails_its_check_never_reaches_the_log),
        cmocka_unit_test(what_was_withdrawn_in_time_is_not_done_and_the_others_are),
        cmocka_unit_test(what_was_handed_on_is_not_withdrawn),
        cmocka_unit_test(large_commands_wait_for_the_version_of_the_cluster),
        cmocka_unit_test(a_large_command_is_an_entry_of_its_own),
        cmocka_unit_test(a_watch_gets_its_events_and_ends_when_it_is_told_to),
        cmocka_unit_test(rights_are_checked_for_everything_that_is_asked),
        cmocka_unit_test(a_watch_ends_with_the_right_to_it),
        cmocka_unit_test(every_request_is_answered_when_several_entries_are_on_their_way),
        cmocka_unit_test(a_full_log_is_cut_by_a_snapshot_and_restarts_from_it),
        cmocka_unit_test(a_snapshot_that_fails_while_closing_is_let_go),
        cmocka_unit_test(a_lease_expires_on_time_and_never_early),
        cmocka_unit_test(a_renewal_that_meets_a_proposed_expiry_waits_and_is_told_not_found),
        cmocka_unit_test(renewing_a_checkpointed_lease_clears_it_through_the_log_first),
        cmocka_unit_test(a_term_begins_with_a_checkpoint_of_what_there_was),
        cmocka_unit_test(after_a_stall_nothing_expires_before_the_sockets_are_read),
        cmocka_unit_test(
            a_heartbeat_that_came_before_the_deadline_counts_wherever_the_process_stopped),
        cmocka_unit_test(expiry_goes_on_while_every_turn_is_long),
        cmocka_unit_test(requests_in_flight_at_the_close_are_told_so),
        cmocka_unit_test(damage_among_acknowledged_entries_stops_the_start_with_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
