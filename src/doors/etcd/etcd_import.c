#include "doors/etcd/etcd_import.h"

#include "base/pb_reader.h"
#include "core/cluster_version.h"
#include "doors/etcd/etcd_import_auth.h"
#include "doors/etcd/etcd_import_internal.h"
#include "doors/etcd/etcd_stored.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    PROGRESS_STEP = 4096,
    TTL_MS_PER_SECOND = 1000,
    REVISION_FIRST = 1 /* of an empty store, in etcd as here */
};

enum status etcd_import_fail(struct etcd_import *import, enum status status, const char *format,
                             ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(import->error, import->error_size, format, arguments);
    va_end(arguments);
    return status;
}

void etcd_import_tell(const struct etcd_import *import, const char *what, size_t done,
                      size_t total) {
    if (import->options->progress != NULL && done % PROGRESS_STEP == 0) {
        import->options->progress(import->options->progress_data, what, done, total);
    }
}

/* --- Revisions. --- */

static enum status read_compaction(struct etcd_import *import, const char *name) {
    struct bolt_bucket bucket;
    struct bytes value;
    struct etcd_revision revision;
    enum status status = bolt_bucket_open(&import->file, ETCD_BUCKET_META, &bucket);
    if (status == STATUS_OK) {
        status = bolt_bucket_get(&import->file, &bucket, bytes_from_text(name), &value);
    }
    if (status == STATUS_KEY_NOT_FOUND) {
        return STATUS_OK;
    }
    if (status != STATUS_OK || !etcd_revision_read(value, &revision) ||
        revision.main > INT64_MAX / 2) {
        return etcd_import_fail(import, STATUS_CORRUPT, "%s is damaged", name);
    }
    if (revision.main > import->report->compacted_revision) {
        import->report->compacted_revision = revision.main;
    }
    return STATUS_OK;
}

static enum status read_revisions(struct etcd_import *import) {
    struct etcd_import_report *report = import->report;
    enum status status = read_compaction(import, ETCD_META_FINISHED_COMPACTION);
    if (status == STATUS_OK) {
        /* One that had begun is carried out here. */
        status = read_compaction(import, ETCD_META_SCHEDULED_COMPACTION);
    }
    /* All keys up to the compaction may be gone. */
    if (report->revision < report->compacted_revision) {
        report->revision = report->compacted_revision;
    }
    if (report->revision < REVISION_FIRST) {
        report->revision = REVISION_FIRST;
    }
    return status;
}

/* --- Leases. --- */

static bool read_lease(struct bytes key, struct bytes message, struct lease_facts *out_facts) {
    struct pb_reader reader;
    int64_t ttl = 0;
    int64_t id = 0;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            id = pb_reader_int64(&reader);
            break;
        case 2:
            ttl = pb_reader_int64(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed || key.size != ETCD_LEASE_KEY_SIZE || id != (int64_t)etcd_get_u64(key.data) ||
        ttl < 1 || ttl > LEASE_TTL_MS_MAX / TTL_MS_PER_SECOND) {
        return false;
    }
    out_facts->id = id;
    out_facts->ttl_ms = ttl * TTL_MS_PER_SECOND;
    out_facts->owner = KEY_SPACE_ETCD;
    return true;
}

/* They run their whole time again, as after etcd's own restore. */
static enum status add_leases(struct etcd_import *import) {
    struct bolt_bucket bucket;
    struct lease_table *leases = import->target->leases;
    uint32_t epoch = 0;
    enum status status = bolt_bucket_open(&import->file, ETCD_BUCKET_LEASE, &bucket);
    if (status == STATUS_OK) {
        struct bolt_cursor cursor;
        struct bytes key;
        struct bytes value;
        bool is_bucket = false;
        bolt_cursor_init(&cursor, &import->file, &bucket);
        while (status == STATUS_OK && bolt_cursor_next(&cursor, &key, &value, &is_bucket)) {
            struct lease_facts facts = {.epoch = ++epoch};
            status = !is_bucket && read_lease(key, value, &facts)
                         ? lease_table_restore(leases, &facts)
                         : STATUS_CORRUPT;
        }
        status = status == STATUS_OK ? cursor.status : status;
    } else if (status == STATUS_KEY_NOT_FOUND) {
        status = STATUS_OK;
    }
    if (status == STATUS_OK) {
        status = lease_table_restore_end(leases, epoch);
    }
    return status == STATUS_OK ? STATUS_OK
                               : etcd_import_fail(import, STATUS_CORRUPT, "its leases are damaged");
}

/* --- The whole. --- */

static enum status take_etcds_part(struct etcd_import *import) {
    struct snapshot_target *target = import->target;
    const struct etcd_import_report *report = import->report;
    enum status status = add_leases(import);
    if (status == STATUS_OK) {
        status = etcd_import_add_keys(import, true);
    }
    if (status == STATUS_OK && key_store_restore_end(target->keys, report->revision,
                                                     report->compacted_revision) != STATUS_OK) {
        status = etcd_import_fail(import, STATUS_CORRUPT, "its keys contradict each other");
    }
    if (status == STATUS_OK) {
        status = etcd_import_attach_leases(import);
    }
    if (status != STATUS_OK) {
        return status;
    }
    status = etcd_import_auth(&import->file, import->options->token_key, target->auth);
    target->cluster_version = CLUSTER_VERSION_KNOWN;
    target->n_alarms = 0;
    return status == STATUS_OK
               ? STATUS_OK
               : etcd_import_fail(import, STATUS_CORRUPT,
                                  status == STATUS_TOO_MANY_REQUESTS
                                      ? "it has more users, roles or permissions than fit"
                                      : "its users and roles are damaged");
}

static enum status bump(struct etcd_import *import) {
    const struct etcd_import_options *options = import->options;
    struct etcd_import_report *report = import->report;
    struct key_store *keys = import->target->keys;
    if (options->bump_revision > INT64_MAX / 2 - report->revision) {
        return etcd_import_fail(import, STATUS_INVALID, "the revision cannot be raised by so much");
    }
    report->revision += options->bump_revision;
    key_store_raise_revision(keys, report->revision);
    if (options->is_marked_compacted) {
        enum status status = key_store_compact(keys, report->revision);
        assert(status == STATUS_OK);
        report->compacted_revision = report->revision;
    }
    return STATUS_OK;
}

static enum status run(struct etcd_import *import) {
    enum status status = etcd_import_collect_keys(import);
    if (status == STATUS_OK) {
        status = read_revisions(import);
    }
    if (status != STATUS_OK) {
        return status;
    }
    struct buffer snapshot;
    buffer_init(&snapshot);
    status = etcd_import_find_own_part(import, &snapshot);
    if (status == STATUS_OK) {
        status = etcd_import_take_own_part(import, bytes_of(snapshot.data, snapshot.size));
    } else if (status == STATUS_KEY_NOT_FOUND) {
        status = take_etcds_part(import);
    } else {
        status =
            etcd_import_fail(import, STATUS_CORRUPT, "the part that only leased keeps is damaged");
    }
    buffer_clear(&snapshot);
    if (status == STATUS_OK && import->options->bump_revision > 0) {
        status = bump(import);
    }
    return status;
}

enum status etcd_import(struct bytes file, const struct etcd_import_options *options,
                        struct snapshot_target *target, struct etcd_import_report *out_report,
                        char *out_error, size_t error_size) {
    struct etcd_import_report report = {0};
    struct etcd_import import = {.options = options,
                                 .target = target,
                                 .report = &report,
                                 .error = out_error,
                                 .error_size = error_size};
    enum status status = bolt_file_open(&import.file, file);
    if (status == STATUS_OK) {
        status = run(&import);
    } else {
        etcd_import_fail(&import, status, "it is not a bbolt file, or its first pages are damaged");
    }
    free(import.entries);
    free(import.leased);
    if (status != STATUS_OK) {
        return status;
    }
    report.n_leases = lease_table_count(target->leases);
    report.n_users = auth_user_count(target->auth);
    report.n_roles = auth_role_count(target->auth);
    report.is_auth_enabled = auth_is_enabled(target->auth);
    *out_report = report;
    return STATUS_OK;
}
