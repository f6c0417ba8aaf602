/* The settings of JSON Web Tokens: keys and signatures. */
#include "base/duration.h"
#include "server/jwt_internal.h"

#include <assert.h>
#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SETTINGS_SIZE_MAX = 16 * 1024,
    TTL_MS_DEFAULT = 5 * 60 * 1000, /* etcd's */
};

static const struct jwt_method methods[] = {
    {"HS256", JWT_HMAC, EVP_sha256, 0, 0},     {"HS384", JWT_HMAC, EVP_sha384, 0, 0},
    {"HS512", JWT_HMAC, EVP_sha512, 0, 0},     {"RS256", JWT_RSA, EVP_sha256, 0, 0},
    {"RS384", JWT_RSA, EVP_sha384, 0, 0},      {"RS512", JWT_RSA, EVP_sha512, 0, 0},
    {"PS256", JWT_RSA_PSS, EVP_sha256, 0, 0},  {"PS384", JWT_RSA_PSS, EVP_sha384, 0, 0},
    {"PS512", JWT_RSA_PSS, EVP_sha512, 0, 0},  {"ES256", JWT_ECDSA, EVP_sha256, 32, 256},
    {"ES384", JWT_ECDSA, EVP_sha384, 48, 384}, {"ES512", JWT_ECDSA, EVP_sha512, 66, 521},
};

__attribute__((format(printf, 2, 3))) static bool fail(char out_error[JWT_ERROR_SIZE],
                                                       const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out_error, JWT_ERROR_SIZE, format, arguments);
    va_end(arguments);
    return false;
}

/* --- Signatures. --- */

static bool hmac(const struct jwt *jwt, struct bytes message, uint8_t *out_mac, size_t *out_size) {
    unsigned size = 0;
    if (HMAC(jwt->method->digest(), jwt->secret, (int)jwt->secret_size, message.data, message.size,
             out_mac, &size) == NULL) {
        return false;
    }
    *out_size = size;
    return true;
}

static bool set_padding(const struct jwt *jwt, EVP_PKEY_CTX *context) {
    return jwt->method->family != JWT_RSA_PSS ||
           (EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PSS_PADDING) > 0 &&
            EVP_PKEY_CTX_set_rsa_pss_saltlen(context, RSA_PSS_SALTLEN_DIGEST) > 0);
}

/* RFC 7518 writes the two numbers of a signature as they are, OpenSSL in DER. */
static bool numbers_of_der(const struct jwt *jwt, struct bytes der,
                           uint8_t out_signature[JWT_SIGNATURE_SIZE_MAX], size_t *out_size) {
    const uint8_t *at = der.data;
    int size = (int)jwt->method->coordinate_size;
    ECDSA_SIG *signature = d2i_ECDSA_SIG(NULL, &at, (long)der.size);
    bool is_written = signature != NULL &&
                      BN_bn2binpad(ECDSA_SIG_get0_r(signature), out_signature, size) == size &&
                      BN_bn2binpad(ECDSA_SIG_get0_s(signature), out_signature + size, size) == size;
    ECDSA_SIG_free(signature);
    *out_size = 2 * jwt->method->coordinate_size;
    return is_written;
}

/* The DER belongs to the caller: OPENSSL_free(). Its size, or less than 1. */
static int der_of_numbers(const struct jwt *jwt, struct bytes numbers, uint8_t **out_der) {
    int size = (int)jwt->method->coordinate_size;
    if (numbers.size != 2 * jwt->method->coordinate_size) {
        return -1;
    }
    BIGNUM *r = BN_bin2bn(numbers.data, size, NULL);
    BIGNUM *s = BN_bin2bn(numbers.data + size, size, NULL);
    ECDSA_SIG *signature = ECDSA_SIG_new();
    if (r == NULL || s == NULL || signature == NULL || ECDSA_SIG_set0(signature, r, s) != 1) {
        BN_free(r);
        BN_free(s);
        ECDSA_SIG_free(signature);
        return -1;
    }
    int der_size = i2d_ECDSA_SIG(signature, out_der);
    ECDSA_SIG_free(signature);
    return der_size;
}

bool jwt_sign(const struct jwt *jwt, struct bytes message,
              uint8_t out_signature[JWT_SIGNATURE_SIZE_MAX], size_t *out_size) {
    uint8_t raw[JWT_SIGNATURE_SIZE_MAX];
    size_t size = sizeof raw;
    if (jwt->method->family == JWT_HMAC) {
        return hmac(jwt, message, out_signature, out_size);
    }
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_PKEY_CTX *key_context = NULL;
    bool is_signed = context != NULL &&
                     EVP_DigestSignInit(context, &key_context, jwt->method->digest(), NULL,
                                        jwt->private_key) == 1 &&
                     set_padding(jwt, key_context) &&
                     EVP_DigestSign(context, raw, &size, message.data, message.size) == 1;
    EVP_MD_CTX_free(context);
    if (is_signed && jwt->method->family == JWT_ECDSA) {
        return numbers_of_der(jwt, bytes_of(raw, size), out_signature, out_size);
    }
    if (is_signed) {
        memcpy(out_signature, raw, size);
        *out_size = size;
    }
    return is_signed;
}

static bool verify_with_key(const struct jwt *jwt, struct bytes message, struct bytes signature) {
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_PKEY_CTX *key_context = NULL;
    bool is_good =
        context != NULL &&
        EVP_DigestVerifyInit(context, &key_context, jwt->method->digest(), NULL, jwt->public_key) ==
            1 &&
        set_padding(jwt, key_context) &&
        EVP_DigestVerify(context, signature.data, signature.size, message.data, message.size) == 1;
    EVP_MD_CTX_free(context);
    return is_good;
}

bool jwt_verify(const struct jwt *jwt, struct bytes message, struct bytes signature) {
    if (jwt->method->family == JWT_HMAC) {
        uint8_t mac[EVP_MAX_MD_SIZE];
        size_t size;
        return hmac(jwt, message, mac, &size) && signature.size == size &&
               CRYPTO_memcmp(mac, signature.data, size) == 0;
    }
    if (jwt->method->family != JWT_ECDSA) {
        return verify_with_key(jwt, message, signature);
    }
    uint8_t *der = NULL;
    int size = der_of_numbers(jwt, signature, &der);
    bool is_good = size > 0 && verify_with_key(jwt, message, bytes_of(der, (size_t)size));
    OPENSSL_free(der);
    return is_good;
}

/* --- Keys. --- */

static bool has_right_type(const struct jwt *jwt, const EVP_PKEY *key) {
    return jwt->method->family == JWT_ECDSA
               ? EVP_PKEY_is_a(key, "EC") && EVP_PKEY_get_bits(key) == jwt->method->curve_bits
               : EVP_PKEY_is_a(key, "RSA") && EVP_PKEY_get_size(key) <= (int)JWT_SIGNATURE_SIZE_MAX;
}

static EVP_PKEY *public_key_in(BIO *bio) {
    EVP_PKEY *key = PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL);
    if (key == NULL && BIO_seek(bio, 0) == 0) {
        X509 *certificate = PEM_read_bio_X509(bio, NULL, NULL, NULL);
        key = certificate != NULL ? X509_get_pubkey(certificate) : NULL;
        X509_free(certificate);
    }
    return key;
}

/* No key has a passphrase: nobody is there to be asked. */
static int no_passphrase(char *text, int size, int is_writing, void *data) {
    (void)text, (void)size, (void)is_writing, (void)data;
    return -1;
}

static EVP_PKEY *read_key(const struct jwt *jwt, const char *path, bool is_public,
                          char out_error[JWT_ERROR_SIZE]) {
    BIO *bio = BIO_new_file(path, "r");
    if (bio == NULL) {
        fail(out_error, "cannot read %s: %s", path, strerror(errno));
        return NULL;
    }
    EVP_PKEY *key =
        is_public ? public_key_in(bio) : PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, NULL);
    BIO_free(bio);
    if (key == NULL || !has_right_type(jwt, key)) {
        fail(out_error, "%s holds no %s key for %s", path, is_public ? "public" : "private",
             jwt->method->name);
        EVP_PKEY_free(key);
        return NULL;
    }
    return key;
}

static bool read_secret(struct jwt *jwt, const char *path, char out_error[JWT_ERROR_SIZE]) {
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return fail(out_error, "cannot read %s: %s", path, strerror(errno));
    }
    jwt->secret = malloc(JWT_SECRET_SIZE_MAX);
    if (jwt->secret == NULL) {
        abort();
    }
    jwt->secret_size = fread(jwt->secret, 1, JWT_SECRET_SIZE_MAX, file);
    bool is_whole = !ferror(file) && fgetc(file) == EOF;
    fclose(file);
    return (is_whole && jwt->secret_size > 0) ||
           fail(out_error, "%s is no secret: it is empty, or larger than %d bytes", path,
                JWT_SECRET_SIZE_MAX);
}

struct settings {
    const char *public_key;
    const char *private_key;
    const char *method;
    const char *ttl;
};

static bool read_keys(struct jwt *jwt, const struct settings *settings,
                      char out_error[JWT_ERROR_SIZE]) {
    if (jwt->method->family == JWT_HMAC) {
        return settings->private_key != NULL
                   ? read_secret(jwt, settings->private_key, out_error)
                   : fail(out_error, "priv-key is missing: the file with the secret");
    }
    if (settings->public_key == NULL && settings->private_key == NULL) {
        return fail(out_error, "pub-key and priv-key are missing");
    }
    if (settings->private_key != NULL) {
        jwt->private_key = read_key(jwt, settings->private_key, false, out_error);
        if (jwt->private_key == NULL) {
            return false;
        }
    }
    if (settings->public_key == NULL) {
        EVP_PKEY_up_ref(jwt->private_key);
        jwt->public_key = jwt->private_key;
        return true;
    }
    jwt->public_key = read_key(jwt, settings->public_key, true, out_error);
    if (jwt->public_key == NULL) {
        return false;
    }
    return jwt->private_key == NULL || EVP_PKEY_eq(jwt->public_key, jwt->private_key) == 1 ||
           fail(out_error, "pub-key and priv-key do not belong together");
}

/* --- Settings. --- */

static bool read_settings(char *text, struct settings *out_settings,
                          char out_error[JWT_ERROR_SIZE]) {
    char *rest = NULL;
    for (char *part = strtok_r(text, ",", &rest); part != NULL; part = strtok_r(NULL, ",", &rest)) {
        const struct {
            const char *name;
            const char **value;
        } known[] = {{"pub-key=", &out_settings->public_key},
                     {"priv-key=", &out_settings->private_key},
                     {"sign-method=", &out_settings->method},
                     {"ttl=", &out_settings->ttl}};
        size_t i = 0;
        while (i < sizeof known / sizeof known[0] &&
               strncmp(part, known[i].name, strlen(known[i].name)) != 0) {
            i++;
        }
        if (i == sizeof known / sizeof known[0] || *known[i].value != NULL) {
            return fail(out_error,
                        "\"%s\" is unknown or given twice; there are pub-key, priv-key, "
                        "sign-method and ttl",
                        part);
        }
        *known[i].value = part + strlen(known[i].name);
    }
    return true;
}

static bool use_settings(struct jwt *jwt, const struct settings *settings,
                         char out_error[JWT_ERROR_SIZE]) {
    int64_t ttl_ms = TTL_MS_DEFAULT;
    for (size_t i = 0; settings->method != NULL && i < sizeof methods / sizeof methods[0]; i++) {
        if (strcmp(methods[i].name, settings->method) == 0) {
            jwt->method = &methods[i];
        }
    }
    if (jwt->method == NULL) {
        return fail(out_error, "sign-method is missing or unknown; there are HS, RS, PS and ES "
                               "with 256, 384 and 512");
    }
    if (settings->ttl != NULL &&
        (duration_parse(settings->ttl, DURATION_BARE_REFUSED, &ttl_ms) != STATUS_OK ||
         ttl_ms < 1000)) {
        return fail(out_error, "ttl is a duration of a second or more, such as 10m");
    }
    jwt->ttl_s = ttl_ms / 1000;
    return read_keys(jwt, settings, out_error);
}

static struct jwt *create(const char *text, char out_error[JWT_ERROR_SIZE]) {
    struct settings settings = {0};
    struct jwt *jwt = calloc(1, sizeof *jwt);
    char *copy = strlen(text) <= SETTINGS_SIZE_MAX ? strdup(text) : NULL;
    if (jwt == NULL) {
        abort();
    }
    bool is_usable = copy != NULL ? read_settings(copy, &settings, out_error) &&
                                        use_settings(jwt, &settings, out_error)
                                  : fail(out_error, "the settings are too long");
    free(copy);
    if (!is_usable) {
        jwt_destroy(jwt);
        return NULL;
    }
    return jwt;
}

bool jwt_open(const char *auth_token, struct jwt **out_jwt, char out_error[JWT_ERROR_SIZE]) {
    struct jwt *jwt = NULL;
    if (strncmp(auth_token, "jwt,", 4) == 0) {
        jwt = create(auth_token + 4, out_error);
        if (jwt == NULL) {
            return false;
        }
    } else if (strcmp(auth_token, "simple") != 0) {
        return fail(out_error, "\"%s\" is neither \"simple\" nor \"jwt,\" and its settings",
                    auth_token);
    }
    *out_jwt = jwt;
    return true;
}

void jwt_destroy(struct jwt *jwt) {
    if (jwt == NULL) {
        return;
    }
    EVP_PKEY_free(jwt->public_key);
    EVP_PKEY_free(jwt->private_key);
    if (jwt->secret != NULL) {
        OPENSSL_cleanse(jwt->secret, JWT_SECRET_SIZE_MAX);
        free(jwt->secret);
    }
    free(jwt);
}
