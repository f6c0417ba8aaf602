/* What the files of this folder share: the only header here that knows OpenSSL. */
#ifndef LEASED_TLS_TLS_INTERNAL_H
#define LEASED_TLS_TLS_INTERNAL_H

#include "tls/tls_context.h"
#include "tls/tls_failure.h"
#include "tls/tls_identity.h"

#include <openssl/ssl.h>

/* Whether an option was given. */
static inline bool tls_is_given(const char *text) {
    return text != NULL && *text != '\0';
}

/* ---- tls_context.c ---- */

/* A new connection's state, the caller's to free; NULL: the host is not usable. A side that
 * connects demands a certificate for `host`, a name or a numeric address. */
SSL *tls_context_connect(struct tls_context *context, const char *host);
SSL *tls_context_accept(struct tls_context *context);
/* What new connections are made from; another one after each reload. */
SSL_CTX *tls_context_view(const struct tls_context *context);

/* ---- tls_files.c: certificates, keys, authorities and lists of revoked certificates. ---- */

enum { TLS_FILES = 4 };

/* How a file looked when it was read. A file that is not there is all zeros. */
struct tls_file_mark {
    uint64_t device;
    uint64_t inode;
    uint64_t size;
    int64_t changed_s;
    int64_t changed_ns;
};

void tls_files_look(const struct tls_options *options, struct tls_file_mark out_marks[TLS_FILES]);
/* Loads all of them. STATUS_INVALID: out_error names the file and the reason. */
enum status tls_files_read(SSL_CTX *tls, const struct tls_options *options, char *out_error,
                           size_t error_size);

/* ---- tls_verify.c ---- */

/* OpenSSL's callback for each certificate of the other side's chain; the SSL_CTX's app data is the
 * `struct tls_options`. */
int tls_verify_certificate(int is_valid_so_far, X509_STORE_CTX *chain);

/* ---- tls_suites.c ---- */

/* Versions and cipher suites. STATUS_INVALID: out_error says which name is wrong and which exist.
 */
enum status tls_suites_configure(SSL_CTX *tls, const struct tls_options *options, char *out_error,
                                 size_t error_size);

/* ---- tls_tickets.c ---- */

/* Switches stateless resumption on, with random keys of this SSL_CTX alone. */
void tls_tickets_configure(SSL_CTX *tls);
/* Replaces keys that are an hour old and forgets those that are two; each ticket does this first.
 */
void tls_tickets_rotate(SSL_CTX *tls, uint64_t now_ms);

/* ---- tls_failure.c ---- */

/* Why a call on this connection failed. Empties OpenSSL's queue of errors. `out_text` is constant.
 */
enum tls_failure tls_failure_of(const SSL *ssl, int ssl_error, bool is_open, const char **out_text);

/* ---- tls_identity.c ---- */

void tls_identity_read(X509 *certificate, struct tls_identity *out_identity);

#endif
