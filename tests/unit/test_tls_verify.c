/* What a certificate must say beside its signatures, and that it must not be revoked. */
#include "tls_pair_fixture.h"

/* ---- names ---- */

static void a_certificate_with_another_name_than_allowed_is_refused(void **state) {
    static const char reason[] = "the peer's certificate bears another name than the allowed one";
    static const struct tls_terms other = {.common_name = "members2"};
    static const struct tls_terms right = {.common_name = "members2",
                                           .alternative_names = "DNS:members.example"};
    struct tls_options options = sides[ACCEPTING].files.options;
    make_side(CONNECTING, &ours, &ours, &other);
    options.allowed_cn = "members";
    use_options(&sides[ACCEPTING], &options);
    assert_refused("127.0.0.1", "the peer refuses our certificate", reason);
    options.allowed_cn = "members2";
    options.allowed_hostname = "members.example";
    use_options(&sides[ACCEPTING], &options);
    assert_refused("127.0.0.1", "the peer refuses our certificate", reason);
    make_side(CONNECTING, &ours, &ours, &right);
    connect_both("127.0.0.1");
    options.allowed_cn = "";
    options.allowed_hostname = "";
    use_options(&sides[ACCEPTING], &options);
    connect_both("127.0.0.1");
}

static void one_of_several_names_is_enough(void **state) {
    static const struct tls_terms terms = {.common_name = "bob",
                                           .alternative_names = "DNS:b.example,IP:127.0.0.1"};
    struct tls_options options = sides[ACCEPTING].files.options;
    make_side(CONNECTING, &ours, &ours, &terms);
    options.allowed_cn = "alice,bob";
    options.allowed_hostname = "a.example,b.example";
    use_options(&sides[ACCEPTING], &options);
    connect_both("127.0.0.1");
    /* A part of a name, or a list of them, is another name. */
    options.allowed_cn = "alice,bobby,bo,";
    use_options(&sides[ACCEPTING], &options);
    assert_refused("127.0.0.1", "the peer refuses our certificate",
                   "the peer's certificate bears another name than the allowed one");
    assert_int_equal(tls_stream_failure(sides[ACCEPTING].stream), TLS_FAILURE_WRONG_NAME);
}

/* ---- revoked certificates ---- */

static void use_list(const struct tls_authority *authority, const char *cert_path,
                     enum tls_list_kind kind) {
    struct tls_options options = sides[ACCEPTING].files.options;
    tls_list_write(sides[ACCEPTING].files.crl, authority, cert_path, kind);
    options.crl_file = sides[ACCEPTING].files.crl;
    use_options(&sides[ACCEPTING], &options);
}

static void assert_revoked(void) {
    assert_refused("127.0.0.1", "the peer says that our certificate was revoked",
                   "the peer's certificate was revoked");
}

static void a_revoked_certificate_is_refused(void **state) {
    use_list(&ours, NULL, TLS_LIST_USUAL);
    connect_both("127.0.0.1");
    use_list(&ours, sides[CONNECTING].files.cert, TLS_LIST_USUAL);
    assert_revoked();
    use_list(&ours, sides[CONNECTING].files.cert, TLS_LIST_DER);
    assert_revoked();
    /* Another certificate of the same authority is none of its business. */
    use_list(&ours, sides[ACCEPTING].files.cert, TLS_LIST_USUAL);
    connect_both("127.0.0.1");
}

static void a_list_that_changed_is_read_again(void **state) {
    use_list(&ours, NULL, TLS_LIST_USUAL);
    connect_both("127.0.0.1");
    tls_list_write(sides[ACCEPTING].files.crl, &ours, sides[CONNECTING].files.cert, TLS_LIST_USUAL);
    assert_true(look_again(ACCEPTING));
    assert_revoked();
    /* Damaged, it leaves the old one in use. */
    FILE *file = fopen(sides[ACCEPTING].files.crl, "a");
    assert_non_null(file);
    fputs("-----BEGIN X509 CRL-----\nnonsense\n", file);
    fclose(file);
    assert_false(look_again(ACCEPTING));
    assert_revoked();
}

static void a_list_past_its_time_still_counts(void **state) {
    use_list(&ours, NULL, TLS_LIST_PAST_ITS_TIME);
    connect_both("127.0.0.1");
    use_list(&ours, sides[CONNECTING].files.cert, TLS_LIST_PAST_ITS_TIME);
    assert_revoked();
}

/* Anybody could write a list that revokes nothing. */
static void a_list_of_another_authority_is_no_list(void **state) {
    use_list(&theirs, NULL, TLS_LIST_USUAL);
    begin("127.0.0.1");
    carry_all(SIZE_MAX);
    assert_int_equal(state_of(ACCEPTING), TLS_FAILED);
    assert_int_equal(tls_stream_failure(sides[ACCEPTING].stream), TLS_FAILURE_NO_REVOCATION_LIST);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TLS_TEST(a_certificate_with_another_name_than_allowed_is_refused),
        TLS_TEST(one_of_several_names_is_enough),
        TLS_TEST(a_revoked_certificate_is_refused),
        TLS_TEST(a_list_that_changed_is_read_again),
        TLS_TEST(a_list_past_its_time_still_counts),
        TLS_TEST(a_list_of_another_authority_is_no_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
