#include "raft/legacy_log.h"

#include "base/buffer.h"
#include "raft/legacy_segment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One entry after the other, over all segments. */
struct check {
    const struct legacy_log_bounds *bounds;
    uint64_t index; /* of the next entry */
    uint64_t last_term;
    uint64_t term_at_snapshot; /* of the entry there; 0: the log does not have it */
    const char *fault;
};

struct loading {
    struct legacy_log *log;
    const struct raft_files *files;
    const struct legacy_log_bounds *bounds;
    const struct legacy_report *report;
    struct check check;
    bool is_torn; /* something was cut off the end of the open segment before */
};

static bool check_entry(void *data, const struct legacy_entry *entry) {
    struct check *check = data;
    if (entry->own_index != 0 && entry->own_index != check->index) {
        check->fault = "an entry does not stand where it was written, so a segment is missing";
        return false;
    }
    if (entry->term < check->last_term || entry->term == 0) {
        check->fault = "the terms of its entries go down";
        return false;
    }
    if (entry->term > check->bounds->term) {
        check->fault = "it has entries of a later term than metadata1 and metadata2";
        return false;
    }
    /* Without the entry that the snapshot ends with, the first one behind it must fit to it. */
    if (check->index == check->bounds->snapshot_index + 1 && check->term_at_snapshot == 0 &&
        entry->term < check->bounds->snapshot_term) {
        check->fault = "its entries are older than the snapshot before them";
        return false;
    }
    check->last_term = entry->term;
    if (check->index == check->bounds->snapshot_index) {
        check->term_at_snapshot = entry->term;
    }
    check->index++;
    return true;
}

static const char *fault_of(enum status status, const struct check *check) {
    switch (status) {
    case STATUS_INVALID:
        return check->fault;
    case STATUS_UNSUPPORTED:
        return "it has an unknown format";
    default:
        return "entries in it do not match their checksum, and were acknowledged";
    }
}

static void add_segment(struct legacy_log *log, const char *name, uint64_t first_index,
                        uint64_t n_entries) {
    log->segments = realloc(log->segments, (log->n_segments + 1) * sizeof(*log->segments));
    if (log->segments == NULL) {
        abort();
    }
    struct legacy_log_segment *segment = &log->segments[log->n_segments++];
    memcpy(segment->name, name, LEGACY_NAME_SIZE);
    segment->first_index = first_index;
    segment->n_entries = n_entries;
}

/* The log so far does not count: the next entry is at `index`. */
static void start_at(struct loading *loading, uint64_t index) {
    loading->log->n_segments = 0;
    loading->check = (struct check){.bounds = loading->bounds, .index = index, .last_term = 0};
}

/* --- closed segments --- */

static enum status load_closed(struct loading *loading, const struct legacy_file *file) {
    struct buffer content;
    struct legacy_segment_end end;
    buffer_init(&content);
    int error = legacy_files_read(loading->files, file->name, &content);
    if (error != 0) {
        buffer_clear(&content);
        return legacy_report_error(loading->report, file->name, error);
    }
    size_t size = content.size;
    enum status status = legacy_segment_walk(bytes_of(content.data, content.size), check_entry,
                                             &loading->check, &end);
    buffer_clear(&content);
    if (status != STATUS_OK) {
        return legacy_report_damage(loading->report, file->name, fault_of(status, &loading->check));
    }
    if (end.offset != size || end.n_entries != file->second - file->first + 1) {
        return legacy_report_damage(loading->report, file->name,
                                    "it does not hold the entries that its name says");
    }
    add_segment(loading->log, file->name, file->first, end.n_entries);
    return STATUS_OK;
}

/* Those that follow each other without a hole, up to the newest. A truncation wrote the shorter one
 * of two that begin at the same entry; the longer one is what was there before, and was to be
 * removed: with it, the truncation has not happened. */
static size_t first_of_chain(const struct legacy_file *files, size_t n) {
    size_t first = n - 1;
    uint64_t first_index = files[first].first;
    for (size_t i = n - 1; i > 0; i--) {
        if (files[i - 1].first == first_index) {
            continue;
        }
        if (files[i - 1].second != first_index - 1) {
            break;
        }
        first = i - 1;
        first_index = files[first].first;
    }
    return first;
}

static enum status load_closed_chain(struct loading *loading, const struct legacy_file *files,
                                     size_t n) {
    uint64_t snapshot_index = loading->bounds->snapshot_index;
    size_t first = first_of_chain(files, n);
    if (files[first].first > snapshot_index + 1) {
        return legacy_report_damage(loading->report, files[first].name,
                                    "the entries before it are missing");
    }
    start_at(loading, files[first].first);
    for (size_t i = first; i < n; i++) {
        bool is_shorter_twin = i + 1 < n && files[i + 1].first == files[i].first;
        if (is_shorter_twin) {
            continue;
        }
        if (files[i].second < snapshot_index) {
            start_at(loading, files[i].second + 1); /* not needed any more */
            continue;
        }
        if (files[i].first != loading->check.index || files[i].second < files[i].first) {
            return legacy_report_damage(loading->report, files[i].name,
                                        "the entries before it are missing");
        }
        enum status status = load_closed(loading, &files[i]);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return STATUS_OK;
}

/* --- open segments --- */

/* Where it stands, by its own word, against where the log ends. */
static enum status place_open(struct loading *loading, const char *name, uint64_t first_index) {
    uint64_t snapshot_index = loading->bounds->snapshot_index;
    if (first_index == loading->check.index) {
        return STATUS_OK;
    }
    /* Behind a snapshot that was installed, nothing before it is needed. */
    if (first_index > loading->check.index && first_index <= snapshot_index + 1) {
        start_at(loading, first_index);
        return STATUS_OK;
    }
    if (first_index < loading->check.index && loading->log->n_segments == 0) {
        start_at(loading, first_index);
        return STATUS_OK;
    }
    char what[160];
    snprintf(what, sizeof(what),
             "it begins at entry %llu, but the log before it ends at entry %llu, so a segment is "
             "missing",
             (unsigned long long)first_index, (unsigned long long)loading->check.index - 1);
    return legacy_report_damage(loading->report, name, what);
}

static enum status load_open_content(struct loading *loading, const char *name,
                                     struct bytes content) {
    struct legacy_segment_end end;
    enum status status = legacy_segment_walk(content, NULL, NULL, &end);
    if (status != STATUS_OK) {
        return legacy_report_damage(loading->report, name, fault_of(status, &loading->check));
    }
    bool is_torn = loading->is_torn;
    loading->is_torn |= !end.is_whole;
    if (end.n_entries == 0) {
        return STATUS_OK;
    }
    if (end.first_index == 0 && is_torn) {
        return legacy_report_damage(loading->report, name,
                                    "the end of the segment before it is missing");
    }
    if (end.first_index != 0) {
        status = place_open(loading, name, end.first_index);
        if (status != STATUS_OK) {
            return status;
        }
    }
    uint64_t first_index = loading->check.index;
    status = legacy_segment_walk(content, check_entry, &loading->check, &end);
    if (status != STATUS_OK) {
        return legacy_report_damage(loading->report, name, fault_of(status, &loading->check));
    }
    add_segment(loading->log, name, first_index, end.n_entries);
    return STATUS_OK;
}

static enum status load_open(struct loading *loading, const struct legacy_file *file) {
    struct buffer content;
    buffer_init(&content);
    int error = legacy_files_read(loading->files, file->name, &content);
    enum status status =
        error != 0 ? legacy_report_error(loading->report, file->name, error)
                   : load_open_content(loading, file->name, bytes_of(content.data, content.size));
    buffer_clear(&content);
    return status;
}

/* --- all of them --- */

static enum status load_segments(struct loading *loading, const struct legacy_list *list) {
    size_t n_closed = 0;
    size_t n_open = 0;
    const struct legacy_file *closed = legacy_files_of(list, LEGACY_CLOSED, &n_closed);
    const struct legacy_file *open = legacy_files_of(list, LEGACY_OPEN, &n_open);
    start_at(loading, loading->bounds->snapshot_index + 1);
    enum status status = n_closed == 0 ? STATUS_OK : load_closed_chain(loading, closed, n_closed);
    for (size_t i = 0; status == STATUS_OK && i < n_open; i++) {
        status = load_open(loading, &open[i]);
    }
    return status;
}

/* After a crash while a snapshot was installed the log is still the one that it replaced: it ends
 * before the snapshot, or has another entry at its place. */
static bool is_replaced(const struct loading *loading) {
    const struct legacy_log_bounds *bounds = loading->bounds;
    if (bounds->snapshot_index == 0) {
        return false;
    }
    return loading->check.index <= bounds->snapshot_index ||
           (loading->check.term_at_snapshot != 0 &&
            loading->check.term_at_snapshot != bounds->snapshot_term);
}

enum status legacy_log_load(struct legacy_log *log, const struct raft_files *files,
                            const struct legacy_list *list, const struct legacy_log_bounds *bounds,
                            const struct legacy_report *report) {
    struct loading loading = {.log = log, .files = files, .bounds = bounds, .report = report};
    enum status status = load_segments(&loading, list);
    if (status != STATUS_OK || log->n_segments == 0) {
        return status;
    }
    if (is_replaced(&loading)) {
        log->n_segments = 0;
        return STATUS_OK;
    }
    log->last_index = loading.check.index - 1;
    return STATUS_OK;
}

void legacy_log_clear(struct legacy_log *log) {
    free(log->segments);
    *log = (struct legacy_log){0};
}

/* --- reading --- */

struct reading {
    uint64_t index; /* of the next entry */
    uint64_t after;
    legacy_store_found found;
    void *data;
    int error;
};

static bool hand_over(void *data, const struct legacy_entry *entry) {
    struct reading *reading = data;
    uint64_t index = reading->index++;
    if (index <= reading->after) {
        return true;
    }
    /* libraft wrote eight bytes for a barrier that mean nothing. */
    size_t size = entry->type == LOG_BARRIER ? 0 : entry->bytes.size;
    uint8_t *bytes = NULL;
    if (size > 0) {
        bytes = malloc(size);
        if (bytes == NULL) {
            abort();
        }
        memcpy(bytes, entry->bytes.data, size);
    }
    reading->error =
        reading->found(reading->data, log_item_create((enum log_item_type)entry->type, index,
                                                      entry->term, bytes, size));
    return reading->error == 0;
}

static int read_segment(const struct legacy_log_segment *segment, const struct raft_files *files,
                        struct reading *reading) {
    struct buffer content;
    struct legacy_segment_end end;
    buffer_init(&content);
    int error = legacy_files_read(files, segment->name, &content);
    if (error == 0) {
        reading->index = segment->first_index;
        enum status status =
            legacy_segment_walk(bytes_of(content.data, content.size), hand_over, reading, &end);
        error = reading->error;
        if (error == 0 && (status != STATUS_OK || end.n_entries != segment->n_entries)) {
            error = EBADMSG;
        }
    }
    buffer_clear(&content);
    return error;
}

int legacy_log_read(const struct legacy_log *log, const struct raft_files *files, uint64_t index,
                    legacy_store_found found, void *data) {
    struct reading reading = {.after = index, .found = found, .data = data};
    for (size_t i = 0; i < log->n_segments; i++) {
        int error = read_segment(&log->segments[i], files, &reading);
        if (error != 0) {
            return error;
        }
    }
    return 0;
}
