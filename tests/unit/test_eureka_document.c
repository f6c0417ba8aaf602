/* An instance from a body through the registry's record to the answer, in both formats. */
#include "doors/eureka/eureka_document.h"

#include "core/lease_table.h"
#include "registry_values.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

static struct arena arena;

static int set_up(void **state) {
    arena_init(&arena);
    return 0;
}

static int tear_down(void **state) {
    arena_clear(&arena);
    return 0;
}

static bool read_body(const char *body, struct eureka_instance *out, const char **out_error) {
    struct eureka_tree tree;
    bool is_tree = body[0] == '<'
                       ? eureka_tree_read_xml(&tree, &arena, bytes_from_text(body), out_error)
                       : eureka_tree_read_json(&tree, &arena, bytes_from_text(body), out_error);
    return is_tree && eureka_instance_read(tree.root, &arena, out, out_error);
}

static struct registry_entry entry_of(const char *body) {
    struct eureka_instance instance;
    struct registry_entry entry = {0};
    const char *error = NULL;
    if (!read_body(body, &instance, &error) ||
        !eureka_instance_register(&instance, &arena, &entry.instance, &error)) {
        fail_msg("%s", error);
    }
    entry.instance.registered_wall_ms = 1000;
    entry.instance.state_wall_ms = 2000;
    return entry;
}

static const char *show(const struct registry_entry *entry, enum eureka_format format) {
    struct eureka_instance shown;
    struct eureka_writer writer;
    struct buffer out;
    buffer_init(&out);
    eureka_instance_show(entry, &arena, &shown);
    eureka_writer_init(&writer, &out, format);
    eureka_document_instance(&writer, &shown);
    buffer_put_u8(&out, 0);
    const char *text = arena_copy(&arena, out.data, out.size);
    buffer_clear(&out);
    return text;
}

static void refuse(const char *body, const char *wanted) {
    struct eureka_instance instance;
    const char *error = NULL;
    assert_false(read_body(body, &instance, &error));
    assert_string_equal(error, wanted);
}

#define SPRING                                                                                     \
    "{\"instance\":{\"instanceId\":\"h:orders:80\",\"hostName\":\"h\",\"app\":\"ORDERS\","         \
    "\"ipAddr\":\"10.0.0.5\",\"status\":\"UP\",\"overriddenStatus\":\"UNKNOWN\","                  \
    "\"port\":{\"$\":80,\"@enabled\":\"true\"},\"securePort\":{\"$\":443,\"@enabled\":\"false\"}," \
    "\"countryId\":1,\"dataCenterInfo\":{\"@class\":\"x\",\"name\":\"MyOwn\"},"                    \
    "\"leaseInfo\":{\"renewalIntervalInSecs\":10,\"durationInSecs\":20},"                          \
    "\"metadata\":{\"a_b\":\"1\"},\"homePageUrl\":\"http://h/\",\"vipAddress\":\"orders\","        \
    "\"isCoordinatingDiscoveryServer\":\"false\",\"lastDirtyTimestamp\":\"77\"}}"

static void json_has_the_shape_that_clients_expect(void **state) {
    struct registry_entry entry = entry_of(SPRING);
    assert_string_equal(
        show(&entry, EUREKA_JSON),
        "{\"instance\":{\"instanceId\":\"h:orders:80\",\"hostName\":\"h\",\"app\":\"ORDERS\","
        "\"ipAddr\":\"10.0.0.5\",\"status\":\"UP\",\"overriddenStatus\":\"UNKNOWN\","
        "\"overriddenstatus\":\"UNKNOWN\",\"port\":{\"$\":80,\"@enabled\":\"true\"},"
        "\"securePort\":{\"$\":443,\"@enabled\":\"false\"},\"countryId\":1,\"dataCenterInfo\":"
        "{\"@class\":\"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo\",\"name\":\"MyOwn\"}"
        ",\"leaseInfo\":{\"renewalIntervalInSecs\":10,\"durationInSecs\":20,"
        "\"registrationTimestamp\":1000,\"lastRenewalTimestamp\":1000,\"evictionTimestamp\":0,"
        "\"serviceUpTimestamp\":2000},\"metadata\":{\"a_b\":\"1\"},\"homePageUrl\":\"http://h/\","
        "\"vipAddress\":\"orders\",\"isCoordinatingDiscoveryServer\":\"false\","
        "\"lastUpdatedTimestamp\":\"2000\",\"lastDirtyTimestamp\":\"77\",\"actionType\":\"ADDED\"}"
        "}");
}

static void xml_has_the_shape_that_clients_expect(void **state) {
    struct registry_entry entry = entry_of(SPRING);
    assert_string_equal(
        show(&entry, EUREKA_XML),
        "<instance><instanceId>h:orders:80</instanceId><hostName>h</hostName><app>ORDERS</app>"
        "<ipAddr>10.0.0.5</ipAddr><status>UP</status><overriddenStatus>UNKNOWN</overriddenStatus>"
        "<overriddenstatus>UNKNOWN</overriddenstatus><port enabled=\"true\">80</port>"
        "<securePort enabled=\"false\">443</securePort><countryId>1</countryId><dataCenterInfo "
        "class=\"com.netflix.appinfo.InstanceInfo$DefaultDataCenterInfo\"><name>MyOwn</name>"
        "</dataCenterInfo><leaseInfo><renewalIntervalInSecs>10</renewalIntervalInSecs>"
        "<durationInSecs>20</durationInSecs><registrationTimestamp>1000</registrationTimestamp>"
        "<lastRenewalTimestamp>1000</lastRenewalTimestamp><evictionTimestamp>0</evictionTimestamp>"
        "<serviceUpTimestamp>2000</serviceUpTimestamp></leaseInfo><metadata><a__b>1</a__b>"
        "</metadata><homePageUrl>http://h/</homePageUrl><vipAddress>orders</vipAddress>"
        "<isCoordinatingDiscoveryServer>false</isCoordinatingDiscoveryServer>"
        "<lastUpdatedTimestamp>2000</lastUpdatedTimestamp>"
        "<lastDirtyTimestamp>77</lastDirtyTimestamp><actionType>ADDED</actionType></instance>");
}

static void what_is_written_is_read_as_the_same(void **state) {
    struct registry_entry entry = entry_of(SPRING);
    struct registry_entry from_xml = entry_of(show(&entry, EUREKA_XML));
    struct registry_entry from_json = entry_of(show(&entry, EUREKA_JSON));
    assert_true(bytes_equal(from_xml.instance.extra, entry.instance.extra));
    assert_true(bytes_equal(from_json.instance.extra, entry.instance.extra));
    assert_string_equal(show(&from_xml, EUREKA_JSON), show(&entry, EUREKA_JSON));
}

static void the_registry_gets_what_it_models(void **state) {
    struct registry_instance record = entry_of(SPRING).instance;
    assert_true(bytes_equal(record.service, bytes_from_text("orders")));
    assert_true(bytes_equal(record.address, bytes_from_text("10.0.0.5")));
    assert_true(bytes_equal(record.node, bytes_from_text("h")));
    assert_int_equal(record.port, 80);
    assert_int_equal(record.state, REGISTRY_UP);
    assert_int_equal(record.ttl_ms, 20 * 1000);
    assert_int_equal(eureka_instance_dirty_ms(&record), 77);
}

static void a_body_of_few_words_gets_the_defaults(void **state) {
    struct registry_entry entry = entry_of("{\"instance\":{\"hostName\":\"h\",\"app\":\"a\"}}");
    struct eureka_instance shown;
    eureka_instance_show(&entry, &arena, &shown);
    assert_true(bytes_equal(shown.id, bytes_from_text("h")));
    assert_int_equal(shown.lease.duration_s, 90);
    assert_int_equal(shown.lease.renewal_interval_s, 30);
    assert_int_equal(shown.port.number, 7001);
    assert_int_equal(shown.status, EUREKA_UP);
    assert_int_equal(entry.instance.port, 0);
}

static void the_secure_port_counts_where_it_alone_is_on(void **state) {
    struct registry_entry entry =
        entry_of("{\"instance\":{\"hostName\":\"h\",\"app\":\"a\",\"port\":{\"$\":80,\"@enabled\":"
                 "false},\"securePort\":{\"$\":\"8443\",\"@enabled\":true}}}");
    assert_int_equal(entry.instance.port, 8443);
}

static void amazon_has_its_metadata(void **state) {
    struct registry_entry entry = entry_of(
        "<instance><hostName>h</hostName><app>a</app><dataCenterInfo "
        "class=\"com.netflix.appinfo.AmazonInfo\"><name>Amazon</name><metadata><instance-id>i-1"
        "</instance-id><availability-zone>us-1c</availability-zone></metadata></dataCenterInfo>"
        "</instance>");
    assert_true(bytes_equal(entry.instance.id, bytes_from_text("i-1")));
    assert_true(bytes_equal(entry.instance.zone, bytes_from_text("us-1c")));
    assert_non_null(strstr(show(&entry, EUREKA_JSON),
                           "\"dataCenterInfo\":{\"@class\":\"com.netflix.appinfo.AmazonInfo\","
                           "\"name\":\"Amazon\",\"metadata\":{\"instance-id\":\"i-1\","
                           "\"availability-zone\":\"us-1c\"}}"));
}

static void statuses_follow_state_override_and_health(void **state) {
    struct registry_entry entry =
        entry_of("{\"instance\":{\"hostName\":\"h\",\"app\":\"a\",\"status\":\"NONSENSE\"}}");
    assert_int_equal(entry.instance.state, REGISTRY_STARTING);
    assert_int_equal(eureka_instance_status(&entry), EUREKA_UNKNOWN);
    entry.instance.override_state = REGISTRY_UP;
    assert_int_equal(eureka_instance_status(&entry), EUREKA_UP);
    entry.health = REGISTRY_CRITICAL;
    assert_int_equal(eureka_instance_status(&entry), EUREKA_DOWN);
    entry.instance.override_state = REGISTRY_DRAINING;
    assert_int_equal(eureka_instance_status(&entry), EUREKA_OUT_OF_SERVICE);
}

static void instances_of_others_are_shown_too(void **state) {
    struct registry_entry entry = {.instance = registry_test_instance("Web", "w1"),
                                   .is_kept = true};
    entry.instance.ttl_ms = LEASE_TTL_FOREVER;
    const char *json = show(&entry, EUREKA_JSON);
    assert_non_null(strstr(json, "\"hostName\":\"10.0.0.1\",\"app\":\"WEB\""));
    assert_non_null(strstr(json, "\"port\":{\"$\":80,\"@enabled\":\"true\"}"));
    assert_non_null(strstr(json, "\"name\":\"MyOwn\""));
    assert_non_null(strstr(json, "\"vipAddress\":\"Web\""));
    assert_non_null(strstr(json, "\"durationInSecs\":2147483647"));
    assert_non_null(strstr(json, "\"rack\":\"r1\",\"empty\":\"\",\"zone\":\"z1\",\"version\":"
                                 "\"1.2.3\",\"tags\":\"v2,blue\",\"leased.kept\":\"true\""));
}

static void an_empty_map_has_its_class(void **state) {
    struct registry_entry entry = entry_of("{\"instance\":{\"hostName\":\"h\",\"app\":\"a\"}}");
    assert_non_null(strstr(show(&entry, EUREKA_JSON),
                           "\"metadata\":{\"@class\":\"java.util.Collections$EmptyMap\"}"));
    assert_non_null(strstr(show(&entry, EUREKA_XML),
                           "<metadata class=\"java.util.Collections$EmptyMap\"></metadata>"));
}

static void bodies_that_are_wrong_are_refused_with_the_reason(void **state) {
    refuse("{", "the body is not JSON");
    refuse("[]", "the body is not an object with one member");
    refuse("{\"a\":{},\"b\":{}}", "the body is not an object with one member");
    refuse("{\"instance\":[]}", "the body's only member is not an object");
    refuse("{\"other\":{}}", "the body is not an instance");
    refuse("<other/>", "the body is not an instance");
    refuse("<instance>", "the body is not well-formed XML");
    refuse("<!DOCTYPE a [<!ENTITY b \"c\">]><instance/>", "document types are refused");
    refuse("<instance><hostName>&b;</hostName></instance>", "the body is not well-formed XML");
    refuse("{\"instance\":{\"port\":70000}}",
           "port or securePort is not a number between 0 and 65535");
    refuse("{\"instance\":{\"leaseInfo\":{\"durationInSecs\":0}}}",
           "leaseInfo.durationInSecs is not a whole number of seconds, at least 1");
    refuse("{\"instance\":{\"leaseInfo\":{\"durationInSecs\":0.5}}}",
           "leaseInfo.durationInSecs is not a whole number of seconds, at least 1");
    refuse("{\"instance\":{\"lastDirtyTimestamp\":\"x\"}}", "lastDirtyTimestamp is not a number");
    refuse("{\"instance\":{\"dataCenterInfo\":{\"name\":\"Moon\"}}}",
           "dataCenterInfo.name is not MyOwn, Amazon or Netflix");
}

static void bodies_are_bounded(void **state) {
    static char body[EUREKA_BODY_SIZE_MAX + 2];
    struct eureka_tree tree;
    const char *error;
    memset(body, ' ', sizeof body);
    assert_false(eureka_tree_read_json(&tree, &arena, bytes_of(body, sizeof body), &error));
    assert_false(eureka_tree_read_xml(&tree, &arena, bytes_of(body, sizeof body), &error));
    memset(body, '[', EUREKA_TREE_DEPTH_MAX + 1);
    assert_false(eureka_tree_read_json(&tree, &arena, bytes_of(body, 1000), &error));
    assert_string_equal(error, "the body is too large or too deep");
    size_t size = 0;
    for (size_t i = 0; i <= EUREKA_TREE_DEPTH_MAX; i++) {
        size += (size_t)sprintf(body + size, "<a>");
    }
    assert_false(eureka_tree_read_xml(&tree, &arena, bytes_of(body, size), &error));
    assert_string_equal(error, "the body is too deep");
    size = (size_t)sprintf(body, "<instance>");
    for (size_t i = 0; i < EUREKA_TREE_NODES_MAX; i++) {
        size += (size_t)sprintf(body + size, "<a/>");
    }
    assert_false(eureka_tree_read_xml(&tree, &arena, bytes_of(body, size), &error));
    assert_string_equal(error, "the body has too many elements");
}

static void the_hash_code_has_statuses_in_order(void **state) {
    char text[EUREKA_HASH_CODE_SIZE];
    struct eureka_counts counts = {0};
    eureka_hash_code(&counts, text);
    assert_string_equal(text, "");
    counts.of[EUREKA_UP] = 3;
    counts.of[EUREKA_DOWN] = 1;
    counts.of[EUREKA_STARTING] = UINT64_MAX;
    eureka_hash_code(&counts, text);
    assert_string_equal(text, "DOWN_1_STARTING_18446744073709551615_UP_3_");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_has_the_shape_that_clients_expect),
        cmocka_unit_test(xml_has_the_shape_that_clients_expect),
        cmocka_unit_test(what_is_written_is_read_as_the_same),
        cmocka_unit_test(the_registry_gets_what_it_models),
        cmocka_unit_test(a_body_of_few_words_gets_the_defaults),
        cmocka_unit_test(the_secure_port_counts_where_it_alone_is_on),
        cmocka_unit_test(amazon_has_its_metadata),
        cmocka_unit_test(statuses_follow_state_override_and_health),
        cmocka_unit_test(instances_of_others_are_shown_too),
        cmocka_unit_test(an_empty_map_has_its_class),
        cmocka_unit_test(bodies_that_are_wrong_are_refused_with_the_reason),
        cmocka_unit_test(bodies_are_bounded),
        cmocka_unit_test(the_hash_code_has_statuses_in_order),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
