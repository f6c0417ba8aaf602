#include "doors/dns/dns_message.h"

#include <assert.h>

enum {
    FLAG_RESPONSE = 0x8000,
    FLAG_AUTHORITATIVE = 0x0400,
    FLAG_TRUNCATED = 0x0200,
    FLAG_RECURSION_DESIRED = 0x0100,
    FLAG_CHECKING_DISABLED = 0x0010,
    OPCODE_SHIFT = 11,
    OPCODE_MASK = 0xf,
    RCODE_MASK = 0xf,
    EDNS_DNSSEC_OK = 0x8000,
    EDNS_EXTENDED_ERROR = 15,
    EDNS_CLIENT_SUBNET = 8,
    OPTION_HEADER_SIZE = 4,
    SUBNET_FIXED_SIZE = 4, /* family and the lengths of two prefixes */
    FAMILY_IPV4 = 1,
    FAMILY_IPV6 = 2,
    OPT_SIZE = 11 + 6, /* with an extended error without a text */
    RECORD_FIXED_SIZE = 10,
    POINTER = 0xc000,
    POINTER_END = 0x4000 /* a pointer has 14 bits */
};

/* --- Reading. --- */

static uint16_t get_u16(const uint8_t *at) {
    return (uint16_t)(at[0] << 8 | at[1]);
}

/* RFC 7871 6 and 7.1.2: as many bytes as the prefix needs, nothing behind it, no scope. False:
 * malformed. */
static bool read_subnet(const uint8_t *data, size_t size, struct dns_subnet *out_subnet) {
    if (size < SUBNET_FIXED_SIZE) {
        return false;
    }
    uint16_t family = get_u16(data);
    struct dns_subnet subnet = {.size = family == FAMILY_IPV4 ? 4 : 16,
                                .n_bits = data[2],
                                .n_bytes = size - SUBNET_FIXED_SIZE};
    if (family != FAMILY_IPV4 && family != FAMILY_IPV6) {
        return true; /* as if it were not there */
    }
    if (data[3] != 0 || subnet.n_bytes != (subnet.n_bits + 7u) / 8 ||
        subnet.n_bytes > subnet.size) {
        return false;
    }
    memcpy(subnet.bytes, data + SUBNET_FIXED_SIZE, subnet.n_bytes);
    if (subnet.n_bits % 8 != 0 &&
        (uint8_t)(subnet.bytes[subnet.n_bytes - 1] << subnet.n_bits % 8) != 0) {
        return false;
    }
    *out_subnet = subnet;
    return true;
}

/* Of OPT: only the client's subnet counts, the first one. False: malformed. */
static bool read_options(const uint8_t *data, size_t size, struct dns_query *query) {
    while (size > 0) {
        if (size < OPTION_HEADER_SIZE || size - OPTION_HEADER_SIZE < get_u16(data + 2)) {
            return false;
        }
        size_t length = get_u16(data + 2);
        if (get_u16(data) == EDNS_CLIENT_SUBNET && query->subnet.size == 0 &&
            !read_subnet(data + OPTION_HEADER_SIZE, length, &query->subnet)) {
            return false;
        }
        data += OPTION_HEADER_SIZE + length;
        size -= OPTION_HEADER_SIZE + length;
    }
    return true;
}

/* One record: only OPT counts. False: malformed. */
static bool read_record(struct bytes message, size_t *position, bool may_be_opt,
                        struct dns_query *query) {
    struct dns_name owner;
    size_t at = 0;
    if (!dns_name_read(message, *position, &owner, &at) || message.size - at < RECORD_FIXED_SIZE) {
        return false;
    }
    const uint8_t *fixed = message.data + at;
    size_t size = get_u16(fixed + 8);
    at += RECORD_FIXED_SIZE;
    if (message.size - at < size) {
        return false;
    }
    *position = at + size;
    if (get_u16(fixed) != DNS_OPT) {
        return true;
    }
    /* RFC 6891 6.1.1: one, of the root, in the additional section. */
    if (!may_be_opt || query->has_edns || owner.size != 1) {
        return false;
    }
    uint16_t udp_size = get_u16(fixed + 2);
    query->has_edns = true;
    query->udp_size = udp_size < DNS_UDP_SIZE ? DNS_UDP_SIZE : udp_size;
    query->edns_version = fixed[5];
    query->is_dnssec_ok = (get_u16(fixed + 6) & EDNS_DNSSEC_OK) != 0;
    /* What another version of EDNS has here is not known: it is answered with BADVERS. */
    return query->edns_version != 0 || read_options(fixed + RECORD_FIXED_SIZE, size, query);
}

static enum dns_rcode read_body(struct bytes message, struct dns_query *query) {
    const uint8_t *header = message.data;
    size_t position = DNS_HEADER_SIZE;
    if (get_u16(header + 4) != 1 || !dns_name_read(message, position, &query->name, &position) ||
        message.size - position < 4) {
        return DNS_FORMERR;
    }
    query->type = get_u16(message.data + position);
    query->class = get_u16(message.data + position + 2);
    query->has_question = true;
    position += 4;
    unsigned n_before = (unsigned)get_u16(header + 6) + get_u16(header + 8);
    unsigned n_records = n_before + get_u16(header + 10);
    for (unsigned i = 0; i < n_records; i++) {
        if (!read_record(message, &position, i >= n_before, query)) {
            return DNS_FORMERR;
        }
    }
    if (position != message.size) {
        return DNS_FORMERR;
    }
    return query->edns_version != 0 ? DNS_BADVERS : DNS_NOERROR;
}

bool dns_query_read(struct bytes message, struct dns_query *out_query, enum dns_rcode *out_rcode) {
    if (message.size < DNS_HEADER_SIZE || message.size > DNS_MESSAGE_SIZE_MAX) {
        return false;
    }
    uint16_t flags = get_u16(message.data + 2);
    if ((flags & FLAG_RESPONSE) != 0) {
        return false;
    }
    *out_query = (struct dns_query){
        .id = get_u16(message.data),
        .opcode = flags >> OPCODE_SHIFT & OPCODE_MASK,
        .is_recursion_desired = (flags & FLAG_RECURSION_DESIRED) != 0,
        .is_checking_disabled = (flags & FLAG_CHECKING_DISABLED) != 0,
        .udp_size = DNS_UDP_SIZE,
    };
    *out_rcode = out_query->opcode != 0 ? DNS_NOTIMP : read_body(message, out_query);
    return true;
}

/* --- Writing. --- */

/* A header without records always fits: the least size is DNS_UDP_SIZE. */
static void put(struct dns_writer *writer, const void *bytes, size_t size) {
    if (writer->is_overflown || size > writer->size_max - writer->size) {
        writer->is_overflown = true;
        return;
    }
    if (size > 0) {
        memcpy(writer->data + writer->size, bytes, size);
        writer->size += size;
    }
}

static void set_u16(uint8_t *at, unsigned value) {
    at[0] = (uint8_t)(value >> 8);
    at[1] = (uint8_t)value;
}

static void put_u16(struct dns_writer *writer, unsigned value) {
    uint8_t bytes[2];
    set_u16(bytes, value);
    put(writer, bytes, sizeof bytes);
}

static void put_u32(struct dns_writer *writer, uint32_t value) {
    put_u16(writer, value >> 16);
    put_u16(writer, value & 0xffff);
}

/* Whether the name that was written at an offset is this one, byte for byte: what is in the message
 * keeps its case. Our own pointers lead backwards, so it ends. */
static bool is_written_at(const struct dns_writer *writer, size_t offset, const uint8_t *wire) {
    while (true) {
        uint8_t length = writer->data[offset];
        if ((length & 0xc0) == 0xc0) {
            offset = get_u16(writer->data + offset) & (POINTER_END - 1);
        } else if (length != wire[0] || memcmp(writer->data + offset + 1, wire + 1, length) != 0) {
            return false;
        } else if (length == 0) {
            return true;
        } else {
            offset += 1 + (size_t)length;
            wire += 1 + (size_t)length;
        }
    }
}

static bool find_name(const struct dns_writer *writer, const uint8_t *wire, uint16_t *out_offset) {
    for (size_t i = 0; i < writer->n_names; i++) {
        if (is_written_at(writer, writer->names[i], wire)) {
            *out_offset = writer->names[i];
            return true;
        }
    }
    return false;
}

static void put_name(struct dns_writer *writer, const struct dns_name *name) {
    const uint8_t *wire = name->wire;
    size_t n_names = writer->n_names;
    if (writer->is_overflown) {
        return; /* what was noted of this record may not have been written */
    }
    while (wire[0] != 0) {
        uint16_t offset = 0;
        /* Names that this call has noted are not whole yet. */
        size_t n_all = writer->n_names;
        writer->n_names = n_names;
        bool is_found = find_name(writer, wire, &offset);
        writer->n_names = n_all;
        if (is_found) {
            put_u16(writer, POINTER | offset);
            return;
        }
        if (writer->size < POINTER_END && writer->n_names < DNS_WRITER_NAMES_MAX) {
            writer->names[writer->n_names++] = (uint16_t)writer->size;
        }
        put(writer, wire, 1 + (size_t)wire[0]);
        wire += 1 + (size_t)wire[0];
    }
    put(writer, "", 1);
}

/* What a record that does not fit is rolled back to. */
struct mark {
    size_t size;
    size_t n_names;
    size_t data_at; /* of its data */
};

static struct mark record_begin(struct dns_writer *writer, struct dns_owner owner,
                                enum dns_type type, uint32_t ttl_s) {
    struct mark mark = {.size = writer->size, .n_names = writer->n_names};
    assert(!writer->is_overflown);
    if (owner.offset != 0) {
        put_u16(writer, POINTER | owner.offset);
    } else {
        put_name(writer, owner.name);
    }
    put_u16(writer, type);
    put_u16(writer, DNS_CLASS_IN);
    put_u32(writer, ttl_s);
    put_u16(writer, 0); /* set by record_end() */
    mark.data_at = writer->size;
    return mark;
}

static bool record_end(struct dns_writer *writer, enum dns_section section, struct mark mark) {
    if (writer->is_overflown || writer->n_records[section] == UINT16_MAX) {
        writer->is_overflown = false;
        writer->size = mark.size;
        writer->n_names = mark.n_names;
        return false;
    }
    set_u16(writer->data + mark.data_at - 2, (unsigned)(writer->size - mark.data_at));
    writer->n_records[section]++;
    return true;
}

static size_t subnet_size(const struct dns_query *query) {
    return query->subnet.size == 0 ? 0
                                   : OPTION_HEADER_SIZE + SUBNET_FIXED_SIZE + query->subnet.n_bytes;
}

/* Bytes that are kept for the OPT record of an answer. */
static size_t opt_size(const struct dns_query *query) {
    return query->has_edns ? OPT_SIZE + subnet_size(query) : 0;
}

void dns_writer_begin(struct dns_writer *writer, uint8_t *memory, size_t size_max,
                      const struct dns_query *query) {
    assert(size_max >= DNS_UDP_SIZE);
    assert(size_max <= DNS_MESSAGE_SIZE_MAX);
    *writer = (struct dns_writer){.data = memory,
                                  .size = DNS_HEADER_SIZE,
                                  .size_max = size_max - opt_size(query),
                                  .query = query};
    memset(memory, 0, DNS_HEADER_SIZE);
    if (query->has_question) {
        /* As it was asked, so that a client that mixes cases against forgers knows it again. */
        put_name(writer, &query->name);
        put_u16(writer, query->type);
        put_u16(writer, query->class);
    }
    assert(!writer->is_overflown);
}

bool dns_writer_a(struct dns_writer *writer, enum dns_section section, struct dns_owner owner,
                  uint32_t ttl_s, const uint8_t address[4]) {
    struct mark mark = record_begin(writer, owner, DNS_A, ttl_s);
    put(writer, address, 4);
    return record_end(writer, section, mark);
}

bool dns_writer_aaaa(struct dns_writer *writer, enum dns_section section, struct dns_owner owner,
                     uint32_t ttl_s, const uint8_t address[16]) {
    struct mark mark = record_begin(writer, owner, DNS_AAAA, ttl_s);
    put(writer, address, 16);
    return record_end(writer, section, mark);
}

bool dns_writer_srv(struct dns_writer *writer, enum dns_section section, struct dns_owner owner,
                    uint32_t ttl_s, const struct dns_srv *srv, uint16_t *out_target_offset) {
    struct mark mark = record_begin(writer, owner, DNS_SRV, ttl_s);
    put_u16(writer, srv->priority);
    put_u16(writer, srv->weight);
    put_u16(writer, srv->port);
    size_t at = writer->size;
    put(writer, srv->target->wire, srv->target->size);
    bool is_written = record_end(writer, section, mark);
    *out_target_offset = is_written && at < POINTER_END ? (uint16_t)at : 0;
    return is_written;
}

bool dns_writer_name(struct dns_writer *writer, enum dns_section section, struct dns_owner owner,
                     enum dns_type type, uint32_t ttl_s, const struct dns_name *name) {
    struct mark mark = record_begin(writer, owner, type, ttl_s);
    put_name(writer, name);
    return record_end(writer, section, mark);
}

bool dns_writer_txt(struct dns_writer *writer, enum dns_section section, struct dns_owner owner,
                    uint32_t ttl_s, const struct bytes *texts, size_t n_texts) {
    struct mark mark = record_begin(writer, owner, DNS_TXT, ttl_s);
    for (size_t i = 0; i < n_texts; i++) {
        uint8_t length = (uint8_t)texts[i].size;
        assert(texts[i].size <= UINT8_MAX);
        put(writer, &length, 1);
        put(writer, texts[i].data, texts[i].size);
    }
    return record_end(writer, section, mark);
}

bool dns_writer_soa(struct dns_writer *writer, enum dns_section section, struct dns_owner owner,
                    uint32_t ttl_s, const struct dns_soa *soa) {
    struct mark mark = record_begin(writer, owner, DNS_SOA, ttl_s);
    put_name(writer, soa->server);
    put_name(writer, soa->mailbox);
    put_u32(writer, soa->serial);
    put_u32(writer, soa->refresh_s);
    put_u32(writer, soa->retry_s);
    put_u32(writer, soa->expire_s);
    put_u32(writer, soa->minimum_s);
    return record_end(writer, section, mark);
}

/* RFC 7871 7.2.1: the scope says for which network the answer holds; 0: for every one. */
static void put_subnet(struct dns_writer *writer) {
    const struct dns_subnet *subnet = &writer->query->subnet;
    put_u16(writer, EDNS_CLIENT_SUBNET);
    put_u16(writer, (unsigned)(SUBNET_FIXED_SIZE + subnet->n_bytes));
    put_u16(writer, subnet->size == 4 ? FAMILY_IPV4 : FAMILY_IPV6);
    put_u16(writer, (unsigned)subnet->n_bits << 8 | (writer->is_for_subnet ? subnet->n_bits : 0u));
    put(writer, subnet->bytes, subnet->n_bytes);
}

static void put_opt(struct dns_writer *writer, enum dns_rcode rcode, enum dns_extended extended,
                    uint16_t udp_size) {
    bool has_error = extended != DNS_EXTENDED_NONE;
    writer->size_max += opt_size(writer->query);
    put(writer, "", 1);
    put_u16(writer, DNS_OPT);
    put_u16(writer, udp_size);
    put_u16(writer, (unsigned)rcode >> 4 << 8); /* and version 0 */
    put_u16(writer, writer->query->is_dnssec_ok ? EDNS_DNSSEC_OK : 0);
    put_u16(writer, (has_error ? 6u : 0u) + (unsigned)subnet_size(writer->query));
    if (has_error) {
        put_u16(writer, EDNS_EXTENDED_ERROR);
        put_u16(writer, 2);
        put_u16(writer, (unsigned)extended);
    }
    if (writer->query->subnet.size > 0) {
        put_subnet(writer);
    }
    writer->n_records[DNS_ADDITIONAL]++;
}

size_t dns_writer_end(struct dns_writer *writer, enum dns_rcode rcode, enum dns_extended extended,
                      uint16_t udp_size) {
    const struct dns_query *query = writer->query;
    if (query->has_edns) {
        put_opt(writer, rcode, extended, udp_size);
    }
    assert(!writer->is_overflown);
    unsigned flags =
        FLAG_RESPONSE | (unsigned)query->opcode << OPCODE_SHIFT | ((unsigned)rcode & RCODE_MASK);
    flags |= writer->is_authoritative ? FLAG_AUTHORITATIVE : 0;
    flags |= writer->is_truncated ? FLAG_TRUNCATED : 0;
    flags |= query->is_recursion_desired ? FLAG_RECURSION_DESIRED : 0;
    flags |= query->is_checking_disabled ? FLAG_CHECKING_DISABLED : 0;
    set_u16(writer->data, query->id);
    set_u16(writer->data + 2, flags);
    set_u16(writer->data + 4, query->has_question ? 1 : 0);
    set_u16(writer->data + 6, writer->n_records[DNS_ANSWER]);
    set_u16(writer->data + 8, writer->n_records[DNS_AUTHORITY]);
    set_u16(writer->data + 10, writer->n_records[DNS_ADDITIONAL]);
    return writer->size;
}
