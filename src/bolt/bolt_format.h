/*
 * The file format of bbolt, version 2, as etcd's database has it. Pages of one size, numbered from
 * 0; numbers are little-endian.
 *
 *     page      16 bytes  id u64, flags u16, count u16, overflow u32: so many more pages belong
 *                         to it; then what the flags say
 *     meta                pages 0 and 1: magic u32, version u32, page size u32, flags u32, the root
 *                         bucket {page u64, sequence u64}, freelist u64, high water u64, number of
 *                         the transaction u64, FNV-1a of all that u64. The valid one with the
 *                         higher transaction counts.
 *     branch              `count` elements of 16 bytes {position u32, key size u32, page u64}
 *     leaf                `count` elements of 16 bytes {flags u32, position u32, key size u32,
 *                         value size u32}
 *     bucket              a leaf's value with flag 1: {root page u64, sequence u64}; root 0: a page
 *                         follows in the value itself ("inline")
 *
 * A position counts from the beginning of its own element. Keys ascend; the key of a branch's
 * element is the first one below it.
 */
#ifndef LEASED_BOLT_BOLT_FORMAT_H
#define LEASED_BOLT_BOLT_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define BOLT_MAGIC UINT32_C(0xed0cdaed)
#define BOLT_CHECKSUM_START UINT64_C(0xcbf29ce484222325)

enum {
    BOLT_VERSION = 2,
    BOLT_PAGE_SIZE = 4096, /* of files that we write */
    BOLT_PAGE_SIZE_MIN = 1024,
    BOLT_PAGE_SIZE_MAX = 64 * 1024,
    BOLT_PAGE_HEADER_SIZE = 16,
    BOLT_ELEMENT_SIZE = 16,
    BOLT_BUCKET_SIZE = 16,
    BOLT_META_SIZE = 64,
    BOLT_META_CHECKSUM_OFFSET = 56,
    BOLT_KEY_SIZE_MAX = 32768,
    BOLT_PAGE_BRANCH = 1,
    BOLT_PAGE_LEAF = 2,
    BOLT_PAGE_META = 4,
    BOLT_PAGE_FREELIST = 16,
    BOLT_ELEMENT_IS_BUCKET = 1
};

/* FNV-1a, 64 bits. */
static inline uint64_t bolt_checksum(const uint8_t *bytes, size_t size) {
    uint64_t hash = BOLT_CHECKSUM_START;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

#endif
