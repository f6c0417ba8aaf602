#include "doors/dns/dns_lookup.h"

#include <arpa/inet.h>

static bool is(struct bytes label, const char *text) {
    return bytes_equal(label, bytes_from_text(text));
}

bool dns_zone_init(struct dns_zone *zone, const char *domain, const char *datacenter) {
    struct dns_labels labels;
    if (!dns_name_from_text(bytes_from_text(domain), &zone->domain) ||
        !dns_name_from_text(bytes_from_text(datacenter), &zone->datacenter)) {
        return false;
    }
    dns_name_fold(&zone->domain);
    dns_name_fold(&zone->datacenter);
    dns_name_labels(&zone->datacenter, &labels);
    return labels.n == 1;
}

/* --- Addresses. --- */

bool dns_address_parse(struct bytes text, struct dns_address *out_address) {
    char copy[INET6_ADDRSTRLEN];
    if (text.size == 0 || text.size >= sizeof copy || memchr(text.data, 0, text.size) != NULL) {
        return false;
    }
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    struct dns_address address = {.size = 4};
    if (inet_pton(AF_INET, copy, address.bytes) != 1) {
        address.size = 16;
        if (inet_pton(AF_INET6, copy, address.bytes) != 1) {
            return false;
        }
    }
    *out_address = address;
    return true;
}

static bool hex_digit(uint8_t text, uint8_t *out_digit) {
    if (text >= '0' && text <= '9') {
        *out_digit = (uint8_t)(text - '0');
    } else if (text >= 'a' && text <= 'f') {
        *out_digit = (uint8_t)(text - 'a' + 10);
    } else {
        return false;
    }
    return true;
}

static bool parse_hex(struct bytes text, struct dns_address *out_address) {
    struct dns_address address = {.size = text.size / 2};
    if (text.size != 8 && text.size != 32) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        uint8_t digit = 0;
        if (!hex_digit(text.data[i], &digit)) {
            return false;
        }
        address.bytes[i / 2] = (uint8_t)(address.bytes[i / 2] << 4 | digit);
    }
    *out_address = address;
    return true;
}

/* One byte in decimal, without zeros before it. */
static bool parse_byte(struct bytes label, uint8_t *out_byte) {
    unsigned value = 0;
    if (label.size == 0 || label.size > 3 || (label.size > 1 && label.data[0] == '0')) {
        return false;
    }
    for (size_t i = 0; i < label.size; i++) {
        if (label.data[i] < '0' || label.data[i] > '9') {
            return false;
        }
        value = value * 10 + (label.data[i] - '0');
    }
    *out_byte = (uint8_t)value;
    return value <= UINT8_MAX;
}

/* RFC 1035 3.5: 4.3.2.1.in-addr.arpa is 1.2.3.4. */
static bool parse_reverse_ipv4(const struct dns_labels *labels, struct dns_address *out_address) {
    struct dns_address address = {.size = 4};
    if (labels->n != 6) {
        return false;
    }
    for (size_t i = 0; i < 4; i++) {
        if (!parse_byte(labels->at[3 - i], &address.bytes[i])) {
            return false;
        }
    }
    *out_address = address;
    return true;
}

/* RFC 3596 2.5: 32 digits, the last one first. */
static bool parse_reverse_ipv6(const struct dns_labels *labels, struct dns_address *out_address) {
    struct dns_address address = {.size = 16};
    if (labels->n != 34) {
        return false;
    }
    for (size_t i = 0; i < 32; i++) {
        uint8_t digit = 0;
        if (labels->at[31 - i].size != 1 || !hex_digit(labels->at[31 - i].data[0], &digit)) {
            return false;
        }
        address.bytes[i / 2] = (uint8_t)(address.bytes[i / 2] << 4 | digit);
    }
    *out_address = address;
    return true;
}

static enum dns_lookup_kind parse_reverse(const struct dns_labels *labels,
                                          struct dns_lookup *lookup) {
    size_t n = labels->n;
    if (n < 2 || !is(labels->at[n - 1], "arpa")) {
        return DNS_LOOKUP_OUTSIDE;
    }
    bool is_ipv4 = is(labels->at[n - 2], "in-addr");
    if (!is_ipv4 && !is(labels->at[n - 2], "ip6")) {
        return DNS_LOOKUP_OUTSIDE;
    }
    bool is_address = is_ipv4 ? parse_reverse_ipv4(labels, &lookup->address)
                              : parse_reverse_ipv6(labels, &lookup->address);
    return is_address ? DNS_LOOKUP_REVERSE : DNS_LOOKUP_OUTSIDE;
}

/* --- Names below the domain. --- */

/* Labels with dots between them: tags may have some. */
static struct bytes join(struct dns_lookup *lookup, const struct bytes *labels, size_t n) {
    size_t size = 0;
    for (size_t i = 0; i < n; i++) {
        if (i > 0) {
            lookup->tag_text[size++] = '.';
        }
        memcpy(lookup->tag_text + size, labels[i].data, labels[i].size);
        size += labels[i].size;
    }
    return bytes_of(lookup->tag_text, size);
}

static bool begins_with_underscore(struct bytes label) {
    return label.size > 1 && label.data[0] == '_';
}

static struct bytes without_first(struct bytes label) {
    return bytes_of(label.data + 1, label.size - 1);
}

/* The labels before "service". */
static enum dns_lookup_kind parse_service(const struct bytes *labels, size_t n,
                                          struct dns_lookup *lookup) {
    if (n >= 2 && begins_with_underscore(labels[0]) && begins_with_underscore(labels[1])) {
        struct bytes second = without_first(labels[1]);
        bool is_protocol = is(second, "tcp");
        if (n > 2 && !is_protocol) {
            return DNS_LOOKUP_MISSING;
        }
        lookup->name = without_first(labels[0]);
        lookup->tag = is_protocol ? join(lookup, labels + 2, n - 2) : second;
        return DNS_LOOKUP_SERVICE;
    }
    lookup->name = labels[n - 1];
    lookup->tag = join(lookup, labels, n - 1);
    return DNS_LOOKUP_SERVICE;
}

static enum dns_lookup_kind parse_kind(const struct bytes *labels, size_t n,
                                       struct dns_lookup *lookup) {
    struct bytes kind = labels[n - 1];
    bool is_service = is(kind, "service");
    bool is_node = is(kind, "node");
    bool is_address = is(kind, "addr");
    if (!is_service && !is_node && !is_address) {
        return DNS_LOOKUP_MISSING;
    }
    if (n == 1) {
        return DNS_LOOKUP_EMPTY;
    }
    if (is_service) {
        return parse_service(labels, n - 1, lookup);
    }
    if (is_address) {
        return n == 2 && parse_hex(labels[0], &lookup->address) ? DNS_LOOKUP_ADDRESS
                                                                : DNS_LOOKUP_MISSING;
    }
    lookup->name = join(lookup, labels, n - 1); /* names of machines have dots as well */
    return DNS_LOOKUP_NODE;
}

static bool ends_with(const struct dns_labels *labels, const struct dns_labels *end) {
    for (size_t i = 0; i < end->n; i++) {
        if (i >= labels->n ||
            !bytes_equal(labels->at[labels->n - 1 - i], end->at[end->n - 1 - i])) {
            return false;
        }
    }
    return true;
}

static enum dns_lookup_kind parse(const struct dns_zone *zone, struct dns_lookup *lookup) {
    struct dns_labels labels;
    struct dns_labels domain;
    struct dns_labels datacenter;
    dns_name_labels(&lookup->folded, &labels);
    dns_name_labels(&zone->domain, &domain);
    dns_name_labels(&zone->datacenter, &datacenter);
    if (!ends_with(&labels, &domain)) {
        return parse_reverse(&labels, lookup);
    }
    size_t n = labels.n - domain.n;
    if (n == 0) {
        return DNS_LOOKUP_APEX;
    }
    if (n == 1 && is(labels.at[0], "ns")) {
        return DNS_LOOKUP_SERVERS;
    }
    if (bytes_equal(labels.at[n - 1], datacenter.at[0])) {
        return n == 1 ? DNS_LOOKUP_EMPTY : parse_kind(labels.at, n - 1, lookup);
    }
    return parse_kind(labels.at, n, lookup);
}

void dns_lookup_parse(const struct dns_zone *zone, const struct dns_name *name,
                      struct dns_lookup *out_lookup) {
    *out_lookup = (struct dns_lookup){.folded = *name};
    dns_name_fold(&out_lookup->folded);
    out_lookup->kind = parse(zone, out_lookup);
}

/* --- Names of answers. --- */

static bool below_datacenter(const struct dns_zone *zone, struct bytes label, const char *kind,
                             struct dns_name *out_name) {
    dns_name_begin(out_name);
    if (!dns_name_add(out_name, label) || !dns_name_add(out_name, bytes_from_text(kind)) ||
        !dns_name_add_all(out_name, &zone->datacenter) ||
        !dns_name_add_all(out_name, &zone->domain)) {
        return false;
    }
    dns_name_end(out_name);
    return true;
}

bool dns_zone_name(const struct dns_zone *zone, struct bytes label, const char *kind,
                   struct dns_name *out_name) {
    return below_datacenter(zone, label, kind, out_name);
}

bool dns_zone_address_name(const struct dns_zone *zone, const struct dns_address *address,
                           struct dns_name *out_name) {
    static const char digits[] = "0123456789abcdef";
    char hex[2 * sizeof address->bytes];
    for (size_t i = 0; i < address->size; i++) {
        hex[2 * i] = digits[address->bytes[i] >> 4];
        hex[2 * i + 1] = digits[address->bytes[i] & 0xf];
    }
    return below_datacenter(zone, bytes_of(hex, 2 * address->size), "addr", out_name);
}

bool dns_zone_host(const struct dns_zone *zone, const char *label, struct dns_name *out_name) {
    dns_name_begin(out_name);
    if (!dns_name_add(out_name, bytes_from_text(label)) ||
        !dns_name_add_all(out_name, &zone->domain)) {
        return false;
    }
    dns_name_end(out_name);
    return true;
}
