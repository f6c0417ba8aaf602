#include "server/login_limits.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

enum bucket_kind { BUCKET_PAIR, BUCKET_ADDRESS, BUCKET_USER, BUCKET_KINDS };

static const uint32_t bursts[BUCKET_KINDS] = {
    [BUCKET_PAIR] = LOGIN_PAIR_BURST,
    [BUCKET_ADDRESS] = LOGIN_ADDRESS_BURST,
    [BUCKET_USER] = LOGIN_USER_BURST,
};

struct bucket {
    uint32_t used; /* attempts that have not come back yet */
    uint64_t since_ms;
};

struct login_limits {
    uint64_t seed;
    struct bucket buckets[BUCKET_KINDS][LOGIN_BUCKETS];
};

struct login_limits *login_limits_create(uint64_t seed) {
    struct login_limits *limits = calloc(1, sizeof *limits);
    if (limits == NULL) {
        abort();
    }
    limits->seed = seed;
    return limits;
}

void login_limits_destroy(struct login_limits *limits) {
    free(limits);
}

static void add(EVP_MD_CTX *context, const void *data, size_t size) {
    int result = EVP_DigestUpdate(context, data, size);
    assert(result == 1);
}

/* What counts of an address. */
static void add_address(EVP_MD_CTX *context, const char *address) {
    enum { NETWORK_SIZE = 8 };
    char text[INET6_ADDRSTRLEN] = "";
    struct in6_addr parsed;
    size_t size = address[0] == '[' ? strcspn(address + 1, "]%") : 0;
    if (size > 0 && size < sizeof text) {
        memcpy(text, address + 1, size);
    }
    if (inet_pton(AF_INET6, text, &parsed) == 1 && !IN6_IS_ADDR_V4MAPPED(&parsed)) {
        add(context, &parsed, NETWORK_SIZE);
    } else {
        add(context, address, strlen(address));
    }
}

/* Attempts are few, so the hash may be one that nobody can plan collisions of. */
static size_t bucket_index(const struct login_limits *limits, enum bucket_kind kind,
                           struct bytes user, const char *address) {
    uint8_t digest[EVP_MAX_MD_SIZE];
    uint8_t number = (uint8_t)kind;
    uint64_t user_size = kind == BUCKET_ADDRESS ? 0 : user.size;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (context == NULL || EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1) {
        abort();
    }
    add(context, &limits->seed, sizeof limits->seed);
    add(context, &number, sizeof number);
    add(context, &user_size, sizeof user_size);
    add(context, user.data, (size_t)user_size);
    if (kind != BUCKET_USER) {
        add_address(context, address);
    }
    int result = EVP_DigestFinal_ex(context, digest, NULL);
    assert(result == 1);
    EVP_MD_CTX_free(context);
    return ((size_t)digest[0] | (size_t)digest[1] << 8) % LOGIN_BUCKETS;
}

/* Lets come back what time has brought. */
static void refill(struct bucket *bucket, uint32_t burst, uint64_t now_ms) {
    uint64_t each_ms = LOGIN_REFILL_MS / burst;
    uint64_t elapsed_ms = now_ms > bucket->since_ms ? now_ms - bucket->since_ms : 0;
    uint64_t n = elapsed_ms / each_ms;
    if (n >= bucket->used) {
        *bucket = (struct bucket){.since_ms = now_ms};
    } else {
        bucket->used -= (uint32_t)n;
        bucket->since_ms += n * each_ms;
    }
}

bool login_limits_try(struct login_limits *limits, struct bytes user, const char *address,
                      uint64_t now_ms, uint64_t *out_attempt) {
    struct bucket *buckets[BUCKET_KINDS];
    uint64_t attempt = 0;
    for (int kind = 0; kind < BUCKET_KINDS; kind++) {
        size_t index = bucket_index(limits, (enum bucket_kind)kind, user, address);
        buckets[kind] = &limits->buckets[kind][index];
        attempt |= (uint64_t)index << (16 * kind);
        refill(buckets[kind], bursts[kind], now_ms);
        if (buckets[kind]->used >= bursts[kind]) {
            return false;
        }
    }
    for (int kind = 0; kind < BUCKET_KINDS; kind++) {
        buckets[kind]->used++;
    }
    *out_attempt = attempt;
    return true;
}

void login_limits_succeeded(struct login_limits *limits, uint64_t attempt) {
    for (int kind = 0; kind < BUCKET_KINDS; kind++) {
        struct bucket *bucket = &limits->buckets[kind][(attempt >> (16 * kind)) % LOGIN_BUCKETS];
        bucket->used -= bucket->used > 0;
    }
}
