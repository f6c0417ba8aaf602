#include "server/auth_token.h"

#include "core/auth.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <sys/random.h>

/* Also distinguishes these texts from those of a later form. */
static const char prefix[] = "lt1.";

enum {
    PREFIX_SIZE = sizeof prefix - 1,
    NONCE_SIZE = 16,
    FACTS_SIZE = NONCE_SIZE + 3 * 8,
    MAC_SIZE = 32,
    RAW_SIZE = FACTS_SIZE + MAC_SIZE, /* a multiple of three: the text has no padding */
    TEXT_SIZE = PREFIX_SIZE + RAW_SIZE / 3 * 4
};
static_assert(RAW_SIZE % 3 == 0, "the text of a token has no padding");
static_assert((size_t)TEXT_SIZE < (size_t)AUTH_TOKEN_TEXT_SIZE, "a token fits its text");

static void put_u64(uint8_t *at, uint64_t value) {
    for (int i = 0; i < 8; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint64_t get_u64(const uint8_t *at) {
    uint64_t value = 0;
    for (int i = 0; i < 8; i++) {
        value |= (uint64_t)at[i] << (8 * i);
    }
    return value;
}

static void sign(const uint8_t facts[FACTS_SIZE], struct bytes key, struct bytes password_hash,
                 uint8_t out_mac[MAC_SIZE]) {
    uint8_t message[PREFIX_SIZE + FACTS_SIZE + AUTH_PASSWORD_HASH_SIZE_MAX];
    unsigned size = 0;
    assert(password_hash.size <= AUTH_PASSWORD_HASH_SIZE_MAX);
    memcpy(message, prefix, PREFIX_SIZE);
    memcpy(message + PREFIX_SIZE, facts, FACTS_SIZE);
    if (password_hash.size > 0) {
        memcpy(message + PREFIX_SIZE + FACTS_SIZE, password_hash.data, password_hash.size);
    }
    const uint8_t *mac = HMAC(EVP_sha256(), key.data, (int)key.size, message,
                              PREFIX_SIZE + FACTS_SIZE + password_hash.size, out_mac, &size);
    assert(mac != NULL);
    assert(size == MAC_SIZE);
}

void auth_token_write(const struct auth_token *token, struct bytes key, struct bytes password_hash,
                      char out_text[AUTH_TOKEN_TEXT_SIZE]) {
    uint8_t raw[RAW_SIZE];
    ssize_t n = getrandom(raw, NONCE_SIZE, 0);
    assert(n == NONCE_SIZE);
    put_u64(raw + NONCE_SIZE, token->user_id);
    put_u64(raw + NONCE_SIZE + 8, token->version);
    put_u64(raw + NONCE_SIZE + 16, token->epoch);
    sign(raw, key, password_hash, raw + FACTS_SIZE);
    memcpy(out_text, prefix, PREFIX_SIZE);
    int size = EVP_EncodeBlock((unsigned char *)out_text + PREFIX_SIZE, raw, RAW_SIZE);
    assert(size == TEXT_SIZE - PREFIX_SIZE);
    out_text[TEXT_SIZE] = '\0';
}

static bool decode(struct bytes text, uint8_t out_raw[RAW_SIZE + 3]) {
    return text.size == TEXT_SIZE && memcmp(text.data, prefix, PREFIX_SIZE) == 0 &&
           EVP_DecodeBlock(out_raw, text.data + PREFIX_SIZE, TEXT_SIZE - PREFIX_SIZE) == RAW_SIZE;
}

bool auth_token_read(struct bytes text, struct auth_token *out_token) {
    uint8_t raw[RAW_SIZE + 3];
    if (!decode(text, raw)) {
        return false;
    }
    *out_token = (struct auth_token){.user_id = get_u64(raw + NONCE_SIZE),
                                     .version = get_u64(raw + NONCE_SIZE + 8),
                                     .epoch = get_u64(raw + NONCE_SIZE + 16)};
    return true;
}

bool auth_token_verify(struct bytes text, struct bytes key, struct bytes password_hash) {
    uint8_t raw[RAW_SIZE + 3];
    uint8_t mac[MAC_SIZE];
    if (!decode(text, raw)) {
        return false;
    }
    sign(raw, key, password_hash, mac);
    return CRYPTO_memcmp(mac, raw + FACTS_SIZE, MAC_SIZE) == 0;
}
