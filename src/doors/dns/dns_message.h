/*
 * Messages of DNS (RFC 1035, EDNS RFC 6891): a query is read, an answer written. Pure; no memory
 * but what is given. Every byte of a query is hostile.
 */
#ifndef LEASED_DOORS_DNS_DNS_MESSAGE_H
#define LEASED_DOORS_DNS_DNS_MESSAGE_H

#include "doors/dns/dns_name.h"

enum {
    DNS_HEADER_SIZE = 12,
    DNS_UDP_SIZE = 512, /* an answer to a client that says nothing of its size */
    DNS_MESSAGE_SIZE_MAX = 65535
};

enum dns_type {
    DNS_A = 1,
    DNS_NS = 2,
    DNS_CNAME = 5,
    DNS_SOA = 6,
    DNS_PTR = 12,
    DNS_TXT = 16,
    DNS_AAAA = 28,
    DNS_SRV = 33,
    DNS_OPT = 41,
    DNS_IXFR = 251,
    DNS_AXFR = 252,
    DNS_ANY = 255
};
enum { DNS_CLASS_IN = 1 };

enum dns_rcode {
    DNS_NOERROR = 0,
    DNS_FORMERR = 1,
    DNS_SERVFAIL = 2,
    DNS_NXDOMAIN = 3,
    DNS_NOTIMP = 4,
    DNS_REFUSED = 5,
    DNS_BADVERS = 16 /* its upper bits are in the OPT record */
};

/* Extended errors (RFC 8914), which say why. */
enum dns_extended {
    DNS_EXTENDED_NONE = -1,
    DNS_PROHIBITED = 18,
    DNS_NOT_READY = 14,
    DNS_NOT_SUPPORTED = 21
};

struct dns_subnet {
    size_t size;       /* of an address of its family: 4 or 16; 0: there is none */
    uint8_t n_bits;    /* the length of the prefix */
    uint8_t bytes[16]; /* those behind the prefix are 0 */
    size_t n_bytes;    /* that were given */
};

struct dns_query {
    uint16_t id;
    uint8_t opcode;
    bool is_recursion_desired;
    bool is_checking_disabled;
    bool has_question; /* name, type and class are known */
    struct dns_name name;
    uint16_t type;
    uint16_t class;
    bool has_edns;
    uint8_t edns_version;
    bool is_dnssec_ok; /* comes back as it was */
    uint16_t udp_size; /* what the client takes: at least DNS_UDP_SIZE */
    /* The client's network (RFC 7871), as a resolver in between says; comes back as it was. */
    struct dns_subnet subnet;
};

/* What becomes of it: DNS_NOERROR, or why not: DNS_FORMERR, DNS_NOTIMP, DNS_BADVERS, which are to
 * be answered. False: it is none (too short, or an answer itself) and gets no answer, so that two
 * servers never talk to each other for ever. */
bool dns_query_read(struct bytes message, struct dns_query *out_query, enum dns_rcode *out_rcode);

/* --- Writing an answer. --- */

enum dns_section { DNS_ANSWER = 0, DNS_AUTHORITY = 1, DNS_ADDITIONAL = 2, DNS_SECTIONS = 3 };

enum { DNS_WRITER_NAMES_MAX = 24 };
struct dns_writer {
    uint8_t *data;
    size_t size;
    size_t size_max; /* without the OPT record, for which room is kept */
    const struct dns_query *query;
    bool is_overflown; /* the record that is being written does not fit */
    bool is_truncated;
    bool is_authoritative;
    bool is_for_subnet; /* the answer holds for the subnet of the query alone */
    uint16_t n_records[DNS_SECTIONS];
    uint16_t names[DNS_WRITER_NAMES_MAX]; /* where names were written, to point to them */
    size_t n_names;
};

/* The owner of a record: a name, which was written at a known place, or not yet (0). */
struct dns_owner {
    const struct dns_name *name;
    uint16_t offset;
};

/* Writes into `memory`, at most `size_max` bytes (DNS_UDP_SIZE to DNS_MESSAGE_SIZE_MAX). The query
 * outlives the writer. */
void dns_writer_begin(struct dns_writer *writer, uint8_t *memory, size_t size_max,
                      const struct dns_query *query);

/* One record each. False: it does not fit, and nothing was written. Sections are written in their
 * order. Names are compressed, but for the target of SRV (RFC 2782). */
bool dns_writer_a(struct dns_writer *writer, enum dns_section section, struct dns_owner owner,
                  uint32_t ttl_s, const uint8_t address[4]);
bool dns_writer_aaaa(struct dns_writer *writer, enum dns_section section, struct dns_owner owner,
                     uint32_t ttl_s, const uint8_t address[16]);
struct dns_srv {
    uint16_t priority;
    uint16_t weight;
    uint16_t port;
    const struct dns_name *target;
};
/* `out_target_offset`: where the target is, for the owner of its addresses; 0: too far behind. */
bool dns_writer_srv(struct dns_writer *writer, enum dns_section section, struct dns_owner owner,
                    uint32_t ttl_s, const struct dns_srv *srv, uint16_t *out_target_offset);
/* CNAME, NS, PTR. */
bool dns_writer_name(struct dns_writer *writer, enum dns_section section, struct dns_owner owner,
                     enum dns_type type, uint32_t ttl_s, const struct dns_name *name);
/* Texts of at most 255 bytes. */
bool dns_writer_txt(struct dns_writer *writer, enum dns_section section, struct dns_owner owner,
                    uint32_t ttl_s, const struct bytes *texts, size_t n_texts);
struct dns_soa {
    const struct dns_name *server;
    const struct dns_name *mailbox;
    uint32_t serial;
    uint32_t refresh_s;
    uint32_t retry_s;
    uint32_t expire_s;
    uint32_t minimum_s;
};
bool dns_writer_soa(struct dns_writer *writer, enum dns_section section, struct dns_owner owner,
                    uint32_t ttl_s, const struct dns_soa *soa);

/* Completes the message: header, and OPT if the query had one, which says that we take
 * `udp_size` bytes. Returns its size. */
size_t dns_writer_end(struct dns_writer *writer, enum dns_rcode rcode, enum dns_extended extended,
                      uint16_t udp_size);

#endif
