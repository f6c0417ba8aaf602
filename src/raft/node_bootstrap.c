/* What must be in the log before raft starts: the first configuration of a new cluster, or one that
 * makes this member the only one. */
#include "raft/raft_node_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status node_explain_io(const char *what, int error, char *out_error, size_t error_size) {
    snprintf(out_error, error_size, "%s failed: %s. Check the disk, then start again.", what,
             strerror(error));
    return raft_storage_status(error);
}

static void loaded_add(struct raft_storage_loaded *loaded, struct log_item *item) {
    struct log_item **items = realloc(loaded->items, (loaded->n_items + 1) * sizeof *loaded->items);
    if (items == NULL) {
        abort();
    }
    loaded->items = items;
    loaded->items[loaded->n_items++] = item;
}

/* Appends a configuration to the log, in this term. */
static int append_configuration(struct raft_node *node, struct raft_storage_loaded *loaded,
                                const struct raft_config *config, uint64_t term) {
    struct buffer buffer;
    buffer_init(&buffer);
    raft_config_encode(&buffer, config);
    struct log_item *item = log_item_create(LOG_CHANGE, loaded->first_index + loaded->n_items, term,
                                            buffer.data, buffer.size);
    int error = raft_storage_append_now(node->storage, &item, 1);
    loaded_add(loaded, item);
    return error;
}

/* An empty directory: the first entry is the configuration, the same on every member. */
static int bootstrap(struct raft_node *node, struct raft_storage_loaded *loaded,
                     const struct raft_config *config) {
    enum { FIRST_TERM = 1 };
    if (loaded->snapshot.index != 0 || loaded->n_items > 0 || config->n == 0) {
        return 0;
    }
    int error = 0;
    if (loaded->term < FIRST_TERM) {
        error = raft_storage_store_vote(node->storage, FIRST_TERM, 0);
        loaded->term = FIRST_TERM;
        loaded->vote = 0;
    }
    return error != 0 ? error : append_configuration(node, loaded, config, FIRST_TERM);
}

static bool newest_configuration(const struct raft_storage_loaded *loaded,
                                 struct raft_config *out_config) {
    for (size_t i = loaded->n_items; i > 0; i--) {
        const struct log_item *item = loaded->items[i - 1];
        if (item->type == LOG_CHANGE) {
            return raft_config_decode(bytes_of(item->bytes, item->size), out_config) == STATUS_OK;
        }
    }
    return loaded->snapshot.index != 0 &&
           raft_config_decode(
               bytes_of(loaded->snapshot.configuration, loaded->snapshot.configuration_size),
               out_config) == STATUS_OK;
}

/* A configuration of this member alone ends the log: as the only voter it commits all of it. */
static int force_configuration(struct raft_node *node, struct raft_storage_loaded *loaded,
                               const struct raft_node_options *options) {
    struct raft_config config;
    if (newest_configuration(loaded, &config) && config.n == 1 &&
        raft_config_is_sole_voter(&config, options->self_id)) {
        return 0;
    }
    config.n = 0;
    (void)raft_config_add(&config, options->self_id, options->self_address, CONFIG_VOTER);
    loaded->term++;
    loaded->vote = options->self_id;
    int error = raft_storage_store_vote(node->storage, loaded->term, loaded->vote);
    return error != 0 ? error : append_configuration(node, loaded, &config, loaded->term);
}

enum status node_prepare_log(struct raft_node *node, struct raft_storage_loaded *loaded,
                             const struct raft_node_options *options, char *out_error,
                             size_t error_size) {
    int error = options->force_new_cluster ? force_configuration(node, loaded, options)
                                           : bootstrap(node, loaded, options->bootstrap);
    if (error != 0) {
        return node_explain_io("writing the first configuration", error, out_error, error_size);
    }
    if (loaded->snapshot.index == 0) {
        return STATUS_OK;
    }
    enum status status =
        node->calls->restore(node->data, bytes_of(loaded->payload.data, loaded->payload.size));
    if (status != STATUS_OK) {
        snprintf(out_error, error_size,
                 "the newest snapshot cannot be read: %s. Nothing was changed. Restore the data "
                 "directory from a backup, or start the version of leased that wrote it.",
                 status_text(status));
    }
    return status;
}
