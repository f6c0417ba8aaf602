/* CRC-32C (Castagnoli), for what we write to disk ourselves. */
#ifndef LEASED_BASE_CRC32_H
#define LEASED_BASE_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Continues from `crc`, which is 0 at the start. */
uint32_t crc32c(uint32_t crc, const void *data, size_t size);

/* The same without the help of the processor; for tests. */
uint32_t crc32c_portable(uint32_t crc, const void *data, size_t size);

#endif
