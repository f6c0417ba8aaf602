#include "net/datagram_rate.h"

#include "tls/tls_crypto.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUCKETS = 1024, /* a power of two */
    IPV4_PREFIX_BITS = 24,
    IPV6_PREFIX_BITS = 56,
    SECOND_MS = 1000
};

struct bucket {
    uint64_t network;
    uint64_t filled_ms;
    uint64_t tokens_ms; /* a token is SECOND_MS of these, so that slow rates fill exactly */
};

struct datagram_rate {
    uint32_t per_second_max;
    uint64_t keys[2];
    struct bucket buckets[BUCKETS];
};

struct datagram_rate *datagram_rate_create(uint32_t per_second_max) {
    assert(per_second_max > 0);
    struct datagram_rate *rate = calloc(1, sizeof *rate);
    if (rate == NULL) {
        abort();
    }
    rate->per_second_max = per_second_max;
    tls_random(rate->keys, sizeof rate->keys);
    return rate;
}

void datagram_rate_destroy(struct datagram_rate *rate) {
    free(rate);
}

/* Never 0: that is an empty bucket. */
static uint64_t network_of(const struct sockaddr *from) {
    uint64_t bits = 0;
    if (from->sa_family == AF_INET6) {
        const struct sockaddr_in6 *ipv6 = (const struct sockaddr_in6 *)from;
        if (IN6_IS_ADDR_V4MAPPED(&ipv6->sin6_addr)) {
            memcpy(&bits, &ipv6->sin6_addr.s6_addr[12], IPV4_PREFIX_BITS / 8);
            return bits << 8 | 4;
        }
        memcpy(&bits, &ipv6->sin6_addr, IPV6_PREFIX_BITS / 8);
        return bits << 8 | 6;
    }
    const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)from;
    memcpy(&bits, &ipv4->sin_addr, IPV4_PREFIX_BITS / 8);
    return bits << 8 | 4;
}

/* Two rounds of multiply and fold under secret keys. */
static size_t index_of(const struct datagram_rate *rate, uint64_t network) {
    uint64_t hash = network;
    for (size_t i = 0; i < 2; i++) {
        unsigned __int128 product =
            (unsigned __int128)(hash ^ rate->keys[i]) * (rate->keys[1 - i] | 1);
        hash = (uint64_t)product ^ (uint64_t)(product >> 64);
    }
    return hash % BUCKETS;
}

static void fill(const struct datagram_rate *rate, struct bucket *bucket, uint64_t now_ms) {
    uint64_t full_ms = (uint64_t)rate->per_second_max * SECOND_MS;
    uint64_t passed_ms = now_ms > bucket->filled_ms ? now_ms - bucket->filled_ms : 0;
    uint64_t added_ms = passed_ms < SECOND_MS ? passed_ms * rate->per_second_max : full_ms;
    bucket->tokens_ms =
        bucket->tokens_ms + added_ms < full_ms ? bucket->tokens_ms + added_ms : full_ms;
    bucket->filled_ms = now_ms;
}

bool datagram_rate_allow(struct datagram_rate *rate, const struct sockaddr *from, uint64_t now_ms) {
    uint64_t network = network_of(from);
    uint64_t full_ms = (uint64_t)rate->per_second_max * SECOND_MS;
    struct bucket *bucket = &rate->buckets[index_of(rate, network)];
    if (bucket->network == 0) {
        *bucket = (struct bucket){.network = network, .filled_ms = now_ms, .tokens_ms = full_ms};
    }
    fill(rate, bucket, now_ms);
    if (bucket->tokens_ms == full_ms) {
        bucket->network = network; /* the other one has been quiet for a while */
    }
    if (bucket->tokens_ms < SECOND_MS) {
        return false;
    }
    bucket->tokens_ms -= SECOND_MS;
    return true;
}
