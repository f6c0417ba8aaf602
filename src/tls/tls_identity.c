#include "tls/tls_identity.h"

#include "tls/tls_internal.h"

#include <arpa/inet.h>
#include <openssl/x509v3.h>
#include <string.h>

const char *tls_identity_name(const struct tls_identity *identity, enum tls_name_kind kind,
                              size_t index) {
    for (size_t i = 0; i < identity->n_names; i++) {
        if (identity->names[i].kind == kind && index-- == 0) {
            return identity->texts + identity->names[i].offset;
        }
    }
    return NULL;
}

static bool is_printable(const unsigned char *text, size_t size) {
    for (size_t i = 0; i < size; i++) {
        if (text[i] < ' ' || text[i] == 0x7f) {
            return false;
        }
    }
    return size > 0;
}

static void add(struct tls_identity *identity, enum tls_name_kind kind, const void *text,
                size_t size) {
    if (identity->n_names == TLS_NAMES_MAX || !is_printable(text, size) ||
        size >= sizeof identity->texts - identity->texts_size) {
        identity->is_complete = false;
        return;
    }
    identity->names[identity->n_names].kind = (uint8_t)kind;
    identity->names[identity->n_names].offset = identity->texts_size;
    identity->n_names++;
    memcpy(identity->texts + identity->texts_size, text, size);
    identity->texts[identity->texts_size + size] = '\0';
    identity->texts_size = (uint16_t)(identity->texts_size + size + 1);
}

static void add_common_name(struct tls_identity *identity, X509 *certificate) {
    X509_NAME *subject = X509_get_subject_name(certificate);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (at < 0) {
        return;
    }
    if (X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0) {
        /* Implementations differ in which of them counts. */
        identity->is_complete = false;
        return;
    }
    unsigned char *text = NULL;
    int size =
        ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
    if (size < 0) {
        identity->is_complete = false;
        return;
    }
    add(identity, TLS_NAME_COMMON, text, (size_t)size);
    OPENSSL_free(text);
}

static void add_address(struct tls_identity *identity, const ASN1_OCTET_STRING *address) {
    char text[INET6_ADDRSTRLEN];
    int size = ASN1_STRING_length(address);
    int family = size == 4 ? AF_INET : AF_INET6;
    if ((size != 4 && size != 16) ||
        inet_ntop(family, ASN1_STRING_get0_data(address), text, sizeof text) == NULL) {
        identity->is_complete = false;
        return;
    }
    add(identity, TLS_NAME_IP, text, strlen(text));
}

static void add_alternative_name(struct tls_identity *identity, const GENERAL_NAME *name) {
    int type = 0;
    const ASN1_STRING *value = GENERAL_NAME_get0_value(name, &type);
    switch (type) {
    case GEN_DNS:
    case GEN_URI:
        add(identity, type == GEN_DNS ? TLS_NAME_DNS : TLS_NAME_URI, ASN1_STRING_get0_data(value),
            (size_t)ASN1_STRING_length(value));
        return;
    case GEN_IPADD:
        add_address(identity, value);
        return;
    default:
        return; /* mail addresses and the like name nobody here */
    }
}

void tls_identity_read(X509 *certificate, struct tls_identity *out_identity) {
    struct tls_identity identity = {.is_complete = true};
    add_common_name(&identity, certificate);
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        add_alternative_name(&identity, sk_GENERAL_NAME_value(names, i));
    }
    GENERAL_NAMES_free(names);
    *out_identity = identity;
}
