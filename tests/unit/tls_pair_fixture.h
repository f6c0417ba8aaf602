/* Both ends of a TLS connection in memory: what one wants sent is fed to the other, in pieces. */
#ifndef LEASED_TESTS_TLS_PAIR_FIXTURE_H
#define LEASED_TESTS_TLS_PAIR_FIXTURE_H

#include "base/clock.h"
#include "base/log.h"
#include "certificates_fixture.h"
#include "tls/tls_stream.h"

#include <openssl/ssl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { CONNECTING, ACCEPTING, SIDES, STEPS_MAX = 1000000 };

struct side {
    struct tls_files files;
    struct tls_context *context;
    struct tls_stream *stream;
    struct buffer received;
};

static struct tls_authority ours;
static struct tls_authority theirs;
static struct side sides[SIDES];
static const char *const side_names[SIDES] = {"connecting", "accepting"};
static const struct tls_terms usual_terms = {0};

static inline void use_options(struct side *side, const struct tls_options *options) {
    char error[512] = "";
    tls_context_destroy(side->context);
    side->context = NULL;
    assert_int_equal(tls_context_create(options, &side->context, error, sizeof error), STATUS_OK);
}

static inline void make_side(size_t which, const struct tls_authority *signer,
                             const struct tls_authority *trusted, const struct tls_terms *terms) {
    tls_files_make(&sides[which].files, side_names[which], signer, trusted, terms);
    use_options(&sides[which], &sides[which].files.options);
}

/* Lets the next look at the files be due, and looks. */
static inline bool look_again(size_t which) {
    static uint64_t ahead_ms;
    ahead_ms += TLS_RELOAD_INTERVAL_MS;
    return tls_context_poll(sides[which].context, clock_boottime_ms() + ahead_ms);
}

static inline void drop_streams(void) {
    for (size_t i = 0; i < SIDES; i++) {
        tls_stream_destroy(sides[i].stream);
        sides[i].stream = NULL;
        buffer_clear(&sides[i].received);
    }
}

static inline void begin(const char *host) {
    drop_streams();
    sides[CONNECTING].stream = tls_stream_connect(sides[CONNECTING].context, host);
    sides[ACCEPTING].stream = tls_stream_accept(sides[ACCEPTING].context);
    assert_non_null(sides[CONNECTING].stream);
    assert_non_null(sides[ACCEPTING].stream);
}

/* Carries up to `piece` bytes one way; false: there were none. */
static inline bool carry(struct side *from, struct side *to, size_t piece) {
    struct buffer *output = tls_stream_output(from->stream);
    size_t size = output->size < piece ? output->size : piece;
    if (size == 0) {
        return false;
    }
    (void)tls_stream_feed(to->stream, bytes_of(output->data, size), &to->received);
    memmove(output->data, output->data + size, output->size - size);
    output->size -= size;
    return true;
}

static inline void carry_all(size_t piece) {
    for (unsigned i = 0;; i++) {
        bool is_moved = carry(&sides[CONNECTING], &sides[ACCEPTING], piece);
        is_moved = carry(&sides[ACCEPTING], &sides[CONNECTING], piece) || is_moved;
        if (!is_moved) {
            return;
        }
        assert_true(i < STEPS_MAX);
    }
}

static inline enum tls_state state_of(size_t which) {
    return tls_stream_state(sides[which].stream);
}

static inline void connect_both(const char *host) {
    begin(host);
    carry_all(SIZE_MAX);
    assert_int_equal(state_of(CONNECTING), TLS_OPEN);
    assert_int_equal(state_of(ACCEPTING), TLS_OPEN);
    assert_null(tls_stream_error(sides[CONNECTING].stream));
}

/* The side that connects may believe for a moment that all is well (TLS 1.3). */
static inline void assert_refused(const char *host, const char *reason_of_connecting,
                                  const char *reason_of_accepting) {
    begin(host);
    carry_all(SIZE_MAX);
    assert_int_equal(state_of(CONNECTING), TLS_FAILED);
    assert_int_equal(state_of(ACCEPTING), TLS_FAILED);
    assert_string_equal(tls_stream_error(sides[CONNECTING].stream), reason_of_connecting);
    assert_string_equal(tls_stream_error(sides[ACCEPTING].stream), reason_of_accepting);
}

static inline int set_up(void **state) {
    log_configure(LOG_ERROR, LOG_FORMAT_TEXT);
    tls_folder_make();
    ours = tls_authority_make();
    theirs = tls_authority_make();
    make_side(CONNECTING, &ours, &ours, &usual_terms);
    make_side(ACCEPTING, &ours, &ours, &usual_terms);
    return 0;
}

static inline int tear_down(void **state) {
    drop_streams();
    for (size_t i = 0; i < SIDES; i++) {
        tls_context_destroy(sides[i].context);
        sides[i].context = NULL;
    }
    tls_authority_clear(&ours);
    tls_authority_clear(&theirs);
    const struct tls_files files[] = {sides[CONNECTING].files, sides[ACCEPTING].files};
    tls_folder_remove(files, SIDES);
    return 0;
}

/* A client of OpenSSL's own, to be what our streams never are. `client` and `session` (NULL: none)
 * stay the caller's; `out_session` (NULL: not wanted) gets the session to resume. */
static inline enum tls_state meet_client_with(SSL_CTX *client, SSL_SESSION *session,
                                              SSL_SESSION **out_session) {
    begin("127.0.0.1");
    struct tls_stream *server = sides[ACCEPTING].stream;
    SSL *ssl = SSL_new(client);
    BIO *in = BIO_new(BIO_s_mem());
    BIO *out = BIO_new(BIO_s_mem());
    BIO_set_mem_eof_return(in, -1);
    SSL_set_connect_state(ssl);
    SSL_set_bio(ssl, in, out);
    if (session != NULL) {
        SSL_set_session(ssl, session);
    }
    for (unsigned i = 0; i < 10; i++) {
        char bytes[8192];
        char ignored[16];
        (void)SSL_do_handshake(ssl);
        (void)SSL_read(ssl, ignored, sizeof ignored); /* tickets come after the handshake */
        int n = BIO_read(out, bytes, sizeof bytes);
        if (n > 0) {
            (void)tls_stream_feed(server, bytes_of(bytes, (size_t)n), &sides[ACCEPTING].received);
        }
        struct buffer *output = tls_stream_output(server);
        BIO_write(in, output->data, (int)output->size);
        output->size = 0;
    }
    if (out_session != NULL) {
        *out_session = SSL_get1_session(ssl);
    }
    SSL_shutdown(ssl); /* a session whose connection was cut is not resumed */
    SSL_free(ssl);
    return tls_stream_state(server);
}

#define TLS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif
