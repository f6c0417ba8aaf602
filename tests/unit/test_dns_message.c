/* DNS: hand-made packets, names, compression and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above before itself. */
#include <cmocka.h>

#include "doors/dns/dns_lookup.h"
#include "doors/dns/dns_message.h"

#include <string.h>

#define BYTES(literal) bytes_of(literal, sizeof literal - 1)
/* Id 0x1234, one question, recursion desired. */
#define HEADER "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"
#define HEADER_EDNS "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x01"
#define WEB                                                                                        \
    "\x03web\x07service\x06"                                                                       \
    "consul\x00"
#define QUESTION WEB "\x00\x21\x00\x01"
/* OPT of the root, 4096 bytes, version 0, DO. */
#define OPT "\x00\x00\x29\x10\x00\x00\x00\x80\x00\x00\x00"

static struct dns_zone zone;

static int set_up(void **state) {
    (void)state;
    return dns_zone_init(&zone, "consul", "dc1") ? 0 : 1;
}

static enum dns_rcode read_query(struct bytes message, struct dns_query *out_query) {
    enum dns_rcode rcode = DNS_SERVFAIL;
    assert_true(dns_query_read(message, out_query, &rcode));
    return rcode;
}

static enum dns_rcode rcode_of(struct bytes message) {
    struct dns_query query;
    return read_query(message, &query);
}

static struct dns_name name_of(const char *text) {
    struct dns_name name = {0};
    assert_true(dns_name_from_text(bytes_from_text(text), &name));
    return name;
}

/* --- Queries. --- */

static void a_query_is_read(void **state) {
    struct dns_query query;
    assert_int_equal(read_query(BYTES(HEADER QUESTION), &query), DNS_NOERROR);
    assert_int_equal(query.id, 0x1234);
    assert_int_equal(query.type, DNS_SRV);
    assert_true(query.is_recursion_desired);
    assert_false(query.has_edns);
    assert_int_equal(query.udp_size, DNS_UDP_SIZE);
    struct dns_name web = name_of("WEB.Service.consul.");
    assert_true(dns_name_equal(&query.name, &web));
}

static void edns_is_read(void **state) {
    struct dns_query query;
    assert_int_equal(read_query(BYTES(HEADER_EDNS QUESTION OPT), &query), DNS_NOERROR);
    assert_true(query.has_edns);
    assert_true(query.is_dnssec_ok);
    assert_int_equal(query.udp_size, 4096);
    /* Less than everybody takes counts as that. */
    assert_int_equal(
        read_query(BYTES(HEADER_EDNS QUESTION "\x00\x00\x29\x00\x10\x00\x00\x00\x00\x00\x00"),
                   &query),
        DNS_NOERROR);
    assert_int_equal(query.udp_size, DNS_UDP_SIZE);
    assert_int_equal(
        rcode_of(BYTES(HEADER_EDNS QUESTION "\x00\x00\x29\x10\x00\x00\x01\x00\x00\x00\x00")),
        DNS_BADVERS);
}

/* OPT with one option, the client's subnet, of so many bytes (both sizes are below 256). */
#define OPT_SUBNET(record_size, size)                                                              \
    "\x00\x00\x29\x10\x00\x00\x00\x00\x00\x00" record_size "\x00\x08\x00" size

static void the_clients_subnet_is_read(void **state) {
    struct dns_query query;
    const struct bytes ipv4 =
        BYTES(HEADER_EDNS QUESTION OPT_SUBNET("\x0b", "\x07") "\x00\x01\x14\x00\x0a\x01\x20");
    assert_int_equal(read_query(ipv4, &query), DNS_NOERROR);
    assert_int_equal(query.subnet.size, 4);
    assert_int_equal(query.subnet.n_bits, 20);
    assert_memory_equal(query.subnet.bytes, "\x0a\x01\x20\x00", 4);
    const struct bytes nobody =
        BYTES(HEADER_EDNS QUESTION OPT_SUBNET("\x08", "\x04") "\x00\x02\x00\x00");
    assert_int_equal(read_query(nobody, &query), DNS_NOERROR);
    assert_int_equal(query.subnet.size, 16);
    assert_int_equal(query.subnet.n_bits, 0);
    /* A family that nobody knows counts as nothing. */
    const struct bytes unknown =
        BYTES(HEADER_EDNS QUESTION OPT_SUBNET("\x09", "\x05") "\x00\x09\x08\x00\xaa");
    assert_int_equal(read_query(unknown, &query), DNS_NOERROR);
    assert_int_equal(query.subnet.size, 0);
}

static void malformed_subnets_are_refused(void **state) {
    /* Half of an option, less and more bytes than the prefix has, bits behind it, a scope. */
    assert_int_equal(rcode_of(BYTES(HEADER_EDNS QUESTION
                                    "\x00\x00\x29\x10\x00\x00\x00\x00\x00\x00\x03\x00\x08\x00")),
                     DNS_FORMERR);
    assert_int_equal(rcode_of(BYTES(HEADER_EDNS QUESTION OPT_SUBNET("\x06", "\x07") "\x00\x01")),
                     DNS_FORMERR);
    assert_int_equal(
        rcode_of(BYTES(HEADER_EDNS QUESTION OPT_SUBNET("\x09", "\x05") "\x00\x01\x10\x00\x0a")),
        DNS_FORMERR);
    assert_int_equal(rcode_of(BYTES(HEADER_EDNS QUESTION OPT_SUBNET(
                         "\x0d", "\x09") "\x00\x01\x28\x00\x0a\x01\x02\x03\x04")),
                     DNS_FORMERR);
    assert_int_equal(rcode_of(BYTES(HEADER_EDNS QUESTION OPT_SUBNET(
                         "\x0b", "\x07") "\x00\x01\x14\x00\x0a\x01\x21")),
                     DNS_FORMERR);
    assert_int_equal(
        rcode_of(BYTES(HEADER_EDNS QUESTION OPT_SUBNET("\x09", "\x05") "\x00\x01\x08\x08\x0a")),
        DNS_FORMERR);
}

/* RFC 7871 7.2.1: with the scope that says for whom the answer holds; within the size. */
static void the_clients_subnet_comes_back(void **state) {
    struct dns_query query;
    struct dns_writer writer;
    uint8_t memory[DNS_UDP_SIZE];
    const struct bytes message =
        BYTES(HEADER_EDNS QUESTION OPT_SUBNET("\x0b", "\x07") "\x00\x01\x14\x00\x0a\x01\x20");
    assert_int_equal(read_query(message, &query), DNS_NOERROR);
    dns_writer_begin(&writer, memory, sizeof memory, &query);
    const struct dns_owner owner = {.name = &query.name};
    while (dns_writer_a(&writer, DNS_ANSWER, owner, 0, (const uint8_t *)"\x0a\x00\x00\x01")) {
    }
    writer.is_for_subnet = true;
    size_t size = dns_writer_end(&writer, DNS_NOERROR, DNS_NOT_READY, 1232);
    assert_true(size <= sizeof memory);
    assert_memory_equal(memory + size - 11, "\x00\x08\x00\x07\x00\x01\x14\x14\x0a\x01\x20", 11);
}

static void what_is_no_query_gets_no_answer(void **state) {
    struct dns_query query;
    enum dns_rcode rcode;
    assert_false(dns_query_read(BYTES(""), &query, &rcode));
    assert_false(
        dns_query_read(BYTES("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00"), &query, &rcode));
    /* An answer: two servers would talk for ever. */
    assert_false(dns_query_read(BYTES("\x12\x34\x81\x00\x00\x01\x00\x00\x00\x00\x00\x00" QUESTION),
                                &query, &rcode));
}

static void malformed_queries_are_refused(void **state) {
    /* No question, two, or half of one. */
    assert_int_equal(rcode_of(BYTES("\x12\x34\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00")),
                     DNS_FORMERR);
    assert_int_equal(
        rcode_of(BYTES("\x12\x34\x01\x00\x00\x02\x00\x00\x00\x00\x00\x00" QUESTION QUESTION)),
        DNS_FORMERR);
    assert_int_equal(rcode_of(BYTES(HEADER WEB "\x00\x21\x00")), DNS_FORMERR);
    assert_int_equal(rcode_of(BYTES(HEADER "\x03we")), DNS_FORMERR);
    /* Something behind it. */
    assert_int_equal(rcode_of(BYTES(HEADER QUESTION "x")), DNS_FORMERR);
    /* A record that is announced and not there, one that is cut, two OPT, OPT of a name. */
    assert_int_equal(rcode_of(BYTES(HEADER_EDNS QUESTION)), DNS_FORMERR);
    assert_int_equal(
        rcode_of(BYTES(HEADER_EDNS QUESTION "\x00\x00\x29\x10\x00\x00\x00\x80\x00\x00\x05")),
        DNS_FORMERR);
    assert_int_equal(
        rcode_of(BYTES("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x02" QUESTION OPT OPT)),
        DNS_FORMERR);
    assert_int_equal(
        rcode_of(BYTES(HEADER_EDNS QUESTION "\xc0\x0c"
                                            "\x00\x29\x10\x00\x00\x00\x00\x00\x00\x00")),
        DNS_FORMERR);
    /* Another opcode. */
    assert_int_equal(rcode_of(BYTES("\x12\x34\x28\x00\x00\x01\x00\x00\x00\x00\x00\x00" QUESTION)),
                     DNS_NOTIMP);
}

/* --- Names. --- */

static bool reads(struct bytes message, size_t position) {
    struct dns_name name;
    size_t end = 0;
    return dns_name_read(message, position, &name, &end);
}

static void pointers_lead_backwards(void **state) {
    struct dns_name name;
    size_t end = 0;
    assert_true(dns_name_read(BYTES("\x01"
                                    "b\x00\x01"
                                    "a\xc0\x00"),
                              3, &name, &end));
    struct dns_name expected = name_of("a.b");
    assert_true(dns_name_equal(&name, &expected));
    assert_int_equal(end, 7);
    assert_false(reads(BYTES("\xc0\x00"), 0));         /* to itself */
    assert_false(reads(BYTES("\xc0\x02\xc0\x00"), 0)); /* to each other */
    assert_false(reads(BYTES("\x01"
                             "a\xc0\x00"),
                       0)); /* a loop with a label in it */
    assert_false(reads(BYTES("\x01"
                             "a\xc0\x00"),
                       2)); /* the same, begun later */
    assert_false(reads(BYTES("\xc0"), 0));
    assert_false(reads(BYTES("\xc0\xff"), 0));
    assert_false(reads(BYTES("\x80"
                             "a\x00"),
                       0)); /* no kind of label */
    assert_false(reads(BYTES("\x40"
                             "a\x00"),
                       0));
}

static void chains_of_pointers_are_bounded(void **state) {
    uint8_t message[2 + 2 * 100] = {0};
    for (size_t i = 1; i <= 100; i++) {
        message[2 * i] = 0xc0;
        message[2 * i + 1] = (uint8_t)(i == 1 ? 0 : 2 * (i - 1));
    }
    assert_true(reads(bytes_of(message, sizeof message), 2 * 16));
    assert_false(reads(bytes_of(message, sizeof message), 2 * 100));
}

static void long_names_are_refused(void **state) {
    uint8_t message[400];
    size_t size = 0;
    /* Three labels of 63 and one of 61 are 255 bytes with the end; one of 62 is too long. */
    for (unsigned i = 0; i < 3; i++) {
        message[size] = 63;
        memset(message + size + 1, 'x', 63);
        size += 64;
    }
    message[size] = 61;
    memset(message + size + 1, 'x', 62);
    message[size + 62] = 0;
    assert_true(reads(bytes_of(message, size + 63), 0));
    message[size] = 62;
    message[size + 62] = 'x';
    message[size + 63] = 0;
    assert_false(reads(bytes_of(message, size + 64), 0));
    struct dns_name name;
    assert_false(dns_name_from_text(BYTES(""), &name));
    assert_false(dns_name_from_text(BYTES("."), &name));
    assert_false(dns_name_from_text(BYTES("a..b"), &name));
}

/* --- Answers. --- */

static size_t answer_srv(struct dns_query *query, size_t size_max, size_t n, uint8_t *memory,
                         struct dns_writer *writer) {
    struct dns_name target;
    const struct dns_owner owner = {.name = &query->name};
    dns_writer_begin(writer, memory, size_max, query);
    for (size_t i = 0; i < n; i++) {
        struct dns_address address = {.size = 4, .bytes = {10, 0, 0, (uint8_t)i}};
        uint16_t offset = 0;
        assert_true(dns_zone_address_name(&zone, &address, &target));
        const struct dns_srv srv = {.priority = 1, .weight = 1, .port = 80, .target = &target};
        if (!dns_writer_srv(writer, DNS_ANSWER, owner, 0, &srv, &offset)) {
            writer->is_truncated = true;
            break;
        }
        assert_int_not_equal(offset, 0);
    }
    return dns_writer_end(writer, DNS_NOERROR, DNS_EXTENDED_NONE, DNS_UDP_SIZE);
}

static void an_answer_echoes_the_question(void **state) {
    static const char asked[] = HEADER "\x03wEb\x07SERVICE\x06"
                                       "coNsul\x00\x00\x21\x00\x01";
    struct dns_query query;
    struct dns_writer writer;
    uint8_t memory[DNS_UDP_SIZE];
    assert_int_equal(read_query(BYTES(asked), &query), DNS_NOERROR);
    size_t size = answer_srv(&query, sizeof memory, 1, memory, &writer);
    assert_int_equal(size, sizeof asked - 1 + 2 + 10 + 6 + 26);
    assert_memory_equal(memory, "\x12\x34\x81\x00\x00\x01\x00\x01\x00\x00\x00\x00", 12);
    assert_memory_equal(memory + 12, asked + 12, sizeof asked - 1 - 12);
    const uint8_t *record = memory + sizeof asked - 1;
    assert_memory_equal(record,
                        "\xc0\x0c\x00\x21\x00\x01\x00\x00\x00\x00\x00\x20\x00\x01\x00\x01\x00\x50"
                        "\x08"
                        "0a000000\x04"
                        "addr\x03"
                        "dc1\x06"
                        "consul\x00",
                        44);
}

static void what_does_not_fit_is_cut_at_a_record(void **state) {
    struct dns_query query;
    struct dns_writer writer;
    uint8_t memory[DNS_MESSAGE_SIZE_MAX];
    assert_int_equal(read_query(BYTES(HEADER_EDNS QUESTION OPT), &query), DNS_NOERROR);
    size_t size = answer_srv(&query, DNS_UDP_SIZE, 200, memory, &writer);
    assert_true(size <= DNS_UDP_SIZE);
    assert_true((memory[2] & 0x02) != 0); /* TC */
    /* The OPT record has its room: 512 - 36 - 17, records of 44 bytes. */
    assert_int_equal(memory[7], 10);
    assert_int_equal(size, 36 + 10 * 44 + 11);
    size = answer_srv(&query, DNS_MESSAGE_SIZE_MAX, 200, memory, &writer);
    assert_int_equal(size, 36 + 200 * 44 + 11);
    assert_true((memory[2] & 0x02) == 0);
}

static void names_are_compressed_when_they_are_equal(void **state) {
    struct dns_query query;
    struct dns_writer writer;
    uint8_t memory[DNS_UDP_SIZE];
    assert_int_equal(read_query(BYTES(HEADER QUESTION), &query), DNS_NOERROR);
    struct dns_name server = name_of("ns.consul");
    struct dns_name other = name_of("hostmaster.CONSUL");
    const struct dns_soa soa = {.server = &server, .mailbox = &other, .serial = 7};
    dns_writer_begin(&writer, memory, sizeof memory, &query);
    size_t before = writer.size;
    assert_true(
        dns_writer_soa(&writer, DNS_AUTHORITY, (struct dns_owner){.name = &zone.domain}, 0, &soa));
    /* "consul" is at 24; with capital letters it is another text. */
    assert_memory_equal(memory + before, "\xc0\x18\x00\x06", 4);
    assert_memory_equal(memory + before + 12,
                        "\x02ns\xc0\x18\x0ahostmaster\x06"
                        "CONSUL\x00\x00\x00\x00\x07",
                        28);
    (void)dns_writer_end(&writer, DNS_NXDOMAIN, DNS_EXTENDED_NONE, DNS_UDP_SIZE);
    assert_int_equal(memory[3], DNS_NXDOMAIN);
    assert_int_equal(memory[9], 1);
}

static void errors_of_edns_are_in_its_record(void **state) {
    struct dns_query query;
    struct dns_writer writer;
    uint8_t memory[DNS_UDP_SIZE];
    assert_int_equal(
        read_query(BYTES(HEADER_EDNS QUESTION "\x00\x00\x29\x10\x00\x00\x01\x00\x00\x00\x00"),
                   &query),
        DNS_BADVERS);
    dns_writer_begin(&writer, memory, sizeof memory, &query);
    size_t size = dns_writer_end(&writer, DNS_BADVERS, DNS_NOT_SUPPORTED, 1232);
    assert_memory_equal(memory + size - 17,
                        "\x00\x00\x29\x04\xd0\x01\x00\x00\x00\x00\x06\x00\x0f\x00\x02\x00\x15", 17);
    assert_int_equal(memory[3], 0);
}

/* --- What names mean. --- */

static struct dns_lookup found;

static const struct dns_lookup *lookup(const char *text) {
    struct dns_name name = name_of(text);
    dns_lookup_parse(&zone, &name, &found);
    return &found;
}

static void assert_service(const char *text, const char *service, const char *tag) {
    const struct dns_lookup *it = lookup(text);
    assert_int_equal(it->kind, DNS_LOOKUP_SERVICE);
    assert_true(bytes_equal(it->name, bytes_from_text(service)));
    assert_true(bytes_equal(it->tag, bytes_from_text(tag)));
}

static void names_of_services(void **state) {
    assert_service("web.service.consul", "web", "");
    assert_service("WEB.Service.DC1.consul.", "web", "");
    assert_service("v2.web.service.consul", "web", "v2");
    assert_service("a.b.web.service.dc1.consul", "web", "a.b");
    assert_service("_web._tcp.service.consul", "web", "");
    assert_service("_web._v2.service.dc1.consul", "web", "v2");
    assert_service("_web._tcp.v2.service.consul", "web", "v2");
    assert_int_equal(lookup("_web._x.v2.service.consul")->kind, DNS_LOOKUP_MISSING);
}

static void other_names(void **state) {
    assert_int_equal(lookup("consul")->kind, DNS_LOOKUP_APEX);
    assert_int_equal(lookup("dc1.consul")->kind, DNS_LOOKUP_EMPTY);
    assert_int_equal(lookup("service.consul")->kind, DNS_LOOKUP_EMPTY);
    assert_int_equal(lookup("node.dc1.consul")->kind, DNS_LOOKUP_EMPTY);
    assert_int_equal(lookup("ns.consul")->kind, DNS_LOOKUP_SERVERS);
    assert_int_equal(lookup("web.service.dc2.consul")->kind, DNS_LOOKUP_MISSING);
    assert_int_equal(lookup("web.consul")->kind, DNS_LOOKUP_MISSING);
    assert_int_equal(lookup("example.org")->kind, DNS_LOOKUP_OUTSIDE);
    assert_int_equal(lookup("consul.example.org")->kind, DNS_LOOKUP_OUTSIDE);
    assert_int_equal(lookup("m1.example.node.consul")->kind, DNS_LOOKUP_NODE);
    assert_true(bytes_equal(found.name, BYTES("m1.example")));
}

static void names_that_are_addresses(void **state) {
    assert_int_equal(lookup("0A00000f.addr.dc1.consul")->kind, DNS_LOOKUP_ADDRESS);
    assert_int_equal(found.address.size, 4);
    assert_memory_equal(found.address.bytes, "\x0a\x00\x00\x0f", 4);
    assert_int_equal(lookup("00000000000000000000000000000001.addr.consul")->kind,
                     DNS_LOOKUP_ADDRESS);
    assert_int_equal(found.address.size, 16);
    assert_int_equal(lookup("0a0000.addr.consul")->kind, DNS_LOOKUP_MISSING);
    assert_int_equal(lookup("0a00000g.addr.consul")->kind, DNS_LOOKUP_MISSING);
    assert_int_equal(lookup("x.0a000001.addr.consul")->kind, DNS_LOOKUP_MISSING);
    assert_int_equal(lookup("4.3.2.1.in-addr.arpa")->kind, DNS_LOOKUP_REVERSE);
    assert_memory_equal(found.address.bytes, "\x01\x02\x03\x04", 4);
    assert_int_equal(lookup("1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2."
                            "ip6.arpa")
                         ->kind,
                     DNS_LOOKUP_REVERSE);
    assert_memory_equal(found.address.bytes, "\x20\x01\x0d\xb8\x00", 5);
    assert_int_equal(lookup("256.3.2.1.in-addr.arpa")->kind, DNS_LOOKUP_OUTSIDE);
    assert_int_equal(lookup("3.2.1.in-addr.arpa")->kind, DNS_LOOKUP_OUTSIDE);
    assert_int_equal(lookup("04.3.2.1.in-addr.arpa")->kind, DNS_LOOKUP_OUTSIDE);
}

static void the_domain_may_have_dots(void **state) {
    struct dns_zone other;
    struct dns_lookup it;
    struct dns_name name = name_of("web.service.Lab.Example.org");
    assert_true(dns_zone_init(&other, "lab.example.org.", "north"));
    dns_lookup_parse(&other, &name, &it);
    assert_int_equal(it.kind, DNS_LOOKUP_SERVICE);
    assert_false(dns_zone_init(&other, "", "dc1"));
    assert_false(dns_zone_init(&other, "consul", "a.b"));
    assert_false(dns_zone_init(&other, "a..b", "dc1"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_query_is_read),
        cmocka_unit_test(edns_is_read),
        cmocka_unit_test(the_clients_subnet_is_read),
        cmocka_unit_test(malformed_subnets_are_refused),
        cmocka_unit_test(the_clients_subnet_comes_back),
        cmocka_unit_test(what_is_no_query_gets_no_answer),
        cmocka_unit_test(malformed_queries_are_refused),
        cmocka_unit_test(pointers_lead_backwards),
        cmocka_unit_test(chains_of_pointers_are_bounded),
        cmocka_unit_test(long_names_are_refused),
        cmocka_unit_test(an_answer_echoes_the_question),
        cmocka_unit_test(what_does_not_fit_is_cut_at_a_record),
        cmocka_unit_test(names_are_compressed_when_they_are_equal),
        cmocka_unit_test(errors_of_edns_are_in_its_record),
        cmocka_unit_test(names_of_services),
        cmocka_unit_test(other_names),
        cmocka_unit_test(names_that_are_addresses),
        cmocka_unit_test(the_domain_may_have_dots),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
