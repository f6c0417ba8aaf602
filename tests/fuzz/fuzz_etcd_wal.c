/*
 * Logs that a restore of etcd wrote: the bytes as they are, and as records (a type, a size of two
 * bytes, data) of which a log with right checksums is made, so that what lies behind those is
 * reached. What is taken must be sound.
 */
#include "base/buffer.h"
#include "base/crc32.h"
#include "doors/etcd/etcd_wal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PREFIX_SIZE = 3 };

static void read_log(const uint8_t *data, size_t size) {
    struct arena arena;
    struct etcd_wal wal;
    char error[256] = "";
    uint8_t *copy = malloc(size + 1); /* so that a read beyond its end is noticed */
    if (copy == NULL) {
        abort();
    }
    if (size > 0) {
        memcpy(copy, data, size);
    }
    arena_init(&arena);
    enum status status = etcd_wal_read(bytes_of(copy, size), &arena, &wal, error, sizeof error);
    if (status == STATUS_OK) {
        bool has_self = false;
        assert(wal.cluster_id != 0);
        assert(wal.n_members > 0 && wal.n_members <= MEMBERS_MAX);
        for (size_t i = 0; i < wal.n_members; i++) {
            assert(member_facts_are_good(&wal.members[i]));
            assert(wal.members[i].n_peer_urls > 0);
            has_self |= wal.members[i].id == wal.member_id;
        }
        assert(has_self);
    } else {
        assert(status == STATUS_CORRUPT || status == STATUS_UNSUPPORTED);
        assert(error[0] != '\0');
    }
    arena_clear(&arena);
    free(copy);
}

static void put_record(struct buffer *log, uint8_t type, uint32_t checksum, struct bytes data) {
    struct buffer record;
    buffer_init(&record);
    const uint8_t type_field[] = {0x08, type, 0x10};
    buffer_append(&record, type_field, sizeof type_field);
    buffer_put_varint(&record, checksum);
    buffer_append(&record, "\x1a", 1);
    buffer_put_varint(&record, data.size);
    buffer_append(&record, data.data, data.size);
    uint64_t padding = (8 - record.size % 8) % 8;
    uint64_t header = record.size | (padding != 0 ? (0x80 | padding) << 56 : 0);
    buffer_append(log, &header, sizeof header);
    buffer_append(log, record.data, record.size);
    buffer_append(log, "\0\0\0\0\0\0\0", padding);
    buffer_clear(&record);
}

static void read_records(const uint8_t *data, size_t size) {
    struct buffer log;
    uint32_t checksum = 0;
    buffer_init(&log);
    put_record(&log, 4, 0, bytes_of("", 0));
    while (size >= PREFIX_SIZE) {
        size_t record_size = data[1] | (size_t)data[2] << 8;
        if (record_size > size - PREFIX_SIZE) {
            record_size = size - PREFIX_SIZE;
        }
        checksum = crc32c(checksum, data + PREFIX_SIZE, record_size);
        put_record(&log, data[0], checksum, bytes_of(data + PREFIX_SIZE, record_size));
        data += PREFIX_SIZE + record_size;
        size -= PREFIX_SIZE + record_size;
    }
    read_log(log.data, log.size);
    buffer_clear(&log);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    read_log(data, size);
    read_records(data, size);
    return 0;
}
