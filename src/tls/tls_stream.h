/*
 * TLS as a filter without sockets: ciphertext goes in and plaintext comes out, plaintext goes in
 * and ciphertext comes out. The caller moves the bytes. Serves either end of any connection.
 *
 * A stream begins in its handshake, which feeding drives; whatever the stream wants sent lies in
 * its output after each call, also after a failure (the alert that tells the other side why).
 */
#ifndef LEASED_TLS_TLS_STREAM_H
#define LEASED_TLS_TLS_STREAM_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "tls/tls_context.h"
#include "tls/tls_failure.h"
#include "tls/tls_identity.h"

#include <stdbool.h>
#include <stdint.h>

struct tls_stream;

enum tls_state {
    TLS_HANDSHAKE, /* nothing may be written yet */
    TLS_OPEN,      /* the other side was verified as the context demands */
    TLS_ENDED,     /* the other side closed in an orderly way; nothing more comes in */
    TLS_FAILED     /* tls_stream_error() says why */
};

/* `host` is whom the certificate must be for, a name or an address in figures; NULL is returned for
 * one that cannot be. The first message is in the output at once. */
struct tls_stream *tls_stream_connect(struct tls_context *context, const char *host);
struct tls_stream *tls_stream_accept(struct tls_context *context);
/* Accepts NULL. */
void tls_stream_destroy(struct tls_stream *stream);

enum tls_state tls_stream_state(const struct tls_stream *stream);
/* A constant text; NULL unless the stream failed or ended. */
const char *tls_stream_error(const struct tls_stream *stream);
/* The same as a kind; TLS_FAILURE_NONE unless the stream failed or ended. */
enum tls_failure tls_stream_failure(const struct tls_stream *stream);
/* The protocol agreed on, "" for none; a constant text for the life of the stream. */
const char *tls_stream_alpn(const struct tls_stream *stream);
/* The names in the other side's certificate. False: it showed none. They are proven while the
 * stream is open, unless the context is TLS_VERIFY_NONE. */
bool tls_stream_peer_identity(const struct tls_stream *stream, struct tls_identity *out_identity);
enum { TLS_BINDING_SIZE = 32 };

/* Where certificates prove nothing (TLS_VERIFY_NONE): bytes that only the two ends of this very
 * connection know (RFC 5705, RFC 9266), for a proof that somebody in the middle could not pass on.
 * Random bytes where there can be none, so that no proof fits. False: certificates are verified, or
 * the stream is not open. */
bool tls_stream_binding(const struct tls_stream *stream, uint8_t out_binding[TLS_BINDING_SIZE]);
/* True when an earlier session was resumed; its certificate was verified then. */
bool tls_stream_is_resumed(const struct tls_stream *stream);

/* Takes all of the ciphertext and appends the plaintext that became readable. */
enum tls_state tls_stream_feed(struct tls_stream *stream, struct bytes ciphertext,
                               struct buffer *out_plaintext);
/* The connection ended: without the other side's goodbye this is a failure. */
enum tls_state tls_stream_feed_end(struct tls_stream *stream);

/* Encrypts all of it into the output. Only while open, or after the other side has ended. */
void tls_stream_write(struct tls_stream *stream, struct bytes plaintext);
/* Puts the goodbye (close_notify) into the output; nothing may be written after. */
void tls_stream_end(struct tls_stream *stream);

/* Ciphertext to be sent. The caller sends it and empties the buffer, or swaps it for another. */
struct buffer *tls_stream_output(struct tls_stream *stream);

#endif
