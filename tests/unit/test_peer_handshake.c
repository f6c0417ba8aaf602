#include "peers/peer_handshake.h"
#include "peers/peer_proof.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

static const struct bytes none;
static struct bytes right;
static struct bytes wrong;

static struct peer_answerer answerer;
static struct peer_caller caller;
static struct buffer to_answerer;
static struct buffer to_caller;
static uint8_t nonce[PEER_NONCE_SIZE];

static int set_up(void **state) {
    right = bytes_from_text("a secret of sixteen or more");
    wrong = bytes_from_text("another secret than the other");
    buffer_init(&to_answerer);
    buffer_init(&to_caller);
    return 0;
}

static int tear_down(void **state) {
    peer_answerer_clear(&answerer);
    peer_caller_clear(&caller);
    buffer_clear(&to_answerer);
    buffer_clear(&to_caller);
    return 0;
}

static void begin(struct bytes of_caller, struct bytes of_answerer) {
    struct peer_hello hello = {
        .cluster_id = 5, .from_id = 1, .to_id = 2, .purpose = PEER_FOR_LINK, .address = "a:1"};
    memset(hello.nonce, 1, sizeof hello.nonce);
    memset(nonce, 2, sizeof nonce);
    to_answerer.size = 0;
    to_caller.size = 0;
    peer_answerer_clear(&answerer);
    peer_caller_clear(&caller);
    peer_caller_init(&caller, of_caller, &hello, &to_answerer);
    peer_answerer_init(&answerer, of_answerer, nonce);
}

static void move_on(struct buffer *buffer, size_t used) {
    memmove(buffer->data, buffer->data + used, buffer->size - used);
    buffer->size -= used;
}

/* All that waits, at once. */
static enum peer_step feed_answerer(void) {
    size_t used = 0;
    enum peer_step step = peer_answerer_feed(
        &answerer, bytes_of(to_answerer.data, to_answerer.size), &used, &to_caller);
    move_on(&to_answerer, used);
    return step;
}

/* The payload is a view, so nothing moves once it is done. */
static enum peer_step feed_caller(void) {
    size_t used = 0;
    enum peer_step step =
        peer_caller_feed(&caller, bytes_of(to_caller.data, to_caller.size), &used, &to_answerer);
    if (step == PEER_STEP_MORE) {
        move_on(&to_caller, used);
    }
    return step;
}

static void prove_caller(void) {
    assert_int_equal(feed_answerer(), PEER_STEP_MORE);
    assert_int_equal(feed_caller(), PEER_STEP_MORE);
    assert_int_equal(to_caller.size, 0);
    assert_int_equal(feed_answerer(), PEER_STEP_DONE);
}

static void without_a_secret_a_hello_is_answered(void **state) {
    begin(none, none);
    assert_int_equal(feed_answerer(), PEER_STEP_DONE);
    assert_int_equal(answerer.hello.from_id, 1);
    assert_int_equal(to_caller.size, 0);
    peer_answerer_answer(&answerer, PEER_WELCOME, bytes_from_text("payload"), &to_caller);
    assert_int_equal(feed_caller(), PEER_STEP_DONE);
    assert_int_equal(caller.answer, PEER_WELCOME);
    assert_true(bytes_equal(caller.payload, bytes_from_text("payload")));
}

static void with_the_same_secret_both_sides_are_proven(void **state) {
    begin(right, right);
    prove_caller();
    peer_answerer_answer(&answerer, PEER_WELCOME, bytes_from_text("payload"), &to_caller);
    assert_int_equal(feed_caller(), PEER_STEP_DONE);
    assert_int_equal(caller.answer, PEER_WELCOME);
    assert_null(caller.reason);
    assert_true(bytes_equal(caller.payload, bytes_from_text("payload")));
}

static void bind_both(uint8_t of_caller, uint8_t of_answerer) {
    caller.binding.size = answerer.binding.size = TLS_BINDING_SIZE;
    memset(caller.binding.bytes, of_caller, TLS_BINDING_SIZE);
    memset(answerer.binding.bytes, of_answerer, TLS_BINDING_SIZE);
}

static void a_proof_may_cover_the_connection(void **state) {
    begin(right, right);
    bind_both(7, 7);
    prove_caller();
    peer_answerer_answer(&answerer, PEER_WELCOME, bytes_from_text("payload"), &to_caller);
    assert_int_equal(feed_caller(), PEER_STEP_DONE);
    assert_int_equal(caller.answer, PEER_WELCOME);
}

/* One in the middle has a connection to either side, and passes on what both say. */
static void a_proof_is_worth_nothing_on_another_connection(void **state) {
    begin(right, right);
    bind_both(7, 8);
    assert_int_equal(feed_answerer(), PEER_STEP_MORE);
    assert_int_equal(feed_caller(), PEER_STEP_MORE);
    assert_int_equal(feed_answerer(), PEER_STEP_REFUSED);
    assert_int_equal(answerer.answer, PEER_NOT_PROVEN);
    /* Nor is the answerer's. */
    begin(right, right);
    bind_both(7, 7);
    prove_caller();
    bind_both(7, 8);
    peer_answerer_answer(&answerer, PEER_WELCOME, bytes_from_text("payload"), &to_caller);
    assert_int_equal(feed_caller(), PEER_STEP_REFUSED);
    assert_int_equal(caller.answer, PEER_NOT_PROVEN);
}

static void it_works_byte_by_byte(void **state) {
    begin(right, right);
    struct buffer sent = to_answerer;
    struct buffer kept;
    bool is_answered = false;
    buffer_init(&to_answerer);
    buffer_init(&kept);
    enum peer_step step = PEER_STEP_MORE;
    size_t at = 0;
    while (step == PEER_STEP_MORE) {
        if (at < sent.size && !is_answered) {
            buffer_put_u8(&to_answerer, sent.data[at++]);
            is_answered = feed_answerer() == PEER_STEP_DONE;
            if (is_answered) {
                peer_answerer_answer(&answerer, PEER_WELCOME, bytes_from_text("x"), &to_caller);
            }
            continue;
        }
        assert_true(to_caller.size > 0);
        buffer_put_u8(&kept, to_caller.data[0]);
        move_on(&to_caller, 1);
        size_t used;
        step = peer_caller_feed(&caller, bytes_of(kept.data, kept.size), &used, &sent);
        if (step == PEER_STEP_MORE) {
            move_on(&kept, used);
        }
    }
    assert_int_equal(step, PEER_STEP_DONE);
    assert_int_equal(caller.answer, PEER_WELCOME);
    buffer_clear(&sent);
    buffer_clear(&kept);
}

static void a_caller_with_another_secret_is_told_one_byte(void **state) {
    begin(wrong, right);
    assert_int_equal(feed_answerer(), PEER_STEP_MORE);
    assert_int_equal(feed_caller(), PEER_STEP_MORE);
    assert_int_equal(feed_answerer(), PEER_STEP_REFUSED);
    assert_int_equal(answerer.answer, PEER_NOT_PROVEN);
    assert_int_equal(to_caller.size, 1);
    assert_int_equal(feed_caller(), PEER_STEP_REFUSED);
    assert_int_equal(caller.answer, PEER_NOT_PROVEN);
}

static void a_caller_without_a_secret_proves_nothing(void **state) {
    begin(none, right);
    assert_int_equal(feed_answerer(), PEER_STEP_MORE);
    assert_int_equal(feed_caller(), PEER_STEP_REFUSED);
    assert_int_equal(caller.answer, PEER_NOT_PROVEN);
    assert_int_equal(to_answerer.size, 0);
}

static void an_answerer_without_the_secret_is_not_believed(void **state) {
    /* It asks for no proof. */
    begin(right, none);
    assert_int_equal(feed_answerer(), PEER_STEP_DONE);
    peer_answerer_answer(&answerer, PEER_REMOVED, none, &to_caller);
    assert_int_equal(feed_caller(), PEER_STEP_REFUSED);
    assert_int_equal(caller.answer, PEER_NOT_PROVEN);
    /* It asks for one, which it cannot check, and gives a wrong one. */
    begin(right, right);
    prove_caller();
    answerer.secret = wrong;
    peer_answerer_answer(&answerer, PEER_REMOVED, none, &to_caller);
    assert_int_equal(feed_caller(), PEER_STEP_REFUSED);
    assert_int_equal(caller.answer, PEER_NOT_PROVEN);
}

static void a_refusal_is_proven_too(void **state) {
    begin(right, right);
    prove_caller();
    peer_answerer_answer(&answerer, PEER_REMOVED, none, &to_caller);
    assert_int_equal(feed_caller(), PEER_STEP_DONE);
    assert_int_equal(caller.answer, PEER_REMOVED);
    assert_string_equal(caller.reason, peer_answer_text(PEER_REMOVED));
}

/* Whoever changes the answer on its way is found out. */
static void an_answer_with_any_bit_changed_is_not_believed(void **state) {
    begin(right, right);
    prove_caller();
    peer_answerer_answer(&answerer, PEER_WELCOME, bytes_from_text("payload"), &to_caller);
    for (size_t bit = 0; bit < to_caller.size * 8; bit++) {
        size_t used;
        to_caller.data[bit / 8] ^= (uint8_t)(1U << (bit % 8));
        enum peer_step step = peer_caller_feed(&caller, bytes_of(to_caller.data, to_caller.size),
                                               &used, &to_answerer);
        assert_true(step != PEER_STEP_DONE);
        to_caller.data[bit / 8] ^= (uint8_t)(1U << (bit % 8));
    }
    assert_int_equal(feed_caller(), PEER_STEP_DONE);
}

/* A proof that was heard once is worth nothing later: the answerer has another nonce then. */
static void a_proof_cannot_be_replayed(void **state) {
    begin(right, right);
    struct buffer heard;
    buffer_init(&heard);
    buffer_append(&heard, to_answerer.data, to_answerer.size);
    size_t hello_size = heard.size;
    assert_int_equal(feed_answerer(), PEER_STEP_MORE);
    assert_int_equal(feed_caller(), PEER_STEP_MORE);
    buffer_append(&heard, to_answerer.data, to_answerer.size);
    assert_int_equal(feed_answerer(), PEER_STEP_DONE);

    peer_answerer_clear(&answerer);
    nonce[0]++;
    peer_answerer_init(&answerer, right, nonce);
    buffer_append(&to_answerer, heard.data, hello_size);
    assert_int_equal(feed_answerer(), PEER_STEP_MORE);
    buffer_append(&to_answerer, heard.data + hello_size, heard.size - hello_size);
    assert_int_equal(feed_answerer(), PEER_STEP_REFUSED);
    assert_int_equal(answerer.answer, PEER_NOT_PROVEN);
    buffer_clear(&heard);
}

/* Nor may a caller make the answerer, or another caller, prove things for it: what a node says as a
 * caller is of no use to one who is asked, even with the same hello and the same nonce. */
static void a_proof_cannot_be_reflected(void **state) {
    begin(right, right);
    uint8_t proof[PEER_PROOF_SIZE];
    const struct peer_transcript said = {
        .hello = bytes_of(caller.hello_bytes.data, caller.hello_bytes.size),
        .challenge = bytes_of(nonce, sizeof nonce)};
    assert_int_equal(feed_answerer(), PEER_STEP_MORE);
    peer_proof_make(right, PEER_PROOF_OF_ANSWERER, &said, proof);
    buffer_append(&to_answerer, proof, sizeof proof);
    assert_int_equal(feed_answerer(), PEER_STEP_REFUSED);
}

static void nothing_may_follow_before_an_answer(void **state) {
    begin(none, none);
    buffer_put_u8(&to_answerer, 0);
    assert_int_equal(feed_answerer(), PEER_STEP_REFUSED);
    assert_int_equal(answerer.answer, PEER_MALFORMED);
    begin(right, right);
    buffer_put_u8(&to_answerer, 0);
    assert_int_equal(feed_answerer(), PEER_STEP_REFUSED);
    begin(right, right);
    assert_int_equal(feed_answerer(), PEER_STEP_MORE);
    assert_int_equal(feed_caller(), PEER_STEP_MORE);
    buffer_put_u8(&to_answerer, 0);
    assert_int_equal(feed_answerer(), PEER_STEP_REFUSED);
    /* Nor behind a challenge. */
    begin(right, right);
    assert_int_equal(feed_answerer(), PEER_STEP_MORE);
    buffer_put_u8(&to_caller, 0);
    assert_int_equal(feed_caller(), PEER_STEP_REFUSED);
}

static void what_is_no_hello_is_told_so(void **state) {
    /* Each with zeros behind, so that a hello's prefix is complete. */
    static const char texts[][PEER_HELLO_PREFIX_SIZE + 1] = {
        "GET / HTTP/1.1\r\n", "\x16\x03\x01\x02", "leasedpx", "leasedpr\3\0\0\0\xff\xff\xff\x7f"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        begin(none, none);
        to_answerer.size = 0;
        buffer_append(&to_answerer, texts[i], PEER_HELLO_PREFIX_SIZE);
        assert_int_equal(feed_answerer(), PEER_STEP_REFUSED);
        assert_int_equal(answerer.answer, PEER_MALFORMED);
        assert_int_equal(to_caller.size, 1);
        if (i == 1) {
            assert_non_null(strstr(answerer.reason, "TLS"));
        }
    }
}

static void answers_that_make_no_sense_are_refused(void **state) {
    for (unsigned byte = 0; byte < 256; byte++) {
        begin(none, none);
        to_caller.size = 0;
        buffer_put_u8(&to_caller, (uint8_t)byte);
        buffer_put_u32(&to_caller, byte == PEER_WELCOME ? PEER_PAYLOAD_SIZE_MAX + 1 : 1);
        assert_int_equal(feed_caller(), PEER_STEP_REFUSED);
        assert_non_null(caller.reason);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_a_secret_a_hello_is_answered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(with_the_same_secret_both_sides_are_proven, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_proof_may_cover_the_connection, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_proof_is_worth_nothing_on_another_connection, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(it_works_byte_by_byte, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_caller_with_another_secret_is_told_one_byte, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_caller_without_a_secret_proves_nothing, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_answerer_without_the_secret_is_not_believed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_refusal_is_proven_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_answer_with_any_bit_changed_is_not_believed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_proof_cannot_be_replayed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_proof_cannot_be_reflected, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_may_follow_before_an_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_hello_is_told_so, set_up, tear_down),
        cmocka_unit_test_setup_teardown(answers_that_make_no_sense_are_refused, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
