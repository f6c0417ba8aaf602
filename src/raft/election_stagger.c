#include "raft/election_stagger.h"

#include <raft.h>

void election_stagger_init(struct election_stagger *stagger, uint32_t heartbeat_ms,
                           uint32_t election_ms, uint32_t random) {
    *stagger = (struct election_stagger){.heartbeat_ms = heartbeat_ms,
                                         .election_ms = election_ms,
                                         .random = random,
                                         .seed_wait_ms = UINT32_MAX};
}

uint32_t election_stagger_wait_ms(const struct election_stagger *stagger,
                                  const struct raft_config *config, uint64_t self_id,
                                  uint64_t leader_id) {
    uint64_t wait_ms = stagger->heartbeat_ms / 5;
    for (size_t i = 0; i < config->n; i++) {
        const struct raft_config_server *server = &config->servers[i];
        if (server->role == CONFIG_VOTER && server->id < self_id && server->id != leader_id) {
            wait_ms += stagger->heartbeat_ms;
        }
    }
    return wait_ms > stagger->election_ms ? stagger->election_ms : (uint32_t)wait_ms;
}

void election_stagger_forget(struct election_stagger *stagger) {
    stagger->leader_id = 0;
}

/* Every value between one timeout and two comes up, after about as many tries as there are. */
static uint32_t find_seed(struct election_stagger *stagger, uint32_t wait_ms) {
    if (stagger->seed_wait_ms != wait_ms) {
        uint32_t seed = 0;
        unsigned state;
        do {
            state = ++seed;
        } while (raft_random(&state, stagger->election_ms, 2 * stagger->election_ms) !=
                 stagger->election_ms + wait_ms);
        stagger->seed = seed;
        stagger->seed_wait_ms = wait_ms;
    }
    return stagger->seed;
}

void election_stagger_apply(struct election_stagger *stagger, struct raft *raft,
                            const struct raft_config *config, uint64_t self_id,
                            uint64_t leader_id) {
    if (leader_id == 0) {
        stagger->leader_id = 0;
        return;
    }
    uint32_t wait_ms = election_stagger_wait_ms(stagger, config, self_id, leader_id);
    if (stagger->leader_id == leader_id && stagger->wait_ms == wait_ms) {
        return;
    }
    raft_seed(raft, find_seed(stagger, wait_ms));
    raft_set_election_timeout(raft, stagger->election_ms);
    /* What libraft draws next, as a candidate, must differ between members. */
    raft_seed(raft, (unsigned)raft_random(&stagger->random, 0, INT32_MAX));
    stagger->leader_id = leader_id;
    stagger->wait_ms = wait_ms;
}
