#include "doors/etcd/etcd_stored.h"

#include "base/pb_writer.h"

#include <stdlib.h>

enum { REVISION_SEPARATOR = '_', TOMBSTONE_MARK = 't', RECORDS_CAPACITY_MIN = 1024 };

size_t etcd_revision_write(const struct etcd_revision *revision,
                           uint8_t out_key[ETCD_REVISION_SIZE_MAX]) {
    etcd_put_u64(out_key, (uint64_t)revision->main);
    out_key[8] = REVISION_SEPARATOR;
    etcd_put_u64(out_key + 9, (uint64_t)revision->sub);
    out_key[ETCD_REVISION_SIZE] = TOMBSTONE_MARK;
    return revision->is_tombstone ? ETCD_REVISION_SIZE_MAX : ETCD_REVISION_SIZE;
}

bool etcd_revision_read(struct bytes key, struct etcd_revision *out_revision) {
    bool is_tombstone =
        key.size == ETCD_REVISION_SIZE_MAX && key.data[ETCD_REVISION_SIZE] == TOMBSTONE_MARK;
    if ((key.size != ETCD_REVISION_SIZE && !is_tombstone) || key.data[8] != REVISION_SEPARATOR) {
        return false;
    }
    *out_revision = (struct etcd_revision){.main = (int64_t)etcd_get_u64(key.data),
                                           .sub = (int64_t)etcd_get_u64(key.data + 9),
                                           .is_tombstone = is_tombstone};
    return out_revision->main >= 0 && out_revision->sub >= 0;
}

void etcd_record_write(struct buffer *buffer, const struct record *record) {
    struct bytes key = record_key(record);
    struct bytes value = record_value(record);
    bool is_live = !record_is_tombstone(record);
    size_t size = pb_bytes_size(1, key);
    if (is_live) {
        size += pb_int64_size(2, record->create_revision) + pb_int64_size(3, record->mod_revision) +
                pb_int64_size(4, record->version) + pb_bytes_size(5, value) +
                pb_int64_size(6, record->lease_id);
    }
    struct pb_writer writer;
    buffer->size = 0;
    pb_writer_init(&writer, buffer_reserve(buffer, size), size);
    pb_write_bytes(&writer, 1, key);
    if (is_live) {
        pb_write_int64(&writer, 2, record->create_revision);
        pb_write_int64(&writer, 3, record->mod_revision);
        pb_write_int64(&writer, 4, record->version);
        pb_write_bytes(&writer, 5, value);
        pb_write_int64(&writer, 6, record->lease_id);
    }
    buffer->size = size;
}

void etcd_records_add(struct etcd_records *records, const struct record *record) {
    if (records->n == records->capacity) {
        records->capacity = records->capacity == 0 ? RECORDS_CAPACITY_MIN : 2 * records->capacity;
        records->records =
            realloc(records->records, records->capacity * sizeof records->records[0]);
        if (records->records == NULL) {
            abort();
        }
    }
    records->records[records->n++] = record;
}

static int compare(const void *a, const void *b) {
    const struct record *left = *(const struct record *const *)a;
    const struct record *right = *(const struct record *const *)b;
    if (left->mod_revision != right->mod_revision) {
        return left->mod_revision < right->mod_revision ? -1 : 1;
    }
    return (left->sub_revision > right->sub_revision) - (left->sub_revision < right->sub_revision);
}

void etcd_records_sort(struct etcd_records *records) {
    if (records->n > 1) {
        qsort(records->records, records->n, sizeof records->records[0], compare);
    }
}

void etcd_records_clear(struct etcd_records *records) {
    free(records->records);
    *records = (struct etcd_records){0};
}
