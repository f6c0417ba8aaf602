/*
 * TLS towards clients as the flags ask for it: the certificate of --cert-file, or one of its own
 * that
 * --auto-tls keeps in the data directory.
 */
#ifndef LEASED_SERVER_CLIENT_TLS_H
#define LEASED_SERVER_CLIENT_TLS_H

#include "server/options.h"
#include "tls/tls_auto.h"
#include "tls/tls_context.h"

struct client_tls {
    struct tls_options options;  /* its texts are those of struct options and of `files` */
    struct tls_auto_files files; /* of --auto-tls */
    struct tls_context *context; /* NULL: no listener speaks TLS */
};

/* Options and data directory outlive it. STATUS_INVALID or STATUS_IO with a reason in `out_error`;
 * to be cleared whatever the result. */
enum status client_tls_open(struct client_tls *tls, const struct options *options,
                            const char *data_dir, char *out_error, size_t error_size);
/* No connection uses it any more. */
void client_tls_clear(struct client_tls *tls);

/* What a person must type so that etcdctl or lease reach a listener that speaks TLS. */
void client_tls_flags(const struct client_tls *tls, char *out_flags, size_t size);

/* True when only clients with a certificate of --trusted-ca-file get in. */
bool client_tls_is_verified(const struct options *options);

#endif
