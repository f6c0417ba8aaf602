/*
 * Log entries: as they are, and again with the checksum put right, so that what lies behind it is
 * reached. What decodes must encode to the same bytes, apart from what comes behind the entry.
 */
#include "base/crc32.h"
#include "replication/log_entry.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX_SIZE = 8, CHECKSUM_SIZE = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(const uint8_t *data, size_t size) {
    struct log_entry_header header;
    struct reader reader;
    enum status status = log_entry_decode(bytes_of(data, size), &header, &reader);
    if (status != STATUS_OK) {
        assert(status == STATUS_CORRUPT || status == STATUS_UNSUPPORTED);
        return;
    }
    struct bytes commands = bytes_of(reader.data + reader.position, reader_left(&reader));
    size_t again_size;
    uint8_t *again = log_entry_encode(&header, commands, &again_size);
    assert(again != NULL);
    size_t entry_size = (size_t)(commands.data + commands.size - data) + CHECKSUM_SIZE;
    assert(entry_size <= size);
    assert(entry_size <= again_size);
    assert(again_size - entry_size < LOG_ENTRY_ALIGNMENT);
    assert(memcmp(again, data, entry_size) == 0);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    decode(data, size);
    if (size < PREFIX_SIZE + CHECKSUM_SIZE) {
        return 0;
    }
    /* One entry that fills all there is. */
    struct buffer entry;
    buffer_init(&entry);
    buffer_put_u32(&entry, LOG_ENTRY_MAGIC);
    buffer_put_u32(&entry, (uint32_t)(size - PREFIX_SIZE - CHECKSUM_SIZE));
    buffer_append(&entry, data + PREFIX_SIZE, size - PREFIX_SIZE - CHECKSUM_SIZE);
    buffer_put_u32(&entry, crc32c(0, entry.data, entry.size));
    decode(entry.data, entry.size);
    buffer_clear(&entry);
    return 0;
}
