/*
 * What is known of a member of the cluster, as it travels: in commands, in snapshots and between
 * nodes. Decoding trusts nothing; texts have no zero in them and fit their limits.
 */
#ifndef LEASED_CORE_MEMBER_H
#define LEASED_CORE_MEMBER_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    /* Members at once, learners included. */
    MEMBERS_MAX = 16,
    MEMBER_URLS_MAX = 16,
    MEMBER_URL_SIZE_MAX = 512,
    MEMBER_NAME_SIZE_MAX = 128
};

/* What a member is to be. Whether it votes already is raft's to say: one that joins catches up
 * first. */
enum member_role {
    MEMBER_VOTER = 0,
    MEMBER_LEARNER = 1 /* has everything, votes for nothing, until it is promoted */
};

struct member_facts {
    uint64_t id; /* never 0 */
    enum member_role role;
    bool is_started;      /* it has been here under this id */
    uint64_t data_dir_id; /* a random number of its data directory; 0: not known */
    struct bytes name;
    size_t n_peer_urls;
    struct bytes peer_urls[MEMBER_URLS_MAX];
    size_t n_client_urls;
    struct bytes client_urls[MEMBER_URLS_MAX];
};

/* Within all limits, with an id and a peer URL? */
bool member_facts_are_good(const struct member_facts *facts);

void member_facts_encode(struct buffer *buffer, const struct member_facts *facts);
/* Sets reader->failed when it is malformed or beyond a limit. Views point into the reader's bytes.
 */
void member_facts_decode(struct reader *reader, struct member_facts *out_facts);

/* A count, then so many facts, in the arena. */
void member_list_encode(struct buffer *buffer, const struct member_facts *members, size_t n);
const struct member_facts *member_list_decode(struct reader *reader, struct arena *arena,
                                              size_t *out_n);

#endif
