#include "registry/registry_zones.h"

#include "registry/registry_model.h"

#include <arpa/inet.h>
#include <stdlib.h>

enum {
    MAPPED_BITS = 96, /* ::ffff:0:0/96, RFC 4291 2.5.5.2 */
    ADDRESS_TEXT_MAX = 64
};

/* --- Networks. --- */

/* What is behind the prefix is of no account. */
static void clear_rest(struct registry_network *network) {
    for (unsigned bit = network->n_bits; bit < REGISTRY_NETWORK_BITS; bit++) {
        network->bytes[bit / 8] &= (uint8_t) ~(0x80u >> bit % 8);
    }
}

struct registry_network registry_network_of(const uint8_t *address, size_t size, unsigned n_bits) {
    struct registry_network network = {.n_bits = n_bits};
    if (size == 4) {
        memset(network.bytes + 10, 0xff, 2);
        memcpy(network.bytes + 12, address, 4);
        network.n_bits += MAPPED_BITS;
    } else {
        memcpy(network.bytes, address, sizeof network.bytes);
    }
    clear_rest(&network);
    return network;
}

static bool parse_address(const char *text, struct registry_network *out_network,
                          unsigned *out_bits_max) {
    uint8_t bytes[16];
    if (inet_pton(AF_INET, text, bytes) == 1) {
        *out_network = registry_network_of(bytes, 4, 32);
        *out_bits_max = 32;
        return true;
    }
    *out_bits_max = REGISTRY_NETWORK_BITS;
    if (inet_pton(AF_INET6, text, bytes) != 1) {
        return false;
    }
    *out_network = registry_network_of(bytes, 16, REGISTRY_NETWORK_BITS);
    return true;
}

bool registry_network_parse(const char *text, struct registry_network *out_network) {
    char address[ADDRESS_TEXT_MAX];
    unsigned bits_max;
    bool is_bracketed = text[0] == '[';
    const char *begin = is_bracketed ? text + 1 : text;
    size_t size = strlen(begin);
    if (is_bracketed) {
        size = strcspn(begin, "]");
    } else if (strchr(begin, ':') == strrchr(begin, ':')) {
        size = strcspn(begin, ":"); /* one colon: a port; more: IPv6 */
    }
    if (size >= sizeof address) {
        return false;
    }
    memcpy(address, begin, size);
    address[size] = 0;
    return parse_address(address, out_network, &bits_max);
}

static bool holds(const struct registry_network *outer, const struct registry_network *inner) {
    unsigned n_whole = outer->n_bits / 8;
    if (outer->n_bits > inner->n_bits || memcmp(outer->bytes, inner->bytes, n_whole) != 0) {
        return false;
    }
    unsigned rest = outer->n_bits % 8;
    return rest == 0 || (outer->bytes[n_whole] ^ inner->bytes[n_whole]) >> (8 - rest) == 0;
}

/* --- The list. --- */

struct network_zone {
    struct registry_network network;
    struct bytes zone; /* in the text */
};

struct registry_zones {
    size_t n;
    char *text;
    struct network_zone entries[REGISTRY_ZONES_MAX];
};

static bool parse_bits(const char *text, unsigned max, unsigned *out_bits) {
    char *end = NULL;
    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    unsigned long bits = strtoul(text, &end, 10);
    if (*end != 0 || bits > max) {
        return false;
    }
    *out_bits = (unsigned)bits;
    return true;
}

/* NETWORK/BITS=ZONE, which is cut into its parts. */
static bool parse_entry(char *text, struct network_zone *out_entry) {
    char *equals = strchr(text, '=');
    unsigned bits_max = 0;
    unsigned n_bits = 0;
    if (equals == NULL) {
        return false;
    }
    *equals = 0;
    char *slash = strchr(text, '/');
    if (slash != NULL) {
        *slash = 0;
    }
    if (!parse_address(text, &out_entry->network, &bits_max) ||
        (slash != NULL && !parse_bits(slash + 1, bits_max, &n_bits))) {
        return false;
    }
    if (slash != NULL) {
        out_entry->network.n_bits = n_bits + REGISTRY_NETWORK_BITS - bits_max;
        clear_rest(&out_entry->network);
    }
    out_entry->zone = bytes_from_text(equals + 1);
    return out_entry->zone.size > 0 && out_entry->zone.size <= REGISTRY_NAME_SIZE_MAX;
}

struct registry_zones *registry_zones_create(const char *text) {
    struct registry_zones *zones = calloc(1, sizeof *zones);
    if (zones == NULL || (zones->text = strdup(text)) == NULL) {
        abort();
    }
    char *rest = NULL;
    for (char *entry = strtok_r(zones->text, ",", &rest); entry != NULL;
         entry = strtok_r(NULL, ",", &rest)) {
        if (zones->n == REGISTRY_ZONES_MAX || !parse_entry(entry, &zones->entries[zones->n++])) {
            registry_zones_destroy(zones);
            return NULL;
        }
    }
    return zones;
}

void registry_zones_destroy(struct registry_zones *zones) {
    if (zones != NULL) {
        free(zones->text);
        free(zones);
    }
}

bool registry_zones_is_empty(const struct registry_zones *zones) {
    return zones->n == 0;
}

struct bytes registry_zones_find(const struct registry_zones *zones,
                                 const struct registry_network *network) {
    const struct network_zone *best = NULL;
    for (size_t i = 0; i < zones->n; i++) {
        const struct network_zone *entry = &zones->entries[i];
        if (holds(&entry->network, network) &&
            (best == NULL || entry->network.n_bits > best->network.n_bits)) {
            best = entry;
        }
    }
    return best != NULL ? best->zone : bytes_of("", 0);
}
