#include "tls/tls_failure.h"

#include "tls/tls_internal.h"

#include <assert.h>
#include <openssl/err.h>
#include <openssl/x509.h>

static const char *const texts[TLS_FAILURE_COUNT] = {
#define TLS_FAILURE_TEXT(name, text) text,
    TLS_FAILURE_LIST(TLS_FAILURE_TEXT)
#undef TLS_FAILURE_TEXT
};

const char *tls_failure_text(enum tls_failure failure) {
    assert(failure < TLS_FAILURE_COUNT);
    return texts[failure];
}

/* What this side found wrong with the peer's certificate. */
static enum tls_failure of_verification(long result) {
    switch (result) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    case X509_V_ERR_CERT_UNTRUSTED:
        return TLS_FAILURE_UNKNOWN_AUTHORITY;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return TLS_FAILURE_EXPIRED;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return TLS_FAILURE_NOT_VALID_YET;
    case X509_V_ERR_CERT_REVOKED:
        return TLS_FAILURE_REVOKED;
    case X509_V_ERR_UNABLE_TO_GET_CRL:
    case X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER:
    case X509_V_ERR_CRL_SIGNATURE_FAILURE:
    case X509_V_ERR_CRL_NOT_YET_VALID:
    case X509_V_ERR_DIFFERENT_CRL_SCOPE:
        return TLS_FAILURE_NO_REVOCATION_LIST;
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return TLS_FAILURE_WRONG_HOST;
    case X509_V_ERR_APPLICATION_VERIFICATION:
        return TLS_FAILURE_WRONG_NAME;
    case X509_V_ERR_INVALID_PURPOSE:
        return TLS_FAILURE_WRONG_PURPOSE;
    default:
        return TLS_FAILURE_OTHER;
    }
}

/* What went wrong otherwise: an alert is the peer's view of this side. */
static enum tls_failure of_reason(int reason) {
    switch (reason) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_HTTPS_PROXY_REQUEST:
    case SSL_R_SSLV3_ALERT_UNEXPECTED_MESSAGE: /* what a plain listener of ours says to TLS */
        return TLS_FAILURE_PLAIN_TEXT;
    case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return TLS_FAILURE_NO_CERTIFICATE;
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        return TLS_FAILURE_OURS_UNKNOWN_AUTHORITY;
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        return TLS_FAILURE_OURS_EXPIRED;
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
        return TLS_FAILURE_OURS_REVOKED;
    case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        return TLS_FAILURE_OURS_MISSING;
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR: /* signed by another key than that of the authority */
        return TLS_FAILURE_OURS_REFUSED;
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION:
    case SSL_R_VERSION_TOO_LOW:
    case SSL_R_VERSION_TOO_HIGH:
        return TLS_FAILURE_NO_COMMON_VERSION;
    case SSL_R_NO_SHARED_CIPHER:
        return TLS_FAILURE_NO_COMMON_SUITE;
    default:
        return TLS_FAILURE_OTHER;
    }
}

enum tls_failure tls_failure_of(const SSL *ssl, int ssl_error, bool is_open,
                                const char **out_text) {
    unsigned long error = ERR_peek_last_error();
    enum tls_failure failure;
    const char *detail = NULL; /* OpenSSL's, where we have no text of our own */
    ERR_clear_error();
    if (ssl_error == SSL_ERROR_ZERO_RETURN || ERR_GET_REASON(error) == 0 ||
        ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING) {
        failure = is_open ? TLS_FAILURE_CLOSED : TLS_FAILURE_CLOSED_EARLY;
    } else if (ERR_GET_REASON(error) == SSL_R_CERTIFICATE_VERIFY_FAILED) {
        long result = SSL_get_verify_result(ssl);
        failure = of_verification(result);
        detail = X509_verify_cert_error_string(result);
    } else {
        failure = of_reason(ERR_GET_REASON(error));
        detail = ERR_reason_error_string(error);
    }
    *out_text = failure == TLS_FAILURE_OTHER && detail != NULL ? detail : tls_failure_text(failure);
    return failure;
}
