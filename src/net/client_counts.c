#include "net/client_counts.h"

#include "base/keyed_hash.h"
#include "base/list.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 4096, IPV6_HOST_BYTES = 8 };

struct client_address {
    uint64_t bits;
    uint64_t kind; /* AF_INET, AF_INET6, AF_UNIX; 0: anything else, all of it one client */
};

struct client_count {
    struct list in_bucket;
    struct client_address address;
    size_t n;
};

struct client_counts {
    struct hash_key key;
    size_t n_addresses;
    struct list buckets[BUCKETS];
};

struct client_counts *client_counts_create(void) {
    struct client_counts *counts = malloc(sizeof *counts);
    if (counts == NULL) {
        abort();
    }
    hash_key_fill(&counts->key);
    counts->n_addresses = 0;
    for (size_t i = 0; i < BUCKETS; i++) {
        list_init(&counts->buckets[i]);
    }
    return counts;
}

void client_counts_destroy(struct client_counts *counts) {
    if (counts != NULL) {
        assert(counts->n_addresses == 0);
        free(counts);
    }
}

static struct client_address ipv4_address(const void *bytes) {
    uint32_t bits;
    memcpy(&bits, bytes, sizeof bits);
    return (struct client_address){.bits = bits, .kind = AF_INET};
}

static struct client_address address_of(int socket, const struct sockaddr *from) {
    struct client_address address = {.kind = from->sa_family};
    if (from->sa_family == AF_INET) {
        return ipv4_address(&((const struct sockaddr_in *)from)->sin_addr);
    }
    if (from->sa_family == AF_INET6) {
        const struct in6_addr *ipv6 = &((const struct sockaddr_in6 *)from)->sin6_addr;
        if (IN6_IS_ADDR_V4MAPPED(ipv6)) {
            return ipv4_address(&ipv6->s6_addr[12]);
        }
        memcpy(&address.bits, ipv6->s6_addr, IPV6_HOST_BYTES);
        return address;
    }
    struct ucred user;
    socklen_t size = sizeof user;
    if (from->sa_family == AF_UNIX &&
        getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &user, &size) == 0) {
        address.bits = user.uid;
        return address;
    }
    return (struct client_address){0};
}

static struct list *bucket_of(struct client_counts *counts, const struct client_address *address) {
    uint64_t hash = keyed_hash_number(&counts->key, address->bits) ^ address->kind;
    return &counts->buckets[hash % BUCKETS];
}

struct client_count *client_counts_add(struct client_counts *counts, int socket,
                                       const struct sockaddr *from, size_t max) {
    struct client_address address = address_of(socket, from);
    struct list *bucket = bucket_of(counts, &address);
    for (struct list *node = bucket->next; node != bucket; node = node->next) {
        struct client_count *count = list_entry(node, struct client_count, in_bucket);
        if (count->address.bits == address.bits && count->address.kind == address.kind) {
            if (count->n >= max) {
                return NULL;
            }
            count->n++;
            return count;
        }
    }
    struct client_count *count = max > 0 ? malloc(sizeof *count) : NULL;
    if (count == NULL) {
        return NULL;
    }
    *count = (struct client_count){.address = address, .n = 1};
    list_init(&count->in_bucket);
    list_append(bucket, &count->in_bucket);
    counts->n_addresses++;
    return count;
}

void client_counts_remove(struct client_counts *counts, struct client_count *count) {
    if (count == NULL) {
        return;
    }
    assert(count->n > 0);
    count->n--;
    if (count->n == 0) {
        list_remove(&count->in_bucket);
        counts->n_addresses--;
        free(count);
    }
}

size_t client_counts_addresses(const struct client_counts *counts) {
    return counts->n_addresses;
}
