/*
 * A raft_io on the simulated disk and network, in raft_uv's place: what replication calls
 * raft_uv_init() and so on lies here. libraft itself is the real one.
 */
#ifndef LEASED_SIM_RAFT_IO_SIM_H
#define LEASED_SIM_RAFT_IO_SIM_H

struct node;
struct raft_message;

/* Tells libraft's callers what is done, as raft_uv does before and after polling. */
void raft_io_sim_fire(struct node *node);
/* The process is gone: what it was writing is on disk up to some point, and not beyond. */
void raft_io_sim_crash(struct node *node);
/* A message came in; it is the callee's from now on. */
void raft_io_sim_receive(struct node *node, struct raft_message *message);

/* A copy that owns its memory, as raft_io's receiver expects it, and its end. */
struct raft_message *raft_message_copy(const struct raft_message *message);
void raft_message_drop(void *message);

#endif
