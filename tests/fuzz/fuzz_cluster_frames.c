/*
 * Frames of a proven member into a whole node: replication, raft and the log on a real directory.
 * The first byte of an input tells whether the node leads; then steps follow: frames as they are,
 * messages of raft whose terms and indices lie near the node's own, clients' writes, links that are
 * lost, iterations of the loop.
 *
 * Whatever a member says, the node does not fail, its term does not leap, what is committed does
 * not shrink, and what it wrote can be loaded again.
 */
#include "base/log.h"
#include "peers/peers_internal.h"
#include "raft/raft_codec.h"
#include "raft/raft_config.h"
#include "replication/log_entry.h"
#include "replication/service_internal.h"

#include <arpa/inet.h>
#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    CLUSTER = 7,
    SELF = 1,
    FRIEND = 2, /* its link is open; it swallows everything */
    ABSENT = 3,
    HEARTBEAT_MS = 5,
    ELECTION_MS = 20,
    LOG_BYTES_MAX = 512, /* a snapshot is due soon */
    STEPS_MAX = 64,
    ITERATIONS_MAX = 4000,
    ENTRIES_MAX = 4,
    WRITES_MAX = 16,
    TERM_LEAP_MAX = 1 << 20
};

enum step { STEP_FRAME, STEP_MESSAGE, STEP_WRITE, STEP_LOSE_LINK, STEP_RUN, STEPS };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct write_request {
    struct service_request request;
    bool is_done;
};

static uv_loop_t loop;
static bool is_ready;
static struct peers *friend_peers;
static char friend_address[32];
static struct buffer empty_state; /* a snapshot */
static struct service *service;
static bool is_closed;
static char dir[64];
static struct write_request writes[WRITES_MAX];
static size_t n_writes;

/* --- The other member. --- */

static enum peer_answer friend_admit(void *data, const struct peer_hello *hello) {
    (void)data;
    (void)hello;
    return PEER_WELCOME;
}

static void friend_asked(void *data, uint64_t id, struct buffer *out_body) {
    (void)data;
    buffer_put_u64(out_body, id);
}

static bool friend_frame(void *data, uint64_t from_id, uint8_t type, struct bytes body) {
    (void)data;
    (void)from_id;
    /* What a node sends can be read. */
    struct raft_message_view message;
    if (type == PEER_RAFT) {
        enum status status = raft_codec_decode(body, &message);
        assert(status == STATUS_OK);
        raft_codec_clear(&message);
    }
    return true;
}

static void friend_open(void) {
    static const struct peers_callbacks callbacks = {
        .admit = friend_admit, .asked = friend_asked, .frame = friend_frame};
    struct peers_options options = {.cluster_id = CLUSTER,
                                    .self_id = FRIEND,
                                    .heartbeat_ms = HEARTBEAT_MS,
                                    .election_ms = ELECTION_MS,
                                    .listen_host = "127.0.0.1",
                                    .address = "127.0.0.1:1"};
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    uv_os_fd_t fd;
    char error[256];
    enum status status =
        peers_open(&loop, &options, &callbacks, NULL, &friend_peers, error, sizeof error);
    assert(status == STATUS_OK);
    int rv = uv_fileno((uv_handle_t *)&friend_peers->listeners[0], &fd);
    assert(rv == 0);
    rv = getsockname(fd, (struct sockaddr *)&address, &size);
    assert(rv == 0);
    snprintf(friend_address, sizeof friend_address, "127.0.0.1:%u", ntohs(address.sin_port));
}

static void clean_up(void) {
    peers_close(friend_peers, NULL, NULL);
    int rv = uv_run(&loop, UV_RUN_DEFAULT);
    assert(rv == 0);
    rv = uv_loop_close(&loop);
    assert(rv == 0);
    buffer_clear(&empty_state);
}

static void prepare(void) {
    if (is_ready) {
        return;
    }
    is_ready = true;
    signal(SIGPIPE, SIG_IGN);
    log_configure(LOG_ERROR, LOG_FORMAT_TEXT);
    int rv = uv_loop_init(&loop);
    assert(rv == 0);
    friend_open();
    struct state_machine *machine = state_machine_create(NULL);
    struct snapshot_view *view = snapshot_view_open(machine);
    buffer_init(&empty_state);
    snapshot_view_write(view, &empty_state);
    snapshot_view_close(view);
    state_machine_destroy(machine);
    atexit(clean_up);
}

/* --- The node. --- */

static void on_failed(void *data, enum status status, const char *reason) {
    (void)data;
    fprintf(stderr, "the node failed: %s: %s\n", status_text(status), reason);
    abort();
}

static void on_removed(void *data) {
    (void)data; /* a leader may say so */
}

static void on_closed(void *data) {
    (void)data;
    is_closed = true;
}

static void run(unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
}

static void node_open(void) {
    static const char *const urls[] = {"http://127.0.0.1:1", NULL};
    static struct replication_member members[3];
    const struct replication_member first[3] = {
        {.id = SELF, .name = "self", .address = "127.0.0.1:1", .peer_urls = urls},
        {.id = FRIEND, .name = "friend", .address = friend_address, .peer_urls = urls},
        {.id = ABSENT, .name = "absent", .address = "127.0.0.1:2", .peer_urls = urls}};
    memcpy(members, first, sizeof members);
    struct replication_options options = {.data_dir = dir,
                                          .name = "self",
                                          .cluster_id = CLUSTER,
                                          .member_id = SELF,
                                          .client_urls = urls,
                                          .peer_urls = urls,
                                          .peer_address = "127.0.0.1:1",
                                          .members = members,
                                          .n_members = 3,
                                          .heartbeat_ms = HEARTBEAT_MS,
                                          .election_ms = ELECTION_MS,
                                          .log_bytes_max = LOG_BYTES_MAX,
                                          .failed = on_failed,
                                          .removed = on_removed};
    char error[512] = "";
    enum status status = replication_open(&loop, &options, &service, error, sizeof error);
    if (status != STATUS_OK) {
        fprintf(stderr, "the node does not open: %s\n", error);
        abort();
    }
    run(3);
}

static void node_close(void) {
    is_closed = false;
    replication_close(service, on_closed, NULL);
    while (!is_closed) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    run(2);
    service = NULL;
}

static void make_dir(void) {
    struct stat info;
    bool has_memory = stat("/dev/shm", &info) == 0 && S_ISDIR(info.st_mode);
    snprintf(dir, sizeof dir, "%s/fuzz-cluster-XXXXXX", has_memory ? "/dev/shm" : "/tmp");
    char *made = mkdtemp(dir);
    assert(made != NULL);
}

static void remove_dir(void) {
    DIR *directory = opendir(dir);
    assert(directory != NULL);
    for (struct dirent *file; (file = readdir(directory)) != NULL;) {
        unlinkat(dirfd(directory), file->d_name, 0);
    }
    closedir(directory);
    int rv = rmdir(dir);
    assert(rv == 0);
}

/* --- What arrives. --- */

static void say(uint64_t from_id, uint8_t type, struct bytes body) {
    if (service->peers == NULL) {
        return;
    }
    uint64_t term = raft_engine_term(service->engine);
    uint64_t commit = raft_engine_commit_index(service->engine);
    (void)service->peers->callbacks.frame(service->peers->data, from_id, type, body);
    assert(raft_engine_term(service->engine) >= term);
    assert(raft_engine_term(service->engine) <= term + TERM_LEAP_MAX + 1);
    assert(raft_engine_commit_index(service->engine) >= commit);
    assert(raft_engine_applied_index(service->engine) <= raft_engine_commit_index(service->engine));
}

static void say_message(uint64_t from_id, const struct raft_message_view *message) {
    struct buffer body;
    buffer_init(&body);
    raft_codec_encode(&body, message);
    say(from_id, PEER_RAFT, bytes_of(body.data, body.size));
    buffer_clear(&body);
}

/* Near the end, the commit, or the beginning of the log. */
static uint64_t an_index(struct reader *reader) {
    uint8_t byte = reader_get_u8(reader);
    uint64_t last = raft_engine_last_index(service->engine);
    uint64_t bases[] = {0, last, raft_engine_commit_index(service->engine), last + 1000};
    return bases[byte >> 6] + (byte & 0x3f) / 4 * ((byte & 2) != 0 ? 8 : 1) + (byte & 1);
}

static uint64_t a_term(struct reader *reader) {
    uint8_t byte = reader_get_u8(reader);
    uint64_t term = raft_engine_term(service->engine);
    uint64_t back = byte & 7;
    if ((byte & 8) != 0) {
        return term + back;
    }
    return term > back ? term - back : 1;
}

static uint64_t term_at(struct reader *reader, uint64_t index, uint64_t max) {
    const struct log_item *item = raft_engine_item(service->engine, index);
    uint64_t term = item != NULL ? item->term : a_term(reader);
    return index == 0 ? 0 : term < max ? term : max;
}

static void a_configuration(struct reader *reader, struct buffer *out_bytes) {
    uint8_t byte = reader_get_u8(reader);
    struct raft_config config = {0};
    for (uint64_t id = SELF; id <= ABSENT + 1; id++, byte = (uint8_t)(byte >> 2)) {
        if ((byte & 3) != 3) {
            (void)raft_config_add(&config, id, "127.0.0.1:1", (enum raft_config_role)(byte & 3));
        }
    }
    raft_config_encode(out_bytes, &config);
}

static struct log_item *an_entry(struct reader *reader, uint64_t index, uint64_t term) {
    uint8_t byte = reader_get_u8(reader);
    struct buffer bytes;
    buffer_init(&bytes);
    enum log_item_type type = LOG_BARRIER;
    if (byte % 4 < 2) {
        struct command command = {
            .type = COMMAND_PUT, .put = {.key = bytes_of("key", 3), .value = bytes_of("value", 5)}};
        struct log_entry_header header = {
            .incarnation = 1, .sequence = index, .term = term, .index = index, .n_commands = 1};
        size_t size = 0;
        command_encode(&bytes, &command);
        type = LOG_COMMAND;
        uint8_t *entry = log_entry_encode(&header, bytes_of(bytes.data, bytes.size), &size);
        buffer_clear(&bytes);
        return log_item_create(type, index, term, entry, size);
    }
    if (byte % 4 == 2) {
        type = LOG_CHANGE;
        a_configuration(reader, &bytes);
    }
    return log_item_create(type, index, term, bytes.data, bytes.size);
}

static void say_append(struct reader *reader, uint64_t from_id) {
    struct raft_message_view message = {.kind = MESSAGE_APPEND};
    struct log_item *items[ENTRIES_MAX];
    struct message_append *append = &message.append;
    append->term = a_term(reader);
    append->prev_index = an_index(reader);
    append->prev_term = term_at(reader, append->prev_index, append->term);
    append->commit = an_index(reader);
    append->items = items;
    append->n_entries = reader_get_u8(reader) % (ENTRIES_MAX + 1);
    uint64_t term = append->prev_term;
    for (uint32_t i = 0; i < append->n_entries; i++) {
        uint64_t later = a_term(reader);
        term = later > term && later <= append->term ? later : term;
        items[i] = an_entry(reader, append->prev_index + 1 + i, term > 0 ? term : 1);
    }
    say_message(from_id, &message);
    for (uint32_t i = 0; i < append->n_entries; i++) {
        log_item_release(items[i]);
    }
}

static void say_snapshot(struct reader *reader, uint64_t from_id) {
    struct snapshot_meta meta = {0};
    struct raft_message_view message = {.kind = MESSAGE_SNAPSHOT, .snapshot.meta = &meta};
    struct buffer configuration;
    buffer_init(&configuration);
    message.snapshot.term = a_term(reader);
    meta.index = an_index(reader) + 1;
    meta.term = term_at(reader, meta.index, message.snapshot.term);
    meta.configuration_index = 1;
    a_configuration(reader, &configuration);
    memcpy(meta.configuration, configuration.data, configuration.size);
    meta.configuration_size = configuration.size;
    buffer_clear(&configuration);
    message.snapshot.chunk = bytes_of(empty_state.data, empty_state.size);
    if (reader_get_u8(reader) % 4 == 0) {
        message.snapshot.chunk = bytes_of("no snapshot", 11);
    }
    meta.size = message.snapshot.chunk.size;
    say_message(from_id, &message);
}

static void say_small(struct reader *reader, uint64_t from_id, enum raft_message_kind kind) {
    struct raft_message_view message = {.kind = kind};
    uint64_t term = a_term(reader);
    uint64_t index = an_index(reader);
    uint8_t byte = reader_get_u8(reader);
    switch (kind) {
    case MESSAGE_APPEND_RESULT:
        message.append_result = (struct message_append_result){
            .term = term, .rejected = byte % 2 != 0 ? index : 0, .last_index = an_index(reader)};
        break;
    case MESSAGE_VOTE:
        message.vote = (struct message_vote){.term = term,
                                             .last_index = index,
                                             .last_term = term_at(reader, index, term),
                                             .disrupt_leader = byte % 2 != 0,
                                             .is_pre_vote = byte % 4 > 1};
        break;
    case MESSAGE_VOTE_RESULT:
        message.vote_result = (struct message_vote_result){
            .term = term, .is_granted = byte % 2 != 0, .is_pre_vote = byte % 4 > 1};
        break;
    case MESSAGE_TIMEOUT_NOW:
        message.timeout_now = (struct message_timeout_now){
            .term = term, .last_index = index, .last_term = term_at(reader, index, term)};
        break;
    default:
        message.snapshot_result = (struct message_snapshot_result){
            .term = term, .index = index + 1, .received = byte % 2 != 0 ? byte : UINT32_MAX};
    }
    say_message(from_id, &message);
}

static void say_near(struct reader *reader, uint64_t from_id) {
    uint8_t kind = reader_get_u8(reader) % MESSAGE_SNAPSHOT_RESULT + 1;
    if (kind == MESSAGE_APPEND) {
        say_append(reader, from_id);
    } else if (kind == MESSAGE_SNAPSHOT) {
        say_snapshot(reader, from_id);
    } else {
        say_small(reader, from_id, (enum raft_message_kind)kind);
    }
}

/* --- Clients. --- */

static void write_done(struct service_request *request, const struct outcome *outcome) {
    struct write_request *write = list_entry(request, struct write_request, request);
    (void)outcome;
    assert(!write->is_done);
    write->is_done = true;
}

static void write_something(void) {
    if (n_writes == WRITES_MAX) {
        return;
    }
    struct write_request *write = &writes[n_writes++];
    struct command command = {.type = COMMAND_PUT,
                              .put = {.key = bytes_of("mine", 4), .value = bytes_of("x", 1)}};
    *write = (struct write_request){.request.done = write_done};
    service_submit(service, &caller_anonymous, &write->request, &command);
}

/* --- One input. --- */

/* The friend elects it, and acknowledges what it writes. */
static void make_leader(void) {
    for (unsigned i = 0; i < ITERATIONS_MAX && !service->leadership.serving; i++) {
        uint64_t term = raft_engine_term(service->engine);
        uv_run(&loop, UV_RUN_ONCE);
        if (raft_engine_role(service->engine) == ENGINE_LEADER) {
            say_message(FRIEND, &(struct raft_message_view){
                                    .kind = MESSAGE_APPEND_RESULT,
                                    .append_result = {
                                        .term = raft_engine_term(service->engine),
                                        .last_index = raft_engine_last_index(service->engine)}});
        } else if (raft_engine_role(service->engine) == ENGINE_CANDIDATE) {
            say_message(FRIEND, &(struct raft_message_view){.kind = MESSAGE_VOTE_RESULT,
                                                            .vote_result = {.term = term + 1,
                                                                            .is_granted = true,
                                                                            .is_pre_vote = true}});
            say_message(FRIEND, &(struct raft_message_view){
                                    .kind = MESSAGE_VOTE_RESULT,
                                    .vote_result = {.term = raft_engine_term(service->engine),
                                                    .is_granted = true}});
        }
    }
    assert(service->leadership.serving);
}

static void take_step(struct reader *reader) {
    uint8_t byte = reader_get_u8(reader);
    uint64_t from_id = (byte & 0x80) != 0 ? ABSENT : FRIEND;
    switch ((enum step)((byte & 0x7f) % STEPS)) {
    case STEP_FRAME: {
        uint8_t type = reader_get_u8(reader);
        struct bytes body = reader_get_bytes(reader);
        if (!reader->failed && type != PEER_FRAME_KEEPALIVE) {
            say(from_id, type, body);
        }
        break;
    }
    case STEP_MESSAGE:
        say_near(reader, from_id);
        break;
    case STEP_WRITE:
        write_something();
        break;
    case STEP_LOSE_LINK:
        service->peers->callbacks.link_lost(service->peers->data, from_id);
        break;
    case STEP_RUN:
        run(1 + byte / STEPS % 8);
        break;
    case STEPS:
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) {
        return 0;
    }
    prepare();
    make_dir();
    node_open();
    n_writes = 0;
    if ((data[0] & 1) != 0) {
        make_leader();
    }
    struct reader reader;
    reader_init(&reader, bytes_of(data + 1, size - 1));
    for (unsigned i = 0; i < STEPS_MAX && reader_left(&reader) > 0 && !reader.failed; i++) {
        take_step(&reader);
    }
    run(10);
    node_close();
    for (size_t i = 0; i < n_writes; i++) {
        assert(writes[i].is_done);
    }
    node_open();
    run(5);
    node_close();
    remove_dir();
    return 0;
}
