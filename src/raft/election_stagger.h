/*
 * Who asks for votes first when a leader is lost. libraft draws between one election timeout and
 * two. With the order of the followers known, the first one need not wait longer than the silence
 * that proves its leader gone, and no two ask at once: the first in the order of ids waits for a
 * fifth of a heartbeat more, for messages that reach one follower later than another; each next one
 * for a heartbeat more than the one before.
 *
 * libraft has no call to say how long; but it draws again when the election timeout is set, by
 * numbers that can be seeded.
 */
#ifndef LEASED_RAFT_ELECTION_STAGGER_H
#define LEASED_RAFT_ELECTION_STAGGER_H

#include "raft/raft_config.h"

#include <stdbool.h>
#include <stdint.h>

struct raft;

struct election_stagger {
    uint32_t heartbeat_ms;
    uint32_t election_ms;
    uint32_t random; /* seeds for what libraft draws by itself */
    /* What was set last; no leader: libraft's own draw holds. */
    uint64_t leader_id;
    uint32_t wait_ms;
    /* The seed that was found last, and for which wait. */
    uint32_t seed;
    uint32_t seed_wait_ms;
};

void election_stagger_init(struct election_stagger *stagger, uint32_t heartbeat_ms,
                           uint32_t election_ms, uint32_t random);
/* How much longer than an election timeout this follower waits. */
uint32_t election_stagger_wait_ms(const struct election_stagger *stagger,
                                  const struct raft_config *config, uint64_t self_id,
                                  uint64_t leader_id);
/* Raft may have drawn anew. */
void election_stagger_forget(struct election_stagger *stagger);
/* As a follower of this leader (0: of none): sets how long raft waits, unless it is set already. */
void election_stagger_apply(struct election_stagger *stagger, struct raft *raft,
                            const struct raft_config *config, uint64_t self_id, uint64_t leader_id);

#endif
