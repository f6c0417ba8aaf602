/*
 * Who a node is towards its peers, and whom it trusts: its certificate, its key and the authority,
 * read from files. Both sides always prove themselves. The files are looked at for each new
 * connection and read again when they changed; while new ones cannot be used, the old ones are.
 */
#ifndef LEASED_REPLICATION_PEER_TLS_CONTEXT_H
#define LEASED_REPLICATION_PEER_TLS_CONTEXT_H

#include "base/status.h"

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

struct peer_tls_context;

/* PEM files. Texts outlive the context. */
struct peer_tls_options {
    const char *cert_file; /* with the chain up to the authority */
    const char *key_file;  /* without a passphrase */
    const char *ca_file;
    /* What a peer's certificate must say besides; "" or NULL: nothing. */
    const char *allowed_cn;
    const char *allowed_hostname;
};

/* STATUS_INVALID: out_error says which file and why. */
enum status peer_tls_context_create(const struct peer_tls_options *options,
                                    struct peer_tls_context **out_context, char *out_error,
                                    size_t error_size);
void peer_tls_context_destroy(struct peer_tls_context *context);

/* A new connection's state, the caller's to free; NULL: out of memory. The one who dials demands
 * a certificate for `host`, a name or an address in figures. The context outlives the handshake. */
SSL *peer_tls_context_dial(struct peer_tls_context *context, const char *host);
SSL *peer_tls_context_accept(struct peer_tls_context *context);

/* Why a call on this connection failed, for a log: a constant text. Empties OpenSSL's queue of
 * errors. */
struct peer_tls_failure {
    int ssl_error;    /* from SSL_get_error() */
    int system_error; /* errno */
    bool is_agreed;   /* the handshake is over on this side */
};
const char *peer_tls_reason(const SSL *ssl, const struct peer_tls_failure *failure);

#endif
