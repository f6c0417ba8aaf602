#include "raft/log_record.h"

#include "base/crc32.h"
#include "base/little_endian.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

/*
 * The head: chain u32, head_sum u32, life u64, sequence u64, batch u64, index u64, term u64, size
 * u32, type u8, flags u8, two zeros; little-endian.
 */
enum {
    AT_HEAD_SUM = 4,
    AT_LIFE = 8,
    AT_SEQUENCE = 16,
    AT_BATCH = 24,
    AT_INDEX = 32,
    AT_TERM = 40,
    AT_SIZE = 48,
    AT_TYPE = 52,
    AT_FLAGS = 53
};

static const uint8_t zeros[LOG_RECORD_ALIGNMENT];

static uint32_t chain_of(const uint8_t *head, uint32_t seed, const void *payload, size_t size) {
    uint32_t chain = crc32c(seed, head + AT_HEAD_SUM, LOG_RECORD_HEAD_SIZE - AT_HEAD_SUM);
    chain = crc32c(chain, payload, size);
    return crc32c(chain, zeros, log_record_padding(size));
}

void log_record_encode(struct log_record *record, uint32_t seed, const void *payload,
                       uint8_t out_head[LOG_RECORD_HEAD_SIZE]) {
    memset(out_head, 0, LOG_RECORD_HEAD_SIZE);
    little_endian_put_u64(out_head + AT_LIFE, record->life);
    little_endian_put_u64(out_head + AT_SEQUENCE, record->sequence);
    little_endian_put_u64(out_head + AT_BATCH, record->batch);
    little_endian_put_u64(out_head + AT_INDEX, record->index);
    little_endian_put_u64(out_head + AT_TERM, record->term);
    little_endian_put_u32(out_head + AT_SIZE, record->size);
    out_head[AT_TYPE] = record->type;
    out_head[AT_FLAGS] = record->flags;
    little_endian_put_u32(out_head + AT_HEAD_SUM,
                          crc32c(0, out_head + AT_LIFE, LOG_RECORD_HEAD_SIZE - AT_LIFE));
    record->chain = chain_of(out_head, seed, payload, record->size);
    little_endian_put_u32(out_head, record->chain);
}

bool log_record_decode_head(const uint8_t *bytes, uint64_t size, uint64_t life,
                            struct log_record *out_record) {
    if (size < LOG_RECORD_HEAD_SIZE || little_endian_get_u64(bytes + AT_LIFE) != life) {
        return false;
    }
    uint32_t head_sum = crc32c(0, bytes + AT_LIFE, LOG_RECORD_HEAD_SIZE - AT_LIFE);
    if (little_endian_get_u32(bytes + AT_HEAD_SUM) != head_sum) {
        return false;
    }
    *out_record = (struct log_record){
        .chain = little_endian_get_u32(bytes),
        .life = life,
        .sequence = little_endian_get_u64(bytes + AT_SEQUENCE),
        .batch = little_endian_get_u64(bytes + AT_BATCH),
        .index = little_endian_get_u64(bytes + AT_INDEX),
        .term = little_endian_get_u64(bytes + AT_TERM),
        .size = little_endian_get_u32(bytes + AT_SIZE),
        .type = bytes[AT_TYPE],
        .flags = bytes[AT_FLAGS],
    };
    return true;
}

bool log_record_decode(const uint8_t *bytes, uint64_t size, uint64_t life, uint32_t seed,
                       struct log_record *out_record) {
    struct log_record record;
    if (!log_record_decode_head(bytes, size, life, &record) ||
        log_record_size(record.size) > size) {
        return false;
    }
    const uint8_t *payload = bytes + LOG_RECORD_HEAD_SIZE;
    /* The padding is not trusted to be zeros, but taken as zeros into the sum. */
    if (memcmp(payload + record.size, zeros, log_record_padding(record.size)) != 0 ||
        chain_of(bytes, seed, payload, record.size) != record.chain) {
        return false;
    }
    *out_record = record;
    return true;
}

uint64_t log_record_find(const uint8_t *bytes, uint64_t offset, uint64_t size, uint64_t life,
                         struct log_record *out_record) {
    assert(offset % LOG_RECORD_ALIGNMENT == 0);
    uint64_t stored_life = htole64(life);
    for (; offset + LOG_RECORD_HEAD_SIZE <= size; offset += LOG_RECORD_ALIGNMENT) {
        if (memcmp(bytes + offset + AT_LIFE, &stored_life, sizeof stored_life) == 0 &&
            log_record_decode_head(bytes + offset, size - offset, life, out_record)) {
            return offset;
        }
    }
    return size;
}
