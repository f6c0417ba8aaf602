#include "base/keyed_hash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

enum { BUCKETS = 4096, NUMBERS = 4096, LONGEST_MAX = 24 };

/* The key of the paper, 00 01 .. 0f, and messages 00 01 ..; computed by another program, which
 * gives the paper's own example with two and four rounds. */
static void sip_hash_gives_what_another_program_gives(void **state) {
    struct hash_key key = {{UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)}};
    const struct {
        size_t size;
        uint64_t hash;
    } cases[] = {
        {0, UINT64_C(0xabac0158050fc4dc)},  {1, UINT64_C(0xc9f49bf37d57ca93)},
        {7, UINT64_C(0xd3927d989bb11140)},  {8, UINT64_C(0x369095118d299a8e)},
        {15, UINT64_C(0xd320d86d2a519956)}, {16, UINT64_C(0xcc4fdd1a7d908b66)},
    };
    uint8_t message[16];
    for (size_t i = 0; i < sizeof message; i++) {
        message[i] = (uint8_t)i;
    }
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_true(keyed_hash_bytes(&key, bytes_of(message, cases[i].size)) == cases[i].hash);
    }
}

static void parts_give_what_the_whole_gives(void **state) {
    uint8_t text[64];
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (uint8_t)(i * 37 + 200);
    }
    for (size_t step = 1; step <= 17; step++) {
        struct keyed_hash hash;
        keyed_hash_begin(&hash, &hash_key_fixed);
        for (size_t at = 0; at + step <= sizeof text; at += step) {
            assert_true(keyed_hash_value(&hash) ==
                        keyed_hash_bytes(&hash_key_fixed, bytes_of(text, at)));
            keyed_hash_add(&hash, bytes_of(text + at, step));
        }
    }
}

/* Numbers that met in one bucket of the hashes without a key. */
static void numbers_of_any_shape_spread(void **state) {
    for (unsigned shape = 0; shape < 4; shape++) {
        struct hash_key key;
        unsigned counts[BUCKETS] = {0};
        unsigned longest = 0;
        hash_key_fill(&key);
        for (uint64_t i = 0; i < NUMBERS; i++) {
            const uint64_t numbers[] = {i, i << 32, i * UINT64_C(0x9e3779b97f4a7c15), ~i << 48};
            unsigned count = ++counts[keyed_hash_number(&key, numbers[shape]) % BUCKETS];
            longest = count > longest ? count : longest;
        }
        assert_true(longest < LONGEST_MAX);
    }
}

static void another_key_gives_another_hash(void **state) {
    struct hash_key a;
    struct hash_key b;
    hash_key_fill(&a);
    hash_key_fill(&b);
    assert_memory_not_equal(&a, &b, sizeof a);
    assert_true(keyed_hash_number(&a, 7) != keyed_hash_number(&b, 7));
    assert_true(keyed_hash_bytes(&a, bytes_from_text("k")) !=
                keyed_hash_bytes(&b, bytes_from_text("k")));
    assert_true(keyed_hash_bytes(&a, bytes_from_text("k")) ==
                keyed_hash_bytes(&a, bytes_from_text("k")));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sip_hash_gives_what_another_program_gives),
        cmocka_unit_test(parts_give_what_the_whole_gives),
        cmocka_unit_test(numbers_of_any_shape_spread),
        cmocka_unit_test(another_key_gives_another_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
