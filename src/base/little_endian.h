/* Numbers of a file format in memory, lowest byte first, at any address. Nothing is checked: the
 * caller knows that the bytes are there. For bytes that are not, see struct reader (buffer.h). */
#ifndef LEASED_BASE_LITTLE_ENDIAN_H
#define LEASED_BASE_LITTLE_ENDIAN_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

static inline uint16_t little_endian_get_u16(const uint8_t *at) {
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return le16toh(value);
}

static inline uint32_t little_endian_get_u32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, sizeof value);
    return le32toh(value);
}

static inline uint64_t little_endian_get_u64(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return le64toh(value);
}

static inline void little_endian_put_u16(uint8_t *at, uint16_t value) {
    value = htole16(value);
    memcpy(at, &value, sizeof value);
}

static inline void little_endian_put_u32(uint8_t *at, uint32_t value) {
    value = htole32(value);
    memcpy(at, &value, sizeof value);
}

static inline void little_endian_put_u64(uint8_t *at, uint64_t value) {
    value = htole64(value);
    memcpy(at, &value, sizeof value);
}

#endif
