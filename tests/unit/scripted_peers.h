/* The other members of a cluster, played by a test: these definitions take the place of src/peers,
 * so that a whole service runs without sockets. Whatever this node sends is decoded and answered as
 * the script says; answers arrive when the test delivers them. */
#ifndef LEASED_TESTS_SCRIPTED_PEERS_H
#define LEASED_TESTS_SCRIPTED_PEERS_H

#include "base/arena.h"
#include "peers/peers.h"
#include "raft/raft_codec.h"
#include "replication/peer_frames.h"

#include <stdlib.h>
#include <string.h>

enum { SCRIPT_FRAMES_MAX = 256 };

struct peers {
    uv_handle_t *unused; /* nothing here waits for the loop */
};

struct scripted_frame {
    uint64_t from_id;
    uint8_t type;
    struct buffer body;
};

/* What the members do with what they get. */
struct script {
    bool grants_votes;
    bool acknowledges; /* entries */
    bool answers_pings;
    bool is_full;           /* links have no room but for what is urgent */
    uint32_t version_known; /* of the cluster, as the members say in their pongs; 0: the first */
    bool (*is_silent)(uint64_t member_id); /* a member that does not acknowledge; NULL: none */
    /* Called with what is neither raft's nor a ping. */
    void (*sent)(uint64_t to_id, uint8_t type, struct bytes body);
    /* Called when this node grants its vote to a member. */
    void (*vote_granted)(void);

    struct peers peers;
    const struct peers_callbacks *callbacks;
    void *data;
    struct buffer body; /* of the frame being sent */
    uint8_t type;
    struct scripted_frame frames[SCRIPT_FRAMES_MAX]; /* that this node has yet to receive */
    size_t n_frames;
};

static struct script script;

static inline struct buffer *script_frame_to_node(uint64_t from_id, uint8_t type) {
    if (script.n_frames == SCRIPT_FRAMES_MAX) {
        abort();
    }
    struct scripted_frame *frame = &script.frames[script.n_frames++];
    *frame = (struct scripted_frame){.from_id = from_id, .type = type};
    buffer_init(&frame->body);
    return &frame->body;
}

static inline void script_message(uint64_t from_id, const struct raft_message_view *message) {
    raft_codec_encode(script_frame_to_node(from_id, PEER_RAFT), message);
}

/* Gives this node what the members have sent, in their order. */
static inline void script_deliver(void) {
    for (size_t i = 0; i < script.n_frames; i++) { /* it may grow meanwhile */
        struct scripted_frame frame = script.frames[i];
        if (!script.callbacks->frame(script.data, frame.from_id, frame.type,
                                     bytes_of(frame.body.data, frame.body.size))) {
            abort();
        }
        buffer_clear(&frame.body);
    }
    script.n_frames = 0;
}

static inline void script_answer_raft(uint64_t member_id, struct bytes body) {
    struct raft_message_view message;
    if (raft_codec_decode(body, &message) != STATUS_OK) {
        abort();
    }
    if (message.kind == MESSAGE_VOTE && script.grants_votes) {
        struct raft_message_view result = {
            .kind = MESSAGE_VOTE_RESULT,
            .vote_result = {.term = message.vote.term,
                            .is_granted = true,
                            .is_pre_vote = message.vote.is_pre_vote}};
        script_message(member_id, &result);
    } else if (message.kind == MESSAGE_APPEND && script.acknowledges &&
               (script.is_silent == NULL || !script.is_silent(member_id))) {
        struct raft_message_view result = {
            .kind = MESSAGE_APPEND_RESULT,
            .append_result = {.term = message.append.term,
                              .last_index = message.append.prev_index + message.append.n_entries}};
        script_message(member_id, &result);
    } else if (message.kind == MESSAGE_VOTE_RESULT && message.vote_result.is_granted &&
               script.vote_granted != NULL) {
        script.vote_granted();
    }
    raft_codec_clear(&message);
}

static inline void script_answer_ping(uint64_t member_id, struct bytes body) {
    struct arena arena;
    arena_init(&arena);
    struct peer_frame ping;
    if (peer_frame_decode(PEER_PING, body, &arena, &ping) != STATUS_OK) {
        abort();
    }
    struct peer_frame pong = {.type = PEER_PONG, .pong = ping.ping};
    if (script.version_known != 0) {
        pong.pong.lease_ms = UINT32_C(0xfe000000) + script.version_known;
    }
    peer_frame_encode(script_frame_to_node(member_id, PEER_PONG), &pong);
    arena_clear(&arena);
}

/* --- In the place of src/peers. --- */

enum status peers_open(uv_loop_t *loop, const struct peers_options *options,
                       const struct peers_callbacks *callbacks, void *data,
                       struct peers **out_peers, char *out_error, size_t error_size) {
    script.callbacks = callbacks;
    script.data = data;
    buffer_init(&script.body);
    *out_peers = &script.peers;
    return STATUS_OK;
}

void peers_close(struct peers *peers, void (*closed)(void *data), void *data) {
    for (size_t i = 0; i < script.n_frames; i++) {
        buffer_clear(&script.frames[i].body);
    }
    script.n_frames = 0;
    buffer_clear(&script.body);
    closed(data);
}

void peers_set_member(struct peers *peers, uint64_t id, const char *address) {
}

void peers_remove_member(struct peers *peers, uint64_t id) {
}

bool peers_traffic(const struct peers *peers, uint64_t id, struct peers_traffic *out_traffic) {
    (void)peers;
    (void)id;
    *out_traffic = (struct peers_traffic){0};
    return false;
}

bool peers_is_linked(const struct peers *peers, uint64_t id) {
    return true;
}

void peers_check_inbound(struct peers *peers) {
}

struct peer_ask *peers_ask(struct peers *peers, const char *address,
                           void (*done)(void *data, struct bytes body, const char *reason),
                           void *data) {
    return NULL;
}

uint64_t peers_n_refused(const struct peers *peers) {
    return 0;
}

size_t peers_room(const struct peers *peers, uint64_t id) {
    return PEERS_QUEUE_SIZE_MAX;
}

struct buffer *peers_frame_begin(struct peers *peers, uint64_t to_id, uint8_t type,
                                 bool is_urgent) {
    if (script.is_full && !is_urgent) {
        return NULL;
    }
    script.type = type;
    script.body.size = 0;
    return &script.body;
}

void peers_frame_end(struct peers *peers, uint64_t to_id) {
    struct bytes body = bytes_of(script.body.data, script.body.size);
    if (script.type == PEER_RAFT) {
        script_answer_raft(to_id, body);
    } else if (script.type == PEER_PING && script.answers_pings) {
        script_answer_ping(to_id, body);
    } else if (script.sent != NULL) {
        script.sent(to_id, script.type, body);
    }
}

void peers_flush(struct peers *peers) {
}

#endif
