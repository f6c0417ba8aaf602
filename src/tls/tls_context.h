/*
 * The settings of one side of TLS connections: its certificate and key, the authorities that it
 * trusts, the lists of revoked certificates, versions and cipher suites. Files are looked at when a
 * stream is made, at most once a second, and read again when one of them changed; while new files
 * cannot be used, the old ones are kept. Open streams keep what they began with.
 */
#ifndef LEASED_TLS_TLS_CONTEXT_H
#define LEASED_TLS_TLS_CONTEXT_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tls_context;

/* What the other side must show. */
enum tls_verify {
    TLS_VERIFY_REQUIRED = 0, /* a certificate of the authority, on either side */
    TLS_VERIFY_OPTIONAL,     /* a side that connects may show none; a wrong one is refused */
    TLS_VERIFY_SERVER,       /* a side that connects is not asked for any */
    TLS_VERIFY_NONE /* nothing on either side: encrypted, but nobody's identity is proven */
};

/* Texts outlive the context. NULL and "" both mean "not given"; zeros everywhere are the settings
 * between members: certificates required on both sides, TLS 1.2 or newer, no resumption. */
struct tls_options {
    const char *cert_file; /* PEM, with the chain up to the authority */
    const char *key_file;  /* PEM, without a passphrase */
    const char *ca_file;   /* PEM; needed where certificates are verified */
    /* PEM or DER: revoked certificates are refused. Each authority that signs the other sides'
     * certificates needs a list in it. A list past its time still counts, with a warning. */
    const char *crl_file;
    /* What the other side's certificate must say besides: one of these common names, one of these
     * DNS names; each a list with commas. */
    const char *allowed_cn;
    const char *allowed_hostname;
    enum tls_verify verify;
    /* Only connects: may have no certificate and, without ca_file, trusts the system's authorities.
     * Its files are not looked at again by themselves, so that several threads may connect. */
    bool is_client;
    /* Without ca_file: certificates of the system's authorities are trusted, on either side. */
    bool trusts_system;
    /* Application protocols in order of preference, as "h2,http/1.1"; not given: none. */
    const char *alpn;
    /* Names as etcd and Go have them, with commas: TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256. Those of
     * TLS 1.3 are limited only when one of them is named. Not given: every suite with forward
     * secrecy and authenticated encryption. */
    const char *cipher_suites;
    const char *min_version; /* "TLS1.2" (the default) or "TLS1.3" */
    const char *max_version; /* "TLS1.2" or "TLS1.3"; not given: the newest */
    /* Clients may resume a session for an hour or two, without a new verification, unless their
     * certificate has expired or a file was reloaded since. Keys are random and rotate hourly. */
    bool session_tickets;
};

/* STATUS_INVALID: out_error says which option or file, and why. */
enum status tls_context_create(const struct tls_options *options, struct tls_context **out_context,
                               char *out_error, size_t error_size);
/* Outlives the streams made from it. */
void tls_context_destroy(struct tls_context *context);

/* The authorities' file, for messages; NULL: none was given. */
const char *tls_context_ca_file(const struct tls_context *context);

enum { TLS_RELOAD_INTERVAL_MS = 1000 };

/* Reads the files again if one changed; nothing when called within TLS_RELOAD_INTERVAL_MS of the
 * last look. New streams do this by themselves, but not those of a client. True: new files are in
 * use. */
bool tls_context_poll(struct tls_context *context, uint64_t now_ms);

#endif
