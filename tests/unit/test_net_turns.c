/* Connections share the loop's time: one that sends much, or what takes long, keeps nobody waiting.
 */
#include "net_fixture.h"

enum { MESSAGES = 600, MESSAGE_SIZE = 100, SPIN_US = 500, CONNECTIONS = 8 };
enum { DEAR = 100, CHEAP = 24, KNOWN_AFTER = 12, WELL_KNOWN_AFTER = 30 };
enum { LARGE_SIZE = 20 * 1000, LATE_SPIN_US = 10 * 1000 };

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

/* A large message that takes long. */
static void late_on_message(struct grpc_call *call, struct bytes message) {
    uint64_t end_ns = uv_hrtime() + LATE_SPIN_US * UINT64_C(1000);
    fixture_of(call)->n_messages++;
    assert_int_equal(message.size, LARGE_SIZE);
    while (uv_hrtime() < end_ns) {
    }
    grpc_call_reply(call, bytes_of("k", 1));
}

static void quick_on_message(struct grpc_call *call, struct bytes message) {
    (void)message;
    fixture_of(call)->n_half_closed = fixture_of(call)->n_messages;
    grpc_call_reply(call, bytes_of("k", 1));
}

/* A small message that takes a while, and another client's that does not. */
static void dear_on_message(struct grpc_call *call, struct bytes message) {
    (void)message;
    uint64_t end_ns = uv_hrtime() + SPIN_US * UINT64_C(1000);
    fixture_of(call)->n_messages++;
    while (uv_hrtime() < end_ns) {
    }
    grpc_call_reply(call, bytes_of("k", 1));
}

/* Of dear messages, before the first and the last cheap one. */
static unsigned dear_before_first;
static unsigned dear_before_last;
static unsigned n_cheap;

static void cheap_on_message(struct grpc_call *call, struct bytes message) {
    (void)message;
    dear_before_last = fixture_of(call)->n_messages;
    if (n_cheap == 0) {
        dear_before_first = dear_before_last;
    }
    n_cheap++;
    grpc_call_reply(call, bytes_of("k", 1));
}

static const struct grpc_method priced_methods[] = {
    {.path = "/test.Turns/Dear", .kind = GRPC_UNARY, .on_message = dear_on_message},
    {.path = "/test.Turns/Cheap", .kind = GRPC_UNARY, .on_message = cheap_on_message},
};

static const struct grpc_method methods[] = {
    {.path = "/test.Turns/Spin", .kind = GRPC_BIDIRECTIONAL, .on_message = spin_on_message},
    {.path = "/test.Turns/Quick", .kind = GRPC_UNARY, .on_message = quick_on_message},
    {.path = "/test.Turns/Late", .kind = GRPC_UNARY, .on_message = late_on_message},
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
    fixture_start(&fixture, &net_limits_default, methods, 3);
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
    fixture_start(&fixture, &net_limits_default, methods, 3);
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
    fixture_start(&fixture, &net_limits_default, methods, 3);
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
    fixture_start(&fixture, &net_limits_default, methods, 3);
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

/* The last byte of a large message is small input, and all of its work. */
static void large_messages_that_end_together_are_handled_one_after_the_other(void **state) {
    (void)state;
    static const uint8_t large[LARGE_SIZE];
    struct fixture fixture;
    struct client late[CONNECTIONS];
    struct buffer framed;
    fixture_start(&fixture, &net_limits_default, methods, 3);
    buffer_init(&framed);
    framed_append(&framed, bytes_of(large, sizeof large));
    for (size_t i = 0; i < CONNECTIONS; i++) {
        client_open(&late[i], &fixture);
        client_request(&late[i], "POST", "/test.Turns/Late", "application/grpc", NULL,
                       bytes_of(framed.data, framed.size - 1), true);
        client_wait(&late[i], late[i].answers[0].is_deferred);
        for (unsigned j = 0; j < 3; j++) {
            client_turn(&late[i]);
        }
    }
    assert_int_equal(fixture.n_messages, 0);
    for (size_t i = 0; i < CONNECTIONS; i++) {
        client_send(&late[i], &late[i].answers[0], bytes_of(large, 1), false);
        client_write(&late[i]);
    }
    unsigned n_before = 0;
    while (fixture.n_messages < CONNECTIONS) {
        fixture_turn(&fixture);
        assert_true(fixture.n_messages - n_before <= CONNECTIONS / 2);
        n_before = fixture.n_messages;
    }
    for (size_t i = 0; i < CONNECTIONS; i++) {
        client_wait(&late[i], late[i].answers[0].is_closed);
        client_close(&late[i]);
    }
    buffer_clear(&framed);
    fixture_stop(&fixture);
}

/* A thousand connections that ask once for much keep nobody waiting who is known to ask for little;
 * and those who are known do not starve the others. */
static void who_asked_for_little_so_far_goes_first(void **state) {
    (void)state;
    static struct client dear[DEAR];
    static struct client cheap[CHEAP];
    struct fixture fixture;
    fixture_start(&fixture, &net_limits_default, priced_methods, 2);
    for (size_t i = 0; i < CHEAP; i++) {
        client_open(&cheap[i], &fixture);
        for (size_t j = 0; j < KNOWN_AFTER; j++) {
            client_call(&cheap[i], "/test.Turns/Cheap", bytes_of("c", 1), NULL, false);
            client_wait(&cheap[i], cheap[i].answers[j].is_closed);
        }
    }
    for (size_t i = 0; i < DEAR; i++) {
        client_open(&dear[i], &fixture);
        client_turn(&dear[i]);
    }
    n_cheap = 0;
    for (size_t i = 0; i < DEAR; i++) {
        client_call(&dear[i], "/test.Turns/Dear", bytes_of("d", 1), NULL, false);
        client_write(&dear[i]);
    }
    for (size_t i = 0; i < CHEAP; i++) {
        client_call(&cheap[i], "/test.Turns/Cheap", bytes_of("c", 1), NULL, false);
        client_write(&cheap[i]);
    }
    while (n_cheap < CHEAP) {
        fixture_turn(&fixture);
    }
    assert_true(dear_before_first < DEAR / 2);
    assert_true(dear_before_last > dear_before_first);
    for (size_t i = 0; i < DEAR; i++) {
        client_wait(&dear[i], dear[i].answers[0].is_closed);
        client_close(&dear[i]);
    }
    for (size_t i = 0; i < CHEAP; i++) {
        client_close(&cheap[i]);
    }
    fixture_stop(&fixture);
}

/* The processor may have been taken away for a moment while its request was served. */
static void one_request_that_took_long_is_forgiven(void **state) {
    (void)state;
    static struct client dear[DEAR];
    struct client cheap;
    struct fixture fixture;
    fixture_start(&fixture, &net_limits_default, priced_methods, 2);
    client_open(&cheap, &fixture);
    for (size_t i = 0; i <= WELL_KNOWN_AFTER; i++) {
        const char *path = i < WELL_KNOWN_AFTER ? "/test.Turns/Cheap" : "/test.Turns/Dear";
        client_call(&cheap, path, bytes_of("c", 1), NULL, false);
        client_wait(&cheap, cheap.answers[i].is_closed);
    }
    for (size_t i = 0; i < DEAR; i++) {
        client_open(&dear[i], &fixture);
        client_turn(&dear[i]);
    }
    n_cheap = 0;
    for (size_t i = 0; i < DEAR; i++) {
        client_call(&dear[i], "/test.Turns/Dear", bytes_of("d", 1), NULL, false);
        client_write(&dear[i]);
    }
    client_call(&cheap, "/test.Turns/Cheap", bytes_of("c", 1), NULL, false);
    client_write(&cheap);
    while (n_cheap == 0) {
        fixture_turn(&fixture);
    }
    assert_true(dear_before_first < DEAR / 2);
    for (size_t i = 0; i < DEAR; i++) {
        client_wait(&dear[i], dear[i].answers[0].is_closed);
        client_close(&dear[i]);
    }
    client_close(&cheap);
    fixture_stop(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_sends_much_keeps_another_waiting_for_a_turn_only),
        cmocka_unit_test(those_that_send_much_take_turns),
        cmocka_unit_test(a_connection_that_closes_takes_what_waited_along),
        cmocka_unit_test(while_there_is_congestion_only_those_that_ask_now_and_then_are_heard),
        cmocka_unit_test(large_messages_that_end_together_are_handled_one_after_the_other),
        cmocka_unit_test(who_asked_for_little_so_far_goes_first),
        cmocka_unit_test(one_request_that_took_long_is_forgiven),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
