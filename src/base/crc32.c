#include "base/crc32.h"

#include <pthread.h>

enum { CRC32C_POLYNOMIAL_REFLECTED = (int)0x82f63b78 };

/* Eight tables let eight bytes be taken at a step. */
static uint32_t tables[8][256];

static void crc32c_fill_tables(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (unsigned bit = 0; bit < 8; bit++) {
            crc = (crc >> 1) ^ ((crc & 1) ? (uint32_t)CRC32C_POLYNOMIAL_REFLECTED : 0);
        }
        tables[0][i] = crc;
    }
    for (unsigned t = 1; t < 8; t++) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t crc = tables[t - 1][i];
            tables[t][i] = (crc >> 8) ^ tables[0][crc & 0xff];
        }
    }
}

uint32_t crc32c(uint32_t crc, const void *data, size_t size) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, crc32c_fill_tables);

    const uint8_t *p = data;
    crc = ~crc;
    for (; size >= 8; size -= 8, p += 8) {
        uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                              (uint32_t)p[3] << 24);
        crc = tables[7][low & 0xff] ^ tables[6][(low >> 8) & 0xff] ^ tables[5][(low >> 16) & 0xff] ^
              tables[4][low >> 24] ^ tables[3][p[4]] ^ tables[2][p[5]] ^ tables[1][p[6]] ^
              tables[0][p[7]];
    }
    for (; size > 0; size--, p++) {
        crc = (crc >> 8) ^ tables[0][(crc ^ *p) & 0xff];
    }
    return ~crc;
}
