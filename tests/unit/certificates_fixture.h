/*
 * Authorities and certificates, made in a folder of the test's own and gone with it.
 */
#ifndef LEASED_TESTS_CERTIFICATES_FIXTURE_H
#define LEASED_TESTS_CERTIFICATES_FIXTURE_H

#include "tls/tls_context.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TLS_PATH_SIZE = 128, TLS_DAY_SECONDS = 24 * 3600 };

struct tls_authority {
    EVP_PKEY *key;
    X509 *certificate;
};

/* A node's own files. The list of revoked certificates is there only when it was asked for. */
struct tls_files {
    char cert[TLS_PATH_SIZE];
    char key[TLS_PATH_SIZE];
    char ca[TLS_PATH_SIZE];
    char crl[TLS_PATH_SIZE];
    struct tls_options options;
};

/* What a certificate says; zeros: a member at 127.0.0.1, valid for a day. */
struct tls_terms {
    const char *common_name;
    const char *alternative_names;
    bool has_expired;
    int expires_in_seconds; /* 0: not soon */
    bool is_not_valid_yet;
};

static char tls_folder[TLS_PATH_SIZE];

static inline void tls_folder_make(void) {
    snprintf(tls_folder, sizeof tls_folder, "/tmp/leased-test-tls-XXXXXX");
    char *made = mkdtemp(tls_folder);
    assert(made != NULL);
}

static inline void tls_folder_remove(const struct tls_files *files, size_t n) {
    for (size_t i = 0; i < n; i++) {
        unlink(files[i].cert);
        unlink(files[i].key);
        unlink(files[i].ca);
        unlink(files[i].crl);
    }
    rmdir(tls_folder);
}

static inline X509 *tls_make_certificate(EVP_PKEY *key, const char *common_name,
                                         const struct tls_authority *issuer) {
    static long serial = 1;
    X509 *certificate = X509_new();
    assert(certificate != NULL);
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
    X509_gmtime_adj(X509_getm_notBefore(certificate), -TLS_DAY_SECONDS);
    X509_gmtime_adj(X509_getm_notAfter(certificate), TLS_DAY_SECONDS);
    X509_set_pubkey(certificate, key);
    X509_NAME *name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)common_name, -1, -1,
                               0);
    X509_set_issuer_name(certificate,
                         issuer == NULL ? name : X509_get_subject_name(issuer->certificate));
    return certificate;
}

static inline void tls_add_extension(X509 *certificate, int id, const char *value) {
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, id, value);
    assert(extension != NULL);
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
}

/* All authorities have the same name: only their keys tell them apart. */
static inline struct tls_authority tls_authority_make(void) {
    struct tls_authority authority = {.key = EVP_EC_gen("P-256")};
    assert(authority.key != NULL);
    authority.certificate = tls_make_certificate(authority.key, "test authority", NULL);
    tls_add_extension(authority.certificate, NID_basic_constraints, "critical,CA:TRUE");
    X509_sign(authority.certificate, authority.key, EVP_sha256());
    return authority;
}

static inline void tls_authority_clear(struct tls_authority *authority) {
    X509_free(authority->certificate);
    EVP_PKEY_free(authority->key);
}

static inline void tls_write_certificate(const char *path, X509 *certificate) {
    FILE *file = fopen(path, "w");
    assert(file != NULL);
    PEM_write_X509(file, certificate);
    fclose(file);
}

/* Writes a node's files; under an old name they take the place of the old ones. */
static inline void tls_files_make(struct tls_files *files, const char *name,
                                  const struct tls_authority *signer,
                                  const struct tls_authority *trusted,
                                  const struct tls_terms *terms) {
    snprintf(files->cert, sizeof files->cert, "%.80s/%.20s.crt", tls_folder, name);
    snprintf(files->key, sizeof files->key, "%.80s/%.20s.key", tls_folder, name);
    snprintf(files->ca, sizeof files->ca, "%.80s/%.20s.ca", tls_folder, name);
    snprintf(files->crl, sizeof files->crl, "%.80s/%.20s.crl", tls_folder, name);
    EVP_PKEY *key = EVP_EC_gen("P-256");
    assert(key != NULL);
    X509 *certificate = tls_make_certificate(
        key, terms->common_name != NULL ? terms->common_name : "member", signer);
    tls_add_extension(certificate, NID_subject_alt_name,
                      terms->alternative_names != NULL ? terms->alternative_names : "IP:127.0.0.1");
    if (terms->has_expired) {
        X509_gmtime_adj(X509_getm_notAfter(certificate), -60);
    }
    if (terms->expires_in_seconds > 0) {
        X509_gmtime_adj(X509_getm_notAfter(certificate), terms->expires_in_seconds);
    }
    if (terms->is_not_valid_yet) {
        X509_gmtime_adj(X509_getm_notBefore(certificate), 3600);
    }
    X509_sign(certificate, signer->key, EVP_sha256());
    tls_write_certificate(files->cert, certificate);
    tls_write_certificate(files->ca, trusted->certificate);
    FILE *file = fopen(files->key, "w");
    assert(file != NULL);
    PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL);
    fclose(file);
    X509_free(certificate);
    EVP_PKEY_free(key);
    files->options = (struct tls_options){
        .cert_file = files->cert, .key_file = files->key, .ca_file = files->ca};
}

enum tls_list_kind { TLS_LIST_USUAL, TLS_LIST_PAST_ITS_TIME, TLS_LIST_DER };

/* Writes an authority's list of revoked certificates; `cert_path` NULL: it is empty. */
static inline void tls_list_write(const char *path, const struct tls_authority *authority,
                                  const char *cert_path, enum tls_list_kind kind) {
    X509_CRL *list = X509_CRL_new();
    ASN1_TIME *time = ASN1_TIME_new();
    assert(list != NULL && time != NULL);
    X509_CRL_set_version(list, 1);
    X509_CRL_set_issuer_name(list, X509_get_subject_name(authority->certificate));
    X509_gmtime_adj(time, -TLS_DAY_SECONDS);
    X509_CRL_set1_lastUpdate(list, time);
    X509_gmtime_adj(time, kind == TLS_LIST_PAST_ITS_TIME ? -60 : TLS_DAY_SECONDS);
    X509_CRL_set1_nextUpdate(list, time);
    if (cert_path != NULL) {
        FILE *file = fopen(cert_path, "r");
        assert(file != NULL);
        X509 *certificate = PEM_read_X509(file, NULL, NULL, NULL);
        fclose(file);
        X509_REVOKED *revoked = X509_REVOKED_new();
        assert(certificate != NULL && revoked != NULL);
        X509_gmtime_adj(time, -60);
        X509_REVOKED_set_serialNumber(revoked, X509_get_serialNumber(certificate));
        X509_REVOKED_set_revocationDate(revoked, time);
        X509_CRL_add0_revoked(list, revoked);
        X509_free(certificate);
    }
    X509_CRL_sign(list, authority->key, EVP_sha256());
    FILE *file = fopen(path, "w");
    assert(file != NULL);
    if (kind == TLS_LIST_DER) {
        i2d_X509_CRL_fp(file, list);
    } else {
        PEM_write_X509_CRL(file, list);
    }
    fclose(file);
    ASN1_TIME_free(time);
    X509_CRL_free(list);
}

#endif
