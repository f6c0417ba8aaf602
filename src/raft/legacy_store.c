#include "raft/legacy_store.h"

#include "base/buffer.h"
#include "base/crc32_msb.h"
#include "raft/legacy_files.h"
#include "raft/legacy_log.h"
#include "raft/legacy_report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
    FORMAT = 1,
    METADATA_SIZE = 32,      /* format, version, term, vote */
    SNAPSHOT_META_SIZE = 32, /* format, checksum, configuration index, configuration size */
    PAYLOAD_ALIGNMENT = 8
};

struct legacy_store {
    struct raft_files files;
    struct legacy_list list;
    uint64_t version; /* of the metadata; 0: there is none */
    uint64_t term;
    uint64_t vote;
    struct snapshot_meta snapshot;
    struct buffer snapshot_file;
    struct legacy_log log;
};

bool legacy_store_is_file(const char *name) {
    struct legacy_file file;
    return legacy_files_parse(name, &file);
}

/* --- term and vote --- */

/* The file is written in place by turns, the odd versions to metadata1. */
static enum status take_metadata(struct legacy_store *store, const struct legacy_file *file,
                                 struct bytes content, const struct legacy_report *report) {
    struct reader reader;
    if (content.size < METADATA_SIZE) {
        return STATUS_OK; /* a crash while it was made; load_metadata() sees whether it can be */
    }
    reader_init(&reader, content);
    uint64_t format = reader_get_u64(&reader);
    uint64_t version = reader_get_u64(&reader);
    uint64_t term = reader_get_u64(&reader);
    uint64_t vote = reader_get_u64(&reader);
    if (content.size > METADATA_SIZE || format != FORMAT || version == 0 ||
        version % 2 != file->first % 2) {
        return legacy_report_damage(report, file->name, "it holds no term and vote");
    }
    if (version > store->version) {
        store->version = version;
        store->term = term;
        store->vote = vote;
    }
    return STATUS_OK;
}

static enum status load_metadata(struct legacy_store *store, const struct legacy_report *report) {
    size_t n = 0;
    const struct legacy_file *files = legacy_files_of(&store->list, LEGACY_METADATA, &n);
    const struct legacy_file *short_one = NULL;
    for (size_t i = 0; i < n; i++) {
        struct buffer content;
        buffer_init(&content);
        int error = legacy_files_read(&store->files, files[i].name, &content);
        enum status status =
            error != 0
                ? legacy_report_error(report, files[i].name, error)
                : take_metadata(store, &files[i], bytes_of(content.data, content.size), report);
        if (content.size < METADATA_SIZE) {
            short_one = &files[i];
        }
        buffer_clear(&content);
        if (status != STATUS_OK) {
            return status;
        }
    }
    /* Short is only what was being made: the first of the two, or the second after the first. */
    if (short_one != NULL && store->version != (short_one->first == 1 ? 0 : 1)) {
        return legacy_report_damage(report, short_one->name, "its end is missing");
    }
    return STATUS_OK;
}

/* --- the newest snapshot --- */

static enum status take_snapshot_meta(struct legacy_store *store, const struct legacy_file *file,
                                      struct bytes content, const struct legacy_report *report) {
    struct reader reader;
    reader_init(&reader, content);
    uint64_t format = reader_get_u64(&reader);
    uint64_t checksum = reader_get_u64(&reader);
    uint64_t configuration_index = reader_get_u64(&reader);
    uint64_t configuration_size = reader_get_u64(&reader);
    if (!reader.failed && format != FORMAT) {
        return legacy_report_damage(report, file->name, "it has an unknown format");
    }
    if (reader.failed || configuration_size != reader_left(&reader) ||
        crc32_msb(0, content.data + 16, content.size - 16) != checksum) {
        return legacy_report_damage(report, file->name, "it does not match its checksum");
    }
    if (configuration_size == 0 || configuration_size > SNAPSHOT_CONFIGURATION_SIZE_MAX) {
        return legacy_report_damage(report, file->name, "its list of members is too long");
    }
    store->snapshot.term = file->first;
    store->snapshot.index = file->second;
    store->snapshot.configuration_index = configuration_index;
    store->snapshot.configuration_size = (size_t)configuration_size;
    memcpy(store->snapshot.configuration, content.data + SNAPSHOT_META_SIZE,
           (size_t)configuration_size);
    return STATUS_OK;
}

static bool is_padding(const uint8_t *bytes, uint64_t size) {
    for (uint64_t i = 0; i < size; i++) {
        if (bytes[i] != 0) {
            return false;
        }
    }
    return size < PAYLOAD_ALIGNMENT;
}

static enum status take_payload(struct legacy_store *store, const char *name,
                                legacy_store_check check, const struct legacy_report *report) {
    struct reader reader;
    reader_init(&reader, bytes_of(store->snapshot_file.data, store->snapshot_file.size));
    uint64_t size = reader_get_u64(&reader);
    if (reader.failed || size > reader_left(&reader) ||
        !is_padding(reader.data + reader.position + size, reader_left(&reader) - size)) {
        return legacy_report_damage(report, name, "its size is not the one it says");
    }
    store->snapshot.size = size;
    enum status status = check(legacy_store_payload(store));
    if (status == STATUS_CORRUPT) {
        return legacy_report_damage(report, name, "it does not match its checksum");
    }
    if (status != STATUS_OK) {
        return legacy_report_damage(report, name, "it has an unknown format");
    }
    return STATUS_OK;
}

/* A snapshot counts when both of its files are there: the description is made first, and either
 * gets its name when it is whole. */
static const struct legacy_file *find_newest(const struct legacy_store *store,
                                             char out_data_name[LEGACY_NAME_SIZE]) {
    size_t n_metas = 0;
    size_t n_datas = 0;
    const struct legacy_file *metas = legacy_files_of(&store->list, LEGACY_SNAPSHOT_META, &n_metas);
    const struct legacy_file *datas = legacy_files_of(&store->list, LEGACY_SNAPSHOT, &n_datas);
    for (size_t i = n_metas; i > 0; i--) {
        for (size_t j = n_datas; j > 0; j--) {
            const struct legacy_file *meta = &metas[i - 1];
            const struct legacy_file *data = &datas[j - 1];
            if (meta->first == data->first && meta->second == data->second &&
                meta->third == data->third) {
                memcpy(out_data_name, data->name, LEGACY_NAME_SIZE);
                return meta;
            }
        }
    }
    return NULL;
}

static enum status load_snapshot(struct legacy_store *store, legacy_store_check check,
                                 const struct legacy_report *report) {
    char data_name[LEGACY_NAME_SIZE];
    const struct legacy_file *meta = find_newest(store, data_name);
    if (meta == NULL) {
        return STATUS_OK;
    }
    struct buffer content;
    buffer_init(&content);
    int error = legacy_files_read(&store->files, meta->name, &content);
    enum status status =
        error != 0 ? legacy_report_error(report, meta->name, error)
                   : take_snapshot_meta(store, meta, bytes_of(content.data, content.size), report);
    buffer_clear(&content);
    if (status != STATUS_OK) {
        return status;
    }
    error = legacy_files_read(&store->files, data_name, &store->snapshot_file);
    return error != 0 ? legacy_report_error(report, data_name, error)
                      : take_payload(store, data_name, check, report);
}

/* --- all of it --- */

static enum status load(struct legacy_store *store, legacy_store_check check,
                        const struct legacy_report *report) {
    int error = legacy_files_list(&store->files, &store->list);
    if (error != 0) {
        return legacy_report_error(report, "the data directory", error);
    }
    enum status status = load_metadata(store, report);
    if (status == STATUS_OK) {
        status = load_snapshot(store, check, report);
    }
    if (status != STATUS_OK) {
        return status;
    }
    if (store->snapshot.term > store->term && store->version > 0) {
        return legacy_report_damage(report, "metadata1",
                                    "the newest snapshot is of a later term than it knows");
    }
    struct legacy_log_bounds bounds = {.snapshot_index = store->snapshot.index,
                                       .snapshot_term = store->snapshot.term,
                                       .term = store->term};
    status = legacy_log_load(&store->log, &store->files, &store->list, &bounds, report);
    if (status == STATUS_OK && store->version == 0 &&
        (store->snapshot.index > 0 || store->log.last_index > 0)) {
        return legacy_report_damage(report, "metadata1",
                                    "it is missing, so the term and the vote are not known");
    }
    return status;
}

enum status legacy_store_open(const struct raft_files *files, legacy_store_check check_snapshot,
                              struct legacy_store **out_store, char *out_error, size_t error_size) {
    struct legacy_store *store = calloc(1, sizeof(*store));
    if (store == NULL) {
        abort();
    }
    store->files = *files;
    buffer_init(&store->snapshot_file);
    struct legacy_report report = {.text = out_error, .size = error_size};
    enum status status = load(store, check_snapshot, &report);
    if (status != STATUS_OK) {
        legacy_store_close(store);
        return status;
    }
    *out_store = store;
    return STATUS_OK;
}

void legacy_store_close(struct legacy_store *store) {
    if (store == NULL) {
        return;
    }
    legacy_log_clear(&store->log);
    legacy_files_clear(&store->list);
    buffer_clear(&store->snapshot_file);
    free(store);
}

uint64_t legacy_store_term(const struct legacy_store *store) {
    return store->term;
}

uint64_t legacy_store_vote(const struct legacy_store *store) {
    return store->vote;
}

const struct snapshot_meta *legacy_store_snapshot(const struct legacy_store *store) {
    return &store->snapshot;
}

struct bytes legacy_store_payload(const struct legacy_store *store) {
    if (store->snapshot.index == 0) {
        return bytes_of(NULL, 0);
    }
    return bytes_of(store->snapshot_file.data + sizeof(uint64_t), (size_t)store->snapshot.size);
}

uint64_t legacy_store_last_index(const struct legacy_store *store) {
    return store->log.last_index > store->snapshot.index ? store->log.last_index
                                                         : store->snapshot.index;
}

int legacy_store_read(struct legacy_store *store, legacy_store_found found, void *data) {
    return legacy_log_read(&store->log, &store->files, store->snapshot.index, found, data);
}
