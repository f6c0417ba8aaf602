#include "raft/legacy_segment.h"

#include "base/buffer.h"
#include "base/crc32.h"
#include "base/crc32_msb.h"
#include "raft/log_item.h"

#include <string.h>

enum {
    FORMAT = 1,
    FORMAT_SIZE = 8,
    CHECKSUMS_SIZE = 8,
    COUNT_SIZE = 8,
    ENTRY_HEADER_SIZE = 16,
    /* Of our own entries. */
    COMMAND_PREFIX_SIZE = 8,
    COMMAND_ALIGNMENT = 8
};

#define COMMAND_MAGIC UINT32_C(0x3145534c) /* LSE1 */

/* The head of an entry of ours, as far as it is needed here. */
struct command_head {
    uint64_t incarnation;  /* of the process that proposed it */
    uint64_t sequence;     /* counts that process's entries, from 1 */
    uint64_t acknowledged; /* the newest sequence of that process applied when it was proposed */
    uint64_t index;
};

struct walk {
    struct reader reader;
    legacy_segment_found found;
    void *data;
    struct legacy_segment_end *end;
    bool has_last;
    struct command_head last; /* of the whole batches */
};

static bool decode_command(struct bytes entry, struct command_head *out_head) {
    struct reader reader;
    reader_init(&reader, entry);
    uint32_t magic = reader_get_u32(&reader);
    uint32_t body_size = reader_get_u32(&reader);
    if (reader.failed || magic != COMMAND_MAGIC ||
        reader_left(&reader) < (size_t)body_size + sizeof(uint32_t)) {
        return false;
    }
    struct reader tail;
    reader_init(&tail, entry);
    tail.position = COMMAND_PREFIX_SIZE + (size_t)body_size;
    if (reader_get_u32(&tail) != crc32c(0, entry.data, COMMAND_PREFIX_SIZE + (size_t)body_size)) {
        return false;
    }
    reader.size = COMMAND_PREFIX_SIZE + (size_t)body_size;
    out_head->incarnation = reader_get_u64(&reader);
    out_head->sequence = reader_get_varint(&reader);
    out_head->acknowledged = reader_get_varint(&reader);
    (void)reader_get_varint(&reader); /* the term */
    out_head->index = reader_get_varint(&reader);
    return !reader.failed;
}

/* Where the parts of a batch stand in the segment. */
struct batch {
    uint64_t n;
    size_t headers;
    size_t data;
    uint32_t data_checksum;
};

/* Its head; false when it is not whole. */
static bool read_head(struct walk *walk, struct batch *out_batch) {
    struct reader *reader = &walk->reader;
    if (reader_left(reader) <= CHECKSUMS_SIZE + COUNT_SIZE) {
        return false;
    }
    uint32_t headers_checksum = reader_get_u32(reader);
    out_batch->data_checksum = reader_get_u32(reader);
    size_t start = reader->position;
    out_batch->n = reader_get_u64(reader);
    if (out_batch->n == 0 || out_batch->n > reader_left(reader) / ENTRY_HEADER_SIZE) {
        return false;
    }
    out_batch->headers = reader->position;
    reader->position += (size_t)out_batch->n * ENTRY_HEADER_SIZE;
    out_batch->data = reader->position;
    return crc32_msb(0, reader->data + start, reader->position - start) == headers_checksum;
}

/* The next entry of a batch; false when it does not fit into the segment. */
static bool read_entry(struct walk *walk, const struct batch *batch, uint64_t position,
                       struct legacy_entry *out_entry) {
    struct reader *reader = &walk->reader;
    struct reader header;
    reader_init(&header, bytes_of(reader->data + batch->headers + position * ENTRY_HEADER_SIZE,
                                  ENTRY_HEADER_SIZE));
    out_entry->term = reader_get_u64(&header);
    out_entry->type = (uint8_t)reader_get_u32(&header);
    uint32_t size = reader_get_u32(&header);
    if (size > reader_left(reader)) {
        return false;
    }
    out_entry->own_index = 0;
    out_entry->bytes = bytes_of(reader->data + reader->position, size);
    reader->position += size;
    return true;
}

/* False: it is not whole. */
static bool is_batch_whole(struct walk *walk, const struct batch *batch) {
    const struct reader *reader = &walk->reader;
    for (uint64_t i = 0; i < batch->n; i++) {
        struct legacy_entry entry;
        if (!read_entry(walk, batch, i, &entry)) {
            return false;
        }
    }
    return crc32_msb(0, reader->data + batch->data, reader->position - batch->data) ==
           batch->data_checksum;
}

/* What an entry of a whole batch says; false when it does not match its own checksum. */
static bool note_entry(struct walk *walk, struct legacy_entry *entry) {
    struct command_head head;
    walk->end->n_entries++;
    if (entry->type != LOG_COMMAND) {
        return entry->type == LOG_BARRIER || entry->type == LOG_CHANGE; /* libraft's own */
    }
    if (!decode_command(entry->bytes, &head)) {
        return false;
    }
    if (!walk->has_last) {
        walk->end->first_index = head.index - (walk->end->n_entries - 1);
    }
    walk->has_last = true;
    walk->last = head;
    entry->own_index = head.index;
    return true;
}

static enum status tell_entries(struct walk *walk, const struct batch *batch) {
    walk->reader.position = batch->data;
    for (uint64_t i = 0; i < batch->n; i++) {
        struct legacy_entry entry;
        (void)read_entry(walk, batch, i, &entry);
        if (!note_entry(walk, &entry)) {
            return STATUS_CORRUPT;
        }
        if (walk->found != NULL && !walk->found(walk->data, &entry)) {
            return STATUS_INVALID;
        }
    }
    walk->end->offset = walk->reader.position;
    return STATUS_OK;
}

/* STATUS_OK: and there may be another. STATUS_PENDING: it is not whole. */
static enum status walk_batch(struct walk *walk) {
    struct batch batch;
    if (!read_head(walk, &batch) || !is_batch_whole(walk, &batch)) {
        return STATUS_PENDING;
    }
    return tell_entries(walk, &batch);
}

/* Where a batch that is not whole ends, if its head is; else where it begins. What stands in it was
 * written with it, and proves nothing. */
static size_t end_of_torn(const struct walk *walk, struct bytes segment) {
    struct walk torn = {.end = walk->end};
    struct batch batch;
    struct legacy_entry entry;
    reader_init(&torn.reader, segment);
    torn.reader.position = walk->end->offset;
    if (!read_head(&torn, &batch)) {
        return walk->end->offset;
    }
    for (uint64_t i = 0; i < batch.n; i++) {
        if (!read_entry(&torn, &batch, i, &entry)) {
            return segment.size;
        }
    }
    return torn.reader.position;
}

/* The first sequence of a process that is missing, as far as it is known. */
struct missing {
    uint64_t incarnation;
    uint64_t sequence; /* 0: not known */
};

static void note_missing(const struct walk *walk, const struct command_head *head, bool is_in_torn,
                         struct missing *missing) {
    if (missing->sequence > 0 && missing->incarnation == head->incarnation) {
        return;
    }
    bool is_of_last = walk->has_last && walk->last.incarnation == head->incarnation;
    missing->incarnation = head->incarnation;
    /* Of another process, the one before the first that can be read again is taken to be missing.
     */
    missing->sequence = is_of_last   ? walk->last.sequence + 1
                        : is_in_torn ? head->sequence
                                     : head->sequence - 1;
}

/* Whether an entry behind the end was proposed when one that is missing had been applied. Entries
 * begin at multiples of eight bytes, so they can be found again. */
static bool was_missing_acknowledged(const struct walk *walk, struct bytes segment) {
    size_t torn_end = end_of_torn(walk, segment);
    struct missing missing = {0};
    for (size_t at = walk->end->offset; at + COMMAND_ALIGNMENT < segment.size;
         at += COMMAND_ALIGNMENT) {
        struct command_head head;
        if (segment.data[at] != (uint8_t)COMMAND_MAGIC ||
            !decode_command(bytes_of(segment.data + at, segment.size - at), &head)) {
            continue;
        }
        note_missing(walk, &head, at < torn_end, &missing);
        if (at >= torn_end && missing.sequence > 0 && head.acknowledged >= missing.sequence) {
            return true;
        }
    }
    return false;
}

static bool is_zero(struct bytes bytes) {
    return bytes.size == 0 ||
           (bytes.data[0] == 0 && memcmp(bytes.data, bytes.data + 1, bytes.size - 1) == 0);
}

enum status legacy_segment_walk(struct bytes segment, legacy_segment_found found, void *data,
                                struct legacy_segment_end *out_end) {
    *out_end = (struct legacy_segment_end){.is_whole = true};
    if (is_zero(segment)) {
        return STATUS_OK; /* allocated and not written yet */
    }
    struct walk walk = {.found = found, .data = data, .end = out_end};
    reader_init(&walk.reader, segment);
    uint64_t format = reader_get_u64(&walk.reader);
    if (walk.reader.failed || (format != FORMAT && format != 0)) {
        return walk.reader.failed ? STATUS_CORRUPT : STATUS_UNSUPPORTED;
    }
    out_end->offset = FORMAT_SIZE;
    enum status status = STATUS_OK;
    /* Without a format its first write was cut short. */
    while (status == STATUS_OK && format == FORMAT && out_end->offset < segment.size) {
        status = walk_batch(&walk);
    }
    if (status != STATUS_OK && status != STATUS_PENDING) {
        return status;
    }
    out_end->is_whole =
        is_zero(bytes_of(segment.data + out_end->offset, segment.size - out_end->offset));
    return was_missing_acknowledged(&walk, segment) ? STATUS_CORRUPT : STATUS_OK;
}
