/* Frames where they must not be (RFC 9113, sections 5 and 6): cases of h2spec that failed once. */
#include "net_frames.h"

enum { CANCEL_SIZE = 4 };
static const struct bytes nothing = {NULL, 0};
static const struct bytes cancel = {(const uint8_t *)"\0\0\0\x08", CANCEL_SIZE};
/* A message of one byte. */
static const struct bytes message = {(const uint8_t *)"\0\0\0\0\1x", 6};

struct talk {
    struct fixture *fixture;
    int fd;
    struct buffer out;
    struct buffer got;
};

static struct talk talk_open(struct fixture *fixture) {
    struct talk talk = {.fixture = fixture, .fd = raw_connect(fixture)};
    preface_append(&talk.out);
    return talk;
}

static void talk_send(struct talk *talk) {
    raw_send(talk->fd, talk->out.data, talk->out.size);
    talk->out.size = 0;
    for (unsigned i = 0; i < 10; i++) {
        fixture_turn(talk->fixture);
    }
    assert_true(raw_read(talk->fd, &talk->got));
}

/* Sends the rest; the server must end the connection with this error. */
static void assert_ends_with(struct talk *talk, uint32_t error_code) {
    raw_send(talk->fd, talk->out.data, talk->out.size);
    raw_read_to_end(talk->fixture, talk->fd, &talk->got);
    assert_int_equal(goaway_code(&talk->got), error_code);
    buffer_clear(&talk->out);
    buffer_clear(&talk->got);
    close(talk->fd);
}

/* The code of the first RST_STREAM of this stream; UINT32_MAX: none. */
static uint32_t reset_code(const struct buffer *got, uint32_t stream_id) {
    for (size_t at = 0; at + 9 <= got->size;) {
        const uint8_t *frame = got->data + at;
        uint32_t id = (uint32_t)frame[5] << 24 | (uint32_t)frame[6] << 16 |
                      (uint32_t)frame[7] << 8 | frame[8];
        if (frame[3] == NGHTTP2_RST_STREAM && id == stream_id) {
            return (uint32_t)frame[9] << 24 | (uint32_t)frame[10] << 16 | (uint32_t)frame[11] << 8 |
                   frame[12];
        }
        at += 9 + ((size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2]);
    }
    return UINT32_MAX;
}

/* A stream that both sides have ended. */
static struct talk talk_with_ended_stream(struct fixture *fixture) {
    struct talk talk = talk_open(fixture);
    call_append(&talk.out, 1, "/test.Echo/Unary");
    frame_append(&talk.out, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, message);
    talk_send(&talk);
    assert_int_equal(fixture->n_messages, 1);
    fixture->n_messages = 0;
    return talk;
}

static void data_on_an_ended_stream_is_an_error(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct talk talk = talk_with_ended_stream(fixture);
    frame_append(&talk.out, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, message);
    assert_ends_with(&talk, NGHTTP2_STREAM_CLOSED);
    doors_stop(fixture);
}

static void headers_on_an_ended_stream_are_an_error(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct talk talk = talk_with_ended_stream(fixture);
    call_append(&talk.out, 1, "/test.Echo/Unary");
    assert_ends_with(&talk, NGHTTP2_STREAM_CLOSED);
    doors_stop(fixture);
}

static void frames_behind_the_clients_reset_are_an_error(void **state) {
    struct fixture *fixture = doors_start(NULL);
    for (unsigned kind = 0; kind < 4; kind++) {
        struct talk talk = talk_open(fixture);
        call_append(&talk.out, 1, "/test.Echo/HoldStream");
        frame_append(&talk.out, NGHTTP2_RST_STREAM, 0, 1, cancel);
        if (kind % 2 == 0) {
            talk_send(&talk);
        }
        if (kind < 2) {
            frame_append(&talk.out, NGHTTP2_DATA, 0, 1, message);
        } else {
            call_append(&talk.out, 1, "/test.Echo/Unary");
        }
        assert_ends_with(&talk, NGHTTP2_STREAM_CLOSED);
    }
    doors_stop(fixture);
}

/* The client cannot know yet that we have reset the stream. */
static void frames_on_their_way_to_a_stream_that_we_reset_are_ignored(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct talk talk = talk_open(fixture);
    call_append(&talk.out, 1, "/test.Echo/Error");
    frame_append(&talk.out, NGHTTP2_DATA, 0, 1, message);
    talk_send(&talk);
    assert_int_equal(reset_code(&talk.got, 1), NGHTTP2_NO_ERROR);
    frame_append(&talk.out, NGHTTP2_DATA, 0, 1, message);
    call_append(&talk.out, 1, "/test.Echo/Unary");
    call_append(&talk.out, 3, "/test.Echo/Unary");
    frame_append(&talk.out, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 3, message);
    talk_send(&talk);
    assert_int_equal(fixture->n_messages, 1);
    assert_int_equal(goaway_code(&talk.got), UINT32_MAX);
    frame_append(&talk.out, NGHTTP2_PRIORITY, 0, 0, bytes_of("\0\0\0\0\0", 5));
    assert_ends_with(&talk, NGHTTP2_PROTOCOL_ERROR);
    doors_stop(fixture);
}

static void a_stream_number_never_goes_back(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct talk talk = talk_open(fixture);
    call_append(&talk.out, 5, "/test.Echo/HoldStream");
    call_append(&talk.out, 3, "/test.Echo/HoldStream");
    assert_ends_with(&talk, NGHTTP2_PROTOCOL_ERROR);
    assert_int_equal(fixture->n_opened, 1);
    doors_stop(fixture);
}

static void a_priority_names_a_stream_and_another(void **state) {
    struct fixture *fixture = doors_start(NULL);
    const struct {
        uint32_t stream_id;
        const char *priority;
    } wrong[] = {{0, "\0\0\0\1\x0f"}, {7, "\0\0\0\7\x0f"}, {7, "\x80\0\0\7\x0f"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct talk talk = talk_open(fixture);
        frame_append(&talk.out, NGHTTP2_PRIORITY, 0, 7, bytes_of("\0\0\0\1\x0f", 5));
        frame_append(&talk.out, NGHTTP2_PRIORITY, 0, wrong[i].stream_id,
                     bytes_of(wrong[i].priority, 5));
        assert_ends_with(&talk, NGHTTP2_PROTOCOL_ERROR);
    }
    doors_stop(fixture);
}

static void priorities_without_end_are_calmed(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct talk talk = talk_open(fixture);
    for (unsigned i = 0; i < 300000; i++) {
        frame_append(&talk.out, NGHTTP2_PRIORITY, 0, 7, bytes_of("\0\0\0\1\x0f", 5));
    }
    raw_send_all(fixture, talk.fd, bytes_of(talk.out.data, talk.out.size), &talk.got);
    raw_read_to_end(fixture, talk.fd, &talk.got);
    assert_int_equal(goaway_code(&talk.got), NGHTTP2_ENHANCE_YOUR_CALM);
    buffer_clear(&talk.out);
    buffer_clear(&talk.got);
    close(talk.fd);
    doors_stop(fixture);
}

/* --- trailers ------------------------------------------------------------------------------ */

static void trailers_append(struct buffer *out, uint32_t stream_id, uint8_t flags, const char *name,
                            const char *value) {
    struct buffer block;
    buffer_init(&block);
    buffer_put_u8(&block, 0);
    buffer_put_u8(&block, (uint8_t)strlen(name));
    buffer_append(&block, name, strlen(name));
    buffer_put_u8(&block, (uint8_t)strlen(value));
    buffer_append(&block, value, strlen(value));
    frame_append(out, NGHTTP2_HEADERS, (uint8_t)(NGHTTP2_FLAG_END_HEADERS | flags), stream_id,
                 bytes_of(block.data, block.size));
    buffer_clear(&block);
}

static void trailers_end_a_request(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct talk talk = talk_open(fixture);
    call_append(&talk.out, 1, "/test.Echo/Bidi");
    frame_append(&talk.out, NGHTTP2_DATA, 0, 1, message);
    trailers_append(&talk.out, 1, NGHTTP2_FLAG_END_STREAM, "name", "value");
    talk_send(&talk);
    assert_int_equal(fixture->n_half_closed, 1);
    assert_int_equal(reset_code(&talk.got, 1), UINT32_MAX);
    buffer_clear(&talk.out);
    buffer_clear(&talk.got);
    close(talk.fd);
    doors_stop(fixture);
}

static void malformed_trailers_reset_their_stream(void **state) {
    struct fixture *fixture = doors_start(NULL);
    const struct {
        const char *name;
        const char *value;
        uint8_t flags;
    } wrong[] = {{"name", "value", 0},
                 {":method", "GET", NGHTTP2_FLAG_END_STREAM},
                 {"Name", "value", NGHTTP2_FLAG_END_STREAM},
                 {"name", "a\nb", NGHTTP2_FLAG_END_STREAM},
                 {"connection", "close", NGHTTP2_FLAG_END_STREAM}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        fixture->n_half_closed = 0;
        struct talk talk = talk_open(fixture);
        call_append(&talk.out, 1, "/test.Echo/Bidi");
        frame_append(&talk.out, NGHTTP2_DATA, 0, 1, message);
        trailers_append(&talk.out, 1, wrong[i].flags, wrong[i].name, wrong[i].value);
        talk_send(&talk);
        assert_int_equal(reset_code(&talk.got, 1), NGHTTP2_PROTOCOL_ERROR);
        assert_int_equal(fixture->n_half_closed, 0);
        buffer_clear(&talk.out);
        buffer_clear(&talk.got);
        close(talk.fd);
    }
    doors_stop(fixture);
}

static void the_server_says_that_priorities_are_off(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct talk talk = talk_open(fixture);
    frame_append(&talk.out, NGHTTP2_PING, 0, 0, bytes_of("12345678", 8));
    talk_send(&talk);
    /* SETTINGS is the server's first frame: pairs of an id of two bytes and a value of four. */
    assert_int_equal(talk.got.data[3], NGHTTP2_SETTINGS);
    bool is_off = false;
    for (size_t at = 9; at + 6 <= 9 + (size_t)talk.got.data[2]; at += 6) {
        is_off = is_off || memcmp(talk.got.data + at, "\0\x09\0\0\0\1", 6) == 0;
    }
    assert_true(is_off);
    talk.out.size = 0;
    frame_append(&talk.out, NGHTTP2_DATA, 0, 0, nothing);
    assert_ends_with(&talk, NGHTTP2_PROTOCOL_ERROR);
    doors_stop(fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_on_an_ended_stream_is_an_error),
        cmocka_unit_test(headers_on_an_ended_stream_are_an_error),
        cmocka_unit_test(frames_behind_the_clients_reset_are_an_error),
        cmocka_unit_test(frames_on_their_way_to_a_stream_that_we_reset_are_ignored),
        cmocka_unit_test(a_stream_number_never_goes_back),
        cmocka_unit_test(a_priority_names_a_stream_and_another),
        cmocka_unit_test(priorities_without_end_are_calmed),
        cmocka_unit_test(trailers_end_a_request),
        cmocka_unit_test(malformed_trailers_reset_their_stream),
        cmocka_unit_test(the_server_says_that_priorities_are_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
