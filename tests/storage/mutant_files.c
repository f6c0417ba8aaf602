#include "mutant_files.h"

#include "raft/log_record.h"
#include "raft/log_segment.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { N_HANDLES = 16, AT_RECORD_FLAGS = 53 };

const char *sync_site_text(enum sync_site site) {
    static const char *const texts[] = {
#define SYNC_SITE_TEXT(name, text) text,
        SYNC_SITES(SYNC_SITE_TEXT)
#undef SYNC_SITE_TEXT
    };
    return texts[site];
}

static bool begins_with(const char *name, const char *prefix) {
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

static int find_handle(struct mutant_files *mutant, int file) {
    for (int i = 0; i < N_HANDLES; i++) {
        if (mutant->handles[i].name[0] != '\0' && mutant->handles[i].file == file) {
            return i;
        }
    }
    return -1;
}

static int call_open(void *data, const char *name, enum raft_files_mode mode, int *out_file) {
    struct mutant_files *mutant = data;
    int error = mutant->under.calls->open(mutant->under.data, name, mode, out_file);
    for (int i = 0; error == 0 && i < N_HANDLES; i++) {
        if (mutant->handles[i].name[0] == '\0') {
            mutant->handles[i].file = *out_file;
            mutant->handles[i].was_header = false;
            snprintf(mutant->handles[i].name, sizeof mutant->handles[i].name, "%s", name);
            break;
        }
    }
    return error;
}

static int call_close(void *data, int file) {
    struct mutant_files *mutant = data;
    int handle = find_handle(mutant, file);
    if (handle >= 0) {
        mutant->handles[handle].name[0] = '\0';
    }
    return mutant->under.calls->close(mutant->under.data, file);
}

static int call_size(void *data, int file, uint64_t *out_size) {
    struct mutant_files *mutant = data;
    return mutant->under.calls->size(mutant->under.data, file, out_size);
}

static int call_read(void *data, int file, uint64_t offset, void *bytes, size_t size,
                     size_t *out_n) {
    struct mutant_files *mutant = data;
    return mutant->under.calls->read(mutant->under.data, file, offset, bytes, size, out_n);
}

static int call_write(void *data, int file, uint64_t offset, const struct iovec *parts,
                      int n_parts) {
    struct mutant_files *mutant = data;
    int handle = find_handle(mutant, file);
    assert(handle >= 0);
    mutant->n_writes++;
    mutant->is_batch_whole = false;
    mutant->handles[handle].was_header =
        n_parts == 1 && offset == 0 && parts[0].iov_len == LOG_SEGMENT_HEADER_SIZE;
    for (int i = 0; i < n_parts; i++) {
        if (parts[i].iov_len == LOG_RECORD_HEAD_SIZE) {
            const uint8_t *head = parts[i].iov_base;
            mutant->is_batch_whole = head[AT_RECORD_FLAGS] & RECORD_LAST_OF_BATCH;
        }
    }
    return mutant->under.calls->write(mutant->under.data, file, offset, parts, n_parts);
}

static enum sync_site file_site(const struct mutant_files *mutant, int handle) {
    const char *name = mutant->handles[handle].name;
    if (begins_with(name, "meta.")) {
        return strstr(name, ".new") != NULL  ? SITE_VOTE_NEW
               : strcmp(name, "meta.1") == 0 ? SITE_VOTE_FIRST
                                             : SITE_VOTE_SECOND;
    }
    if (mutant->handles[handle].was_header) {
        return SITE_HEADER;
    }
    if (mutant->is_opening && mutant->n_writes == 1) {
        return SITE_OPEN_BATCH;
    }
    return mutant->is_batch_whole ? SITE_BATCH : SITE_ROLL;
}

static enum sync_site directory_site(const struct mutant_files *mutant) {
    if (begins_with(mutant->handles[0].name, "meta.")) {
        return SITE_VOTE_NAME;
    }
    if (mutant->is_opening && mutant->n_writes == 0) {
        return SITE_OPEN_NAME;
    }
    return begins_with(mutant->renamed_to, "log-") ? SITE_NAME : SITE_RECYCLE;
}

static bool is_left_out(struct mutant_files *mutant, enum sync_site site) {
    mutant->n_calls[site]++;
    if (site == mutant->left_out) {
        mutant->n_left_out++;
        return true;
    }
    return false;
}

static int call_sync(void *data, int file) {
    struct mutant_files *mutant = data;
    int handle = find_handle(mutant, file);
    assert(handle >= 0);
    if (is_left_out(mutant, file_site(mutant, handle))) {
        return 0;
    }
    return mutant->under.calls->sync(mutant->under.data, file);
}

static int call_write_back(void *data, int file, uint64_t offset, uint64_t size) {
    struct mutant_files *mutant = data;
    return mutant->under.calls->write_back(mutant->under.data, file, offset, size);
}

static int call_allocate(void *data, int file, uint64_t size) {
    struct mutant_files *mutant = data;
    return mutant->under.calls->allocate(mutant->under.data, file, size);
}

static int call_rename(void *data, const char *from, const char *to) {
    struct mutant_files *mutant = data;
    snprintf(mutant->renamed_to, sizeof mutant->renamed_to, "%s", to);
    for (int i = 0; i < N_HANDLES; i++) {
        if (strcmp(mutant->handles[i].name, from) == 0) {
            snprintf(mutant->handles[i].name, sizeof mutant->handles[i].name, "%s", to);
        }
    }
    return mutant->under.calls->rename(mutant->under.data, from, to);
}

static int call_unlink(void *data, const char *name) {
    struct mutant_files *mutant = data;
    return mutant->under.calls->unlink(mutant->under.data, name);
}

static int call_sync_directory(void *data) {
    struct mutant_files *mutant = data;
    enum sync_site site = directory_site(mutant);
    mutant->renamed_to[0] = '\0';
    return is_left_out(mutant, site) ? 0 : mutant->under.calls->sync_directory(mutant->under.data);
}

static int call_list(void *data, void (*found)(void *found_data, const char *name),
                     void *found_data) {
    struct mutant_files *mutant = data;
    return mutant->under.calls->list(mutant->under.data, found, found_data);
}

static const struct raft_files_calls calls = {
    .open = call_open,
    .close = call_close,
    .size = call_size,
    .read = call_read,
    .write = call_write,
    .sync = call_sync,
    .write_back = call_write_back,
    .allocate = call_allocate,
    .rename = call_rename,
    .unlink = call_unlink,
    .sync_directory = call_sync_directory,
    .list = call_list,
};

struct raft_files mutant_files(struct mutant_files *mutant) {
    return (struct raft_files){.calls = &calls, .data = mutant};
}

void mutant_files_begin_opening(struct mutant_files *mutant) {
    mutant->is_opening = true;
    mutant->n_writes = 0;
    mutant->renamed_to[0] = '\0';
}

void mutant_files_end_opening(struct mutant_files *mutant) {
    mutant->is_opening = false;
}
