#include "tls/tls_context.h"

#include "base/clock.h"
#include "base/log.h"
#include "tls/tls_internal.h"

#include <arpa/inet.h>
#include <assert.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    TLS_CHAIN_MAX = 8,
    TLS_CERTIFICATES_SIZE_MAX = 32 * 1024,
    TLS_ALPN_SIZE_MAX = 64,
    TLS_ERROR_SIZE = 512
};

struct tls_context {
    struct tls_options options;
    unsigned char alpn[TLS_ALPN_SIZE_MAX]; /* as on the wire: each name behind its length */
    unsigned alpn_size;
    SSL_CTX *tls;
    struct tls_file_mark marks[TLS_FILES];
    uint64_t looked_ms;
};

/* ---- loading ---- */

/* Nobody sits at a terminal to type it. */
static int no_passphrase(char *buffer, int size, int is_writing, void *data) {
    (void)buffer;
    (void)size;
    (void)is_writing;
    (void)data;
    return -1;
}

/* RFC 7301, section 3.2: the server chooses, in its own order. */
static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_size,
                       const unsigned char *in, unsigned in_size, void *data) {
    const struct tls_context *context = data;
    unsigned char *chosen = NULL;
    (void)ssl;
    if (SSL_select_next_proto(&chosen, out_size, context->alpn, context->alpn_size, in, in_size) !=
        OPENSSL_NPN_NEGOTIATED) {
        return SSL_TLSEXT_ERR_NOACK;
    }
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

static void configure(SSL_CTX *tls, struct tls_context *context) {
    SSL_CTX_set_options(tls, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
    /* Without tickets each connection is verified anew: a certificate may have expired since the
     * last one. */
    SSL_CTX_set_num_tickets(tls, 0);
    SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
    /* An idle connection holds no record buffers. */
    SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_max_cert_list(tls, TLS_CERTIFICATES_SIZE_MAX);
    SSL_CTX_set_default_passwd_cb(tls, no_passphrase);
    SSL_CTX_set_app_data(tls, &context->options);
    SSL_CTX_set_verify_depth(tls, TLS_CHAIN_MAX);
    if (context->options.session_tickets) {
        tls_tickets_configure(tls);
    }
    if (context->alpn_size > 0) {
        SSL_CTX_set_alpn_select_cb(tls, choose_alpn, context);
        if (SSL_CTX_set_alpn_protos(tls, context->alpn, context->alpn_size) != 0) {
            abort();
        }
    }
}

static enum status load(struct tls_context *context, char *out_error, size_t error_size) {
    /* Looked at first: what changes while it is read is read again. */
    tls_files_look(&context->options, context->marks);
    SSL_CTX *tls = SSL_CTX_new(TLS_method());
    if (tls == NULL) {
        abort();
    }
    configure(tls, context);
    enum status status = tls_suites_configure(tls, &context->options, out_error, error_size);
    if (status == STATUS_OK) {
        status = tls_files_read(tls, &context->options, out_error, error_size);
    }
    if (status != STATUS_OK) {
        SSL_CTX_free(tls);
        return status;
    }
    SSL_CTX_free(context->tls);
    context->tls = tls;
    return STATUS_OK;
}

bool tls_context_poll(struct tls_context *context, uint64_t now_ms) {
    if (clock_elapsed_ms(now_ms, context->looked_ms) < TLS_RELOAD_INTERVAL_MS) {
        return false;
    }
    struct tls_file_mark marks[TLS_FILES];
    char error[TLS_ERROR_SIZE];
    const struct tls_options *options = &context->options;
    context->looked_ms = now_ms;
    tls_files_look(options, marks);
    if (memcmp(marks, context->marks, sizeof marks) == 0) {
        return false;
    }
    if (load(context, error, sizeof error) != STATUS_OK) {
        log_warning("changed certificates cannot be used; the old ones are kept",
                    LOG_TEXT("reason", error));
        return false;
    }
    log_info(
        "certificates reloaded",
        LOG_TEXT("path", tls_is_given(options->cert_file) ? options->cert_file : options->ca_file));
    return true;
}

/* ---- creation ---- */

/* "h2,http/1.1" as the wire has it. False: a name is empty or the list too long. */
static bool encode_alpn(struct tls_context *context, const char *names) {
    while (names != NULL) {
        size_t size = strcspn(names, ",");
        if (size == 0 || context->alpn_size + 1 + size > sizeof context->alpn) {
            return false;
        }
        context->alpn[context->alpn_size] = (unsigned char)size;
        memcpy(context->alpn + context->alpn_size + 1, names, size);
        context->alpn_size += (unsigned)(1 + size);
        names = names[size] == ',' ? names + size + 1 : NULL;
    }
    return true;
}

static enum status check_options(struct tls_context *context, char *out_error, size_t error_size) {
    const struct tls_options *options = &context->options;
    bool has_cert = tls_is_given(options->cert_file);
    bool has_key = tls_is_given(options->key_file);
    bool has_ca = tls_is_given(options->ca_file);
    bool is_verifying = options->verify != TLS_VERIFY_SERVER && options->verify != TLS_VERIFY_NONE;
    if (has_cert != has_key || (!has_cert && !options->is_client)) {
        snprintf(out_error, error_size, "a certificate and its key are both needed");
        return STATUS_INVALID;
    }
    if (!has_ca && is_verifying && !options->is_client && !options->trusts_system) {
        snprintf(out_error, error_size, "the authority's file is needed to verify certificates");
        return STATUS_INVALID;
    }
    if (tls_is_given(options->crl_file) && (!has_ca || options->verify == TLS_VERIFY_NONE)) {
        snprintf(out_error, error_size,
                 "a list of revoked certificates has no effect where certificates are not "
                 "verified; give the authority's file too");
        return STATUS_INVALID;
    }
    if (tls_is_given(options->alpn) && !encode_alpn(context, options->alpn)) {
        snprintf(out_error, error_size, "the application protocols %s cannot be used",
                 options->alpn);
        return STATUS_INVALID;
    }
    return STATUS_OK;
}

enum status tls_context_create(const struct tls_options *options, struct tls_context **out_context,
                               char *out_error, size_t error_size) {
    struct tls_context *context = calloc(1, sizeof *context);
    if (context == NULL) {
        abort();
    }
    context->options = *options;
    context->looked_ms = clock_boottime_ms();
    enum status status = check_options(context, out_error, error_size);
    if (status == STATUS_OK) {
        status = load(context, out_error, error_size);
    }
    if (status != STATUS_OK) {
        free(context);
        return status;
    }
    *out_context = context;
    return STATUS_OK;
}

void tls_context_destroy(struct tls_context *context) {
    if (context != NULL) {
        SSL_CTX_free(context->tls);
        free(context);
    }
}

const char *tls_context_ca_file(const struct tls_context *context) {
    return tls_is_given(context->options.ca_file) ? context->options.ca_file : NULL;
}

SSL_CTX *tls_context_view(const struct tls_context *context) {
    return context->tls;
}

/* ---- connections ---- */

static SSL *new_ssl(struct tls_context *context) {
    if (!context->options.is_client) {
        (void)tls_context_poll(context, clock_boottime_ms());
    }
    SSL *ssl = SSL_new(context->tls);
    if (ssl == NULL) {
        abort();
    }
    return ssl;
}

SSL *tls_context_accept(struct tls_context *context) {
    static const int modes[] = {[TLS_VERIFY_REQUIRED] =
                                    SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                                [TLS_VERIFY_OPTIONAL] = SSL_VERIFY_PEER,
                                [TLS_VERIFY_SERVER] = SSL_VERIFY_NONE,
                                [TLS_VERIFY_NONE] = SSL_VERIFY_NONE};
    assert(!context->options.is_client);
    SSL *ssl = new_ssl(context);
    SSL_set_verify(ssl, modes[context->options.verify], tls_verify_certificate);
    SSL_set_accept_state(ssl);
    return ssl;
}

static bool is_numeric(const char *host) {
    struct in6_addr ignored;
    return inet_pton(AF_INET, host, &ignored) == 1 || inet_pton(AF_INET6, host, &ignored) == 1;
}

SSL *tls_context_connect(struct tls_context *context, const char *host) {
    bool is_verifying = context->options.verify != TLS_VERIFY_NONE;
    SSL *ssl = new_ssl(context);
    SSL_set_verify(ssl, is_verifying ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, tls_verify_certificate);
    SSL_set_connect_state(ssl);
    /* Only the names meant for it count, never the subject (RFC 6125, section 6.4.4). */
    SSL_set_hostflags(ssl,
                      X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    bool is_set = is_numeric(host)
                      ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1
                      : SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
    if (!is_set) {
        SSL_free(ssl);
        return NULL;
    }
    return ssl;
}
