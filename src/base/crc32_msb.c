#include "base/crc32_msb.h"

#include <pthread.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define CRC32_POLYNOMIAL UINT32_C(0x04c11db7)

/* Eight tables let eight bytes be taken at a step. */
static uint32_t tables[8][256];

static uint32_t times_x(uint32_t remainder) {
    return (remainder << 1) ^ ((remainder >> 31) != 0 ? CRC32_POLYNOMIAL : 0);
}

static void fill_tables(void) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i << 24;
        for (unsigned bit = 0; bit < 8; bit++) {
            crc = times_x(crc);
        }
        tables[0][i] = crc;
    }
    for (unsigned t = 1; t < 8; t++) {
        for (uint32_t i = 0; i < 256; i++) {
            uint32_t crc = tables[t - 1][i];
            tables[t][i] = (crc << 8) ^ tables[0][crc >> 24];
        }
    }
}

static uint32_t by_tables(uint32_t crc, const uint8_t *p, size_t size) {
    for (; size >= 8; size -= 8, p += 8) {
        crc = tables[7][p[0] ^ (crc >> 24)] ^ tables[6][p[1] ^ ((crc >> 16) & 0xff)] ^
              tables[5][p[2] ^ ((crc >> 8) & 0xff)] ^ tables[4][p[3] ^ (crc & 0xff)] ^
              tables[3][p[4]] ^ tables[2][p[5]] ^ tables[1][p[6]] ^ tables[0][p[7]];
    }
    for (; size > 0; size--, p++) {
        crc = (crc << 8) ^ tables[0][(crc >> 24) ^ *p];
    }
    return crc;
}

#if defined(__x86_64__)
enum { BLOCK_SIZE = 16 };

/* x to the power of 192 and of 128, modulo the polynomial. */
static uint32_t x_to_192;
static uint32_t x_to_128;

static void fill_powers(void) {
    uint32_t power = 1; /* x to the power of 0 */
    for (unsigned n = 1; n <= 192; n++) {
        power = times_x(power);
        if (n == 128) {
            x_to_128 = power;
        }
    }
    x_to_192 = power;
}

/* The first byte has the highest coefficients, as in a number written down. */
__attribute__((target("pclmul,ssse3"))) static __m128i load(const uint8_t *p) {
    const __m128i backwards = _mm_set_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    return _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)p), backwards);
}

/* Replaces all blocks but one by one that leaves the same remainder: a block of 128 bits moved on
 * by 128 is its upper half times x^192, and its lower half times x^128. */
__attribute__((target("pclmul,ssse3"))) static uint32_t
by_multiplication(uint32_t crc, const uint8_t *p, size_t size) {
    if (size < 2 * BLOCK_SIZE) {
        return by_tables(crc, p, size);
    }
    const __m128i powers = _mm_set_epi64x((int64_t)x_to_192, (int64_t)x_to_128);
    __m128i block = _mm_xor_si128(load(p), _mm_set_epi32((int)crc, 0, 0, 0));
    for (p += BLOCK_SIZE, size -= BLOCK_SIZE; size >= BLOCK_SIZE;
         p += BLOCK_SIZE, size -= BLOCK_SIZE) {
        block = _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(block, powers, 0x11),
                                            _mm_clmulepi64_si128(block, powers, 0x00)),
                              load(p));
    }
    uint8_t left[BLOCK_SIZE];
    _mm_storeu_si128((__m128i *)left, block);
    _mm_storeu_si128((__m128i *)left, load(left));
    return by_tables(by_tables(0, left, BLOCK_SIZE), p, size);
}
#endif

static uint32_t (*step)(uint32_t crc, const uint8_t *p, size_t size);

static void choose(void) {
    fill_tables();
    step = by_tables;
#if defined(__x86_64__)
    fill_powers();
    if (__builtin_cpu_supports("pclmul") && __builtin_cpu_supports("ssse3")) {
        step = by_multiplication;
    }
#endif
}

static pthread_once_t once = PTHREAD_ONCE_INIT;

uint32_t crc32_msb(uint32_t crc, const void *data, size_t size) {
    pthread_once(&once, choose);
    return step(crc, data, size);
}

uint32_t crc32_msb_portable(uint32_t crc, const void *data, size_t size) {
    pthread_once(&once, choose);
    return by_tables(crc, data, size);
}
