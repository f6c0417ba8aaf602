/*
 * What the members' raft engines say to each other, in our own words: no type of libraft. The codec
 * (raft_codec.h) makes bytes of it and checks bytes before anything of libraft sees them.
 */
#ifndef LEASED_RAFT_RAFT_MESSAGE_H
#define LEASED_RAFT_RAFT_MESSAGE_H

#include "raft/log_item.h"
#include "raft/snapshot_store.h"

#include <stdbool.h>
#include <stdint.h>

enum raft_message_kind {
    MESSAGE_APPEND = 1, /* AppendEntries */
    MESSAGE_APPEND_RESULT = 2,
    MESSAGE_VOTE = 3, /* RequestVote, pre-votes too */
    MESSAGE_VOTE_RESULT = 4,
    MESSAGE_TIMEOUT_NOW = 5,
    MESSAGE_SNAPSHOT = 6,       /* InstallSnapshot: one chunk, or only metadata inside the engine */
    MESSAGE_SNAPSHOT_RESULT = 7 /* how far the receiver has it: the next chunk may come */
};

enum { MESSAGE_ENTRIES_MAX = 4096, MESSAGE_APPEND_BYTES_MAX = 1024 * 1024 };

struct message_append {
    uint64_t term;
    uint64_t prev_index;
    uint64_t prev_term;
    uint64_t commit;
    /* From the engine: how many entries follow prev_index; the sender fills them in, perhaps in
     * several messages. From the codec: the items, each with one reference that the receiver owns.
     */
    uint32_t n_entries;
    struct log_item **items;
};

struct message_append_result {
    uint64_t term;
    uint64_t rejected; /* 0: accepted */
    uint64_t last_index;
};

struct message_vote {
    uint64_t term;
    uint64_t last_index;
    uint64_t last_term;
    bool disrupt_leader;
    bool is_pre_vote;
};

struct message_vote_result {
    uint64_t term;
    bool is_granted;
    bool is_pre_vote;
};

struct message_timeout_now {
    uint64_t term;
    uint64_t last_index;
    uint64_t last_term;
};

/* A chunk of a snapshot. The first (offset 0) carries the configuration; the last is the one that
 * reaches meta->size. */
struct message_snapshot {
    uint64_t term; /* the leader's */
    const struct snapshot_meta *meta;
    uint64_t offset;
    struct bytes chunk;
};

struct message_snapshot_result {
    uint64_t term;
    uint64_t index;    /* of which snapshot */
    uint64_t received; /* bytes in order so far; the next chunk starts there */
};

struct raft_message_view {
    enum raft_message_kind kind;
    union {
        struct message_append append;
        struct message_append_result append_result;
        struct message_vote vote;
        struct message_vote_result vote_result;
        struct message_timeout_now timeout_now;
        struct message_snapshot snapshot;
        struct message_snapshot_result snapshot_result;
    };
};

#endif
