#include "tls/tls_stream.h"

#include "tls/tls_crypto.h"
#include "tls/tls_internal.h"

#include <assert.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>

enum { TLS_RECORD_SIZE = 16 * 1024, TLS_ALPN_NAME_MAX = 64 };

struct tls_stream {
    SSL *ssl;
    enum tls_state state;
    enum tls_failure failure;
    const char *error;
    struct bytes input; /* what is being fed; empty between calls */
    bool is_input_over;
    bool is_ended_here;
    struct buffer output;
    char alpn[TLS_ALPN_NAME_MAX];
};

/* --- The ends of OpenSSL's pipe: reads from what is being fed, writes to the output. --- */

static int pipe_read(BIO *bio, char *to, size_t size, size_t *out_size) {
    struct tls_stream *stream = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (stream->input.size == 0) {
        if (!stream->is_input_over) {
            BIO_set_retry_read(bio);
        }
        *out_size = 0;
        return 0;
    }
    size_t n = size < stream->input.size ? size : stream->input.size;
    memcpy(to, stream->input.data, n);
    stream->input = bytes_of(stream->input.data + n, stream->input.size - n);
    *out_size = n;
    return 1;
}

static int pipe_write(BIO *bio, const char *from, size_t size, size_t *out_size) {
    struct tls_stream *stream = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    buffer_append(&stream->output, from, size);
    *out_size = size;
    return 1;
}

static long pipe_control(BIO *bio, int command, long number, void *pointer) {
    const struct tls_stream *stream = BIO_get_data(bio);
    (void)number;
    (void)pointer;
    switch (command) {
    case BIO_CTRL_FLUSH:
        return 1;
    case BIO_CTRL_EOF:
        return stream->is_input_over && stream->input.size == 0;
    default:
        return 0;
    }
}

/* Made once and kept: the number of a BIO's type cannot be given back. */
static BIO_METHOD *pipe_method(void) {
    static BIO_METHOD *method;
    if (method == NULL) {
        method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "leased");
        if (method == NULL || BIO_meth_set_read_ex(method, pipe_read) != 1 ||
            BIO_meth_set_write_ex(method, pipe_write) != 1 ||
            BIO_meth_set_ctrl(method, pipe_control) != 1) {
            abort();
        }
    }
    return method;
}

/* --- Life. --- */

static void settle(struct tls_stream *stream, int result) {
    int error = SSL_get_error(stream->ssl, result);
    switch (error) {
    case SSL_ERROR_NONE:
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
        return;
    default:
        stream->failure =
            tls_failure_of(stream->ssl, error, stream->state == TLS_OPEN, &stream->error);
        stream->state = error == SSL_ERROR_ZERO_RETURN ? TLS_ENDED : TLS_FAILED;
        return;
    }
}

/* OpenSSL says nothing to one who speaks plain text; an alert tells why it is not let in. */
static void answer_plain_text(struct tls_stream *stream) {
    static const uint8_t alert[] = {SSL3_RT_ALERT,          3, 1, 0, 2, SSL3_AL_FATAL,
                                    SSL_AD_PROTOCOL_VERSION};
    if (SSL_is_server(stream->ssl) && stream->output.size == 0) {
        buffer_append(&stream->output, alert, sizeof alert);
    }
}

static void shake_hands(struct tls_stream *stream) {
    ERR_clear_error();
    int result = SSL_do_handshake(stream->ssl);
    if (result != 1) {
        bool is_plain_text = ERR_GET_REASON(ERR_peek_last_error()) == SSL_R_WRONG_VERSION_NUMBER;
        settle(stream, result);
        if (is_plain_text) {
            answer_plain_text(stream);
        }
        return;
    }
    const unsigned char *alpn;
    unsigned alpn_size;
    stream->state = TLS_OPEN;
    SSL_get0_alpn_selected(stream->ssl, &alpn, &alpn_size);
    if (alpn_size > 0 && alpn_size < sizeof stream->alpn) {
        memcpy(stream->alpn, alpn, alpn_size);
    }
}

static struct tls_stream *create(SSL *ssl) {
    struct tls_stream *stream = calloc(1, sizeof *stream);
    BIO *bio = BIO_new(pipe_method());
    if (stream == NULL || bio == NULL) {
        abort();
    }
    stream->ssl = ssl;
    buffer_init(&stream->output);
    BIO_set_data(bio, stream);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    shake_hands(stream);
    return stream;
}

struct tls_stream *tls_stream_connect(struct tls_context *context, const char *host) {
    SSL *ssl = tls_context_connect(context, host);
    return ssl != NULL ? create(ssl) : NULL;
}

struct tls_stream *tls_stream_accept(struct tls_context *context) {
    return create(tls_context_accept(context));
}

void tls_stream_destroy(struct tls_stream *stream) {
    if (stream != NULL) {
        SSL_free(stream->ssl);
        buffer_clear(&stream->output);
        free(stream);
    }
}

enum tls_state tls_stream_state(const struct tls_stream *stream) {
    return stream->state;
}

const char *tls_stream_error(const struct tls_stream *stream) {
    return stream->error;
}

enum tls_failure tls_stream_failure(const struct tls_stream *stream) {
    return stream->failure;
}

const char *tls_stream_alpn(const struct tls_stream *stream) {
    return stream->alpn;
}

bool tls_stream_peer_identity(const struct tls_stream *stream, struct tls_identity *out_identity) {
    X509 *certificate = SSL_get0_peer_certificate(stream->ssl);
    if (certificate == NULL) {
        return false;
    }
    tls_identity_read(certificate, out_identity);
    return true;
}

bool tls_stream_binding(const struct tls_stream *stream, uint8_t out_binding[TLS_BINDING_SIZE]) {
    static const char label[] = "EXPORTER-leased-binding";
    SSL *ssl = stream->ssl;
    if (stream->state != TLS_OPEN || SSL_get_verify_mode(ssl) != SSL_VERIFY_NONE) {
        return false;
    }
    /* In TLS 1.2 the secret belongs to one connection alone only with RFC 7627, which somebody in
     * the middle could have left out. */
    bool is_unique = SSL_version(ssl) >= TLS1_3_VERSION || SSL_get_extms_support(ssl) == 1;
    if (!is_unique || SSL_export_keying_material(ssl, out_binding, TLS_BINDING_SIZE, label,
                                                 sizeof label - 1, NULL, 0, 0) != 1) {
        ERR_clear_error();
        tls_random(out_binding, TLS_BINDING_SIZE);
    }
    return true;
}

bool tls_stream_is_resumed(const struct tls_stream *stream) {
    return stream->state == TLS_OPEN && SSL_session_reused(stream->ssl) == 1;
}

/* --- Bytes. --- */

static void read_plaintext(struct tls_stream *stream, struct buffer *out_plaintext) {
    while (stream->state == TLS_OPEN) {
        size_t size = 0;
        uint8_t *to = buffer_reserve(out_plaintext, TLS_RECORD_SIZE);
        ERR_clear_error();
        int result = SSL_read_ex(stream->ssl, to, TLS_RECORD_SIZE, &size);
        out_plaintext->size += size;
        if (result != 1) {
            settle(stream, result);
            return;
        }
    }
}

enum tls_state tls_stream_feed(struct tls_stream *stream, struct bytes ciphertext,
                               struct buffer *out_plaintext) {
    stream->input = ciphertext;
    if (stream->state == TLS_HANDSHAKE) {
        shake_hands(stream);
    }
    read_plaintext(stream, out_plaintext);
    /* Borrowed for the call. What is left belongs to a stream that is over. */
    assert(stream->input.size == 0 || stream->state != TLS_OPEN);
    stream->input = bytes_of(NULL, 0);
    return stream->state;
}

enum tls_state tls_stream_feed_end(struct tls_stream *stream) {
    stream->is_input_over = true;
    if (stream->state == TLS_HANDSHAKE || stream->state == TLS_OPEN) {
        stream->failure = stream->state == TLS_OPEN ? TLS_FAILURE_CLOSED : TLS_FAILURE_CLOSED_EARLY;
        stream->error = tls_failure_text(stream->failure);
        stream->state = TLS_FAILED;
    }
    return stream->state;
}

void tls_stream_write(struct tls_stream *stream, struct bytes plaintext) {
    assert(stream->state == TLS_OPEN || stream->state == TLS_ENDED);
    assert(!stream->is_ended_here);
    while (plaintext.size > 0) {
        size_t size = 0;
        ERR_clear_error();
        int result = SSL_write_ex(stream->ssl, plaintext.data, plaintext.size, &size);
        if (result != 1) {
            settle(stream, result);
            /* The output always has room, so nothing but a failure stops a write. */
            assert(stream->state == TLS_FAILED || stream->state == TLS_ENDED);
            return;
        }
        plaintext = bytes_of(plaintext.data + size, plaintext.size - size);
    }
}

void tls_stream_end(struct tls_stream *stream) {
    if (!stream->is_ended_here && (stream->state == TLS_OPEN || stream->state == TLS_ENDED)) {
        stream->is_ended_here = true;
        ERR_clear_error();
        (void)SSL_shutdown(stream->ssl);
        ERR_clear_error();
    }
}

struct buffer *tls_stream_output(struct tls_stream *stream) {
    return &stream->output;
}
