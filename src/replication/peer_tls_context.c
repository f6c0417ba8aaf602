#include "replication/peer_tls_context.h"

#include "base/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <uv.h>

enum { TLS_FILES = 3, TLS_READ_AHEAD_BYTES = 64 * 1024, TLS_CHAIN_MAX = 8 };

/* How a file looked when it was read. A file that is not there is all zeros. */
struct file_mark {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
};

struct peer_tls_context {
    struct peer_tls_options options;
    SSL_CTX *tls;
    struct file_mark marks[TLS_FILES];
};

/* --- Reading the files. --- */

static void look_at_files(const struct peer_tls_options *options,
                          struct file_mark out_marks[TLS_FILES]) {
    const char *const paths[TLS_FILES] = {options->cert_file, options->key_file, options->ca_file};
    memset(out_marks, 0, TLS_FILES * sizeof *out_marks);
    for (size_t i = 0; i < TLS_FILES; i++) {
        struct stat info;
        if (stat(paths[i], &info) == 0) {
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
    const struct peer_tls_options *options = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    X509 *certificate = X509_STORE_CTX_get_current_cert(chain);
    bool is_allowed = true;
    if (options->allowed_cn != NULL && *options->allowed_cn != '\0') {
        char name[256];
        int size = X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName,
                                             name, sizeof name);
        /* A name with a zero in it is longer than it looks. */
        is_allowed = size >= 0 && (size_t)size == strlen(options->allowed_cn) &&
                     memcmp(name, options->allowed_cn, (size_t)size) == 0;
    }
    if (is_allowed && options->allowed_hostname != NULL && *options->allowed_hostname != '\0') {
        is_allowed = X509_check_host(certificate, options->allowed_hostname, 0,
                                     X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL) == 1;
    }
    if (!is_allowed) {
        X509_STORE_CTX_set_error(chain, X509_V_ERR_APPLICATION_VERIFICATION);
    }
    return is_allowed;
}

static void configure(SSL_CTX *tls, struct peer_tls_options *options) {
    SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION);
    SSL_CTX_set_cipher_list(tls, "ECDHE+AESGCM:ECDHE+CHACHA20");
    SSL_CTX_set_options(tls, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
    /* Who returns proves itself anew: its certificate may have ended, or ours. */
    SSL_CTX_set_num_tickets(tls, 0);
    SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_read_ahead(tls, 1);
    SSL_CTX_set_default_read_buffer_len(tls, TLS_READ_AHEAD_BYTES);
    SSL_CTX_set_default_passwd_cb(tls, no_passphrase);
    SSL_CTX_set_app_data(tls, options);
    SSL_CTX_set_verify(tls, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, check_name);
    SSL_CTX_set_verify_depth(tls, TLS_CHAIN_MAX);
}

static enum status read_files(SSL_CTX *tls, const struct peer_tls_options *options, char *out_error,
                              size_t error_size) {
    ERR_clear_error();
    if (SSL_CTX_use_certificate_chain_file(tls, options->cert_file) != 1) {
        return fail("the certificate", options->cert_file, out_error, error_size);
    }
    if (SSL_CTX_use_PrivateKey_file(tls, options->key_file, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(tls) != 1) {
        return fail("the key", options->key_file, out_error, error_size);
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
        log_warning("this node's own certificate is not valid today: peers will refuse it",
                    LOG_TEXT("path", path));
    }
}

static enum status load(struct peer_tls_context *context, char *out_error, size_t error_size) {
    /* Looked at first: what changes while it is read is read again. */
    look_at_files(&context->options, context->marks);
    SSL_CTX *tls = SSL_CTX_new(TLS_method());
    if (tls == NULL) {
        abort();
    }
    configure(tls, &context->options);
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

static void load_again_if_changed(struct peer_tls_context *context) {
    struct file_mark marks[TLS_FILES];
    char error[512];
    look_at_files(&context->options, marks);
    if (memcmp(marks, context->marks, sizeof marks) == 0) {
        return;
    }
    if (load(context, error, sizeof error) == STATUS_OK) {
        log_info("the peer certificates were read again",
                 LOG_TEXT("path", context->options.cert_file));
    } else {
        log_warning("the peer certificates changed and cannot be used; the old ones are kept",
                    LOG_TEXT("reason", error));
    }
}

enum status peer_tls_context_create(const struct peer_tls_options *options,
                                    struct peer_tls_context **out_context, char *out_error,
                                    size_t error_size) {
    struct peer_tls_context *context = calloc(1, sizeof *context);
    if (context == NULL) {
        abort();
    }
    context->options = *options;
    enum status status = load(context, out_error, error_size);
    if (status != STATUS_OK) {
        free(context);
        return status;
    }
    *out_context = context;
    return STATUS_OK;
}

void peer_tls_context_destroy(struct peer_tls_context *context) {
    if (context != NULL) {
        SSL_CTX_free(context->tls);
        free(context);
    }
}

/* --- Connections. --- */

SSL *peer_tls_context_accept(struct peer_tls_context *context) {
    load_again_if_changed(context);
    SSL *ssl = SSL_new(context->tls);
    if (ssl != NULL) {
        SSL_set_accept_state(ssl);
    }
    return ssl;
}

static bool is_in_figures(const char *host) {
    struct in6_addr ignored;
    return inet_pton(AF_INET, host, &ignored) == 1 || inet_pton(AF_INET6, host, &ignored) == 1;
}

SSL *peer_tls_context_dial(struct peer_tls_context *context, const char *host) {
    load_again_if_changed(context);
    SSL *ssl = SSL_new(context->tls);
    if (ssl == NULL) {
        return NULL;
    }
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

const char *peer_tls_reason(const SSL *ssl, const struct peer_tls_failure *failure) {
    unsigned long error = ERR_peek_last_error();
    ERR_clear_error();
    bool is_of_system = failure->ssl_error == SSL_ERROR_SYSCALL && error == 0;
    bool is_hung_up =
        failure->ssl_error == SSL_ERROR_ZERO_RETURN ||
        (is_of_system && (failure->system_error == 0 || failure->system_error == ECONNRESET)) ||
        ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
    if (is_hung_up) {
        return failure->is_agreed ? "the peer hung up"
                                  : "the peer hung up before TLS was agreed on; does it speak TLS?";
    }
    if (is_of_system) {
        return uv_strerror(uv_translate_sys_error(failure->system_error));
    }
    return ERR_GET_REASON(error) == SSL_R_CERTIFICATE_VERIFY_FAILED
               ? verification_text(SSL_get_verify_result(ssl))
               : error_text(error);
}
