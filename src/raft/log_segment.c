#include "raft/log_segment.h"

#include "base/crc32.h"
#include "base/little_endian.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/*
 * The header: magic, version u32, zero u32, generation u64, life u64, size of the file u64, zero
 * u32, sum u32; little-endian. Version and sum keep their places in every version.
 */
enum {
    AT_VERSION = 8,
    AT_GENERATION = 16,
    AT_LIFE = 24,
    AT_SIZE = 32,
    AT_SUM = 44,
};

static const char magic[8] = {'l', 'e', 'a', 's', 'e', 'l', 'o', 'g'};
static const char *const prefixes[] = {
    [LOG_FILE_SEGMENT] = "log-",
    [LOG_FILE_FREE] = "free-",
    [LOG_FILE_NEW] = "new-",
};
enum { NUMBER_DIGITS = 20 };

void log_file_name(enum log_file_kind kind, uint64_t number, char out_name[LOG_SEGMENT_NAME_SIZE]) {
    snprintf(out_name, LOG_SEGMENT_NAME_SIZE, "%s%020" PRIu64, prefixes[kind], number);
}

void log_segment_name(uint64_t generation, char out_name[LOG_SEGMENT_NAME_SIZE]) {
    log_file_name(LOG_FILE_SEGMENT, generation, out_name);
}

static bool parse_number(const char *digits, uint64_t *out_number) {
    uint64_t number = 0;
    if (strlen(digits) != NUMBER_DIGITS) {
        return false;
    }
    for (const char *digit = digits; *digit != '\0'; digit++) {
        if (*digit < '0' || *digit > '9' || number > (UINT32_MAX - 9) / 10) {
            return false;
        }
        number = 10 * number + (uint64_t)(*digit - '0');
    }
    *out_number = number;
    return number > 0;
}

bool log_file_parse_name(const char *name, enum log_file_kind *out_kind, uint64_t *out_number) {
    for (int kind = LOG_FILE_SEGMENT; kind <= LOG_FILE_NEW; kind++) {
        size_t size = strlen(prefixes[kind]);
        if (strncmp(name, prefixes[kind], size) == 0) {
            *out_kind = (enum log_file_kind)kind;
            return parse_number(name + size, out_number);
        }
    }
    return false;
}

void log_segment_encode_header(struct log_segment *segment,
                               uint8_t out_bytes[LOG_SEGMENT_HEADER_SIZE]) {
    memset(out_bytes, 0, LOG_SEGMENT_HEADER_SIZE);
    memcpy(out_bytes, magic, sizeof magic);
    little_endian_put_u32(out_bytes + AT_VERSION, LOG_SEGMENT_VERSION);
    little_endian_put_u64(out_bytes + AT_GENERATION, segment->generation);
    little_endian_put_u64(out_bytes + AT_LIFE, segment->life);
    little_endian_put_u64(out_bytes + AT_SIZE, segment->size);
    segment->chain = crc32c(0, out_bytes, AT_SUM);
    little_endian_put_u32(out_bytes + AT_SUM, segment->chain);
}

enum status log_segment_decode_header(const uint8_t *bytes, uint64_t size,
                                      struct log_segment *out_segment) {
    if (size < LOG_SEGMENT_HEADER_SIZE || memcmp(bytes, magic, sizeof magic) != 0) {
        return STATUS_CORRUPT;
    }
    uint32_t sum = crc32c(0, bytes, AT_SUM);
    if (little_endian_get_u32(bytes + AT_SUM) != sum) { /* a flipped bit is no newer version */
        return STATUS_CORRUPT;
    }
    if (little_endian_get_u32(bytes + AT_VERSION) != LOG_SEGMENT_VERSION) {
        return little_endian_get_u32(bytes + AT_VERSION) > LOG_SEGMENT_VERSION ? STATUS_UNSUPPORTED
                                                                               : STATUS_CORRUPT;
    }
    *out_segment = (struct log_segment){
        .generation = little_endian_get_u64(bytes + AT_GENERATION),
        .life = little_endian_get_u64(bytes + AT_LIFE),
        .size = little_endian_get_u64(bytes + AT_SIZE),
        .chain = sum,
    };
    return STATUS_OK;
}

void log_start_encode(const struct log_start *start, uint8_t out_bytes[LOG_START_SIZE]) {
    memset(out_bytes, 0, LOG_START_SIZE);
    little_endian_put_u64(out_bytes, start->previous_generation);
    little_endian_put_u64(out_bytes + 8, start->previous_end);
    little_endian_put_u32(out_bytes + 16, start->previous_chain);
}

bool log_segment_decode_start(const struct log_segment *segment, const uint8_t *bytes,
                              uint64_t size, struct log_record *out_record,
                              struct log_start *out_start) {
    const uint8_t *record = bytes + LOG_SEGMENT_HEADER_SIZE;
    if (!log_record_decode(record, size - LOG_SEGMENT_HEADER_SIZE, segment->life, segment->chain,
                           out_record) ||
        out_record->type != RECORD_START || out_record->size != LOG_START_SIZE) {
        return false;
    }
    const uint8_t *payload = record + LOG_RECORD_HEAD_SIZE;
    *out_start = (struct log_start){
        .previous_generation = little_endian_get_u64(payload),
        .previous_end = little_endian_get_u64(payload + 8),
        .previous_chain = little_endian_get_u32(payload + 16),
    };
    return true;
}
