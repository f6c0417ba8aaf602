/*
 * Why a TLS stream failed: one list of kinds and texts. A text is constant, speaks of "the peer",
 * says what a person can look at, and holds no secret.
 */
#ifndef LEASED_TLS_TLS_FAILURE_H
#define LEASED_TLS_TLS_FAILURE_H

#define TLS_FAILURE_LIST(X)                                                                        \
    X(NONE, "")                                                                                    \
    X(CLOSED, "the peer hung up")                                                                  \
    X(CLOSED_EARLY, "the peer hung up before TLS was agreed on; does it speak TLS?")               \
    X(PLAIN_TEXT, "the peer does not speak TLS, and this node does")                               \
    X(UNKNOWN_AUTHORITY, "the peer's certificate is signed by an unknown authority")               \
    X(EXPIRED, "the peer's certificate has expired")                                               \
    X(NOT_VALID_YET, "the peer's certificate is not valid yet")                                    \
    X(REVOKED, "the peer's certificate was revoked")                                               \
    X(NO_REVOCATION_LIST, "no list of revoked certificates of the authority that signed the "      \
                          "peer's certificate can be used")                                        \
    X(WRONG_HOST, "the peer's certificate is not for the host that was dialled")                   \
    X(WRONG_NAME, "the peer's certificate bears another name than the allowed one")                \
    X(WRONG_PURPOSE, "the peer's certificate is not made for this end of a connection")            \
    X(NO_CERTIFICATE, "the peer has no certificate")                                               \
    X(OURS_UNKNOWN_AUTHORITY, "the peer does not know the authority that signed our certificate")  \
    X(OURS_EXPIRED, "the peer says that our certificate has expired")                              \
    X(OURS_REVOKED, "the peer says that our certificate was revoked")                              \
    X(OURS_MISSING, "the peer wants a certificate of ours")                                        \
    X(OURS_REFUSED, "the peer refuses our certificate")                                            \
    X(NO_COMMON_VERSION, "the peer and this node allow no TLS version in common")                  \
    X(NO_COMMON_SUITE, "the peer and this node allow no cipher suite in common")                   \
    X(OTHER, "TLS failed")

enum tls_failure {
#define TLS_FAILURE_ENUM(name, text) TLS_FAILURE_##name,
    TLS_FAILURE_LIST(TLS_FAILURE_ENUM)
#undef TLS_FAILURE_ENUM
        TLS_FAILURE_COUNT
};

const char *tls_failure_text(enum tls_failure failure);

#endif
