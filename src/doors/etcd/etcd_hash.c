/* etcd sums the bucket "key" (CRC-32C): its name, then each entry up to the revision, in order.
 * Entries up to the compaction count only if they are read at that revision, whatever of them is
 * still on disk, unless nothing at all is read at it. A tombstone at the compaction does not count,
 * since some releases delete it. */
#include "doors/etcd/etcd_hash.h"

#include "base/crc32.h"
#include "doors/etcd/etcd_stored.h"

#include <string.h>

struct hashing {
    int64_t revision;
    int64_t compacted;
    bool has_kept;               /* some key is read at the revision */
    struct etcd_records records; /* that count */
    struct etcd_records others;  /* that count if there is nothing to keep */
};

/* `is_newest`: there is no later version of its key up to the revision. */
static void add(struct hashing *hashing, const struct record *record, bool is_newest) {
    bool is_tombstone = record_is_tombstone(record);
    bool is_kept = is_newest && !is_tombstone;
    hashing->has_kept = hashing->has_kept || is_kept;
    if (record->mod_revision > hashing->compacted || is_kept) {
        etcd_records_add(&hashing->records, record);
    } else if (record->mod_revision < hashing->compacted || !is_tombstone) {
        etcd_records_add(&hashing->others, record);
    }
}

static void collect(struct hashing *hashing, const struct key_view *view) {
    struct key_view_walk *walk = key_view_walk_open(view, KEY_SPACE_ETCD);
    const struct record *before = NULL;
    const struct record *record = NULL;
    do {
        record = key_view_walk_next(walk);
        if (record != NULL && record->mod_revision > hashing->revision) {
            continue;
        }
        bool is_same = record != NULL && before != NULL &&
                       bytes_equal(record_stored_key(record), record_stored_key(before));
        if (before != NULL) {
            add(hashing, before, !is_same);
        }
        before = record;
    } while (record != NULL);
    key_view_walk_close(walk);
}

static uint32_t sum(struct hashing *hashing) {
    uint32_t crc = crc32c(0, ETCD_BUCKET_KEY, strlen(ETCD_BUCKET_KEY));
    struct buffer message;
    buffer_init(&message);
    for (size_t i = 0; !hashing->has_kept && i < hashing->others.n; i++) {
        etcd_records_add(&hashing->records, hashing->others.records[i]);
    }
    etcd_records_sort(&hashing->records);
    for (size_t i = 0; i < hashing->records.n; i++) {
        const struct record *record = hashing->records.records[i];
        const struct etcd_revision revision = {.main = record->mod_revision,
                                               .sub = record->sub_revision,
                                               .is_tombstone = record_is_tombstone(record)};
        uint8_t key[ETCD_REVISION_SIZE_MAX];
        size_t size = etcd_revision_write(&revision, key);
        etcd_record_write(&message, record);
        crc = crc32c(crc, key, size);
        crc = crc32c(crc, message.data, message.size);
    }
    buffer_clear(&message);
    return crc;
}

enum status etcd_hash(const struct key_view *view, int64_t revision, uint32_t *out_hash) {
    struct hashing hashing = {.revision = revision != 0 ? revision : key_view_revision(view),
                              .compacted = key_view_compacted_revision(view)};
    if (hashing.revision > key_view_revision(view)) {
        return STATUS_REVISION_FUTURE;
    }
    if (revision >= 0 && hashing.revision < hashing.compacted) {
        return STATUS_REVISION_COMPACTED;
    }
    collect(&hashing, view);
    *out_hash = sum(&hashing);
    etcd_records_clear(&hashing.records);
    etcd_records_clear(&hashing.others);
    return STATUS_OK;
}
