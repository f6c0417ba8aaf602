/*
 * A connection for a program that asks and waits: bytes out, bytes in, with TLS or without. Every
 * wait has a deadline. While it sends it also takes what arrives, so that a long pipeline cannot
 * stop both sides.
 */
#ifndef LEASED_CLIENT_WIRE_STREAM_H
#define LEASED_CLIENT_WIRE_STREAM_H

#include "base/buffer.h"
#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

struct tls_context;
struct wire_stream;

enum { WIRE_STREAM_ERROR_SIZE_MAX = 512 };

struct wire_stream_options {
    const char *host;
    uint16_t port;
    struct tls_context *tls; /* the caller's; NULL: plain */
    uint32_t connect_timeout_ms;
    uint32_t answer_timeout_ms; /* without a single byte */
};

/* Connects, with the TLS handshake. NULL: `error` is a sentence. */
struct wire_stream *wire_stream_open(const struct wire_stream_options *options,
                                     char error[WIRE_STREAM_ERROR_SIZE_MAX]);
/* Accepts NULL. */
void wire_stream_close(struct wire_stream *stream);

/* Sends all of it. False: wire_stream_error() says why. */
bool wire_stream_send(struct wire_stream *stream, struct bytes bytes);
/* Waits until there is more input than before. False as above. */
bool wire_stream_receive(struct wire_stream *stream);

/* What has arrived and was not consumed; valid until the next call. */
struct bytes wire_stream_input(const struct wire_stream *stream);
void wire_stream_consume(struct wire_stream *stream, size_t size);

/* "" while all is well; then a constant text, without the address. */
const char *wire_stream_error(const struct wire_stream *stream);

#endif
