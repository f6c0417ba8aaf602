/* What a certificate must say beside the chain of signatures, which OpenSSL checks. */
#include "tls/tls_internal.h"

#include <openssl/x509v3.h>
#include <string.h>

/* Takes the next name off a list with commas; false: there is none left. */
static bool next_name(const char **list, const char **out_name, size_t *out_size) {
    *list += strspn(*list, ",");
    *out_name = *list;
    *out_size = strcspn(*list, ",");
    *list += *out_size;
    return *out_size > 0;
}

static bool has_allowed_cn(X509 *certificate, const char *list) {
    struct tls_identity identity;
    const char *name;
    size_t size;
    tls_identity_read(certificate, &identity);
    const char *common_name = tls_identity_name(&identity, TLS_NAME_COMMON, 0);
    while (common_name != NULL && next_name(&list, &name, &size)) {
        if (strlen(common_name) == size && memcmp(common_name, name, size) == 0) {
            return true;
        }
    }
    return false;
}

static bool has_allowed_hostname(X509 *certificate, const char *list) {
    const char *name;
    size_t size;
    while (next_name(&list, &name, &size)) {
        /* Only the names meant for it count, never the subject (RFC 6125, section 6.4.4). */
        if (X509_check_host(certificate, name, size, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL) ==
            1) {
            return true;
        }
    }
    return false;
}

int tls_verify_certificate(int is_valid_so_far, X509_STORE_CTX *chain) {
    if (is_valid_so_far != 1 && X509_STORE_CTX_get_error(chain) == X509_V_ERR_CRL_HAS_EXPIRED) {
        /* The operator was warned. To refuse everybody because a list is late would stop the
         * cluster, or all of its clients, for want of a file. */
        X509_STORE_CTX_set_error(chain, X509_V_OK);
        return 1;
    }
    if (is_valid_so_far != 1 || X509_STORE_CTX_get_error_depth(chain) != 0) {
        return is_valid_so_far;
    }
    const SSL *ssl = X509_STORE_CTX_get_ex_data(chain, SSL_get_ex_data_X509_STORE_CTX_idx());
    const struct tls_options *options = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    X509 *certificate = X509_STORE_CTX_get_current_cert(chain);
    bool is_allowed =
        (!tls_is_given(options->allowed_cn) || has_allowed_cn(certificate, options->allowed_cn)) &&
        (!tls_is_given(options->allowed_hostname) ||
         has_allowed_hostname(certificate, options->allowed_hostname));
    if (!is_allowed) {
        X509_STORE_CTX_set_error(chain, X509_V_ERR_APPLICATION_VERIFICATION);
    }
    return is_allowed;
}
