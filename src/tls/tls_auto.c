#include "tls/tls_auto.h"

#include "base/log.h"
#include "tls/tls_crypto.h"
#include "tls/tls_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    AUTO_DAY_SECONDS = 24 * 3600,
    AUTO_VALID_DAYS = 365,
    AUTO_RENEW_DAYS = 30,
    AUTO_SERIAL_BITS = 127,
    AUTO_HOST_SIZE_MAX = 255
};

/* A certificate and its key. */
struct pair {
    X509 *certificate;
    EVP_PKEY *key;
};

static void pair_clear(struct pair *pair) {
    X509_free(pair->certificate);
    EVP_PKEY_free(pair->key);
    *pair = (struct pair){NULL, NULL};
}

static enum status fail(const char *what, const char *path, char *out_error, size_t error_size) {
    snprintf(out_error, error_size, "%s %s: %s", what, path, strerror(errno));
    return STATUS_IO;
}

/* ---- what is there ---- */

static bool is_lasting(const X509 *certificate) {
    time_t soon = time(NULL) + (time_t)AUTO_RENEW_DAYS * AUTO_DAY_SECONDS;
    return X509_cmp_time(X509_get0_notAfter(certificate), &soon) > 0 &&
           X509_cmp_current_time(X509_get0_notBefore(certificate)) < 0;
}

/* True when both files are there, belong together and last a while. */
static bool is_usable(const struct tls_auto_files *files) {
    struct pair pair = {NULL, NULL};
    FILE *file = fopen(files->cert_file, "re");
    if (file != NULL) {
        pair.certificate = PEM_read_X509(file, NULL, NULL, NULL);
        fclose(file);
    }
    file = fopen(files->key_file, "re");
    if (file != NULL) {
        pair.key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
        fclose(file);
    }
    bool is_usable = pair.certificate != NULL && pair.key != NULL &&
                     X509_check_private_key(pair.certificate, pair.key) == 1 &&
                     is_lasting(pair.certificate);
    pair_clear(&pair);
    ERR_clear_error();
    return is_usable;
}

/* ---- a new one ---- */

static bool add_host(GENERAL_NAMES *names, const char *host) {
    struct in6_addr address;
    GENERAL_NAME *name = GENERAL_NAME_new();
    ASN1_STRING *value = NULL;
    bool is_ip4 = inet_pton(AF_INET, host, &address) == 1;
    bool is_ip = is_ip4 || inet_pton(AF_INET6, host, &address) == 1;
    size_t size = strlen(host);
    if (name == NULL || size == 0 || size > AUTO_HOST_SIZE_MAX) {
        GENERAL_NAME_free(name);
        return false;
    }
    value = is_ip ? ASN1_OCTET_STRING_new() : ASN1_IA5STRING_new();
    bool is_set = value != NULL && (is_ip ? ASN1_STRING_set(value, &address, is_ip4 ? 4 : 16) == 1
                                          : ASN1_STRING_set(value, host, (int)size) == 1);
    if (!is_set) {
        abort();
    }
    GENERAL_NAME_set0_value(name, is_ip ? GEN_IPADD : GEN_DNS, value);
    if (sk_GENERAL_NAME_push(names, name) == 0) {
        abort();
    }
    return true;
}

static bool add_hosts(X509 *certificate, const char *const *hosts, size_t n_hosts) {
    GENERAL_NAMES *names = sk_GENERAL_NAME_new_null();
    if (names == NULL) {
        abort();
    }
    bool is_added = n_hosts > 0;
    for (size_t i = 0; i < n_hosts && is_added; i++) {
        is_added = add_host(names, hosts[i]);
    }
    if (is_added && X509_add1_ext_i2d(certificate, NID_subject_alt_name, names, 0, 0) != 1) {
        abort();
    }
    GENERAL_NAMES_free(names);
    return is_added;
}

static void add_extension(X509 *certificate, int id, const char *value) {
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, id, value);
    if (extension == NULL || X509_add_ext(certificate, extension, -1) != 1) {
        abort();
    }
    X509_EXTENSION_free(extension);
}

static void set_serial(X509 *certificate) {
    BIGNUM *serial = BN_new();
    if (serial == NULL || BN_rand(serial, AUTO_SERIAL_BITS, BN_RAND_TOP_ANY, 0) != 1 ||
        BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(certificate)) == NULL) {
        abort();
    }
    BN_free(serial);
}

/* False: a host is not usable. */
static bool make_pair(const char *const *hosts, size_t n_hosts, struct pair *out_pair) {
    struct pair pair = {.certificate = X509_new(), .key = EVP_EC_gen("P-256")};
    if (pair.certificate == NULL || pair.key == NULL) {
        abort();
    }
    X509_NAME *subject = X509_get_subject_name(pair.certificate);
    X509_set_version(pair.certificate, X509_VERSION_3);
    set_serial(pair.certificate);
    /* A day back: clocks of other machines may be behind. */
    X509_gmtime_adj(X509_getm_notBefore(pair.certificate), -AUTO_DAY_SECONDS);
    X509_gmtime_adj(X509_getm_notAfter(pair.certificate), (long)AUTO_VALID_DAYS * AUTO_DAY_SECONDS);
    X509_set_pubkey(pair.certificate, pair.key);
    X509_NAME_add_entry_by_txt(subject, "O", MBSTRING_ASC, (const unsigned char *)"leased", -1, -1,
                               0);
    X509_set_issuer_name(pair.certificate, subject);
    add_extension(pair.certificate, NID_basic_constraints, "critical,CA:FALSE");
    add_extension(pair.certificate, NID_key_usage, "critical,digitalSignature");
    add_extension(pair.certificate, NID_ext_key_usage, "serverAuth,clientAuth");
    if (!add_hosts(pair.certificate, hosts, n_hosts)) {
        pair_clear(&pair);
        return false;
    }
    if (X509_sign(pair.certificate, pair.key, EVP_sha256()) == 0) {
        abort();
    }
    *out_pair = pair;
    return true;
}

/* ---- files ---- */

static bool write_pem(FILE *file, const struct pair *pair, bool is_key) {
    bool is_written = is_key ? PEM_write_PrivateKey(file, pair->key, NULL, NULL, 0, NULL, NULL) == 1
                             : PEM_write_X509(file, pair->certificate) == 1;
    return is_written && fflush(file) == 0 && fsync(fileno(file)) == 0;
}

/* In one step: a crash leaves the old file or the new one. */
static enum status write_file(const char *path, const struct pair *pair, bool is_key,
                              char *out_error, size_t error_size) {
    char temporary[TLS_AUTO_PATH_SIZE_MAX + 8];
    snprintf(temporary, sizeof temporary, "%s.new", path);
    unlink(temporary);
    int descriptor = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (descriptor < 0) {
        return fail("cannot write", temporary, out_error, error_size);
    }
    FILE *file = fdopen(descriptor, "w");
    if (file == NULL) {
        abort();
    }
    bool is_written = write_pem(file, pair, is_key);
    is_written = fclose(file) == 0 && is_written;
    if (!is_written || rename(temporary, path) != 0) {
        enum status status = fail("cannot write", path, out_error, error_size);
        unlink(temporary);
        return status;
    }
    return STATUS_OK;
}

static bool make_folder(const char *path) {
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

/* etcd's place is two folders deep. */
static enum status make_folders(const char *path, char *out_error, size_t error_size) {
    char parent[TLS_AUTO_PATH_SIZE_MAX];
    snprintf(parent, sizeof parent, "%s", path);
    char *slash = strrchr(parent, '/');
    if (slash != NULL && slash != parent) {
        *slash = '\0';
        if (!make_folder(parent)) {
            return fail("cannot make the folder", parent, out_error, error_size);
        }
    }
    return make_folder(path) ? STATUS_OK
                             : fail("cannot make the folder", path, out_error, error_size);
}

enum status tls_auto_certificate(const char *folder, const char *const *hosts, size_t n_hosts,
                                 struct tls_auto_files *out_files, char *out_error,
                                 size_t error_size) {
    struct tls_auto_files files;
    struct pair pair;
    int size = snprintf(files.cert_file, sizeof files.cert_file, "%s/cert.pem", folder);
    snprintf(files.key_file, sizeof files.key_file, "%s/key.pem", folder);
    if (size < 0 || (size_t)size >= sizeof files.cert_file) {
        errno = ENAMETOOLONG;
        return fail("cannot use the folder", folder, out_error, error_size);
    }
    if (is_usable(&files)) {
        *out_files = files;
        return STATUS_OK;
    }
    if (!make_pair(hosts, n_hosts, &pair)) {
        snprintf(out_error, error_size, "a certificate cannot be made for these hosts");
        return STATUS_INVALID;
    }
    enum status status = make_folders(folder, out_error, error_size);
    if (status == STATUS_OK) {
        status = write_file(files.key_file, &pair, true, out_error, error_size);
    }
    if (status == STATUS_OK) {
        status = write_file(files.cert_file, &pair, false, out_error, error_size);
    }
    pair_clear(&pair);
    if (status == STATUS_OK) {
        log_info("made a certificate of this node's own", LOG_TEXT("path", files.cert_file));
        *out_files = files;
    }
    return status;
}
