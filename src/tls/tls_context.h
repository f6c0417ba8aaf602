/*
 * Who this node is towards others, and whom it trusts: its certificate, its key and the authority,
 * read from files. The files are looked at for each new stream and read again when they changed;
 * while new ones cannot be used, the old ones are kept.
 */
#ifndef LEASED_TLS_TLS_CONTEXT_H
#define LEASED_TLS_TLS_CONTEXT_H

#include "base/status.h"

#include <stddef.h>

struct tls_context;

/* What the other side must show. */
enum tls_verify {
    TLS_VERIFY_REQUIRED = 0, /* a certificate of the authority, on either side */
    TLS_VERIFY_OPTIONAL,     /* one who connects may show none; a wrong one is refused */
    TLS_VERIFY_SERVER        /* one who connects is not asked for any */
};

/* PEM files. Texts outlive the context. */
struct tls_options {
    const char *cert_file; /* with the chain up to the authority */
    const char *key_file;  /* without a passphrase */
    const char *ca_file;   /* NULL or "": none, with TLS_VERIFY_SERVER alone */
    /* What the other side's certificate must say besides; "" or NULL: nothing. */
    const char *allowed_cn;
    const char *allowed_hostname;
    enum tls_verify verify;
    /* Application protocols in order of preference, as "h2,http/1.1"; NULL: none are negotiated. */
    const char *alpn;
};

/* STATUS_INVALID: out_error says which file and why. */
enum status tls_context_create(const struct tls_options *options, struct tls_context **out_context,
                               char *out_error, size_t error_size);
/* Outlives the streams made from it. */
void tls_context_destroy(struct tls_context *context);

#endif
