/* Connections share the loop's time: one that sends much, or what takes long, keeps nobody waiting.
 */
#include "net_fixture.h"

enum { MESSAGES = 600, MESSAGE_SIZE = 100, SPIN_US = 500, CONNECTIONS = 8 };

/* Takes its time for each message. */
static void spin_on_message(struct grpc_call *call, struct bytes message) {
    uint64_t end_ns = uv_hrtime() + SPIN_US * UINT64_C(1000);
    fixture_of(call)->n_messages++;
    assert_int_equal(message.size, MESSAGE_SIZE);
    assert_int_equal(message.data[0], 'm');
    while (uv_hrtime() < end_ns) {
    }
    grpc_call_send(call, bytes_of("k", 1));
}

static void quick_on_message(struct grpc_call *call, struct bytes message) {
    (void)message;
    fixture_of(call)->n_half_closed = fixture_of(call)->n_messages;
    grpc_call_reply(call, bytes_of("k", 1));
}

static const struct grpc_method methods[] = {
    {.path = "/test.Turns/Spin", .kind = GRPC_BIDIRECTIONAL, .on_message = spin_on_message},
    {.path = "/test.Turns/Quick", .kind = GRPC_UNARY, .on_message = quick_on_message},
};

static bool refuses;

static bool is_congested(void *data) {
    (void)data;
    return refuses;
}

/* All its messages are in the server's socket, or under way to it. */
static void send_many(struct client *client, struct fixture *fixture) {
    uint8_t message[MESSAGE_SIZE];
    struct buffer framed;
    client_open(client, fixture);
    memset(message, 'm', sizeof message);
    buffer_init(&framed);
    for (unsigned i = 0; i < MESSAGES; i++) {
        framed_append(&framed, bytes_of(message, sizeof message));
    }
    client_request(client, "POST", "/test.Turns/Spin", "application/grpc", NULL,
                   bytes_of(framed.data, framed.size), true);
    buffer_clear(&framed);
}

static void one_that_sends_much_keeps_another_waiting_for_a_turn_only(void **state) {
    (void)state;
    struct fixture fixture;
    struct client heavy;
    struct client quick;
    fixture_start(&fixture, &net_limits_default, methods, 2);
    client_open(&quick, &fixture);
    client_call(&quick, "/test.Turns/Quick", bytes_of("q", 1), NULL, false);
    client_wait(&quick, quick.answers[0].is_closed);
    send_many(&heavy, &fixture);
    client_wait(&heavy, fixture.n_messages > 0);
    assert_true(fixture.n_messages < MESSAGES / 4);
    client_call(&quick, "/test.Turns/Quick", bytes_of("q", 1), NULL, false);
    client_wait(&quick, quick.answers[1].is_closed);
    assert_int_equal(quick.answers[1].grpc_status, GRPC_OK);
    assert_true(fixture.n_half_closed < MESSAGES / 2);
    /* What had to wait is handled all the same, in order and whole. */
    client_wait(&heavy, fixture.n_messages == MESSAGES);
    client_wait(&heavy, heavy.answers[0].body.size == MESSAGES * (GRPC_PREFIX_SIZE + 1));
    client_close(&heavy);
    client_close(&quick);
    fixture_stop(&fixture);
}

static void those_that_send_much_take_turns(void **state) {
    (void)state;
    struct fixture fixture;
    struct client heavy[CONNECTIONS];
    fixture_start(&fixture, &net_limits_default, methods, 2);
    for (size_t i = 0; i < CONNECTIONS; i++) {
        send_many(&heavy[i], &fixture);
        for (unsigned j = 0; j < 3; j++) {
            client_turn(&heavy[i]);
        }
    }
    /* When any of them is through, all are nearly so. */
    bool is_any_through = false;
    while (!is_any_through) {
        for (size_t i = 0; i < CONNECTIONS; i++) {
            client_turn(&heavy[i]);
            is_any_through |= heavy[i].answers[0].body.size == MESSAGES * (GRPC_PREFIX_SIZE + 1);
        }
    }
    assert_true(fixture.n_messages > MESSAGES * CONNECTIONS / 2);
    for (size_t i = 0; i < CONNECTIONS; i++) {
        client_close(&heavy[i]);
    }
    fixture_stop(&fixture);
}

static void a_connection_that_closes_takes_what_waited_along(void **state) {
    (void)state;
    struct fixture fixture;
    struct client heavy;
    fixture_start(&fixture, &net_limits_default, methods, 2);
    send_many(&heavy, &fixture);
    client_wait(&heavy, fixture.n_messages > 0);
    assert_true(fixture.n_messages < MESSAGES);
    client_close(&heavy);
    fixture_stop(&fixture);
}

static void while_there_is_congestion_only_those_that_ask_now_and_then_are_heard(void **state) {
    (void)state;
    struct fixture fixture;
    struct client heavy;
    struct client quick;
    fixture_start(&fixture, &net_limits_default, methods, 2);
    refuses = false;
    net_server_set_congestion(fixture.server, is_congested, NULL);
    client_open(&quick, &fixture);
    send_many(&heavy, &fixture);
    client_wait(&heavy, fixture.n_messages > 0);
    refuses = true;
    client_call(&quick, "/test.Turns/Quick", bytes_of("q", 1), NULL, false);
    client_wait(&quick, quick.answers[0].is_closed);
    assert_int_equal(quick.answers[0].grpc_status, GRPC_OK);
    unsigned n_before = fixture.n_messages;
    for (unsigned i = 0; i < 50; i++) {
        client_turn(&heavy);
    }
    assert_int_equal(fixture.n_messages, n_before);
    refuses = false;
    client_wait(&heavy, fixture.n_messages == MESSAGES);
    client_close(&heavy);
    client_close(&quick);
    fixture_stop(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_sends_much_keeps_another_waiting_for_a_turn_only),
        cmocka_unit_test(those_that_send_much_take_turns),
        cmocka_unit_test(a_connection_that_closes_takes_what_waited_along),
        cmocka_unit_test(while_there_is_congestion_only_those_that_ask_now_and_then_are_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
