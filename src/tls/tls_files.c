#include "base/log.h"
#include "tls/tls_internal.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void tls_files_look(const struct tls_options *options, struct tls_file_mark out_marks[TLS_FILES]) {
    const char *const paths[TLS_FILES] = {options->cert_file, options->key_file, options->ca_file,
                                          options->crl_file};
    memset(out_marks, 0, TLS_FILES * sizeof *out_marks);
    for (size_t i = 0; i < TLS_FILES; i++) {
        struct stat info;
        if (tls_is_given(paths[i]) && stat(paths[i], &info) == 0) {
            /* The time of the last change of the inode: nobody can set it, as they can the time of
             * the last write. */
            out_marks[i] = (struct tls_file_mark){.device = info.st_dev,
                                                  .inode = info.st_ino,
                                                  .size = (uint64_t)info.st_size,
                                                  .changed_s = info.st_ctim.tv_sec,
                                                  .changed_ns = info.st_ctim.tv_nsec};
        }
    }
}

/* In our words where OpenSSL's are hard to understand. */
static const char *reason_of(unsigned long error) {
    if (ERR_SYSTEM_ERROR(error)) {
        return strerror(ERR_GET_REASON(error));
    }
    int library = ERR_GET_LIB(error);
    int reason = ERR_GET_REASON(error);
    if (library == ERR_LIB_X509 && reason == X509_R_KEY_VALUES_MISMATCH) {
        return "it does not belong to the certificate";
    }
    if ((library == ERR_LIB_PEM && reason == PEM_R_NO_START_LINE) ||
        (library == ERR_LIB_OSSL_DECODER && reason == ERR_R_UNSUPPORTED)) {
        return "it is not in PEM form";
    }
    return ERR_reason_error_string(error);
}

static enum status fail(const char *what, const char *path, char *out_error, size_t error_size) {
    const char *reason = reason_of(ERR_peek_error());
    snprintf(out_error, error_size, "%s %s cannot be used: %s", what, path,
             reason != NULL ? reason : "it contains nothing usable");
    ERR_clear_error();
    return STATUS_INVALID;
}

/* ---- the certificate and its key ---- */

static void warn_of_own_certificate(SSL_CTX *tls, const char *path) {
    const X509 *own = SSL_CTX_get0_certificate(tls);
    if (X509_cmp_current_time(X509_get0_notAfter(own)) < 0 ||
        X509_cmp_current_time(X509_get0_notBefore(own)) > 0) {
        log_warning("this node's own certificate is not valid today: others will refuse it",
                    LOG_TEXT("path", path));
    }
}

static enum status read_certificate(SSL_CTX *tls, const struct tls_options *options,
                                    char *out_error, size_t error_size) {
    if (SSL_CTX_use_certificate_chain_file(tls, options->cert_file) != 1) {
        return fail("the certificate", options->cert_file, out_error, error_size);
    }
    if (SSL_CTX_use_PrivateKey_file(tls, options->key_file, SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(tls) != 1) {
        return fail("the key", options->key_file, out_error, error_size);
    }
    warn_of_own_certificate(tls, options->cert_file);
    return STATUS_OK;
}

/* ---- authorities ---- */

static enum status read_authorities(SSL_CTX *tls, const struct tls_options *options,
                                    char *out_error, size_t error_size) {
    STACK_OF(X509_NAME) *authorities = SSL_load_client_CA_file(options->ca_file);
    if (authorities == NULL || SSL_CTX_load_verify_file(tls, options->ca_file) != 1) {
        sk_X509_NAME_pop_free(authorities, X509_NAME_free);
        return fail("the authority", options->ca_file, out_error, error_size);
    }
    SSL_CTX_set_client_CA_list(tls, authorities);
    return STATUS_OK;
}

/* ---- lists of revoked certificates ---- */

static void add_list(X509_STORE *store, X509_CRL *list, const char *path) {
    const ASN1_TIME *next_update = X509_CRL_get0_nextUpdate(list);
    if (next_update != NULL && X509_cmp_current_time(next_update) < 0) {
        log_warning("a list of revoked certificates is past its time: what it lists is refused, "
                    "what was revoked since is not known",
                    LOG_TEXT("path", path));
    }
    (void)X509_STORE_add_crl(store, list); /* a second copy of one is an error of no consequence */
    X509_CRL_free(list);
}

/* One list in DER, or any number in PEM. False: there is none. */
static bool read_lists_from(BIO *file, X509_STORE *store, const char *path) {
    X509_CRL *list = d2i_X509_CRL_bio(file, NULL);
    if (list != NULL) {
        add_list(store, list, path);
        return true;
    }
    ERR_clear_error();
    if (BIO_seek(file, 0) < 0) {
        return false;
    }
    size_t n_lists = 0;
    while ((list = PEM_read_bio_X509_CRL(file, NULL, NULL, NULL)) != NULL) {
        add_list(store, list, path);
        n_lists++;
    }
    /* The end of the file shows as a missing first line; anything else is damage. */
    bool is_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    if (n_lists > 0 && is_end) {
        ERR_clear_error();
    }
    return n_lists > 0 && is_end;
}

static enum status read_revoked(SSL_CTX *tls, const struct tls_options *options, char *out_error,
                                size_t error_size) {
    X509_STORE *store = SSL_CTX_get_cert_store(tls);
    BIO *file = BIO_new_file(options->crl_file, "r");
    bool is_read = file != NULL && read_lists_from(file, store, options->crl_file);
    BIO_free(file);
    if (!is_read) {
        return fail("the list of revoked certificates", options->crl_file, out_error, error_size);
    }
    X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK);
    return STATUS_OK;
}

enum status tls_files_read(SSL_CTX *tls, const struct tls_options *options, char *out_error,
                           size_t error_size) {
    enum status status = STATUS_OK;
    ERR_clear_error();
    if (tls_is_given(options->cert_file)) {
        status = read_certificate(tls, options, out_error, error_size);
    }
    if (status == STATUS_OK && tls_is_given(options->ca_file)) {
        status = read_authorities(tls, options, out_error, error_size);
    } else if (status == STATUS_OK && (options->is_client || options->trusts_system)) {
        /* A system without any is told by the first certificate that nobody signed. */
        SSL_CTX_set_default_verify_paths(tls);
        ERR_clear_error();
    }
    if (status == STATUS_OK && tls_is_given(options->crl_file)) {
        status = read_revoked(tls, options, out_error, error_size);
    }
    return status;
}
