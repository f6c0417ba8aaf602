/* The methods that tests of the server call: small doors that do one thing each. */
#ifndef LEASED_TESTS_NET_DOORS_H
#define LEASED_TESTS_NET_DOORS_H

#include "net_fixture.h"

enum { STREAM_MESSAGES = 20, FLOOD_MESSAGE_SIZE = 10000 };

static inline void door_on_open(struct grpc_call *call) {
    fixture_of(call)->n_opened++;
    grpc_call_set_data(call, call);
}

static inline void door_on_close(struct grpc_call *call) {
    struct fixture *fixture = fixture_of(call);
    assert_ptr_equal(grpc_call_data(call), call);
    fixture->n_closed++;
    if (fixture->held == call) {
        fixture->held = NULL;
    }
    /* A door may forget that the call is over. */
    grpc_call_send(call, bytes_from_text("late"));
    grpc_call_finish(call, GRPC_OK, NULL);
}

static inline void echo_on_message(struct grpc_call *call, struct bytes message) {
    fixture_of(call)->n_messages++;
    grpc_call_reply(call, message);
    grpc_call_send(call, bytes_from_text("ignored"));
    grpc_call_finish(call, GRPC_INTERNAL, "ignored");
}

static inline void stream_on_message(struct grpc_call *call, struct bytes message) {
    fixture_of(call)->n_messages++;
    for (size_t i = 0; i < STREAM_MESSAGES; i++) {
        uint8_t *to = grpc_call_reserve(call, message.size + 100);
        memcpy(to, message.data, message.size);
        grpc_call_commit(call, message.size);
    }
    grpc_call_finish(call, GRPC_OK, NULL);
}

static inline void bidi_on_message(struct grpc_call *call, struct bytes message) {
    fixture_of(call)->n_messages++;
    grpc_call_send(call, message);
}

static inline bool bidi_prefetch(struct grpc_call *call, struct bytes message, bool is_near) {
    struct fixture *fixture = fixture_of(call);
    assert_true(message.size > 0);
    *(is_near ? &fixture->n_near : &fixture->n_prefetched) += 1;
    return true;
}

static inline void bidi_on_half_close(struct grpc_call *call) {
    fixture_of(call)->n_half_closed++;
    grpc_call_finish(call, GRPC_OK, NULL);
}

/* Answers when the test says so. */
static inline void hold_on_message(struct grpc_call *call, struct bytes message) {
    fixture_of(call)->n_messages++;
    fixture_of(call)->held = call;
}

static inline void error_on_message(struct grpc_call *call, struct bytes message) {
    grpc_call_finish(call, GRPC_FAILED_PRECONDITION, "100% n\xc3\xb6");
}

static inline void late_error_on_message(struct grpc_call *call, struct bytes message) {
    grpc_call_send(call, message);
    grpc_call_finish(call, GRPC_ABORTED, "after a message");
}

static inline void metadata_on_message(struct grpc_call *call, struct bytes message) {
    struct bytes value;
    if (grpc_call_metadata(call, "hasleader", &value)) {
        grpc_call_reply(call, value);
    } else {
        grpc_call_finish(call, GRPC_NOT_FOUND, NULL);
    }
}

/* Sends as long as it may, for ever. */
static inline void flood(struct grpc_call *call) {
    static const uint8_t message[FLOOD_MESSAGE_SIZE];
    while (grpc_call_is_writable(call)) {
        grpc_call_send(call, bytes_of(message, sizeof message));
        fixture_of(call)->flooded_bytes += sizeof message;
    }
}

static inline void flood_on_message(struct grpc_call *call, struct bytes message) {
    flood(call);
}

static inline void flood_on_writable(struct grpc_call *call) {
    fixture_of(call)->n_writable++;
    flood(call);
}

static const struct grpc_method test_methods[] = {
    {.path = "/test.Echo/Unary",
     .kind = GRPC_UNARY,
     .on_open = door_on_open,
     .on_message = echo_on_message,
     .on_close = door_on_close},
    {.path = "/test.Echo/Stream",
     .kind = GRPC_SERVER_STREAM,
     .on_open = door_on_open,
     .on_message = stream_on_message,
     .on_close = door_on_close},
    {.path = "/test.Echo/Bidi",
     .kind = GRPC_BIDIRECTIONAL,
     .on_open = door_on_open,
     .on_message = bidi_on_message,
     .on_half_close = bidi_on_half_close,
     .on_close = door_on_close,
     .prefetch = bidi_prefetch},
    {.path = "/test.Echo/Hold",
     .kind = GRPC_UNARY,
     .on_open = door_on_open,
     .on_message = hold_on_message,
     .on_close = door_on_close},
    {.path = "/test.Echo/HoldStream",
     .kind = GRPC_BIDIRECTIONAL,
     .on_open = door_on_open,
     .on_message = hold_on_message,
     .on_close = door_on_close},
    {.path = "/test.Echo/Error", .kind = GRPC_UNARY, .on_message = error_on_message},
    {.path = "/test.Echo/LateError",
     .kind = GRPC_SERVER_STREAM,
     .on_message = late_error_on_message},
    {.path = "/test.Echo/Metadata", .kind = GRPC_UNARY, .on_message = metadata_on_message},
    {.path = "/test.Echo/Flood",
     .kind = GRPC_BIDIRECTIONAL,
     .on_open = door_on_open,
     .on_message = flood_on_message,
     .on_writable = flood_on_writable,
     .on_close = door_on_close},
};
enum { TEST_METHODS = sizeof test_methods / sizeof test_methods[0] };

static inline struct fixture *doors_start(const struct net_limits *limits) {
    struct fixture *fixture = malloc(sizeof *fixture);
    assert_non_null(fixture);
    fixture_start(fixture, limits != NULL ? limits : &net_limits_default, test_methods,
                  TEST_METHODS);
    return fixture;
}

static inline void doors_stop(struct fixture *fixture) {
    fixture_stop(fixture);
    assert_int_equal(fixture->n_opened, fixture->n_closed);
    free(fixture);
}

#endif
