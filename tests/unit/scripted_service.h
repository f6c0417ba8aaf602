/* A whole service on a real disk, the first of three members; the test plays the other two
 * (scripted_peers.h). */
#ifndef LEASED_TESTS_SCRIPTED_SERVICE_H
#define LEASED_TESTS_SCRIPTED_SERVICE_H

#include "base/clock.h"
#include "core/cluster_version.h"
#include "replication/service_internal.h"
#include "scripted_peers.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h> /* after what it needs */

enum {
    SELF_ID = 1,
    OTHER_ID = 2,
    THIRD_ID = 3,
    SCRIPT_HEARTBEAT_MS = 20,
    SCRIPT_ELECTION_MS = 300,
    SCRIPT_PATIENCE_MS = 20000
};

static char script_dir[64];
static uv_loop_t loop;
static struct service *service;
static bool is_closed;

static inline void script_service_failed(void *data, enum status status, const char *reason) {
    (void)data;
    (void)status;
    fail_msg("%s", reason);
}

static inline void script_service_closed(void *data) {
    (void)data;
    is_closed = true;
}

static inline void run_until(bool (*condition)(void)) {
    uint64_t give_up_ms = clock_boottime_ms() + SCRIPT_PATIENCE_MS;
    while (!condition()) {
        assert_true(clock_boottime_ms() < give_up_ms);
        uv_run(&loop, UV_RUN_ONCE);
        script_deliver();
    }
}

static inline bool serves(void) {
    return service->leadership.serving &&
           service_cluster_version(service) == CLUSTER_VERSION_KNOWN &&
           !service->versions.is_raising;
}

static inline bool all_is_committed(void) {
    return raft_engine_commit_index(service->engine) == raft_engine_last_index(service->engine);
}

/* The others do all that they are asked for, so it will lead. `sent` as in struct script. */
static inline void script_service_open(void (*sent)(uint64_t to_id, uint8_t type,
                                                    struct bytes body)) {
    static const char *const urls[] = {"http://127.0.0.1:1", NULL};
    static const struct replication_member members[] = {
        {.id = SELF_ID, .name = "n1", .address = "127.0.0.1:1", .peer_urls = urls},
        {.id = OTHER_ID, .name = "n2", .address = "127.0.0.1:2", .peer_urls = urls},
        {.id = THIRD_ID, .name = "n3", .address = "127.0.0.1:3", .peer_urls = urls}};
    is_closed = false;
    script = (struct script){.grants_votes = true,
                             .acknowledges = true,
                             .answers_pings = true,
                             .version_known = CLUSTER_VERSION_KNOWN,
                             .sent = sent};
    snprintf(script_dir, sizeof script_dir, "/tmp/test-service-XXXXXX");
    assert_non_null(mkdtemp(script_dir));
    struct replication_options options = {.data_dir = script_dir,
                                          .name = "n1",
                                          .cluster_id = 7,
                                          .member_id = SELF_ID,
                                          .client_urls = urls,
                                          .peer_urls = urls,
                                          .peer_address = "127.0.0.1:1",
                                          .members = members,
                                          .n_members = 3,
                                          .heartbeat_ms = SCRIPT_HEARTBEAT_MS,
                                          .election_ms = SCRIPT_ELECTION_MS,
                                          .failed = script_service_failed};
    char error[512] = "";
    uv_loop_init(&loop);
    if (replication_open(&loop, &options, &service, error, sizeof error) != STATUS_OK) {
        fail_msg("%s", error);
    }
}

static inline void script_service_close(void) {
    replication_close(service, script_service_closed, NULL);
    while (!is_closed) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    DIR *directory = opendir(script_dir);
    for (struct dirent *file; (file = readdir(directory)) != NULL;) {
        unlinkat(dirfd(directory), file->d_name, 0);
    }
    closedir(directory);
    assert_int_equal(rmdir(script_dir), 0);
}

#endif
