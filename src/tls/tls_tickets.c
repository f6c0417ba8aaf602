/*
 * Session tickets (RFC 5077; RFC 8446, section 4.6.1): the server keeps nothing, the client brings
 * its session back, encrypted by a key that only this process has had. A stolen key opens two hours
 * of TLS 1.2 sessions at most; sessions of TLS 1.3 agree on a new secret when they are resumed.
 */
#include "base/clock.h"
#include "tls/tls_crypto.h"
#include "tls/tls_internal.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdlib.h>
#include <string.h>

enum {
    TICKET_NAME_SIZE = 16,
    TICKET_KEY_SIZE = 32,
    TICKET_KEYS = 2, /* the one in use, and the one before it */
    TICKET_IV_SIZE = 16,
    TICKET_ROTATION_MS = 60 * 60 * 1000,
    TICKET_LIFETIME_SECONDS = 60 * 60
};

struct ticket_key {
    uint8_t name[TICKET_NAME_SIZE];
    uint8_t encryption[TICKET_KEY_SIZE];
    uint8_t authentication[TICKET_KEY_SIZE];
};

struct tls_tickets {
    struct ticket_key keys[TICKET_KEYS]; /* newest first */
    uint64_t rotated_ms;
};

static struct tls_tickets *tickets_create(void) {
    struct tls_tickets *tickets = malloc(sizeof *tickets);
    if (tickets == NULL) {
        abort();
    }
    tls_random(tickets->keys, sizeof tickets->keys);
    tickets->rotated_ms = clock_boottime_ms();
    return tickets;
}

static void on_context_freed(void *tls, void *tickets, CRYPTO_EX_DATA *data, int index,
                             long argument, void *pointer) {
    (void)tls;
    (void)data;
    (void)index;
    (void)argument;
    (void)pointer;
    if (tickets != NULL) {
        tls_wipe(tickets, sizeof(struct tls_tickets));
        free(tickets);
    }
}

/* Where an SSL_CTX keeps its keys. They live as long as it does: files that are loaded anew come
 * with new keys, and connections that began before never issue tickets under those. */
static int tickets_index(void) {
    static int index = -1;
    if (index < 0) {
        index = SSL_CTX_get_ex_new_index(0, NULL, NULL, NULL, on_context_freed);
        if (index < 0) {
            abort();
        }
    }
    return index;
}

void tls_tickets_rotate(SSL_CTX *tls, uint64_t now_ms) {
    struct tls_tickets *tickets = SSL_CTX_get_ex_data(tls, tickets_index());
    uint64_t age_ms = clock_elapsed_ms(now_ms, tickets->rotated_ms);
    if (age_ms < TICKET_ROTATION_MS) {
        return;
    }
    if (age_ms < 2 * TICKET_ROTATION_MS) {
        tickets->keys[1] = tickets->keys[0];
    } else {
        tls_random(&tickets->keys[1], sizeof tickets->keys[1]);
    }
    tls_random(&tickets->keys[0], sizeof tickets->keys[0]);
    tickets->rotated_ms = now_ms;
}

static bool use_key(const struct ticket_key *key, const uint8_t *iv, EVP_CIPHER_CTX *cipher,
                    EVP_MAC_CTX *mac, int is_encrypting) {
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_octet_string(OSSL_MAC_PARAM_KEY, (void *)key->authentication,
                                          sizeof key->authentication),
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)"SHA256", 0),
        OSSL_PARAM_construct_end()};
    return EVP_CipherInit_ex(cipher, EVP_aes_256_cbc(), NULL, key->encryption, iv, is_encrypting) ==
               1 &&
           EVP_MAC_CTX_set_params(mac, params) == 1;
}

/* OpenSSL's contract: -1 failed, 0 the key is not known, 1 go on, 2 go on and issue a new one. */
static int on_ticket_key(SSL *ssl, unsigned char *name, unsigned char *iv, EVP_CIPHER_CTX *cipher,
                         EVP_MAC_CTX *mac, int is_encrypting) {
    SSL_CTX *tls = SSL_get_SSL_CTX(ssl);
    struct tls_tickets *tickets = SSL_CTX_get_ex_data(tls, tickets_index());
    tls_tickets_rotate(tls, clock_boottime_ms());
    if (is_encrypting) {
        tls_random(iv, TICKET_IV_SIZE);
        memcpy(name, tickets->keys[0].name, TICKET_NAME_SIZE);
        return use_key(&tickets->keys[0], iv, cipher, mac, is_encrypting) ? 1 : -1;
    }
    for (int i = 0; i < TICKET_KEYS; i++) {
        if (memcmp(name, tickets->keys[i].name, TICKET_NAME_SIZE) == 0) {
            return use_key(&tickets->keys[i], iv, cipher, mac, is_encrypting) ? 1 + i : -1;
        }
    }
    return 0;
}

/* A resumed session is not verified again, so one whose certificate has expired since is not
 * resumed: the full handshake says why. */
static SSL_TICKET_RETURN on_ticket(SSL *ssl, SSL_SESSION *session, const unsigned char *name,
                                   size_t name_size, SSL_TICKET_STATUS status, void *data) {
    (void)ssl;
    (void)name;
    (void)name_size;
    (void)data;
    if (status != SSL_TICKET_SUCCESS && status != SSL_TICKET_SUCCESS_RENEW) {
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    }
    const X509 *certificate = SSL_SESSION_get0_peer(session);
    if (certificate != NULL && X509_cmp_current_time(X509_get0_notAfter(certificate)) < 0) {
        return SSL_TICKET_RETURN_IGNORE_RENEW;
    }
    return status == SSL_TICKET_SUCCESS ? SSL_TICKET_RETURN_USE : SSL_TICKET_RETURN_USE_RENEW;
}

void tls_tickets_configure(SSL_CTX *tls) {
    static const unsigned char id_context[] = "leased";
    SSL_CTX_clear_options(tls, SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(tls, 1);
    SSL_CTX_set_timeout(tls, TICKET_LIFETIME_SECONDS);
    if (SSL_CTX_set_ex_data(tls, tickets_index(), tickets_create()) != 1 ||
        SSL_CTX_set_session_id_context(tls, id_context, sizeof id_context - 1) != 1 ||
        SSL_CTX_set_tlsext_ticket_key_evp_cb(tls, on_ticket_key) != 1 ||
        SSL_CTX_set_session_ticket_cb(tls, NULL, on_ticket, NULL) != 1) {
        abort();
    }
}
