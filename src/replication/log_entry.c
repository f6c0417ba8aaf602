#include "replication/log_entry.h"

#include "base/crc32.h"

#include <stdlib.h>
#include <string.h>

enum { LOG_ENTRY_PREFIX_SIZE = 8 };
#define LOG_ENTRY_MAGIC_ANY_VERSION UINT32_C(0x0045534c)
#define LOG_ENTRY_MAGIC_MASK UINT32_C(0x00ffffff)

/* magic u32 · size of what follows u32 · header and commands · crc32c u32 of all before · zeros */
uint8_t *log_entry_encode(const struct log_entry_header *header, struct bytes commands,
                          size_t *out_size) {
    struct buffer buffer;
    buffer_init(&buffer);
    buffer_put_u32(&buffer, LOG_ENTRY_MAGIC);
    buffer_put_u32(&buffer, 0);
    buffer_put_u64(&buffer, header->incarnation);
    buffer_put_varint(&buffer, header->sequence);
    buffer_put_varint(&buffer, header->acknowledged);
    buffer_put_varint(&buffer, header->term);
    buffer_put_varint(&buffer, header->index);
    buffer_put_zigzag(&buffer, header->wall_ms);
    buffer_put_varint(&buffer, header->n_commands);
    size_t body_size = buffer.size - LOG_ENTRY_PREFIX_SIZE + commands.size;
    size_t size = LOG_ENTRY_PREFIX_SIZE + body_size + sizeof(uint32_t);
    size = (size + LOG_ENTRY_ALIGNMENT - 1) & ~(size_t)(LOG_ENTRY_ALIGNMENT - 1);

    uint8_t *entry = malloc(size);
    if (entry == NULL) {
        abort();
    }
    memset(entry + size - LOG_ENTRY_ALIGNMENT - sizeof(uint32_t), 0,
           LOG_ENTRY_ALIGNMENT + sizeof(uint32_t));
    memcpy(entry, buffer.data, buffer.size);
    if (commands.size > 0) {
        memcpy(entry + buffer.size, commands.data, commands.size);
    }
    for (unsigned i = 0; i < 4; i++) {
        entry[4 + i] = (uint8_t)(body_size >> (8 * i));
    }
    uint32_t crc = crc32c(0, entry, LOG_ENTRY_PREFIX_SIZE + body_size);
    for (unsigned i = 0; i < 4; i++) {
        entry[LOG_ENTRY_PREFIX_SIZE + body_size + i] = (uint8_t)(crc >> (8 * i));
    }
    *out_size = size;
    buffer_clear(&buffer);
    return entry;
}

enum status log_entry_decode(struct bytes entry, struct log_entry_header *out_header,
                             struct reader *out_reader) {
    struct reader reader;
    reader_init(&reader, entry);
    uint32_t magic = reader_get_u32(&reader);
    uint32_t body_size = reader_get_u32(&reader);
    if (reader.failed || (magic & LOG_ENTRY_MAGIC_MASK) != LOG_ENTRY_MAGIC_ANY_VERSION ||
        reader_left(&reader) < (size_t)body_size + sizeof(uint32_t)) {
        return STATUS_CORRUPT;
    }
    struct reader tail;
    reader_init(&tail, entry);
    tail.position = LOG_ENTRY_PREFIX_SIZE + (size_t)body_size;
    if (reader_get_u32(&tail) != crc32c(0, entry.data, LOG_ENTRY_PREFIX_SIZE + body_size)) {
        return STATUS_CORRUPT;
    }
    if (magic != LOG_ENTRY_MAGIC) {
        return STATUS_UNSUPPORTED;
    }
    reader.size = LOG_ENTRY_PREFIX_SIZE + body_size;
    struct log_entry_header header = {.incarnation = reader_get_u64(&reader)};
    header.sequence = reader_get_varint(&reader);
    header.acknowledged = reader_get_varint(&reader);
    header.term = reader_get_varint(&reader);
    header.index = reader_get_varint(&reader);
    header.wall_ms = reader_get_zigzag(&reader);
    header.n_commands = reader_get_varint(&reader);
    if (reader.failed) {
        return STATUS_CORRUPT;
    }
    *out_header = header;
    *out_reader = reader;
    return STATUS_OK;
}
