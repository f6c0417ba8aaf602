#include "net/grpc_framing.h"
#include "net/grpc_message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE_MAX_OF_TEST = 1000 };

/* Three messages: "", "abc", 300 bytes. */
static struct buffer three_messages(void) {
    struct buffer stream;
    buffer_init(&stream);
    const uint32_t sizes[] = {0, 3, 300};
    for (size_t i = 0; i < 3; i++) {
        uint8_t prefix[GRPC_PREFIX_SIZE];
        grpc_framing_write_prefix(prefix, sizes[i]);
        buffer_append(&stream, prefix, sizeof prefix);
        for (uint32_t at = 0; at < sizes[i]; at++) {
            buffer_put_u8(&stream, (uint8_t)('a' + at % 26));
        }
    }
    return stream;
}

static void check_message(size_t index, struct bytes message) {
    const size_t sizes[] = {0, 3, 300};
    assert_true(index < 3);
    assert_int_equal(message.size, sizes[index]);
    for (size_t at = 0; at < message.size; at++) {
        assert_int_equal(message.data[at], 'a' + at % 26);
    }
}

static void messages_survive_every_way_to_cut_the_stream(void **state) {
    struct buffer stream = three_messages();
    for (size_t step = 1; step <= stream.size; step++) {
        struct grpc_framing framing;
        grpc_framing_init(&framing);
        size_t n_messages = 0;
        for (size_t at = 0; at < stream.size; at += step) {
            size_t size = stream.size - at < step ? stream.size - at : step;
            struct bytes input = bytes_of(stream.data + at, size);
            struct bytes message;
            enum grpc_framing_result result;
            while ((result = grpc_framing_next(&framing, SIZE_MAX_OF_TEST, &input, &message)) ==
                   GRPC_FRAMING_MESSAGE) {
                check_message(n_messages++, message);
            }
            assert_int_equal(result, GRPC_FRAMING_MORE);
            assert_int_equal(input.size, 0);
        }
        assert_int_equal(n_messages, 3);
        assert_true(grpc_framing_is_between_messages(&framing));
        grpc_framing_clear(&framing);
    }
    buffer_clear(&stream);
}

static void whole_message_is_not_copied(void **state) {
    struct buffer stream = three_messages();
    struct grpc_framing framing;
    grpc_framing_init(&framing);
    struct bytes input = bytes_of(stream.data, stream.size);
    struct bytes message;
    grpc_framing_next(&framing, SIZE_MAX_OF_TEST, &input, &message);
    grpc_framing_next(&framing, SIZE_MAX_OF_TEST, &input, &message);
    assert_ptr_equal(message.data, stream.data + 2 * GRPC_PREFIX_SIZE);
    assert_null(framing.partial.data);
    grpc_framing_clear(&framing);
    buffer_clear(&stream);
}

static enum grpc_framing_result first_result(const uint8_t *data, size_t size,
                                             struct grpc_framing *framing) {
    struct bytes input = bytes_of(data, size);
    struct bytes message;
    grpc_framing_init(framing);
    return grpc_framing_next(framing, SIZE_MAX_OF_TEST, &input, &message);
}

static void announced_size_over_the_limit_is_refused_without_memory(void **state) {
    struct grpc_framing framing;
    const uint8_t just_too_large[] = {0, 0, 0, 0x03, 0xe9};
    const uint8_t just_right[] = {0, 0, 0, 0x03, 0xe8, 'x'};
    const uint8_t gigantic[] = {0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3};
    assert_int_equal(first_result(just_too_large, sizeof just_too_large, &framing),
                     GRPC_FRAMING_TOO_LARGE);
    assert_int_equal(framing.announced_size, 1001);
    assert_int_equal(first_result(gigantic, sizeof gigantic, &framing), GRPC_FRAMING_TOO_LARGE);
    assert_null(framing.partial.data);
    assert_int_equal(first_result(just_right, sizeof just_right, &framing), GRPC_FRAMING_MORE);
    assert_int_equal(grpc_framing_held_bytes(&framing), 1);
    assert_true(framing.partial.capacity < 1000);
    grpc_framing_clear(&framing);
}

static void flags_are_told_apart(void **state) {
    struct grpc_framing framing;
    const uint8_t compressed[] = {1, 0, 0, 0, 1, 'x'};
    const uint8_t nonsense[] = {2, 0, 0, 0, 1, 'x'};
    assert_int_equal(first_result(compressed, sizeof compressed, &framing),
                     GRPC_FRAMING_COMPRESSED);
    assert_int_equal(first_result(nonsense, sizeof nonsense, &framing), GRPC_FRAMING_MALFORMED);
}

static void unfinished_message_is_noticed(void **state) {
    struct grpc_framing framing;
    const uint8_t half_prefix[] = {0, 0};
    const uint8_t only_prefix[] = {0, 0, 0, 0, 1};
    first_result(half_prefix, sizeof half_prefix, &framing);
    assert_false(grpc_framing_is_between_messages(&framing));
    first_result(only_prefix, sizeof only_prefix, &framing);
    assert_false(grpc_framing_is_between_messages(&framing));
    grpc_framing_reset(&framing);
    assert_true(grpc_framing_is_between_messages(&framing));
    grpc_framing_clear(&framing);
}

static void what_lies_whole_in_the_input_can_be_looked_at_first(void **state) {
    struct buffer stream = three_messages();
    for (size_t size = 0; size <= stream.size; size++) {
        size_t at = 0;
        size_t n = 0;
        struct bytes message;
        while (grpc_framing_peek(bytes_of(stream.data, size), &at, &message)) {
            check_message(n++, message);
        }
        assert_int_equal(n, (size >= 5) + (size >= 13) + (size >= 318));
        assert_int_equal(at, n == 0 ? 0 : n == 1 ? 5 : n == 2 ? 13 : 318);
    }
    /* What grpc_framing_next() will refuse is not looked at. */
    size_t at = 0;
    struct bytes message;
    assert_false(grpc_framing_peek(bytes_of("\1\0\0\0\0", 5), &at, &message));
    assert_false(grpc_framing_peek(bytes_of("\0\xff\xff\xff\xff", 5), &at, &message));
    buffer_clear(&stream);
}

static void status_text_is_percent_encoded(void **state) {
    char out[64];
    assert_int_equal(grpc_message_encode("plain text", out, sizeof out), 10);
    assert_string_equal(out, "plain text");
    grpc_message_encode("100% n\xc3\xb6\n", out, sizeof out);
    assert_string_equal(out, "100%25 n%C3%B6%0A");
}

static void status_text_that_does_not_fit_is_cut_between_characters(void **state) {
    char out[6];
    assert_int_equal(grpc_message_encode("abc%d", out, sizeof out), 3);
    assert_string_equal(out, "abc");
    assert_int_equal(grpc_message_encode("abcdefgh", out, sizeof out), 5);
    assert_string_equal(out, "abcde");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_survive_every_way_to_cut_the_stream),
        cmocka_unit_test(whole_message_is_not_copied),
        cmocka_unit_test(announced_size_over_the_limit_is_refused_without_memory),
        cmocka_unit_test(flags_are_told_apart),
        cmocka_unit_test(unfinished_message_is_noticed),
        cmocka_unit_test(what_lies_whole_in_the_input_can_be_looked_at_first),
        cmocka_unit_test(status_text_is_percent_encoded),
        cmocka_unit_test(status_text_that_does_not_fit_is_cut_between_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
