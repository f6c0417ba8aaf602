#include "raft/convert.h"

#include "raft/legacy_store.h"
#include "raft/log_store.h"
#include "raft/snapshot_store.h"
#include "raft/vote_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is given to the log at once: one sync each. */
enum { BATCH_ITEMS_MAX = 1024, BATCH_BYTES_MAX = 1024 * 1024, NAME_SIZE = 256 };

static const char converting_name[] = "converting";
static const char converted_name[] = "converted";
static const char old_prefix[] = "old-";

struct conversion {
    const struct raft_files *files;
    const struct raft_convert_options *options;
    char *out_error;
    size_t error_size;
};

static enum status fail(const struct conversion *conversion, const char *what, int error) {
    bool is_full = error == ENOSPC || error == EDQUOT;
    snprintf(conversion->out_error, conversion->error_size,
             "converting the data of the previous release failed: %s: %s. Its files are unchanged. "
             "%s, then start again.",
             what, strerror(error),
             is_full ? "Make room for a second copy of the data" : "Check the disk");
    return is_full ? STATUS_NO_SPACE : STATUS_IO;
}

/* --- names --- */

static bool has_prefix(const char *name, const char *prefix) {
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* Files that the stores of this release make. */
static bool is_new_file(const char *name) {
    return has_prefix(name, "meta.") || has_prefix(name, "log-") || has_prefix(name, "free-") ||
           has_prefix(name, "snap-") || has_prefix(name, "tmp-snap-");
}

static bool is_put_aside(const char *name) {
    return has_prefix(name, old_prefix) && legacy_store_is_file(name + strlen(old_prefix));
}

struct survey {
    bool has_old;
    bool has_new;
    bool is_converting;
    bool is_converted;
};

static void survey_file(void *data, const char *name) {
    struct survey *survey = data;
    survey->has_old |= legacy_store_is_file(name);
    survey->has_new |= is_new_file(name);
    survey->is_converting |= strcmp(name, converting_name) == 0;
    survey->is_converted |= strcmp(name, converted_name) == 0;
}

struct names {
    bool (*is_wanted)(const char *name);
    char (*items)[NAME_SIZE];
    size_t n;
};

static void add_name(void *data, const char *name) {
    struct names *names = data;
    if (strlen(name) >= NAME_SIZE || !names->is_wanted(name)) {
        return;
    }
    names->items = realloc(names->items, (names->n + 1) * NAME_SIZE);
    if (names->items == NULL) {
        abort();
    }
    memcpy(names->items[names->n++], name, strlen(name) + 1);
}

/* Does something with each file of a kind, then syncs the directory. */
static int for_each(const struct raft_files *files, bool (*is_wanted)(const char *name),
                    int (*act)(const struct raft_files *files, const char *name)) {
    struct names names = {.is_wanted = is_wanted};
    int error = files->calls->list(files->data, add_name, &names);
    for (size_t i = 0; error == 0 && i < names.n; i++) {
        error = act(files, names.items[i]);
    }
    free(names.items);
    return error != 0 ? error : files->calls->sync_directory(files->data);
}

static int remove_file(const struct raft_files *files, const char *name) {
    return files->calls->unlink(files->data, name);
}

static int put_aside(const struct raft_files *files, const char *name) {
    char aside[NAME_SIZE + sizeof(old_prefix)];
    snprintf(aside, sizeof(aside), "%s%s", old_prefix, name);
    return files->calls->rename(files->data, name, aside);
}

/* --- writing the new files --- */

static enum status write_vote(const struct conversion *conversion,
                              const struct legacy_store *legacy) {
    struct vote_store *votes = NULL;
    enum status status = vote_store_open(conversion->files, false, &votes, conversion->out_error,
                                         conversion->error_size);
    if (status == STATUS_OK) {
        status = vote_store_confirm(votes, conversion->out_error, conversion->error_size);
    }
    if (status != STATUS_OK) {
        vote_store_close(votes);
        return status;
    }
    int error = vote_store_write(votes, legacy_store_term(legacy), legacy_store_vote(legacy));
    vote_store_close(votes);
    return error == 0 ? STATUS_OK : fail(conversion, "writing the term and the vote", error);
}

static enum status write_snapshot(const struct conversion *conversion,
                                  const struct legacy_store *legacy) {
    const struct snapshot_meta *meta = legacy_store_snapshot(legacy);
    struct snapshot_writer *writer = NULL;
    if (meta->index == 0) {
        return STATUS_OK;
    }
    int error = snapshot_writer_open(conversion->files, meta, "converted", &writer);
    if (error == 0) {
        (void)snapshot_writer_append(writer, legacy_store_payload(legacy));
        error = snapshot_writer_commit(writer); /* which fails when the append did */
    }
    return error == 0 ? STATUS_OK : fail(conversion, "writing the snapshot", error);
}

struct batch {
    struct log_store *log;
    struct log_item *items[BATCH_ITEMS_MAX];
    size_t n;
    size_t bytes;
};

static void clear_batch(struct batch *batch) {
    for (size_t i = 0; i < batch->n; i++) {
        log_item_release(batch->items[i]);
    }
    batch->n = 0;
    batch->bytes = 0;
}

static int write_batch(struct batch *batch) {
    int error = batch->n == 0 ? 0 : log_store_append(batch->log, batch->items, batch->n);
    clear_batch(batch);
    return error;
}

static int add_to_batch(void *data, struct log_item *item) {
    struct batch *batch = data;
    batch->items[batch->n++] = item;
    batch->bytes += item->size;
    bool is_full = batch->n == BATCH_ITEMS_MAX || batch->bytes >= BATCH_BYTES_MAX;
    return is_full ? write_batch(batch) : 0;
}

static enum status open_log(const struct conversion *conversion, const struct legacy_store *legacy,
                            struct log_store **out_log) {
    struct log_store_options options = {.segment_size = conversion->options->log_segment_size,
                                        .snapshot_index = legacy_store_snapshot(legacy)->index,
                                        .snapshot_term = legacy_store_snapshot(legacy)->term,
                                        .term = legacy_store_term(legacy)};
    return log_store_open(conversion->files, &options, out_log, conversion->out_error,
                          conversion->error_size);
}

static enum status write_log(const struct conversion *conversion, struct legacy_store *legacy) {
    struct batch *batch = calloc(1, sizeof(*batch));
    if (batch == NULL) {
        abort();
    }
    enum status status = open_log(conversion, legacy, &batch->log);
    if (status == STATUS_OK) {
        int error = legacy_store_read(legacy, add_to_batch, batch);
        if (error == 0) {
            error = write_batch(batch);
        }
        clear_batch(batch);
        log_store_close(batch->log);
        if (error != 0) {
            status = fail(conversion, "writing the log", error);
        }
    }
    free(batch);
    return status;
}

/* What was written is read again before it counts. */
static enum status verify(const struct conversion *conversion, const struct legacy_store *legacy) {
    struct log_store *log = NULL;
    struct snapshot_meta *found = calloc(1, sizeof(*found));
    if (found == NULL) {
        abort();
    }
    enum status status = snapshot_store_find(conversion->files, found, conversion->out_error,
                                             conversion->error_size);
    bool is_same = found->index == legacy_store_snapshot(legacy)->index;
    free(found);
    if (status == STATUS_OK) {
        status = open_log(conversion, legacy, &log);
    }
    if (status != STATUS_OK) {
        return status;
    }
    is_same = is_same && log_store_last_index(log) == legacy_store_last_index(legacy);
    log_store_close(log);
    return is_same ? STATUS_OK : fail(conversion, "reading back what was written", EBADMSG);
}

static enum status write_all(const struct conversion *conversion, struct legacy_store *legacy) {
    enum status status = write_vote(conversion, legacy);
    if (status == STATUS_OK) {
        status = write_snapshot(conversion, legacy);
    }
    if (status == STATUS_OK) {
        status = write_log(conversion, legacy);
    }
    return status == STATUS_OK ? verify(conversion, legacy) : status;
}

/* --- the steps --- */

static int create_marker(const struct raft_files *files) {
    int file = -1;
    int error = files->calls->open(files->data, converting_name, RAFT_FILES_CREATE, &file);
    if (error != 0) {
        return error;
    }
    error = files->calls->sync(files->data, file);
    int close_error = files->calls->close(files->data, file);
    error = error != 0 ? error : close_error;
    return error != 0 ? error : files->calls->sync_directory(files->data);
}

/* The new files count as soon as this is on disk. */
static int switch_over(const struct raft_files *files) {
    int error = files->calls->sync_directory(files->data);
    if (error == 0) {
        error = files->calls->rename(files->data, converting_name, converted_name);
    }
    return error != 0 ? error : files->calls->sync_directory(files->data);
}

static int finish(const struct raft_files *files) {
    int error = for_each(files, legacy_store_is_file, put_aside);
    if (error == 0) {
        error = files->calls->unlink(files->data, converted_name);
    }
    return error != 0 ? error : files->calls->sync_directory(files->data);
}

/* As if nothing had been tried. If it fails, the next start does it. */
static void roll_back(const struct raft_files *files) {
    if (for_each(files, is_new_file, remove_file) == 0 &&
        files->calls->unlink(files->data, converting_name) == 0) {
        (void)files->calls->sync_directory(files->data);
    }
}

static enum status convert(const struct conversion *conversion, struct legacy_store *legacy,
                           bool is_converting) {
    const struct raft_files *files = conversion->files;
    int error = is_converting ? for_each(files, is_new_file, remove_file) : create_marker(files);
    enum status status = error == 0 ? write_all(conversion, legacy)
                                    : fail(conversion, "preparing the directory", error);
    if (status != STATUS_OK) {
        roll_back(files);
        return status;
    }
    error = switch_over(files);
    if (error == 0) {
        error = finish(files);
    }
    return error == 0 ? STATUS_OK : fail(conversion, "renaming files", error);
}

static enum status refuse(const struct conversion *conversion, const char *why) {
    snprintf(conversion->out_error, conversion->error_size,
             "%s. Nothing was changed. In a cluster, move the data directory of this node away and "
             "add the node again; else restore the data directory from a backup.",
             why);
    return STATUS_CORRUPT;
}

enum status raft_convert(const struct raft_files *files, const struct raft_convert_options *options,
                         bool *out_is_converted, char *out_error, size_t error_size) {
    struct conversion conversion = {
        .files = files, .options = options, .out_error = out_error, .error_size = error_size};
    struct survey survey = {0};
    *out_is_converted = false;
    int error = files->calls->list(files->data, survey_file, &survey);
    if (error != 0) {
        return fail(&conversion, "listing the data directory", error);
    }
    if (survey.is_converted) {
        error = finish(files);
        return error == 0 ? STATUS_OK : fail(&conversion, "renaming files", error);
    }
    if (!survey.has_old) {
        return survey.is_converting ? refuse(&conversion, "the conversion of the data of the "
                                                          "previous release was interrupted, and "
                                                          "now its files are missing")
                                    : STATUS_OK;
    }
    if (survey.has_new && !survey.is_converting) {
        return refuse(&conversion, "the data directory holds files of the previous release beside "
                                   "those of this one");
    }
    struct legacy_store *legacy = NULL;
    enum status status =
        legacy_store_open(files, options->check_snapshot, &legacy, out_error, error_size);
    if (status != STATUS_OK) {
        return status;
    }
    status = convert(&conversion, legacy, survey.is_converting);
    legacy_store_close(legacy);
    *out_is_converted = status == STATUS_OK;
    return status;
}

int raft_convert_discard_old(const struct raft_files *files) {
    struct names names = {.is_wanted = is_put_aside};
    int error = files->calls->list(files->data, add_name, &names);
    free(names.items);
    if (error != 0 || names.n == 0) {
        return error;
    }
    return for_each(files, is_put_aside, remove_file);
}
