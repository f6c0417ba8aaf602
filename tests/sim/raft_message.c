/* Copies of raft's messages, each with memory of its own, laid out as raft_uv's decoder does. */
#include "raft_io_sim.h"

#include <raft.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(size_t size) {
    void *memory = raft_malloc(size > 0 ? size : 1);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

/* All entries share one batch. */
static void copy_entries(struct raft_append_entries *to, const struct raft_append_entries *from) {
    if (from->n_entries == 0) {
        to->entries = NULL;
        return;
    }
    size_t size = 0;
    for (unsigned i = 0; i < from->n_entries; i++) {
        size += from->entries[i].buf.len;
    }
    uint8_t *batch = allocate(size);
    to->entries = allocate(from->n_entries * sizeof *to->entries);
    uint8_t *at = batch;
    for (unsigned i = 0; i < from->n_entries; i++) {
        to->entries[i] = from->entries[i];
        memcpy(at, from->entries[i].buf.base, from->entries[i].buf.len);
        to->entries[i].buf.base = at;
        to->entries[i].batch = batch;
        at += from->entries[i].buf.len;
    }
}

static void copy_configuration(struct raft_configuration *to,
                               const struct raft_configuration *from) {
    raft_configuration_init(to);
    for (unsigned i = 0; i < from->n; i++) {
        int rv = raft_configuration_add(to, from->servers[i].id, from->servers[i].address,
                                        from->servers[i].role);
        if (rv != 0) {
            abort();
        }
    }
}

struct raft_message *raft_message_copy(const struct raft_message *message) {
    struct raft_message *copy = allocate(sizeof *copy);
    *copy = *message;
    if (message->type == RAFT_APPEND_ENTRIES) {
        copy_entries(&copy->append_entries, &message->append_entries);
    } else if (message->type == RAFT_INSTALL_SNAPSHOT) {
        const struct raft_install_snapshot *from = &message->install_snapshot;
        struct raft_install_snapshot *to = &copy->install_snapshot;
        copy_configuration(&to->conf, &from->conf);
        to->data.base = allocate(from->data.len);
        memcpy(to->data.base, from->data.base, from->data.len);
    }
    return copy;
}

void raft_message_drop(void *data) {
    struct raft_message *message = data;
    if (message->type == RAFT_APPEND_ENTRIES && message->append_entries.n_entries > 0) {
        raft_free(message->append_entries.entries[0].batch);
        raft_free(message->append_entries.entries);
    } else if (message->type == RAFT_INSTALL_SNAPSHOT) {
        raft_configuration_close(&message->install_snapshot.conf);
        raft_free(message->install_snapshot.data.base);
    }
    raft_free(message);
}
