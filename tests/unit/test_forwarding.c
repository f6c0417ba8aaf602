/* A node that follows, and a leader of the test's own making: what is asked of it, and what its
 * answers are taken for. */
#include "base/clock.h"
#include "core/cluster_version.h"
#include "core/service.h"
#include "peers/peers.h"
#include "raft/raft_codec.h"
#include "replication/log_entry.h"
#include "replication/peer_frames.h"
#include "replication/service_internal.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h> /* after what it needs */

enum {
    CLUSTER_ID = 7,
    FOLLOWER_ID = 9,
    LEADER_ID = 10,
    OTHER_ID = 11,
    TERM = 2,
    HEARTBEAT_MS = 20,
    ELECTION_MS = 2000,
    WAIT_MS_MAX = 20000,
    TTL_MS = 7000
};

static char follower_address[32];
static char leader_address[32];
static char other_address[32];
static uint16_t follower_port;
static uint16_t leader_port;
static uint16_t other_port;

static uv_loop_t loop;
static uv_timer_t ticker;
static char dir[64];
static struct service *service;
static bool is_closed;

/* The leader. */
static struct peers *leader;
static bool is_leader_closed;
static bool is_speaking; /* sends heartbeats */
static uint64_t n_asked;
static uint64_t asked_request_id;
static int64_t asked_lease_id;
static struct peer_renewal asked;
static bool is_not_leading; /* answers that it does not lead (yet, or any more) */

static void leader_answer(uint64_t request_id, enum status status);
static void leader_allow_read(uint64_t request_id);

/* --- The leader. --- */

static enum peer_answer leader_admit(void *data, const struct peer_hello *hello) {
    (void)data;
    (void)hello;
    return PEER_WELCOME;
}

/* Which version the others say that the cluster has. */
static uint32_t told_version;
static size_t n_inquiries;

static void leader_asked(void *data, uint64_t id, struct buffer *out_body) {
    (void)data;
    (void)id;
    const struct peer_frame members = {
        .type = PEER_MEMBERS,
        .members = {.cluster_id = CLUSTER_ID, .cluster_version = told_version}};
    peer_frame_encode(out_body, &members);
    n_inquiries++;
}

static bool leader_frame(void *data, uint64_t from_id, uint8_t type, struct bytes body) {
    (void)data;
    assert_int_equal(from_id, FOLLOWER_ID);
    struct arena arena;
    struct peer_frame frame;
    arena_init(&arena);
    if ((type == PEER_RENEW || type == PEER_RENEW_AS) &&
        peer_frame_decode(type, body, &arena, &frame) == STATUS_OK) {
        assert_int_equal(frame.renew.n, 1);
        asked = frame.renew.renewals[0];
        asked_request_id = frame.renew.renewals[0].request_id;
        asked_lease_id = frame.renew.renewals[0].id;
        n_asked++;
        if (is_not_leading) {
            leader_answer(asked_request_id, STATUS_NO_LEADER);
        }
    }
    if (type == PEER_READ && peer_frame_decode(type, body, &arena, &frame) == STATUS_OK) {
        leader_allow_read(frame.read.request_id);
    }
    arena_clear(&arena);
    return true;
}

static const struct peers_callbacks leader_callbacks = {
    .admit = leader_admit, .asked = leader_asked, .frame = leader_frame};

static void leader_open(bool is_listening) {
    char error[256] = "";
    struct peers_options options = {.cluster_id = CLUSTER_ID,
                                    .self_id = LEADER_ID,
                                    .data_dir_id = 1,
                                    .heartbeat_ms = HEARTBEAT_MS,
                                    .election_ms = ELECTION_MS,
                                    .listen_host = is_listening ? "127.0.0.1" : NULL,
                                    .listen_port = leader_port,
                                    .address = leader_address};
    assert_int_equal(
        peers_open(&loop, &options, &leader_callbacks, NULL, &leader, error, sizeof error),
        STATUS_OK);
    peers_set_member(leader, FOLLOWER_ID, follower_address);
    is_speaking = true;
}

static void leader_closed(void *data) {
    (void)data;
    is_leader_closed = true;
}

static void leader_say_it_leads(void) {
    struct buffer *buffer = peers_frame_begin(leader, FOLLOWER_ID, PEER_RAFT, true);
    if (buffer == NULL) {
        return;
    }
    struct raft_message_view heartbeat = {
        .kind = MESSAGE_APPEND,
        .append = {.term = TERM, .prev_index = 1, .prev_term = 1, .commit = 1}};
    raft_codec_encode(buffer, &heartbeat);
    peers_frame_end(leader, FOLLOWER_ID);
    peers_flush(leader);
}

static void leader_answer(uint64_t request_id, enum status status) {
    struct peer_renewal_result result = {
        .request_id = request_id, .status = status, .ttl_ms = TTL_MS};
    struct peer_frame frame = {.type = PEER_RENEW_RESULT,
                               .renew_result = {.n = 1, .results = &result}};
    struct buffer *buffer = peers_frame_begin(leader, FOLLOWER_ID, PEER_RENEW_RESULT, false);
    assert_non_null(buffer);
    peer_frame_encode(buffer, &frame);
    peers_frame_end(leader, FOLLOWER_ID);
    peers_flush(leader);
}

static void leader_allow_read(uint64_t request_id) {
    struct peer_frame frame = {.type = PEER_READ_RESULT,
                               .read_result = {.request_id = request_id, .status = STATUS_OK}};
    struct buffer *buffer = peers_frame_begin(leader, FOLLOWER_ID, PEER_READ_RESULT, false);
    assert_non_null(buffer);
    frame.read_result.index = 1;
    peer_frame_encode(buffer, &frame);
    peers_frame_end(leader, FOLLOWER_ID);
    peers_flush(leader);
}

/* --- The follower. --- */

static bool may_fail;
static enum status failed_status;
static char failed_reason[256];

static void on_failed(void *data, enum status status, const char *reason) {
    (void)data;
    if (!may_fail) {
        fail_msg("%s", reason);
    }
    failed_status = status;
    snprintf(failed_reason, sizeof failed_reason, "%s", reason);
}

static void follower_open(void) {
    static const char *const urls[] = {"http://127.0.0.1:1", NULL};
    struct replication_member members[] = {
        {.id = FOLLOWER_ID, .name = "n1", .address = follower_address, .peer_urls = urls},
        {.id = LEADER_ID, .name = "n2", .address = leader_address, .peer_urls = urls},
        {.id = OTHER_ID, .name = "n3", .address = other_address, .peer_urls = urls}};
    static struct replication_member kept[3];
    memcpy(kept, members, sizeof members);
    struct replication_options options = {.data_dir = dir,
                                          .name = "n1",
                                          .cluster_id = CLUSTER_ID,
                                          .member_id = FOLLOWER_ID,
                                          .client_urls = urls,
                                          .peer_urls = urls,
                                          .peer_address = follower_address,
                                          .peer_listen_host = "127.0.0.1",
                                          .peer_listen_port = follower_port,
                                          .members = kept,
                                          .n_members = 3,
                                          .heartbeat_ms = HEARTBEAT_MS,
                                          .election_ms = ELECTION_MS,
                                          .failed = on_failed};
    char error[512] = "";
    if (replication_open(&loop, &options, &service, error, sizeof error) != STATUS_OK) {
        fail_msg("%s", error);
    }
}

static void on_closed(void *data) {
    (void)data;
    is_closed = true;
}

static void follower_close(void) {
    is_closed = false;
    replication_close(service, on_closed, NULL);
    while (!is_closed) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    service = NULL;
}

/* --- Both. --- */

static void tick(uv_timer_t *timer) {
    (void)timer;
    if (is_speaking) {
        leader_say_it_leads();
    }
}

static uint16_t free_port(char out_address[32]) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    close(fd);
    snprintf(out_address, 32, "127.0.0.1:%u", ntohs(address.sin_port));
    return ntohs(address.sin_port);
}

static void run_until(bool (*is_done)(void), const char *what) {
    uint64_t start_ms = clock_boottime_ms();
    while (!is_done()) {
        if (clock_boottime_ms() - start_ms > WAIT_MS_MAX) {
            fail_msg("waited for too long until %s", what);
        }
        uv_run(&loop, UV_RUN_ONCE);
    }
}

static bool is_led(void) {
    return cluster_leader(service) == LEADER_ID;
}

static int set_up(void **state) {
    (void)state;
    follower_port = free_port(follower_address);
    leader_port = free_port(leader_address);
    other_port = free_port(other_address);
    may_fail = false;
    failed_status = STATUS_OK;
    told_version = CLUSTER_VERSION_KNOWN;
    n_inquiries = 0;
    snprintf(dir, sizeof dir, "/tmp/test-forwarding-XXXXXX");
    assert_non_null(mkdtemp(dir));
    uv_loop_init(&loop);
    uv_timer_init(&loop, &ticker);
    uv_timer_start(&ticker, tick, 1, 5);
    n_asked = 0;
    is_not_leading = false;
    is_leader_closed = false;
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    is_speaking = false;
    if (service != NULL) {
        follower_close();
    }
    peers_close(leader, leader_closed, NULL);
    uv_close((uv_handle_t *)&ticker, NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_true(is_leader_closed);
    assert_int_equal(uv_loop_close(&loop), 0);
    DIR *directory = opendir(dir);
    for (struct dirent *file; (file = readdir(directory)) != NULL;) {
        unlinkat(dirfd(directory), file->d_name, 0);
    }
    closedir(directory);
    return rmdir(dir);
}

/* --- The tests. --- */

struct renewal {
    struct service_renewal renewal;
    bool is_done;
    enum status status;
};

static void renewal_done(struct service_renewal *done, enum status status, int64_t ttl_ms) {
    struct renewal *renewal = list_entry(done, struct renewal, renewal);
    (void)ttl_ms;
    renewal->is_done = true;
    renewal->status = status;
}

static uint64_t n_asked_before;
static struct renewal first;
static struct renewal second;
static struct renewal third;

static bool is_asked(void) {
    return n_asked > n_asked_before;
}

static bool is_first_done(void) {
    return first.is_done;
}

static bool is_second_done(void) {
    return second.is_done;
}

static void renew(struct renewal *renewal, int64_t lease_id) {
    int64_t ttl_ms = 0;
    *renewal = (struct renewal){
        .renewal = {.id = lease_id, .owner = KEY_SPACE_ETCD, .done = renewal_done}};
    n_asked_before = n_asked;
    assert_int_equal(service_renew(service, &caller_anonymous, &renewal->renewal, &ttl_ms),
                     STATUS_PENDING);
    run_until(is_asked, "the leader is asked");
    assert_int_equal(asked_lease_id, lease_id);
}

/* A leader that has lost its lease for a moment holds renewals, and answers them over the link that
 * it has then. */
static void an_answer_to_an_earlier_process_renews_nothing(void **state) {
    (void)state;
    leader_open(true);
    follower_open();
    run_until(is_led, "the follower knows its leader");
    renew(&first, 1);
    uint64_t earlier_request_id = asked_request_id;
    follower_close();
    assert_true(first.is_done);
    assert_int_equal(first.status, STATUS_STOPPED);

    follower_open();
    run_until(is_led, "the follower knows its leader again");
    renew(&second, 2);
    uint64_t own_request_id = asked_request_id;
    leader_answer(earlier_request_id, STATUS_OK);
    leader_answer(UINT64_MAX / 2, STATUS_OK);
    /* The next answer comes behind it on the same link. */
    renew(&third, 3);
    assert_false(second.is_done);
    leader_answer(own_request_id, STATUS_OK);
    run_until(is_second_done, "its own answer counts");
    assert_int_equal(second.status, STATUS_OK);
    assert_false(third.is_done);
    follower_close();
    assert_true(third.is_done);
}

/* A leader of an older release does not know how to be asked for leases of other protocols, and
 * would close the link. */
static void leases_of_others_are_not_asked_for_before_all_know_them(void **state) {
    (void)state;
    leader_open(true);
    follower_open();
    run_until(is_led, "the follower knows its leader");
    int64_t ttl_ms = 0;
    struct service_renewal other = {.id = 9, .owner = KEY_SPACE_SAMPLE, .done = renewal_done};
    assert_int_equal(service_renew(service, &caller_anonymous, &other, &ttl_ms),
                     STATUS_UNSUPPORTED);
    assert_int_equal(service_time_left(service, &caller_anonymous, &other, &ttl_ms),
                     STATUS_UNSUPPORTED);
    renew(&first, 1);
    assert_int_equal(n_asked, n_asked_before + 1);
    follower_close();
}

/* A new leader does not serve before its first entry is on disk. */
static void who_is_told_that_there_is_no_leader_asks_again_in_a_moment(void **state) {
    (void)state;
    enum { LOOK_MS = 300, PACE_MS = 10 };
    leader_open(true);
    follower_open();
    run_until(is_led, "the follower knows its leader");
    is_not_leading = true;
    renew(&first, 1);
    uint64_t start_ms = clock_boottime_ms();
    while (clock_boottime_ms() - start_ms < LOOK_MS) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    assert_in_range(n_asked, 3, LOOK_MS / PACE_MS + 1);
    is_not_leading = false;
    n_asked_before = n_asked;
    run_until(is_asked, "the leader is asked again");
    leader_answer(asked_request_id, STATUS_OK);
    run_until(is_first_done, "the leader answers");
    assert_int_equal(first.status, STATUS_OK);
}

/* Reads that take a while each. */
enum { READS = 40, READ_MS = 2, READS_MS_MAX = 10 };
static struct service_read reads[READS];
static size_t n_read;
static size_t n_read_in_iteration;

static void read_slowly(struct service_read *read, enum status status) {
    (void)read;
    assert_int_equal(status, STATUS_OK);
    uint64_t start_ms = clock_boottime_ms();
    while (clock_boottime_ms() - start_ms < READ_MS) {
    }
    n_read++;
    n_read_in_iteration++;
}

/* They wait for the same answer of the leader, and for nothing else: no event brings the rest. */
static void reads_that_become_safe_together_do_not_fill_an_iteration(void **state) {
    (void)state;
    leader_open(true);
    follower_open();
    run_until(is_led, "the follower knows its leader");
    n_read = 0;
    for (size_t i = 0; i < READS; i++) {
        reads[i] = (struct service_read){.ready = read_slowly};
        assert_int_equal(service_read(service, &caller_anonymous, &reads[i], NULL, 0),
                         STATUS_PENDING);
    }
    uint64_t start_ms = clock_boottime_ms();
    while (n_read < READS && clock_boottime_ms() - start_ms < WAIT_MS_MAX) {
        n_read_in_iteration = 0;
        uv_run(&loop, UV_RUN_ONCE);
        assert_in_range(n_read_in_iteration, 0, READS_MS_MAX / READ_MS + 1);
        if (n_read > 0) {
            is_speaking = false;
            assert_true(n_read == READS || n_read_in_iteration > 0);
        }
    }
    assert_int_equal(n_read, READS);
}

struct write {
    struct service_request request;
    bool is_done;
    enum status status;
};
static struct write write_request;

static void write_done(struct service_request *request, const struct outcome *outcome) {
    struct write *write = list_entry(request, struct write, request);
    write->is_done = true;
    write->status = outcome->status;
}

static bool is_write_done(void) {
    return write_request.is_done;
}

/* The leader is heard and cannot be reached: a firewall, or an address that is right for some. */
static void a_write_ends_though_the_leader_that_is_heard_is_not_reached(void **state) {
    (void)state;
    leader_open(false);
    follower_open();
    run_until(is_led, "the follower knows its leader");
    write_request = (struct write){.request.done = write_done};
    struct command command = {.type = COMMAND_LEASE_GRANT, .grant = {.id = 5, .ttl_ms = TTL_MS}};
    service_submit(service, &caller_anonymous, &write_request.request, &command);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_false(write_request.is_done);
    run_until(is_write_done, "the write ends");
    assert_int_equal(write_request.status, STATUS_TIMED_OUT);
    assert_true(is_led());
}

static void apply(struct command command) {
    struct apply_context context = {.term = TERM};
    struct outcome outcome;
    state_machine_apply(service->machine, &command, &context, &service->arena, &outcome);
    assert_int_equal(outcome.status, STATUS_OK);
}

static void change_auth(struct auth_change change) {
    struct command inner = {.type = COMMAND_AUTH, .auth = change};
    apply((struct command){.type = COMMAND_AS, .as = {.caller = caller_server, .command = &inner}});
}

/* The leader has looked at the keys that it knows; shown are those that are known here. */
static void keys_are_shown_to_those_who_may_read_them_here(void **state) {
    (void)state;
    static const uint8_t token_key[AUTH_TOKEN_KEY_SIZE];
    struct auth_user user;
    leader_open(true);
    follower_open();
    run_until(is_led, "the follower knows its leader");
    apply((struct command){.type = COMMAND_CLUSTER_VERSION,
                           .cluster_version = {.version = CLUSTER_VERSION_RULES}});
    apply((struct command){.type = COMMAND_LEASE_GRANT, .grant = {.id = 1, .ttl_ms = TTL_MS}});
    apply((struct command){.type = COMMAND_PUT,
                           .put = {.key = bytes_from_text("secret"), .lease_id = 1}});
    change_auth((struct auth_change){.action = AUTH_USER_ADD, .user = bytes_from_text("root")});
    change_auth((struct auth_change){.action = AUTH_USER_GRANT_ROLE,
                                     .user = bytes_from_text("root"),
                                     .role = bytes_from_text("root")});
    change_auth((struct auth_change){.action = AUTH_USER_ADD, .user = bytes_from_text("u")});
    change_auth((struct auth_change){.action = AUTH_ENABLE,
                                     .token_key = bytes_of(token_key, sizeof token_key)});
    assert_true(auth_find_user(state_machine_auth(service->machine), bytes_from_text("u"), &user));
    const struct caller caller = {.user_id = user.id, .auth_version = user.version};
    for (int shows_keys = 0; shows_keys < 2; shows_keys++) {
        int64_t left_ms = 0;
        first = (struct renewal){.renewal = {.id = 1,
                                             .owner = KEY_SPACE_ETCD,
                                             .shows_keys = shows_keys == 1,
                                             .done = renewal_done}};
        n_asked_before = n_asked;
        assert_int_equal(service_time_left(service, &caller, &first.renewal, &left_ms),
                         STATUS_PENDING);
        run_until(is_asked, "the leader is asked");
        assert_int_equal(asked.caller.user_id, user.id);
        assert_int_equal(asked.owner.value, KEY_SPACE_ETCD.value);
        assert_int_equal(asked.shows_keys, shows_keys);
        leader_answer(asked.request_id, STATUS_OK);
        run_until(is_first_done, "the answer has come");
        assert_int_equal(first.status, shows_keys ? STATUS_PERMISSION_DENIED : STATUS_OK);
    }
}

/* By the sizes of this member history has to be compacted; by those of its leader it has not. */
static void history_that_the_leader_leaves_alone_delays_nobody_for_long(void **state) {
    enum { LONG_MS = 5000, VALUE_SIZE = 1000 };
    static const uint8_t value[VALUE_SIZE];
    (void)state;
    leader_open(true);
    follower_open();
    run_until(is_led, "the follower knows its leader");
    const struct command put = {
        .type = COMMAND_PUT,
        .put = {.key = bytes_from_text("key"), .value = bytes_of(value, sizeof value)}};
    apply(put);
    apply(put);
    service->options.compacts_history = true;
    service->quota.bytes = VALUE_SIZE;
    service->quota.history_bytes_max = VALUE_SIZE / 2;
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(service_history_pressure(service), HISTORY_PRESSURE_FULL);
    service->quota.pressed_ms -= LONG_MS;
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(service_history_pressure(service), HISTORY_PRESSURE_NONE);
    /* A compaction: somebody relieves it, and there is more. */
    apply((struct command){.type = COMMAND_COMPACT, .compact = {.revision = 2}});
    apply(put);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(service_history_pressure(service), HISTORY_PRESSURE_FULL);
}

/* The end of a session, or FLUSHDB, leaves many deletions in one revision, which cannot be
 * compacted before there is another one. */
static void history_of_the_newest_revision_delays_nobody(void **state) {
    (void)state;
    leader_open(true);
    follower_open();
    run_until(is_led, "the follower knows its leader");
    const struct command put = {.type = COMMAND_PUT, .put = {.key = bytes_from_text("key")}};
    apply(put);
    apply(put);
    service->options.compacts_history = true;
    service->quota.history_bytes_max = 1;
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(service_history_pressure(service), HISTORY_PRESSURE_HIGH);
    apply((struct command){.type = COMMAND_COMPACT, .compact = {.revision = 3}});
    service->background.is_reclaiming = false;
    assert_int_equal(service_history_pressure(service), HISTORY_PRESSURE_NONE);
}

static void a_candidate_that_is_a_member_takes_no_link_from_one_that_is_not(void **state) {
    enum { UNKNOWN_ID = 77 };
    (void)state;
    leader_open(true);
    follower_open();
    run_until(is_led, "the follower knows its leader");
    (void)cluster_may_vote(service, UNKNOWN_ID);
    assert_int_equal(service->members.candidate_id, UNKNOWN_ID);
    (void)cluster_may_vote(service, raft_engine_leader_id(service->engine));
    (void)cluster_may_vote(service, service->options.member_id);
    assert_int_equal(service->members.candidate_id, UNKNOWN_ID);
}

/* An entry with one command that this release does not know, as a leader would send it. */
static bool is_taken(const struct command *command) {
    struct buffer commands;
    size_t size = 0;
    buffer_init(&commands);
    command_encode(&commands, command);
    const struct log_entry_header header = {.term = TERM, .index = 2, .n_commands = 1};
    uint8_t *bytes = log_entry_encode(&header, bytes_of(commands.data, commands.size), &size);
    const struct log_item item = {
        .type = LOG_COMMAND, .index = 2, .term = TERM, .bytes = bytes, .size = size};
    bool is_good = apply_check(service, &item);
    free(bytes);
    buffer_clear(&commands);
    return is_good;
}

static const struct command newer_version = {
    .type = COMMAND_CLUSTER_VERSION, .cluster_version = {.version = CLUSTER_VERSION_KNOWN + 1}};

static bool is_answered(void) {
    for (size_t i = 0; i < MEMBERS_MAX; i++) {
        if (service->version_inquiry.questions[i].ask != NULL) {
            return false;
        }
    }
    return true;
}

/* Nor does what is said at one member's address: that may be anybody. */
static void what_a_newer_release_wrote_does_not_stop_a_member_by_itself(void **state) {
    (void)state;
    const struct command rule = {.type = COMMAND_RULE, .rule = {.number = 123456}};
    const struct command put = {.type = COMMAND_PUT, .put = {.key = bytes_from_text("k")}};
    leader_open(true);
    follower_open();
    run_until(is_led, "the follower knows its leader");
    assert_true(is_taken(&put));
    assert_int_equal(n_inquiries, 0);
    assert_false(is_taken(&rule));
    run_until(is_answered, "the members were asked");
    assert_int_equal(n_inquiries, 1);
    service->version_inquiry.begun_ms = 0; /* a while later */
    told_version = CLUSTER_VERSION_KNOWN + 1;
    assert_false(is_taken(&newer_version));
    run_until(is_answered, "the members were asked again");
    assert_int_equal(n_inquiries, 2);
    /* Not for every entry that comes. */
    assert_false(is_taken(&newer_version));
    assert_true(is_answered());
    assert_false(service->failed);
}

static bool has_failed(void) {
    return failed_status != STATUS_OK;
}

static void a_member_whose_cluster_has_a_newer_version_stops_and_says_so(void **state) {
    (void)state;
    struct peers *other;
    char error[256] = "";
    const struct peers_options options = {.cluster_id = CLUSTER_ID,
                                          .self_id = OTHER_ID,
                                          .data_dir_id = 2,
                                          .heartbeat_ms = HEARTBEAT_MS,
                                          .election_ms = ELECTION_MS,
                                          .listen_host = "127.0.0.1",
                                          .listen_port = other_port,
                                          .address = other_address};
    leader_open(true);
    assert_int_equal(
        peers_open(&loop, &options, &leader_callbacks, NULL, &other, error, sizeof error),
        STATUS_OK);
    follower_open();
    run_until(is_led, "the follower knows its leader");
    told_version = CLUSTER_VERSION_KNOWN + 1;
    may_fail = true;
    assert_false(is_taken(&newer_version));
    run_until(has_failed, "the member has stopped");
    assert_int_equal(failed_status, STATUS_UNSUPPORTED);
    assert_non_null(strstr(failed_reason, "start a newer release on this member"));
    peers_close(other, NULL, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_answer_to_an_earlier_process_renews_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(leases_of_others_are_not_asked_for_before_all_know_them,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_is_told_that_there_is_no_leader_asks_again_in_a_moment,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(reads_that_become_safe_together_do_not_fill_an_iteration,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_write_ends_though_the_leader_that_is_heard_is_not_reached,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(history_that_the_leader_leaves_alone_delays_nobody_for_long,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(history_of_the_newest_revision_delays_nobody, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_candidate_that_is_a_member_takes_no_link_from_one_that_is_not, set_up, tear_down),
        cmocka_unit_test_setup_teardown(keys_are_shown_to_those_who_may_read_them_here, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_a_newer_release_wrote_does_not_stop_a_member_by_itself,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_member_whose_cluster_has_a_newer_version_stops_and_says_so, set_up, tear_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
