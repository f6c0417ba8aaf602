/* Versions and cipher suites, under the names that etcd's flags have for them. */
#include "base/log.h"
#include "tls/tls_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { SUITES_SIZE_MAX = 1024 };

enum suite_use {
    SUITE_TLS_1_2,
    SUITE_TLS_1_3,
    SUITE_UNSAFE /* known to Go and never used here */
};

static const struct suite {
    const char *name;
    const char *openssl_name;
    enum suite_use use;
} suites[] = {
    {"TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256", SUITE_TLS_1_3},
    {"TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384", SUITE_TLS_1_3},
    {"TLS_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256", SUITE_TLS_1_3},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256", SUITE_TLS_1_2},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "ECDHE-ECDSA-AES256-GCM-SHA384", SUITE_TLS_1_2},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305",
     SUITE_TLS_1_2},
    {"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "ECDHE-ECDSA-CHACHA20-POLY1305", SUITE_TLS_1_2},
    {"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256", SUITE_TLS_1_2},
    {"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384", SUITE_TLS_1_2},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-CHACHA20-POLY1305", SUITE_TLS_1_2},
    {"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "ECDHE-RSA-CHACHA20-POLY1305", SUITE_TLS_1_2},
    /* Without forward secrecy, or with a mode that HTTP/2 forbids (RFC 9113, appendix A). */
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA", NULL, SUITE_UNSAFE},
    {"TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", NULL, SUITE_UNSAFE},
    {"TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA", NULL, SUITE_UNSAFE},
    {"TLS_ECDHE_ECDSA_WITH_RC4_128_SHA", NULL, SUITE_UNSAFE},
    {"TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA", NULL, SUITE_UNSAFE},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", NULL, SUITE_UNSAFE},
    {"TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", NULL, SUITE_UNSAFE},
    {"TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", NULL, SUITE_UNSAFE},
    {"TLS_ECDHE_RSA_WITH_RC4_128_SHA", NULL, SUITE_UNSAFE},
    {"TLS_RSA_WITH_3DES_EDE_CBC_SHA", NULL, SUITE_UNSAFE},
    {"TLS_RSA_WITH_AES_128_CBC_SHA", NULL, SUITE_UNSAFE},
    {"TLS_RSA_WITH_AES_128_CBC_SHA256", NULL, SUITE_UNSAFE},
    {"TLS_RSA_WITH_AES_128_GCM_SHA256", NULL, SUITE_UNSAFE},
    {"TLS_RSA_WITH_AES_256_CBC_SHA", NULL, SUITE_UNSAFE},
    {"TLS_RSA_WITH_AES_256_GCM_SHA384", NULL, SUITE_UNSAFE},
    {"TLS_RSA_WITH_RC4_128_SHA", NULL, SUITE_UNSAFE},
};
static const size_t n_suites = sizeof suites / sizeof suites[0];

/* OpenSSL's lists of what was chosen. */
struct chosen {
    char tls_1_2[SUITES_SIZE_MAX];
    char tls_1_3[SUITES_SIZE_MAX];
};

static const struct suite *find_suite(const char *name, size_t size) {
    for (size_t i = 0; i < n_suites; i++) {
        if (strlen(suites[i].name) == size && memcmp(suites[i].name, name, size) == 0) {
            return &suites[i];
        }
    }
    return NULL;
}

static bool append(char list[SUITES_SIZE_MAX], const char *name) {
    size_t size = strlen(list);
    int added = snprintf(list + size, SUITES_SIZE_MAX - size, "%s%s", size > 0 ? ":" : "", name);
    return added >= 0 && (size_t)added < SUITES_SIZE_MAX - size;
}

static enum status fail_unknown(const char *name, size_t size, char *out_error, size_t error_size) {
    int at = snprintf(out_error, error_size, "there is no cipher suite \"%.*s\"; use",
                      (int)(size < 64 ? size : 64), name);
    for (size_t i = 0; i < n_suites && at >= 0 && (size_t)at < error_size; i++) {
        if (suites[i].use != SUITE_UNSAFE) {
            at += snprintf(out_error + at, error_size - (size_t)at, "%s %s", i > 0 ? "," : "",
                           suites[i].name);
        }
    }
    return STATUS_INVALID;
}

static enum status choose(const char *names, struct chosen *chosen, char *out_error,
                          size_t error_size) {
    for (;;) {
        names += strspn(names, ", ");
        size_t size = strcspn(names, ", ");
        if (size == 0) {
            break;
        }
        const struct suite *suite = find_suite(names, size);
        if (suite == NULL) {
            return fail_unknown(names, size, out_error, error_size);
        }
        names += size;
        if (suite->use == SUITE_UNSAFE) {
            log_warning("this cipher suite is not offered: it has no forward secrecy, or a mode "
                        "that HTTP/2 forbids",
                        LOG_TEXT("suite", suite->name));
        } else if (!append(suite->use == SUITE_TLS_1_3 ? chosen->tls_1_3 : chosen->tls_1_2,
                           suite->openssl_name)) {
            snprintf(out_error, error_size, "the list of cipher suites is too long");
            return STATUS_INVALID;
        }
    }
    if (*chosen->tls_1_2 == '\0' && *chosen->tls_1_3 == '\0') {
        snprintf(out_error, error_size, "the list of cipher suites has none that can be used");
        return STATUS_INVALID;
    }
    return STATUS_OK;
}

/* ---- versions ---- */

struct versions {
    int min;
    int max;
};

static bool parse_version(const char *text, int fallback, int *out_version) {
    if (!tls_is_given(text)) {
        *out_version = fallback;
        return true;
    }
    *out_version = strcmp(text, "TLS1.2") == 0 ? TLS1_2_VERSION : TLS1_3_VERSION;
    return strcmp(text, "TLS1.2") == 0 || strcmp(text, "TLS1.3") == 0;
}

static enum status parse_versions(const struct tls_options *options, struct versions *out_versions,
                                  char *out_error, size_t error_size) {
    struct versions versions;
    bool is_min = parse_version(options->min_version, TLS1_2_VERSION, &versions.min);
    if (!is_min || !parse_version(options->max_version, TLS1_3_VERSION, &versions.max)) {
        snprintf(out_error, error_size, "\"%s\" is no TLS version; use TLS1.2 or TLS1.3",
                 is_min ? options->max_version : options->min_version);
        return STATUS_INVALID;
    }
    if (versions.min > versions.max) {
        snprintf(out_error, error_size,
                 "the oldest TLS version allowed (%s) is newer than the newest (%s)",
                 options->min_version, options->max_version);
        return STATUS_INVALID;
    }
    *out_versions = versions;
    return STATUS_OK;
}

/* A version without a suite cannot be spoken. */
static enum status fit_versions(struct versions *versions, const struct chosen *chosen,
                                char *out_error, size_t error_size) {
    if (*chosen->tls_1_2 == '\0' && versions->max == TLS1_2_VERSION) {
        snprintf(out_error, error_size,
                 "the cipher suites are all of TLS 1.3, and the newest version allowed is TLS1.2");
        return STATUS_INVALID;
    }
    if (*chosen->tls_1_3 == '\0' && versions->min == TLS1_3_VERSION) {
        snprintf(out_error, error_size,
                 "the cipher suites are all of TLS 1.2, and the oldest version allowed is TLS1.3");
        return STATUS_INVALID;
    }
    if (*chosen->tls_1_2 == '\0') {
        versions->min = TLS1_3_VERSION;
    }
    return STATUS_OK;
}

enum status tls_suites_configure(SSL_CTX *tls, const struct tls_options *options, char *out_error,
                                 size_t error_size) {
    struct versions versions;
    struct chosen chosen = {.tls_1_2 = "ECDHE+AESGCM:ECDHE+CHACHA20"};
    enum status status = parse_versions(options, &versions, out_error, error_size);
    if (status == STATUS_OK && tls_is_given(options->cipher_suites)) {
        chosen.tls_1_2[0] = '\0';
        status = choose(options->cipher_suites, &chosen, out_error, error_size);
        if (status == STATUS_OK) {
            status = fit_versions(&versions, &chosen, out_error, error_size);
        }
    }
    if (status != STATUS_OK) {
        return status;
    }
    bool is_set = SSL_CTX_set_min_proto_version(tls, versions.min) == 1 &&
                  SSL_CTX_set_max_proto_version(tls, versions.max) == 1 &&
                  (*chosen.tls_1_2 == '\0' || SSL_CTX_set_cipher_list(tls, chosen.tls_1_2) == 1) &&
                  (*chosen.tls_1_3 == '\0' || SSL_CTX_set_ciphersuites(tls, chosen.tls_1_3) == 1);
    if (!is_set) {
        snprintf(out_error, error_size,
                 "this machine's OpenSSL allows none of the cipher suites or versions");
        return STATUS_INVALID;
    }
    return STATUS_OK;
}
