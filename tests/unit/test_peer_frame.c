#include "peers/peer_frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static void frames_follow_each_other(void **state) {
    struct buffer buffer;
    buffer_init(&buffer);
    for (uint8_t type = 1; type < 100; type++) {
        size_t start = peer_frame_begin(&buffer, type);
        for (unsigned i = 1; i < type; i++) {
            buffer_put_u8(&buffer, type);
        }
        peer_frame_end(&buffer, start);
    }
    struct bytes left = bytes_of(buffer.data, buffer.size);
    for (uint8_t expected = 1; expected < 100; expected++) {
        uint8_t type;
        struct bytes body;
        assert_int_equal(peer_frame_next(&left, &type, &body), STATUS_OK);
        assert_int_equal(type, expected);
        assert_int_equal(body.size, expected - 1);
        assert_true(expected == 1 || body.data[body.size - 1] == expected);
    }
    assert_int_equal(left.size, 0);
    buffer_clear(&buffer);
}

static void a_frame_cut_short_waits_for_the_rest(void **state) {
    struct buffer buffer;
    uint8_t type;
    struct bytes body;
    buffer_init(&buffer);
    size_t start = peer_frame_begin(&buffer, 7);
    buffer_append(&buffer, "body", 4);
    peer_frame_end(&buffer, start);
    for (size_t n = 0; n < buffer.size; n++) {
        /* In memory of its own, so that reading beyond it is seen. */
        uint8_t *copy = malloc(n + 1);
        assert_non_null(copy);
        memcpy(copy, buffer.data, n);
        struct bytes left = bytes_of(copy, n);
        assert_int_equal(peer_frame_next(&left, &type, &body), STATUS_PENDING);
        assert_int_equal(left.size, n);
        free(copy);
    }
    buffer_clear(&buffer);
}

static void a_size_beyond_the_bound_is_refused_at_once(void **state) {
    uint32_t size = PEER_FRAME_SIZE_MAX;
    uint8_t bytes[4];
    uint8_t type;
    struct bytes body;
    for (unsigned extra = 0; extra < 2; extra++) {
        for (size_t i = 0; i < 4; i++) {
            bytes[i] = (uint8_t)((size + extra) >> (8 * i));
        }
        struct bytes left = bytes_of(bytes, sizeof bytes);
        assert_int_equal(peer_frame_next(&left, &type, &body),
                         extra == 0 ? STATUS_PENDING : STATUS_MALFORMED);
    }
}

static void a_keepalive_has_no_body(void **state) {
    static const uint8_t empty[] = {0, 0, 0, 0, PEER_FRAME_KEEPALIVE};
    static const uint8_t full[] = {1, 0, 0, 0, PEER_FRAME_KEEPALIVE};
    uint8_t type;
    struct bytes body;
    struct bytes left = bytes_of(empty, sizeof empty);
    assert_int_equal(peer_frame_next(&left, &type, &body), STATUS_OK);
    left = bytes_of(full, sizeof full);
    assert_int_equal(peer_frame_next(&left, &type, &body), STATUS_MALFORMED);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_follow_each_other),
        cmocka_unit_test(a_frame_cut_short_waits_for_the_rest),
        cmocka_unit_test(a_size_beyond_the_bound_is_refused_at_once),
        cmocka_unit_test(a_keepalive_has_no_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
