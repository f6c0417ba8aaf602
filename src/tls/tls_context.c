#include "tls/tls_context.h"

#include "base/log.h"
#include "tls/tls_internal.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    TLS_FILES = 3,
    TLS_CHAIN_MAX = 8,
    TLS_CERTIFICATES_SIZE_MAX = 32 * 1024,
    TLS_ALPN_SIZE_MAX = 64
};

/* How a file looked when it was read. A file that is not there is all zeros. */
struct file_mark {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
};

struct tls_context {
    struct tls_options options;
    unsigned char alpn[TLS_ALPN_SIZE_MAX]; /* as on the wire: each name behind its length */
    unsigned alpn_size;
    SSL_CTX *tls;
    struct file_mark marks[TLS_FILES];
};

/* --- Reading the files. --- */

static bool is_given(const char *text) {
    return text != NULL && *text != '\0';
}

static void look_at_files(const struct tls_options *options,
                          struct file_mark out_marks[TLS_FILES]) {
    const char *const paths[TLS_FILES] = {options->cert_file, options->key_file, options->ca_file};
    memset(out_marks, 0, TLS_FILES * sizeof *out_marks);
    for (size_t i = 0; i < TLS_FILES; i++) {
        struct stat info;
        if (is_given(paths[i]) && stat(paths[i], &info) == 0) {
            out_marks[i].device = info.st_dev;
            out_marks[i].inode = info.st_ino;
            out_marks[i].size = info.st_size;
            out_marks[i].changed = info.st_mtim;
        }
    }
}

static enum status fail(const char *what, const char *path, char *out_error, size_t error_size) {
    unsigned long error = ERR_peek_error();
    const char *reason =
        ERR_SYSTEM_ERROR(error) ? strerror(ERR_GET_REASON(error)) : ERR_reason_error_string(error);
    snprintf(out_error, error_size, "%s %s cannot be used: %s", what, path,
             reason != NULL ? reason : "it holds nothing of use");
    ERR_clear_error();
    return STATUS_INVALID;
}

/* Nobody sits at a terminal to type it. */
static int no_passphrase(char *buffer, int size, int is_writing, void *data) {
    (void)buffer;
    (void)size;
    (void)is_writing;
    (void)data;
    return -1;
}

/* Beside the chain, which OpenSSL checks, a peer's own certificate may have to bear a name. */
static int check_name(int is_fine_so_far, X509_STORE_CTX *chain) {
    if (is_fine_so_far != 1 || X509_STORE_CTX_get_error_depth(chain) != 0) {
        return is_fine_so_far;
    }
    const SSL *ssl = X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx());
    const struct tls_context *context = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    const struct tls_options *options = &context->options;
    X509 *certificate = X509_STORE_CTX_get_current_cert(chain);
    bool is_allowed = true;
    if (is_given(options->allowed_cn)) {
        char name[256];
        int size = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName,
                                             name, sizeof name);
        /* A name with a zero in it is longer than it looks. */
        is_allowed = size >= 0 && (size_t)size == strlen(options->allowed_cn) &&
                     memcmp(name, options->allowed_cn, (size_t)size) == 0;
    }
    if (is_allowed && is_given(options->allowed_hostname)) {
        is_allowed = X509_check_host(certificate, options->allowed_hostname, 0,
                                     X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL) == 1;
    }
    if (!is_allowed) {
        X509_STORE_CTX_set_error(chain, X509_V_ERR_APPLICATION_VERIFICATION);
    }
    return is_allowed;
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
    SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION);
    SSL_CTX_set_cipher_list(tls, "ECDHE+AESGCM:ECDHE+CHACHA20");
    SSL_CTX_set_options(tls, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
    /* Each connection is verified anew: a certificate may have expired since the last one. */
    SSL_CTX_set_num_tickets(tls, 0);
    SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
    /* An idle connection holds no record buffers. */
    SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_max_cert_list(tls, TLS_CERTIFICATES_SIZE_MAX);
    SSL_CTX_set_default_passwd_cb(tls, no_passphrase);
    SSL_CTX_set_app_data(tls, context);
    SSL_CTX_set_verify_depth(tls, TLS_CHAIN_MAX);
    if (context->alpn_size > 0) {
        SSL_CTX_set_alpn_select_cb(tls, choose_alpn, context);
        if (SSL_CTX_set_alpn_protos(tls, context->alpn, context->alpn_size) != 0) {
            abort();
        }
    }
}

static enum status read_files(SSL_CTX *tls, const struct tls_options *options, char *out_error,
                              size_t error_size) {
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(tls, options->cert_file) != 1) {
        return fail("the certificate", options->cert_file, out_error, error_size);
    }
    if (SSL_CTX_use_PrivateKey_file(tls, options->key_file, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(tls) != 1) {
        return fail("the key", options->key_file, out_error, error_size);
    }
    if (!is_given(options->ca_file)) {
        return STATUS_OK;
    }
    STACK_OF(X509_NAME) *authorities = SSL_load_client_CA_file(options->ca_file);
    if (authorities == NULL || SSL_CTX_load_verify_file(tls, options->ca_file) != 1) {
        sk_X509_NAME_pop_free(authorities, X509_NAME_free);
        return fail("the authority", options->ca_file, out_error, error_size);
    }
    SSL_CTX_set_client_CA_list(tls, authorities);
    return STATUS_OK;
}

static void warn_of_own_certificate(SSL_CTX *tls, const char *path) {
    const X509 *own = SSL_CTX_get0_certificate(tls);
    if (X509_cmp_current_time(X509_get0_notAfter(own)) < 0 ||
        X509_cmp_current_time(X509_get0_notBefore(own)) > 0) {
        log_warning("this node's own certificate is not valid today: others will refuse it",
                    LOG_TEXT("path", path));
    }
}

static enum status load(struct tls_context *context, char *out_error, size_t error_size) {
    /* Looked at first: what changes while it is read is read again. */
    look_at_files(&context->options, context->marks);
    SSL_CTX *tls = SSL_CTX_new(TLS_method());
    if (tls == NULL) {
        abort();
    }
    configure(tls, context);
    enum status status = read_files(tls, &context->options, out_error, error_size);
    if (status != STATUS_OK) {
        SSL_CTX_free(tls);
        return status;
    }
    SSL_CTX_free(context->tls);
    context->tls = tls;
    warn_of_own_certificate(tls, context->options.cert_file);
    return STATUS_OK;
}

static void load_again_if_changed(struct tls_context *context) {
    struct file_mark marks[TLS_FILES];
    char error[512];
    look_at_files(&context->options, marks);
    if (memcmp(marks, context->marks, sizeof marks) == 0) {
        return;
    }
    if (load(context, error, sizeof error) == STATUS_OK) {
        log_info("certificates reloaded", LOG_TEXT("path", context->options.cert_file));
    } else {
        log_warning("changed certificates cannot be used; the old ones are kept",
                    LOG_TEXT("reason", error));
    }
}

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
    if (!is_given(options->cert_file) || !is_given(options->key_file)) {
        snprintf(out_error, error_size, "a certificate and its key are both needed");
        return STATUS_INVALID;
    }
    if (!is_given(options->ca_file) && options->verify != TLS_VERIFY_SERVER) {
        snprintf(out_error, error_size, "the authority's file is needed to verify certificates");
        return STATUS_INVALID;
    }
    if (!encode_alpn(context, options->alpn)) {
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

/* --- Connections. --- */

static SSL *new_ssl(struct tls_context *context) {
    load_again_if_changed(context);
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
                                [TLS_VERIFY_SERVER] = SSL_VERIFY_NONE};
    SSL *ssl = new_ssl(context);
    SSL_set_verify(ssl, modes[context->options.verify], check_name);
    SSL_set_accept_state(ssl);
    return ssl;
}

static bool is_in_figures(const char *host) {
    struct in6_addr ignored;
    return inet_pton(AF_INET, host, &ignored) == 1 || inet_pton(AF_INET6, host, &ignored) == 1;
}

SSL *tls_context_connect(struct tls_context *context, const char *host) {
    SSL *ssl = new_ssl(context);
    SSL_set_verify(ssl, SSL_VERIFY_PEER, check_name);
    SSL_set_connect_state(ssl);
    /* Only the names meant for it count, never the subject (RFC 6125, section 6.4.4). */
    SSL_set_hostflags(ssl,
                      X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    bool is_set = is_in_figures(host)
                      ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1
                      : SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
    if (!is_set) {
        SSL_free(ssl);
        return NULL;
    }
    return ssl;
}

/* --- Reasons. --- */

/* What we found wrong with the peer's certificate. */
static const char *verification_text(long result) {
    switch (result) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_CERT_UNTRUSTED:
        return "the peer's certificate is signed by an unknown authority";
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return "the peer's certificate has expired";
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return "the peer's certificate is not valid yet";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return "the peer's certificate is not for the host that was dialled";
    case X509_V_ERR_APPLICATION_VERIFICATION:
        return "the peer's certificate bears another name than the allowed one";
    case X509_V_ERR_INVALID_PURPOSE:
        return "the peer's certificate is not made for this end of a connection";
    default:
        return X509_verify_cert_error_string(result);
    }
}

/* What went wrong otherwise: an alert is the peer's word on us. */
static const char *error_text(unsigned long error) {
    switch (ERR_GET_REASON(error)) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
        return "the peer does not speak TLS, and this node does";
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return "the peer has no certificate";
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        return "the peer does not know the authority that signed our certificate";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        return "the peer says that our certificate has expired";
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        return "the peer wants a certificate of ours";
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR: /* signed by another key than that of the authority */
        return "the peer refuses our certificate";
    default: {
        const char *text = ERR_reason_error_string(error);
        return text != NULL ? text : "TLS failed";
    }
    }
}

const char *tls_reason(const SSL *ssl, int ssl_error, bool is_open) {
    unsigned long error = ERR_peek_last_error();
    ERR_clear_error();
    if (ssl_error == SSL_ERROR_ZERO_RETURN || ERR_GET_REASON(error) == 0 ||
        ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
        return is_open ? "the peer hung up"
                       : "the peer hung up before TLS was agreed on; does it speak TLS?";
    }
    return ERR_GET_REASON(error) == SSL_R_CERTIFICATE_VERIFY_FAILED
               ? verification_text(SSL_get_verify_result(ssl))
               : error_text(error);
}
