#include "raft/snapshot_format.h"

#include "base/crc32.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char header_magic[8] = "LSDsnap\n";
static const char footer_magic[8] = "LSDsnEnd";
static const char temporary_prefix[] = "tmp-snap-";

/* --- names --- */

void snapshot_format_name(char *name, uint64_t index, uint64_t term) {
    snprintf(name, SNAPSHOT_NAME_SIZE, "snap-%020llu-%020llu", (unsigned long long)index,
             (unsigned long long)term);
}

bool snapshot_format_parse_name(const char *name, uint64_t *out_index, uint64_t *out_term) {
    unsigned long long index = 0;
    unsigned long long term = 0;
    if (sscanf(name, "snap-%20llu-%20llu", &index, &term) != 2 || index == 0) {
        return false;
    }
    /* One spelling for one snapshot: no signs, no spaces, nothing behind it. */
    char expected[SNAPSHOT_NAME_SIZE];
    snapshot_format_name(expected, index, term);
    if (strcmp(name, expected) != 0) {
        return false;
    }
    *out_index = index;
    *out_term = term;
    return true;
}

void snapshot_format_temporary_name(char *name, const char *hint) {
    for (const char *c = hint; *c != '\0'; c++) {
        assert(islower((unsigned char)*c) || isdigit((unsigned char)*c));
    }
    int n = snprintf(name, SNAPSHOT_NAME_SIZE, "%s%s", temporary_prefix, hint);
    assert(n < SNAPSHOT_NAME_SIZE);
}

bool snapshot_format_is_temporary(const char *name) {
    return strncmp(name, temporary_prefix, strlen(temporary_prefix)) == 0;
}

/* --- writing --- */

static void put_zeros(struct buffer *buffer, size_t size) {
    memset(buffer_reserve(buffer, size), 0, size);
    buffer->size += size;
}

void snapshot_format_header(struct buffer *buffer, uint64_t index, uint64_t term) {
    size_t begin = buffer->size;
    buffer_append(buffer, header_magic, sizeof(header_magic));
    buffer_put_u32(buffer, SNAPSHOT_FORMAT_VERSION);
    buffer_put_u32(buffer, SNAPSHOT_CHUNK_SIZE);
    buffer_put_u64(buffer, index);
    buffer_put_u64(buffer, term);
    put_zeros(buffer, begin + SNAPSHOT_HEADER_SIZE - 4 - buffer->size);
    buffer_put_u32(buffer, crc32c(0, buffer->data + begin, buffer->size - begin));
    assert(buffer->size == begin + SNAPSHOT_HEADER_SIZE);
}

size_t snapshot_format_chunk_count(uint64_t payload_size) {
    return (size_t)(payload_size / SNAPSHOT_CHUNK_SIZE +
                    (payload_size % SNAPSHOT_CHUNK_SIZE == 0 ? 0 : 1));
}

void snapshot_format_trailer(struct buffer *buffer, const struct snapshot_meta *meta,
                             const uint32_t *sums, size_t n_sums) {
    assert(n_sums == snapshot_format_chunk_count(meta->size));
    size_t begin = buffer->size;
    buffer_put_u64(buffer, meta->index);
    buffer_put_u64(buffer, meta->term);
    buffer_put_u64(buffer, meta->configuration_index);
    buffer_put_u64(buffer, meta->size);
    buffer_put_u32(buffer, (uint32_t)meta->configuration_size);
    buffer_put_u32(buffer, (uint32_t)n_sums);
    assert(buffer->size == begin + SNAPSHOT_TRAILER_FIXED_SIZE);
    buffer_append(buffer, meta->configuration, meta->configuration_size);
    for (size_t i = 0; i < n_sums; i++) {
        buffer_put_u32(buffer, sums[i]);
    }
    size_t end = buffer->size;
    buffer_put_u64(buffer, SNAPSHOT_HEADER_SIZE + meta->size);
    buffer_put_u64(buffer, end - begin);
    buffer_put_u32(buffer, crc32c(0, buffer->data + begin, end - begin));
    buffer_append(buffer, footer_magic, sizeof(footer_magic));
    buffer_put_u32(buffer, crc32c(0, buffer->data + end, buffer->size - end));
    assert(buffer->size == end + SNAPSHOT_FOOTER_SIZE);
}

/* --- checking --- */

/* The last four bytes are the sum of those before. */
static bool is_sum_right(struct bytes bytes) {
    struct reader reader;
    reader_init(&reader, bytes_of(bytes.data + bytes.size - 4, 4));
    return reader_get_u32(&reader) == crc32c(0, bytes.data, bytes.size - 4);
}

const char *snapshot_format_check_header(struct bytes header, uint64_t index, uint64_t term,
                                         uint32_t *out_version) {
    assert(header.size == SNAPSHOT_HEADER_SIZE);
    if (memcmp(header.data, header_magic, sizeof(header_magic)) != 0) {
        return "it does not begin as a snapshot does";
    }
    if (!is_sum_right(header)) {
        return "its first 64 bytes do not match their checksum";
    }
    struct reader reader;
    reader_init(&reader,
                bytes_of(header.data + sizeof(header_magic), header.size - sizeof(header_magic)));
    *out_version = reader_get_u32(&reader);
    if (*out_version != SNAPSHOT_FORMAT_VERSION) {
        return NULL; /* the rest may mean something else */
    }
    uint32_t chunk_size = reader_get_u32(&reader);
    uint64_t header_index = reader_get_u64(&reader);
    uint64_t header_term = reader_get_u64(&reader);
    if (chunk_size != SNAPSHOT_CHUNK_SIZE) {
        return "its chunks have another size";
    }
    if (header_index != index || header_term != term) {
        return "it is of another index or term than its name says";
    }
    return NULL;
}

const char *snapshot_format_check_footer(struct bytes footer, uint64_t footer_offset,
                                         uint64_t *out_trailer_offset, uint32_t *out_trailer_sum) {
    assert(footer.size == SNAPSHOT_FOOTER_SIZE);
    if (!is_sum_right(footer)) {
        return "its last 32 bytes do not match their checksum, or its end is missing";
    }
    struct reader reader;
    reader_init(&reader, footer);
    uint64_t offset = reader_get_u64(&reader);
    uint64_t size = reader_get_u64(&reader);
    uint32_t sum = reader_get_u32(&reader);
    if (memcmp(footer.data + reader.position, footer_magic, sizeof(footer_magic)) != 0) {
        return "it does not end as a snapshot does";
    }
    if (offset < SNAPSHOT_HEADER_SIZE || offset > footer_offset || footer_offset - offset != size ||
        size < SNAPSHOT_TRAILER_FIXED_SIZE) {
        return "it has another size than its last bytes say";
    }
    *out_trailer_offset = offset;
    *out_trailer_sum = sum;
    return NULL;
}

const char *snapshot_format_check_trailer(struct bytes trailer, uint64_t trailer_offset,
                                          uint32_t trailer_sum, uint64_t index, uint64_t term,
                                          struct snapshot_meta *out_meta,
                                          const uint8_t **out_sums) {
    assert(trailer.size >= SNAPSHOT_TRAILER_FIXED_SIZE);
    if (crc32c(0, trailer.data, trailer.size) != trailer_sum) {
        return "its metadata do not match their checksum";
    }
    struct reader reader;
    reader_init(&reader, trailer);
    out_meta->index = reader_get_u64(&reader);
    out_meta->term = reader_get_u64(&reader);
    out_meta->configuration_index = reader_get_u64(&reader);
    out_meta->size = reader_get_u64(&reader);
    out_meta->configuration_size = reader_get_u32(&reader);
    uint64_t n_sums = reader_get_u32(&reader);
    assert(reader.position == SNAPSHOT_TRAILER_FIXED_SIZE);
    if (out_meta->index != index || out_meta->term != term) {
        return "its metadata are of another snapshot";
    }
    if (out_meta->size != trailer_offset - SNAPSHOT_HEADER_SIZE ||
        n_sums != snapshot_format_chunk_count(out_meta->size) ||
        out_meta->configuration_size > SNAPSHOT_CONFIGURATION_SIZE_MAX ||
        reader_left(&reader) != out_meta->configuration_size + n_sums * 4) {
        return "the sizes in its metadata do not add up";
    }
    memcpy(out_meta->configuration, trailer.data + reader.position, out_meta->configuration_size);
    *out_sums = trailer.data + reader.position + out_meta->configuration_size;
    return NULL;
}
