#include "checks/check_network_list.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_SIZE_MAX = 64, MAPPED_BITS = 96 };

static const uint8_t mapped_prefix[12] = {[10] = 0xff, [11] = 0xff};

static bool read_bits(const char *text, unsigned bits_max, unsigned *out_bits) {
    char *end = NULL;
    unsigned long bits = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || bits > bits_max) {
        return false;
    }
    *out_bits = (unsigned)bits;
    return true;
}

static bool add_network(struct check_network_list *list, char *text) {
    uint8_t *address = list->networks[list->n].address;
    unsigned *bits = &list->networks[list->n].bits;
    char *slash = strchr(text, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    if (inet_pton(AF_INET, text, address + sizeof mapped_prefix) == 1) {
        memcpy(address, mapped_prefix, sizeof mapped_prefix);
        *bits = 32;
        if (slash != NULL && !read_bits(slash + 1, 32, bits)) {
            return false;
        }
        *bits += MAPPED_BITS;
    } else if (inet_pton(AF_INET6, text, address) == 1) {
        *bits = 128;
        if (slash != NULL && !read_bits(slash + 1, 128, bits)) {
            return false;
        }
    } else {
        return false;
    }
    list->n++;
    return true;
}

enum status check_network_list_parse(const char *text, struct check_network_list *out_list) {
    struct check_network_list list = {0};
    while (*text != '\0') {
        size_t size = strcspn(text, ",");
        char network[TEXT_SIZE_MAX];
        if (size >= sizeof network || list.n == CHECK_NETWORKS_MAX) {
            return STATUS_INVALID;
        }
        memcpy(network, text, size);
        network[size] = '\0';
        if (!add_network(&list, network)) {
            return STATUS_INVALID;
        }
        text += size;
        text += *text == ',' ? 1 : 0;
    }
    *out_list = list;
    return STATUS_OK;
}

static bool shares_bits(const uint8_t *a, const uint8_t *b, unsigned bits) {
    unsigned whole = bits / 8;
    unsigned rest = bits % 8;
    return memcmp(a, b, whole) == 0 &&
           (rest == 0 || ((a[whole] ^ b[whole]) & (0xff << (8 - rest)) & 0xff) == 0);
}

bool check_network_list_allows(const struct check_network_list *list,
                               const struct sockaddr *address) {
    uint8_t bytes[16];
    if (list->n == 0) {
        return true;
    }
    if (address->sa_family == AF_INET) {
        memcpy(bytes, mapped_prefix, sizeof mapped_prefix);
        memcpy(bytes + sizeof mapped_prefix, &((const struct sockaddr_in *)address)->sin_addr, 4);
    } else if (address->sa_family == AF_INET6) {
        memcpy(bytes, &((const struct sockaddr_in6 *)address)->sin6_addr, sizeof bytes);
    } else {
        return false;
    }
    for (size_t i = 0; i < list->n; i++) {
        if (shares_bits(bytes, list->networks[i].address, list->networks[i].bits)) {
            return true;
        }
    }
    return false;
}
