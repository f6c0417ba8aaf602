#include "doors/etcd/etcd_backup.h"

#include "base/pb_writer.h"
#include "bolt/bolt_writer.h"
#include "core/snapshot.h"
#include "doors/etcd/etcd_backup_auth.h"
#include "doors/etcd/etcd_stamp.h"
#include "doors/etcd/etcd_stored.h"

#include <assert.h>
#include <stdlib.h>

enum { TTL_MS_PER_SECOND = 1000, PART_KEY_SIZE = sizeof ETCD_LEASED_PART - 1 + 4 };

/* The buckets, by name: in this order they are in the file. */
enum stage {
    STAGE_ALARM,
    STAGE_AUTH,
    STAGE_CLUSTER,
    STAGE_KEY,
    STAGE_LEASE,
    STAGE_LEASED,
    STAGE_MEMBERS,
    STAGE_META,
    STAGE_DONE
};

struct lease {
    int64_t id;
    int64_t ttl; /* seconds */
};

struct etcd_backup {
    const struct snapshot_view *view;
    struct auth *auth;
    struct buffer auth_bytes;    /* the same without the key of tokens */
    struct etcd_records records; /* by revision */
    struct lease *leases;        /* by id as etcd orders them */
    size_t n_leases;
    struct bolt_plan plan;
    /* How far this pass is. */
    struct bolt_writer *writer;
    struct buffer out;
    enum stage stage;
    size_t position; /* in records or leases */
    struct snapshot_encoder *encoder;
    struct buffer part;
    struct buffer message;
    struct etcd_stamp stamp;
};

/* --- What goes into it. --- */

static void collect_records(struct etcd_backup *backup) {
    struct key_view_walk *walk =
        key_view_walk_open(snapshot_view_keys(backup->view), KEY_SPACE_ETCD);
    const struct record *record = NULL;
    while ((record = key_view_walk_next(walk)) != NULL) {
        etcd_records_add(&backup->records, record);
    }
    key_view_walk_close(walk);
    etcd_records_sort(&backup->records);
}

static bool collect_lease(void *context, const struct lease_facts *facts) {
    struct etcd_backup *backup = context;
    if (key_space_equal(facts->owner, KEY_SPACE_ETCD)) {
        int64_t ttl_ms = facts->ttl_ms < LEASE_TTL_MS_MAX ? facts->ttl_ms : LEASE_TTL_MS_MAX;
        backup->leases[backup->n_leases++] = (struct lease){
            .id = facts->id, .ttl = (ttl_ms + TTL_MS_PER_SECOND - 1) / TTL_MS_PER_SECOND};
    }
    return true;
}

/* As bytes: negative ids come last. */
static int compare_leases(const void *a, const void *b) {
    uint64_t left = (uint64_t)((const struct lease *)a)->id;
    uint64_t right = (uint64_t)((const struct lease *)b)->id;
    return (left > right) - (left < right);
}

static void collect_leases(struct etcd_backup *backup) {
    const struct lease_view *view = snapshot_view_leases(backup->view);
    backup->leases = malloc((lease_view_count(view) + 1) * sizeof backup->leases[0]);
    if (backup->leases == NULL) {
        abort();
    }
    lease_view_visit(view, collect_lease, backup);
    if (backup->n_leases > 1) {
        qsort(backup->leases, backup->n_leases, sizeof backup->leases[0], compare_leases);
    }
}

/* Whoever has a backup must not be able to make tokens of the cluster that goes on. */
static void decode_auth(struct etcd_backup *backup) {
    static const uint8_t no_key[AUTH_TOKEN_KEY_SIZE] = {0};
    struct reader reader;
    reader_init(&reader, snapshot_view_auth(backup->view));
    backup->auth = auth_create();
    enum status status = auth_decode(backup->auth, &reader);
    assert(status == STATUS_OK);
    auth_renew(backup->auth, 0, bytes_of(no_key, sizeof no_key));
    auth_encode(backup->auth, &backup->auth_bytes);
}

/* --- Buckets. --- */

static void write_empty(struct etcd_backup *backup, const char *name) {
    bolt_writer_begin_bucket(backup->writer, name);
    bolt_writer_end_bucket(backup->writer);
}

static void put_text(struct etcd_backup *backup, const char *key, const char *value) {
    bolt_writer_put(backup->writer, bytes_from_text(key), bytes_from_text(value));
}

static void put_u64(struct etcd_backup *backup, const char *key, uint64_t value) {
    uint8_t bytes[8];
    etcd_put_u64(bytes, value);
    bolt_writer_put(backup->writer, bytes_from_text(key), bytes_of(bytes, sizeof bytes));
}

static void put_compaction(struct etcd_backup *backup, const char *key) {
    const struct etcd_revision revision = {
        .main = key_view_compacted_revision(snapshot_view_keys(backup->view))};
    uint8_t bytes[ETCD_REVISION_SIZE_MAX];
    size_t size = etcd_revision_write(&revision, bytes);
    if (revision.main > 0) {
        bolt_writer_put(backup->writer, bytes_from_text(key), bytes_of(bytes, size));
    }
}

static void write_auth(struct etcd_backup *backup) {
    struct etcd_backup_auth auth = {.auth = backup->auth,
                                    .writer = backup->writer,
                                    .stamp = &backup->stamp,
                                    .message = &backup->message};
    etcd_backup_write_auth(&auth);
}

/* The cluster that restores it makes the rest anew: index, term, members. */
static void write_meta(struct etcd_backup *backup) {
    bolt_writer_begin_bucket(backup->writer, ETCD_BUCKET_META);
    put_text(backup, "confState", "{\"auto_leave\":false}");
    put_u64(backup, "consistent_index", 1);
    put_compaction(backup, ETCD_META_FINISHED_COMPACTION);
    put_compaction(backup, ETCD_META_SCHEDULED_COMPACTION);
    put_u64(backup, "term", 1);
    bolt_writer_end_bucket(backup->writer);
}

/* A revision that no key of etcd's has is told as etcdutl
 * --bump-revision does it: by an entry without a key. */
static void end_keys(struct etcd_backup *backup) {
    const struct key_view *keys = snapshot_view_keys(backup->view);
    const struct record *last =
        backup->records.n > 0 ? backup->records.records[backup->records.n - 1] : NULL;
    struct etcd_revision revision = {0};
    if (last != NULL) {
        revision = (struct etcd_revision){.main = last->mod_revision,
                                          .sub = last->sub_revision,
                                          .is_tombstone = record_is_tombstone(last)};
    }
    int64_t known = key_view_compacted_revision(keys);
    known = known > revision.main ? known : revision.main;
    uint8_t key[ETCD_REVISION_SIZE_MAX];
    if (key_view_revision(keys) > known && key_view_revision(keys) > 1) {
        revision = (struct etcd_revision){.main = key_view_revision(keys)};
        size_t size = etcd_revision_write(&revision, key);
        bolt_writer_put(backup->writer, bytes_of(key, size), bytes_of(NULL, 0));
    }
    bolt_writer_end_bucket(backup->writer);
    size_t size = revision.main > 0 ? etcd_revision_write(&revision, key) : 0;
    etcd_stamp_add(&backup->stamp, bytes_of(key, size), bytes_of(NULL, 0));
}

/* One record a call; false: that was the last. */
static bool step_key(struct etcd_backup *backup) {
    if (backup->position == 0) {
        bolt_writer_begin_bucket(backup->writer, ETCD_BUCKET_KEY);
    }
    if (backup->position == backup->records.n) {
        end_keys(backup);
        return false;
    }
    const struct record *record = backup->records.records[backup->position++];
    const struct etcd_revision revision = {.main = record->mod_revision,
                                           .sub = record->sub_revision,
                                           .is_tombstone = record_is_tombstone(record)};
    uint8_t key[ETCD_REVISION_SIZE_MAX];
    size_t size = etcd_revision_write(&revision, key);
    etcd_record_write(&backup->message, record);
    bolt_writer_put(backup->writer, bytes_of(key, size),
                    bytes_of(backup->message.data, backup->message.size));
    return true;
}

static bool step_lease(struct etcd_backup *backup) {
    if (backup->position == 0) {
        bolt_writer_begin_bucket(backup->writer, ETCD_BUCKET_LEASE);
    }
    if (backup->position == backup->n_leases) {
        bolt_writer_end_bucket(backup->writer);
        return false;
    }
    const struct lease *lease = &backup->leases[backup->position++];
    uint8_t key[ETCD_LEASE_KEY_SIZE];
    uint8_t message[32];
    struct pb_writer writer;
    etcd_put_u64(key, (uint64_t)lease->id);
    size_t size = pb_int64_size(1, lease->id) + pb_int64_size(2, lease->ttl);
    assert(size <= sizeof message);
    pb_writer_init(&writer, message, size);
    pb_write_int64(&writer, 1, lease->id);
    pb_write_int64(&writer, 2, lease->ttl);
    bolt_writer_put(backup->writer, bytes_of(key, sizeof key), bytes_of(message, size));
    etcd_stamp_add(&backup->stamp, bytes_of(key, sizeof key), bytes_of(message, size));
    return true;
}

/* One part of our own snapshot a call. */
static bool step_leased(struct etcd_backup *backup) {
    if (backup->encoder == NULL) {
        bolt_writer_begin_bucket(backup->writer, ETCD_BUCKET_LEASED);
        backup->encoder = snapshot_view_encoder_without(
            backup->view, KEY_SPACE_ETCD,
            bytes_of(backup->auth_bytes.data, backup->auth_bytes.size));
    }
    backup->part.size = 0;
    bool has_more = snapshot_encoder_next(backup->encoder, &backup->part);
    uint8_t key[PART_KEY_SIZE];
    memcpy(key, ETCD_LEASED_PART, sizeof ETCD_LEASED_PART - 1);
    for (size_t i = 0; i < 4; i++) {
        key[sizeof ETCD_LEASED_PART - 1 + i] = (uint8_t)(backup->position >> (24 - 8 * i));
    }
    backup->position++;
    bolt_writer_put(backup->writer, bytes_of(key, sizeof key),
                    bytes_of(backup->part.data, backup->part.size));
    if (!has_more) {
        uint8_t stamp[ETCD_STAMP_SIZE];
        etcd_stamp_write(&backup->stamp, stamp);
        bolt_writer_put(backup->writer, bytes_from_text(ETCD_LEASED_STAMP),
                        bytes_of(stamp, sizeof stamp));
        bolt_writer_end_bucket(backup->writer);
    }
    return has_more;
}

/* --- The whole. --- */

static void begin_pass(struct etcd_backup *backup) {
    bolt_writer_destroy(backup->writer);
    snapshot_encoder_destroy(backup->encoder);
    backup->encoder = NULL;
    backup->out.size = 0;
    backup->writer = bolt_writer_create(&backup->plan, &backup->out);
    backup->stage = STAGE_ALARM;
    backup->position = 0;
    etcd_stamp_init(&backup->stamp);
}

static void end_stage(struct etcd_backup *backup) {
    backup->stage++;
    backup->position = 0;
}

static void step(struct etcd_backup *backup) {
    bool has_more = false;
    switch (backup->stage) {
    case STAGE_ALARM:
        write_empty(backup, ETCD_BUCKET_ALARM);
        break;
    case STAGE_AUTH:
        write_auth(backup);
        break;
    case STAGE_CLUSTER:
        bolt_writer_begin_bucket(backup->writer, ETCD_BUCKET_CLUSTER);
        put_text(backup, "clusterVersion", "3.5.0");
        bolt_writer_end_bucket(backup->writer);
        break;
    case STAGE_KEY:
        has_more = step_key(backup);
        break;
    case STAGE_LEASE:
        has_more = step_lease(backup);
        break;
    case STAGE_LEASED:
        has_more = step_leased(backup);
        break;
    case STAGE_MEMBERS:
        write_empty(backup, ETCD_BUCKET_MEMBERS);
        write_empty(backup, ETCD_BUCKET_MEMBERS_REMOVED);
        break;
    case STAGE_META:
        write_meta(backup);
        backup->plan = bolt_writer_finish(backup->writer);
        break;
    case STAGE_DONE:
        return;
    }
    if (!has_more) {
        end_stage(backup);
    }
}

struct etcd_backup *etcd_backup_create(const struct snapshot_view *view) {
    struct etcd_backup *backup = calloc(1, sizeof *backup);
    if (backup == NULL) {
        abort();
    }
    backup->view = view;
    decode_auth(backup);
    collect_records(backup);
    collect_leases(backup);
    begin_pass(backup);
    while (backup->stage != STAGE_DONE) {
        step(backup);
        backup->out.size = 0;
    }
    begin_pass(backup);
    return backup;
}

void etcd_backup_destroy(struct etcd_backup *backup) {
    if (backup == NULL) {
        return;
    }
    bolt_writer_destroy(backup->writer);
    snapshot_encoder_destroy(backup->encoder);
    auth_destroy(backup->auth);
    etcd_records_clear(&backup->records);
    free(backup->leases);
    buffer_clear(&backup->auth_bytes);
    buffer_clear(&backup->out);
    buffer_clear(&backup->part);
    buffer_clear(&backup->message);
    free(backup);
}

uint64_t etcd_backup_size(const struct etcd_backup *backup) {
    return bolt_plan_size(&backup->plan);
}

bool etcd_backup_next(struct etcd_backup *backup, struct buffer *buffer) {
    while (backup->stage != STAGE_DONE && backup->out.size < SNAPSHOT_SINK_SIZE) {
        step(backup);
    }
    buffer_append(buffer, backup->out.data, backup->out.size);
    backup->out.size = 0;
    return backup->stage != STAGE_DONE;
}
