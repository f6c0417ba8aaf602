/*
 * TLS between members as the flags ask for it: with certificates of --peer-trusted-ca-file, which
 * prove the identity of a member, or with --peer-auto-tls, which only encrypts.
 */
#ifndef LEASED_SERVER_PEER_TLS_H
#define LEASED_SERVER_PEER_TLS_H

#include "server/options.h"
#include "tls/tls_auto.h"
#include "tls/tls_context.h"

struct peer_tls {
    struct tls_options options;  /* its texts are those of struct options and of `files` */
    struct tls_auto_files files; /* of --peer-auto-tls */
};

/* The flags and the data directory outlive it. STATUS_INVALID or STATUS_IO with a reason in
 * `out_error`. */
enum status peer_tls_prepare(struct peer_tls *tls, const struct options *options,
                             const char *data_dir, char *out_error, size_t error_size);

#endif
