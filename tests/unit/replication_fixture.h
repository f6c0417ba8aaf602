/* One node in this process: the service on a real libraft and a real disk. */
#ifndef LEASED_TESTS_REPLICATION_FIXTURE_H
#define LEASED_TESTS_REPLICATION_FIXTURE_H

#include "base/clock.h"
#include "core/service.h"
#include "replication/replication.h"
#include "replication/service_internal.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h> /* after what it needs */

struct node {
    char dir[64];
    uv_loop_t loop;
    struct service *service;
    bool closed;
    bool failed;
    char reason[512];
    bool caught_up;
    unsigned catch_ups;
};

static inline void on_failed(void *data, enum status status, const char *reason) {
    struct node *node = data;
    assert_int_not_equal(status, STATUS_OK);
    node->failed = true;
    snprintf(node->reason, sizeof node->reason, "%s", reason);
}

static inline void on_closed(void *data) {
    ((struct node *)data)->closed = true;
}

static inline void on_begin_catch_up(void *data) {
    ((struct node *)data)->catch_ups++;
}

static inline bool on_is_caught_up(void *data) {
    return ((struct node *)data)->caught_up;
}

static inline void node_make_dir(struct node *node) {
    *node = (struct node){.caught_up = true};
    snprintf(node->dir, sizeof node->dir, "/tmp/test-replication-XXXXXX");
    assert_non_null(mkdtemp(node->dir));
}

static inline enum status node_try_open(struct node *node, size_t log_bytes_max, char *error,
                                        size_t error_size) {
    static const char *const urls[] = {"http://127.0.0.1:1", NULL};
    struct replication_options options = {.data_dir = node->dir,
                                          .name = "n1",
                                          .cluster_id = 7,
                                          .member_id = 9,
                                          .client_urls = urls,
                                          .peer_urls = urls,
                                          .peer_address = "127.0.0.1:1",
                                          .log_bytes_max = log_bytes_max,
                                          .begin_catch_up = on_begin_catch_up,
                                          .is_caught_up = on_is_caught_up,
                                          .failed = on_failed,
                                          .data = node};
    node->closed = false;
    uv_loop_init(&node->loop);
    return replication_open(&node->loop, &options, &node->service, error, error_size);
}

static inline void node_open(struct node *node, size_t log_bytes_max) {
    char error[512] = "";
    enum status status = node_try_open(node, log_bytes_max, error, sizeof error);
    if (status != STATUS_OK) {
        fail_msg("%s", error);
    }
}

static inline void node_close(struct node *node) {
    replication_close(node->service, on_closed, node);
    while (!node->closed) {
        uv_run(&node->loop, UV_RUN_ONCE);
    }
    uv_run(&node->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&node->loop), 0);
}

static inline void node_remove_dir(struct node *node) {
    DIR *directory = opendir(node->dir);
    for (struct dirent *file; (file = readdir(directory)) != NULL;) {
        unlinkat(dirfd(directory), file->d_name, 0);
    }
    closedir(directory);
    assert_int_equal(rmdir(node->dir), 0);
}

/* --- Requests. --- */

struct waiter {
    struct service_request request;
    bool done;
    struct outcome outcome;
    uint64_t done_ms;
};

static inline void waiter_done(struct service_request *request, const struct outcome *outcome) {
    struct waiter *waiter = list_entry(request, struct waiter, request);
    waiter->done = true;
    waiter->outcome = *outcome;
    waiter->done_ms = clock_boottime_ms();
}

static inline void submit(struct node *node, struct waiter *waiter, const struct command *command) {
    *waiter = (struct waiter){.request.done = waiter_done};
    service_submit(node->service, &caller_anonymous, &waiter->request, command);
    assert_false(waiter->done);
}

static inline void wait_for(struct node *node, const bool *flag) {
    while (!*flag && !node->failed) {
        uv_run(&node->loop, UV_RUN_ONCE);
    }
}

static inline struct outcome run(struct node *node, const struct command *command) {
    struct waiter waiter;
    submit(node, &waiter, command);
    wait_for(node, &waiter.done);
    return waiter.outcome;
}

static inline struct command put_command(const char *key, const char *value, int64_t lease_id) {
    struct command command = {.type = COMMAND_PUT};
    command.put.key = bytes_from_text(key);
    command.put.value = bytes_from_text(value);
    command.put.lease_id = lease_id;
    return command;
}

static inline struct command grant_command(int64_t id, int64_t ttl_ms) {
    struct command command = {.type = COMMAND_LEASE_GRANT};
    command.grant.id = id;
    command.grant.ttl_ms = ttl_ms;
    return command;
}

static inline struct key_store *keys_of(struct node *node) {
    return state_machine_keys(node->service->machine);
}

static inline uint32_t hash_of(struct node *node) {
    uint32_t hash = 0;
    assert_int_equal(key_store_hash(keys_of(node), KEY_SPACE_ETCD, 0, &hash), STATUS_OK);
    return hash;
}

#endif
