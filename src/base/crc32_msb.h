/* CRC-32 from the highest bit down, without a final inversion: raft_uv's, around what it writes. */
#ifndef LEASED_BASE_CRC32_MSB_H
#define LEASED_BASE_CRC32_MSB_H

#include <stddef.h>
#include <stdint.h>

/* Continues from `crc`, which is 0 at the start. */
uint32_t crc32_msb(uint32_t crc, const void *data, size_t size);

/* The same without the help of the processor; for tests. */
uint32_t crc32_msb_portable(uint32_t crc, const void *data, size_t size);

#endif
