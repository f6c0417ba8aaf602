/*
 * A certificate that a node makes for itself (etcd's --auto-tls and --peer-auto-tls), signed by its
 * own key. It lets connections be encrypted; it proves nothing to those who were not given the
 * file.
 */
#ifndef LEASED_TLS_TLS_AUTO_H
#define LEASED_TLS_TLS_AUTO_H

#include "base/status.h"

#include <stddef.h>

enum { TLS_AUTO_PATH_SIZE_MAX = 4096 };

struct tls_auto_files {
    char cert_file[TLS_AUTO_PATH_SIZE_MAX];
    char key_file[TLS_AUTO_PATH_SIZE_MAX];
};

/* Finds or makes cert.pem and key.pem in `folder`, which is made when missing (its parent must be
 * there, or the parent's). They are made once, readable by their owner alone, valid for a year, and
 * made anew when they are damaged or have less than 30 days left. `hosts` are the names and numeric
 * addresses that the certificate is for. STATUS_INVALID: a host is not usable; STATUS_IO; out_error
 * says why. */
enum status tls_auto_certificate(const char *folder, const char *const *hosts, size_t n_hosts,
                                 struct tls_auto_files *out_files, char *out_error,
                                 size_t error_size);

#endif
