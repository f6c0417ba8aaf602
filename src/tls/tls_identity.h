/*
 * The names in a certificate, copied out of it: the common name and the alternative names that are
 * DNS names, addresses or URIs. Bounded: what does not fit is left out and `is_complete` is false.
 * A name with a control character in it is left out too, so that a text never reads as another one.
 */
#ifndef LEASED_TLS_TLS_IDENTITY_H
#define LEASED_TLS_TLS_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TLS_NAMES_MAX = 32, TLS_NAMES_SIZE_MAX = 1024 };

enum tls_name_kind {
    TLS_NAME_COMMON, /* at most one: a subject with several has none here */
    TLS_NAME_DNS,    /* as in the certificate, maybe with a wildcard */
    TLS_NAME_IP,     /* numeric: "127.0.0.1", "::1" */
    TLS_NAME_URI
};

struct tls_identity {
    bool is_complete;
    uint8_t n_names;
    struct {
        uint8_t kind;
        uint16_t offset;
    } names[TLS_NAMES_MAX];
    uint16_t texts_size;
    char texts[TLS_NAMES_SIZE_MAX]; /* each ends with a zero */
};

/* The index-th name of a kind, UTF-8; NULL: there are not so many. */
const char *tls_identity_name(const struct tls_identity *identity, enum tls_name_kind kind,
                              size_t index);

#endif
