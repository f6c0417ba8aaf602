#include "tls_pair_fixture.h"

static struct tls_identity identity_of(const struct tls_terms *terms) {
    struct tls_identity identity;
    make_side(CONNECTING, &ours, &ours, terms);
    connect_both("127.0.0.1");
    assert_true(tls_stream_peer_identity(sides[ACCEPTING].stream, &identity));
    return identity;
}

static void assert_name(const struct tls_identity *identity, enum tls_name_kind kind, size_t index,
                        const char *expected) {
    const char *name = tls_identity_name(identity, kind, index);
    if (expected == NULL) {
        assert_null(name);
    } else {
        assert_non_null(name);
        assert_string_equal(name, expected);
    }
}

static void every_kind_of_name_can_be_read(void **state) {
    const struct tls_identity identity = identity_of(&(struct tls_terms){
        .common_name = "alice",
        .alternative_names = "DNS:a.example,URI:spiffe://example/alice,IP:127.0.0.1,"
                             "DNS:*.b.example,IP:::1,email:alice@example"});
    assert_true(identity.is_complete);
    assert_name(&identity, TLS_NAME_COMMON, 0, "alice");
    assert_name(&identity, TLS_NAME_COMMON, 1, NULL);
    assert_name(&identity, TLS_NAME_DNS, 0, "a.example");
    assert_name(&identity, TLS_NAME_DNS, 1, "*.b.example");
    assert_name(&identity, TLS_NAME_DNS, 2, NULL);
    assert_name(&identity, TLS_NAME_IP, 0, "127.0.0.1");
    assert_name(&identity, TLS_NAME_IP, 1, "::1");
    assert_name(&identity, TLS_NAME_URI, 0, "spiffe://example/alice");
    assert_name(&identity, TLS_NAME_URI, 1, NULL);
}

static void nobody_is_known_before_the_handshake(void **state) {
    struct tls_identity identity;
    begin("127.0.0.1");
    assert_false(tls_stream_peer_identity(sides[ACCEPTING].stream, &identity));
}

static void what_does_not_fit_is_left_out(void **state) {
    char names[8192] = "URI:x:first";
    for (unsigned i = 0; i < 2 * TLS_NAMES_MAX; i++) {
        char name[32];
        snprintf(name, sizeof name, ",DNS:n%u.example", i);
        strcat(names, name);
    }
    struct tls_identity identity = identity_of(&(struct tls_terms){.alternative_names = names});
    assert_false(identity.is_complete);
    assert_int_equal(identity.n_names, TLS_NAMES_MAX);
    assert_name(&identity, TLS_NAME_COMMON, 0, "member");
    assert_name(&identity, TLS_NAME_DNS, 0, "n0.example");
    assert_name(&identity, TLS_NAME_DNS, TLS_NAMES_MAX - 2, NULL);
    memset(names, 'u', TLS_NAMES_SIZE_MAX + 10);
    memcpy(names, "DNS:a.example,URI:", 18);
    names[TLS_NAMES_SIZE_MAX + 10] = '\0';
    identity = identity_of(&(struct tls_terms){.alternative_names = names});
    assert_false(identity.is_complete);
    assert_name(&identity, TLS_NAME_DNS, 0, "a.example");
    assert_name(&identity, TLS_NAME_URI, 0, NULL);
}

/* Cut at the zero it would read as "alice". */
static void a_name_with_a_control_character_is_left_out(void **state) {
    const struct tls_identity identity = identity_of(&(struct tls_terms){
        .common_name = "alice\nroot", .alternative_names = "DNS:a\tb,DNS:c.example"});
    assert_false(identity.is_complete);
    assert_name(&identity, TLS_NAME_COMMON, 0, NULL);
    assert_name(&identity, TLS_NAME_DNS, 0, "c.example");
    assert_name(&identity, TLS_NAME_DNS, 1, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TLS_TEST(every_kind_of_name_can_be_read),
        TLS_TEST(nobody_is_known_before_the_handshake),
        TLS_TEST(what_does_not_fit_is_left_out),
        TLS_TEST(a_name_with_a_control_character_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
