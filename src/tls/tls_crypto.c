#include "tls/tls_crypto.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>
#include <stdlib.h>

void tls_random(void *out_bytes, size_t size) {
    if (size > INT32_MAX || RAND_bytes(out_bytes, (int)size) != 1) {
        abort();
    }
}

void tls_hmac(struct bytes key, const struct bytes *parts, size_t n_parts,
              uint8_t out_hmac[TLS_HMAC_SIZE]) {
    OSSL_PARAM params[] = {OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, "SHA256", 0),
                           OSSL_PARAM_construct_end()};
    EVP_MAC *algorithm = EVP_MAC_fetch(NULL, "HMAC", NULL);
    EVP_MAC_CTX *mac = EVP_MAC_CTX_new(algorithm);
    size_t size = 0;
    if (mac == NULL || EVP_MAC_init(mac, key.data, key.size, params) != 1) {
        abort();
    }
    for (size_t i = 0; i < n_parts; i++) {
        if (EVP_MAC_update(mac, parts[i].data, parts[i].size) != 1) {
            abort();
        }
    }
    if (EVP_MAC_final(mac, out_hmac, &size, TLS_HMAC_SIZE) != 1 || size != TLS_HMAC_SIZE) {
        abort();
    }
    EVP_MAC_CTX_free(mac);
    EVP_MAC_free(algorithm);
}

bool tls_equal(const void *a, const void *b, size_t size) {
    return CRYPTO_memcmp(a, b, size) == 0;
}

void tls_wipe(void *bytes, size_t size) {
    OPENSSL_cleanse(bytes, size);
}
