/* What opening a node (node_bootstrap.c) shares with the rest of it. */
#ifndef LEASED_RAFT_RAFT_NODE_INTERNAL_H
#define LEASED_RAFT_RAFT_NODE_INTERNAL_H

#include "raft/raft_node.h"
#include "raft/raft_sender.h"
#include "raft/raft_storage.h"
#include "raft/snapshot_receiver.h"

struct raft_node {
    const struct raft_node_calls *calls;
    void *data;
    struct raft_files files;
    struct raft_storage *storage;
    struct raft_engine *engine;
    struct raft_sender *sender;
    struct snapshot_receiver *receiver;
    bool is_closing;
    bool has_failed;
    uint64_t n_contradictions; /* that were told of */
    uint64_t contradicted_ms;  /* when that was */
    void (*closed)(void *data);
    void *closed_data;

    /* The snapshot being taken. */
    bool is_taking;
    uint64_t taking_index;
    uint64_t trailing;

    /* One that came from the leader, until the state can be replaced. */
    bool is_install_begun;
    bool is_restore_due;
    struct snapshot_meta restore_meta;
    struct buffer restore_payload;
};

/* STATUS_IO or STATUS_NO_SPACE, with what a person can do. */
enum status node_explain_io(const char *what, int error, char *out_error, size_t error_size);
/* Before raft is started: the first configuration of an empty directory, or one that is forced, is
 * written and added to what was loaded; the newest snapshot is restored. */
enum status node_prepare_log(struct raft_node *node, struct raft_storage_loaded *loaded,
                             const struct raft_node_options *options, char *out_error,
                             size_t error_size);

#endif
