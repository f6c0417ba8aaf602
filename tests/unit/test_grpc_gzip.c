#include "net/grpc_gzip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

enum { LARGE = 1024 * 1024 };

/* As a client does it. */
static struct buffer compressed(struct bytes message) {
    struct buffer out;
    buffer_init(&out);
    z_stream stream = {.next_in = (Bytef *)message.data, .avail_in = (uInt)message.size};
    assert_int_equal(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t bound = deflateBound(&stream, message.size) + 64;
    stream.next_out = buffer_reserve(&out, bound);
    stream.avail_out = (uInt)bound;
    assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
    out.size = bound - stream.avail_out;
    deflateEnd(&stream);
    return out;
}

static enum grpc_gzip_result inflated(struct bytes message, size_t size_max, struct buffer *out) {
    buffer_clear(out);
    enum grpc_gzip_result result = grpc_gzip_inflate(message, size_max, out);
    assert_true(out->size <= size_max);
    assert_true(out->capacity <= 2 * (size_max + 16 * 1024));
    return result;
}

static void messages_of_any_size_come_back(void **state) {
    (void)state;
    uint8_t *bytes = calloc(1, LARGE);
    assert_non_null(bytes);
    for (size_t i = 0; i < LARGE; i++) {
        bytes[i] = (uint8_t)(i * 2654435761U >> 13);
    }
    static const size_t sizes[] = {0, 1, 100, 16 * 1024, 16 * 1024 + 1, LARGE};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct buffer packed = compressed(bytes_of(bytes, sizes[i]));
        struct buffer out;
        buffer_init(&out);
        struct bytes input = bytes_of(packed.data, packed.size);
        assert_int_equal(inflated(input, sizes[i], &out), GRPC_GZIP_OK);
        assert_int_equal(out.size, sizes[i]);
        assert_true(sizes[i] == 0 || memcmp(out.data, bytes, sizes[i]) == 0);
        if (sizes[i] > 0) {
            assert_int_equal(inflated(input, sizes[i] - 1, &out), GRPC_GZIP_TOO_LARGE);
        }
        buffer_clear(&out);
        buffer_clear(&packed);
    }
    free(bytes);
}

static void a_bomb_takes_no_more_than_the_limit(void **state) {
    (void)state;
    enum { BOMB = 64 * LARGE };
    uint8_t *zeros = calloc(1, BOMB);
    assert_non_null(zeros);
    struct buffer packed = compressed(bytes_of(zeros, BOMB));
    assert_true(packed.size < BOMB / 500);
    struct buffer out;
    buffer_init(&out);
    assert_int_equal(inflated(bytes_of(packed.data, packed.size), LARGE, &out),
                     GRPC_GZIP_TOO_LARGE);
    buffer_clear(&out);
    buffer_clear(&packed);
    free(zeros);
}

static void what_is_no_gzip_is_malformed(void **state) {
    (void)state;
    struct buffer packed = compressed(bytes_from_text("a message, a message, a message"));
    struct buffer out;
    buffer_init(&out);
    for (size_t cut = 0; cut < packed.size; cut++) {
        assert_int_equal(inflated(bytes_of(packed.data, cut), LARGE, &out), GRPC_GZIP_MALFORMED);
    }
    packed.data[packed.size - 6] ^= 1; /* the checksum */
    assert_int_equal(inflated(bytes_of(packed.data, packed.size), LARGE, &out),
                     GRPC_GZIP_MALFORMED);
    packed.data[packed.size - 6] ^= 1;
    buffer_append(&packed, "x", 1);
    assert_int_equal(inflated(bytes_of(packed.data, packed.size), LARGE, &out),
                     GRPC_GZIP_MALFORMED);
    assert_int_equal(inflated(bytes_from_text("plain text"), LARGE, &out), GRPC_GZIP_MALFORMED);
    buffer_clear(&out);
    buffer_clear(&packed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_of_any_size_come_back),
        cmocka_unit_test(a_bomb_takes_no_more_than_the_limit),
        cmocka_unit_test(what_is_no_gzip_is_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
