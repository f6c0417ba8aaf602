#include "base/crc32.h"

#include <pthread.h>
#include <string.h>

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

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

static uint32_t crc32c_by_tables(uint32_t crc, const uint8_t *p, size_t size) {
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
    return crc;
}

#if defined(__x86_64__)
/* The processor has an instruction for this very polynomial. */
__attribute__((target("sse4.2"))) static uint32_t
crc32c_by_instruction(uint32_t crc, const uint8_t *p, size_t size) {
    uint64_t wide = crc;
    for (; size >= sizeof wide; size -= sizeof wide, p += sizeof wide) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    for (; size > 0; size--, p++) {
        crc = __builtin_ia32_crc32qi(crc, *p);
    }
    return crc;
}
#endif

#if defined(__aarch64__) && defined(__linux__)
/* The bit of AT_HWCAP that says so, as the kernel defines it. */
enum { HWCAP_HAS_CRC32 = 1 << 7 };

static uint32_t crc32c_by_instruction(uint32_t crc, const uint8_t *p, size_t size) {
    for (; size >= sizeof(uint64_t); size -= sizeof(uint64_t), p += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, p, sizeof word);
        __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    }
    for (; size > 0; size--, p++) {
        __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1" : "+r"(crc) : "r"((uint32_t)*p));
    }
    return crc;
}
#endif

static uint32_t (*crc32c_step)(uint32_t crc, const uint8_t *p, size_t size);

static void crc32c_choose(void) {
    crc32c_fill_tables();
    crc32c_step = crc32c_by_tables;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2")) {
        crc32c_step = crc32c_by_instruction;
    }
#elif defined(__aarch64__) && defined(__linux__)
    if (getauxval(AT_HWCAP) & HWCAP_HAS_CRC32) {
        crc32c_step = crc32c_by_instruction;
    }
#endif
}

static pthread_once_t crc32c_once = PTHREAD_ONCE_INIT;

uint32_t crc32c(uint32_t crc, const void *data, size_t size) {
    pthread_once(&crc32c_once, crc32c_choose);
    return ~crc32c_step(~crc, data, size);
}

uint32_t crc32c_portable(uint32_t crc, const void *data, size_t size) {
    pthread_once(&crc32c_once, crc32c_choose);
    return ~crc32c_by_tables(~crc, data, size);
}
