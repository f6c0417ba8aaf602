/* What tls_context.c and tls_stream.c share: the only header here that knows OpenSSL. */
#ifndef LEASED_TLS_TLS_INTERNAL_H
#define LEASED_TLS_TLS_INTERNAL_H

#include <openssl/ssl.h>
#include <stdbool.h>

struct tls_context;

/* A new connection's state, the caller's to free; NULL: the host is not usable. One who connects
 * demands a certificate for `host`, a name or an address in figures. */
SSL *tls_context_connect(struct tls_context *context, const char *host);
SSL *tls_context_accept(struct tls_context *context);

/* Why a call on this connection failed: a constant text. Empties OpenSSL's queue of errors. */
const char *tls_reason(const SSL *ssl, int ssl_error, bool is_open);

#endif
