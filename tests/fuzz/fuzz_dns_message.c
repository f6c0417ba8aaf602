/* Queries of DNS: read, looked up, answered with records whose names are the query's own labels,
 * and the answer read again. The first byte chooses how much room it has. */
#include "doors/dns/dns_lookup.h"
#include "doors/dns/dns_message.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t answer[DNS_MESSAGE_SIZE_MAX];

static void write_records(struct dns_writer *writer, const struct dns_zone *zone,
                          const struct dns_lookup *lookup) {
    const struct dns_name *name = &writer->query->name;
    const struct dns_owner owner = {.name = name};
    const struct bytes text = lookup->name;
    struct dns_name target;
    struct dns_address address = {.size = 16};
    memcpy(address.bytes, name->wire, name->size < 16 ? name->size : 16);
    for (unsigned i = 0; i < 40; i++) {
        uint16_t offset = 0;
        address.size = i % 2 == 0 ? 4 : 16;
        address.bytes[3] = (uint8_t)i;
        if (dns_zone_address_name(zone, &address, &target)) {
            const struct dns_srv srv = {.port = 1, .weight = 2, .target = &target};
            writer->is_truncated |= !dns_writer_srv(writer, DNS_ANSWER, owner, 1, &srv, &offset);
        }
        writer->is_truncated |= !dns_writer_name(writer, DNS_ANSWER, owner, DNS_PTR, 0, name);
        writer->is_truncated |= !dns_writer_txt(writer, DNS_ANSWER, owner, 0, &text, 1);
        const struct dns_owner at = {.name = &target, .offset = offset};
        (void)dns_writer_aaaa(writer, DNS_ANSWER, at, 0, address.bytes);
        (void)dns_writer_a(writer, DNS_ANSWER, owner, 0, address.bytes);
    }
    const struct dns_soa soa = {.server = name, .mailbox = &zone->domain};
    (void)dns_writer_soa(writer, DNS_AUTHORITY, (struct dns_owner){.name = &zone->domain}, 0, &soa);
}

/* Every record of what was written is whole, and the last one ends where the message does. */
static void check_answer(struct bytes message, const struct dns_query *query) {
    struct dns_name name;
    size_t at = DNS_HEADER_SIZE;
    assert(message.size >= DNS_HEADER_SIZE && (message.data[2] & 0x80) != 0);
    if (query->has_question) {
        assert(dns_name_read(message, at, &name, &at));
        assert(name.size == query->name.size &&
               memcmp(name.wire, query->name.wire, name.size) == 0);
        at += 4;
    }
    unsigned n = 0;
    for (unsigned i = 6; i < 12; i += 2) {
        n += (unsigned)(message.data[i] << 8 | message.data[i + 1]);
    }
    for (; n > 0; n--) {
        assert(dns_name_read(message, at, &name, &at) && at + 10 <= message.size);
        at += 10 + (size_t)(message.data[at + 8] << 8 | message.data[at + 9]);
        assert(at <= message.size);
    }
    assert(at == message.size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct dns_zone zone;
    struct dns_query query;
    struct dns_lookup lookup;
    struct dns_writer writer;
    enum dns_rcode rcode;
    if (size < 1 || !dns_query_read(bytes_of(data + 1, size - 1), &query, &rcode)) {
        return 0;
    }
    assert(dns_zone_init(&zone, "consul", "dc1"));
    size_t size_max = DNS_UDP_SIZE + (size_t)data[0] * 8;
    dns_writer_begin(&writer, answer, size_max, &query);
    if (query.has_question) {
        dns_lookup_parse(&zone, &query.name, &lookup);
        assert(lookup.name.size <= DNS_NAME_SIZE_MAX && lookup.tag.size <= DNS_NAME_SIZE_MAX);
        if (lookup.kind == DNS_LOOKUP_SERVICE) {
            assert(lookup.name.size > 0);
        }
        write_records(&writer, &zone, &lookup);
    }
    size_t answer_size = dns_writer_end(&writer, rcode, DNS_NOT_READY, DNS_UDP_SIZE);
    assert(answer_size <= size_max);
    check_answer(bytes_of(answer, answer_size), &query);
    return 0;
}
