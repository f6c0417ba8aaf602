#include "replication/restored_data.h"

#include "raft/raft_config.h"
#include "raft/raft_storage.h"
#include "raft/vote_store.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The entry that a new cluster begins with is the configuration, of this term. The snapshot stands
 * for one more: libraft never sends one that ends with the first entry, and a member that joins
 * would wait for ever. */
enum { FIRST_INDEX = 1, SNAPSHOT_INDEX = 2, FIRST_TERM = 1 };

struct writing {
    const struct restored_data *data;
    struct snapshot_writer *writer;
    uint64_t written;
    int error;
};

static enum status explain(const char *what, int error, char *out_error, size_t error_size) {
    snprintf(out_error, error_size, "%s failed: %s", what, strerror(error));
    return raft_storage_status(error);
}

static enum status fill_members(const struct restored_data *data, struct member_table *table) {
    struct member_facts *facts = calloc(data->n_members, sizeof *facts);
    if (facts == NULL) {
        abort();
    }
    for (size_t i = 0; i < data->n_members; i++) {
        const struct replication_member *member = &data->members[i];
        facts[i].id = member->id;
        facts[i].name = bytes_from_text(member->name);
        const char *const *url = member->peer_urls;
        for (; *url != NULL && facts[i].n_peer_urls < MEMBER_URLS_MAX; url++) {
            facts[i].peer_urls[facts[i].n_peer_urls++] = bytes_from_text(*url);
        }
    }
    enum status status = member_table_begin(table, data->token_hash, facts, data->n_members);
    free(facts);
    return status;
}

static bool make_meta(const struct restored_data *data, struct snapshot_meta *out_meta) {
    struct raft_config config = {.n = 0};
    for (size_t i = 0; i < data->n_members; i++) {
        if (!raft_config_add(&config, data->members[i].id, data->members[i].address,
                             CONFIG_VOTER)) {
            return false;
        }
    }
    struct buffer buffer;
    buffer_init(&buffer);
    raft_config_encode(&buffer, &config);
    memset(out_meta, 0, sizeof *out_meta);
    out_meta->index = SNAPSHOT_INDEX;
    out_meta->term = FIRST_TERM;
    out_meta->configuration_index = FIRST_INDEX;
    assert(buffer.size <= sizeof out_meta->configuration);
    memcpy(out_meta->configuration, buffer.data, buffer.size);
    out_meta->configuration_size = buffer.size;
    buffer_clear(&buffer);
    return true;
}

static void write_part(void *data, struct bytes bytes) {
    struct writing *writing = data;
    if (writing->error == 0) {
        writing->error = snapshot_writer_append(writing->writer, bytes);
    }
    writing->written += bytes.size;
    if (writing->data->progress != NULL) {
        writing->data->progress(writing->data->progress_data, writing->written);
    }
}

static void encode(struct writing *writing) {
    struct snapshot_target *state = writing->data->state;
    struct buffer members;
    struct buffer auth;
    buffer_init(&members);
    buffer_init(&auth);
    member_table_encode(state->members, &members);
    auth_encode(state->auth, &auth);
    struct key_view *keys = key_view_open(state->keys);
    struct lease_view *leases = lease_view_open(state->leases);
    const struct snapshot_parts parts = {.cluster_version = state->cluster_version,
                                         .keys = keys,
                                         .leases = leases,
                                         .alarms = state->alarms,
                                         .n_alarms = state->n_alarms,
                                         .members = bytes_of(members.data, members.size),
                                         .auth = bytes_of(auth.data, auth.size)};
    const struct snapshot_sink sink = {.write = write_part, .data = writing};
    snapshot_encode(&sink, &parts);
    key_view_close(keys);
    lease_view_close(leases);
    buffer_clear(&members);
    buffer_clear(&auth);
}

static enum status write_snapshot(const struct raft_files *files, const struct restored_data *data,
                                  const struct snapshot_meta *meta, char *out_error,
                                  size_t error_size) {
    struct writing writing = {.data = data};
    writing.error = snapshot_writer_open(files, meta, "restore", &writing.writer);
    if (writing.error != 0) {
        return explain("writing the snapshot", writing.error, out_error, error_size);
    }
    encode(&writing);
    if (writing.error != 0) {
        snapshot_writer_abort(writing.writer);
    } else {
        writing.error = snapshot_writer_commit(writing.writer);
    }
    return writing.error == 0
               ? STATUS_OK
               : explain("writing the snapshot", writing.error, out_error, error_size);
}

static enum status write_vote(const struct raft_files *files, char *out_error, size_t error_size) {
    struct vote_store *votes = NULL;
    enum status status = vote_store_open(files, false, &votes, out_error, error_size);
    if (status != STATUS_OK) {
        return status;
    }
    status = vote_store_confirm(votes, out_error, error_size);
    int error = status == STATUS_OK ? vote_store_write(votes, FIRST_TERM, 0) : 0;
    vote_store_close(votes);
    if (status != STATUS_OK) {
        return status;
    }
    return error == 0 ? STATUS_OK : explain("writing the term", error, out_error, error_size);
}

enum status restored_data_write(const char *raft_dir, const struct restored_data *data,
                                char *out_error, size_t error_size) {
    struct snapshot_meta *meta = malloc(sizeof *meta);
    if (meta == NULL) {
        abort();
    }
    if (!make_meta(data, meta) || fill_members(data, data->state->members) != STATUS_OK) {
        snprintf(out_error, error_size, "two members of --initial-cluster have the same URLs");
        free(meta);
        return STATUS_INVALID;
    }
    struct raft_files files;
    int error = raft_files_open(raft_dir, &files);
    if (error != 0) {
        free(meta);
        return explain("opening the new data directory", error, out_error, error_size);
    }
    enum status status = write_vote(&files, out_error, error_size);
    if (status == STATUS_OK) {
        status = write_snapshot(&files, data, meta, out_error, error_size);
    }
    raft_files_close(&files);
    free(meta);
    return status;
}
