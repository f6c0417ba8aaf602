#include "doors/xds/xds_endpoints.h"
#include "doors/xds/xds_version.h"
#include "proto/xds.pb-c.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

typedef Envoy__Service__Discovery__V3__ClusterLoadAssignment Assignment;

static struct registry_entry entry_of(const char *id, const char *address, uint16_t port,
                                      const char *zone) {
    return (struct registry_entry){.instance = {.service = bytes_from_text("web"),
                                                .id = bytes_from_text(id),
                                                .state = REGISTRY_UP,
                                                .weight = 1,
                                                .port = port,
                                                .address = bytes_from_text(address),
                                                .zone = bytes_from_text(zone)},
                                   .is_serving = true};
}

static Assignment *assign(const struct registry_entry *entries, size_t n, const char *near_zone,
                          size_t *out_left_out) {
    const struct registry_entry *order[16];
    for (size_t i = 0; i < n; i++) {
        order[i] = &entries[i];
    }
    struct buffer out;
    buffer_init(&out);
    struct xds_writer writer = {.out = &out};
    const struct xds_assignment assignment = {.name = bytes_from_text("web"),
                                              .near_zone = bytes_from_text(near_zone)};
    size_t left_out = xds_endpoints_write(&writer, &assignment, order, n);
    if (out_left_out != NULL) {
        *out_left_out = left_out;
    }
    Assignment *read =
        envoy__service__discovery__v3__cluster_load_assignment__unpack(NULL, out.size, out.data);
    assert_non_null(read);
    buffer_clear(&out);
    return read;
}

static void forget(Assignment *read) {
    envoy__service__discovery__v3__cluster_load_assignment__free_unpacked(read, NULL);
}

static void zones_are_localities_and_the_near_one_is_first(void **state) {
    const struct registry_entry entries[] = {
        entry_of("1", "10.0.0.1", 80, "b"),
        entry_of("2", "10.0.0.2", 80, "a"),
        entry_of("3", "10.0.0.3", 80, "b"),
    };
    Assignment *read = assign(entries, 3, "b", NULL);
    assert_int_equal(read->n_endpoints, 2);
    assert_string_equal(read->endpoints[0]->locality->zone, "a");
    assert_int_equal(read->endpoints[0]->priority, 1);
    assert_string_equal(read->endpoints[1]->locality->zone, "b");
    assert_int_equal(read->endpoints[1]->priority, 0);
    assert_int_equal(read->endpoints[1]->n_lb_endpoints, 2);
    assert_int_equal(read->endpoints[1]->load_balancing_weight->value, 2);
    forget(read);
    /* No gap: without an instance in the client's zone all have priority 0. */
    read = assign(entries, 3, "c", NULL);
    assert_int_equal(read->endpoints[0]->priority, 0);
    assert_int_equal(read->endpoints[1]->priority, 0);
    forget(read);
}

static void health_follows_state_and_checks(void **state) {
    struct registry_entry entries[8];
    for (int i = 0; i < 8; i++) {
        static const char *const ids[] = {"0", "1", "2", "3", "4", "5", "6", "7"};
        entries[i] = entry_of(ids[i], "10.0.0.1", (uint16_t)(80 + i), "");
    }
    entries[1].health = REGISTRY_WARNING;
    entries[2].health = REGISTRY_CRITICAL;
    entries[3].instance.state = REGISTRY_DRAINING;
    entries[4].is_kept = true;
    entries[5].instance.weight = 0;
    entries[6].instance.override_state = REGISTRY_OUT_OF_SERVICE;
    entries[7].instance.state = REGISTRY_STARTING;
    static const int wanted[] = {XDS_HEALTHY,  XDS_HEALTHY, XDS_UNHEALTHY,
                                 XDS_DRAINING, XDS_UNKNOWN, XDS_DRAINING};
    Assignment *read = assign(entries, 8, "", NULL);
    assert_int_equal(read->n_endpoints, 1);
    assert_int_equal(read->endpoints[0]->n_lb_endpoints, 6);
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(read->endpoints[0]->lb_endpoints[i]->health_status, wanted[i]);
        assert_true(read->endpoints[0]->lb_endpoints[i]->load_balancing_weight->value >= 1);
    }
    forget(read);
}

static void what_clients_would_refuse_is_left_out(void **state) {
    struct registry_entry entries[] = {
        entry_of("name", "web-1.example", 80, ""), entry_of("none", "10.0.0.2", 0, ""),
        entry_of("old", "10.0.0.3", 80, ""),       entry_of("new", "10.0.0.3", 80, ""),
        entry_of("six", "fd00::1", 80, ""),        entry_of("empty", "", 80, ""),
    };
    entries[2].instance.token = 4;
    entries[3].instance.token = 9;
    size_t left_out = 0;
    Assignment *read = assign(entries, 6, "", &left_out);
    assert_int_equal(left_out, 4);
    assert_int_equal(read->endpoints[0]->n_lb_endpoints, 2);
    const Envoy__Service__Discovery__V3__LbEndpoint *kept = read->endpoints[0]->lb_endpoints[0];
    const Envoy__Service__Discovery__V3__Struct *own = kept->metadata->filter_metadata[0]->value;
    assert_string_equal(own->fields[0]->key, "id");
    assert_string_equal(own->fields[0]->value->string_value, "new");
    forget(read);
}

static void the_sum_of_weights_fits_32_bits(void **state) {
    enum { MANY = 70000 };
    struct registry_entry *entries = calloc(MANY, sizeof *entries);
    const struct registry_entry **order = calloc(MANY, sizeof *order);
    assert_true(entries != NULL && order != NULL);
    for (int i = 0; i < MANY; i++) {
        entries[i] = entry_of("x", i < 65000 ? "10.0.0.1" : "10.0.0.2", (uint16_t)(1 + i % 65000),
                              i % 2 == 0 ? "a" : "b");
        entries[i].instance.weight = REGISTRY_WEIGHT_MAX;
        order[i] = &entries[i];
    }
    struct buffer out;
    buffer_init(&out);
    struct xds_writer writer = {.out = &out};
    const struct xds_assignment assignment = {.name = bytes_from_text("web")};
    assert_int_equal(xds_endpoints_write(&writer, &assignment, order, MANY), 0);
    Assignment *read =
        envoy__service__discovery__v3__cluster_load_assignment__unpack(NULL, out.size, out.data);
    uint64_t sum = 0;
    for (size_t i = 0; i < read->n_endpoints; i++) {
        sum += read->endpoints[i]->load_balancing_weight->value;
    }
    assert_true(sum <= UINT32_MAX && sum > UINT32_MAX / 4);
    forget(read);
    buffer_clear(&out);
    free(order);
    free(entries);
}

static void json_has_the_same_fields(void **state) {
    struct registry_entry entry = entry_of("1", "10.0.0.1", 80, "a");
    const struct registry_entry *order[] = {&entry};
    const struct registry_pair pair = {bytes_from_text("k"), bytes_from_text("\"v\"")};
    entry.is_kept = true;
    entry.instance.n_metadata = 1;
    entry.instance.metadata = &pair;
    struct buffer out;
    buffer_init(&out);
    struct xds_writer writer = {.out = &out, .is_json = true};
    size_t object = xds_begin(&writer, 0, NULL);
    const struct xds_assignment assignment = {.name = bytes_from_text("web")};
    (void)xds_endpoints_write(&writer, &assignment, order, 1);
    xds_end(&writer, object);
    buffer_put_u8(&out, 0);
    assert_string_equal(
        (const char *)out.data,
        "{\"cluster_name\":\"web\",\"endpoints\":[{\"locality\":{\"zone\":\"a\"},\"lb_endpoints\":["
        "{\"endpoint\":{\"address\":{\"socket_address\":{\"address\":\"10.0.0.1\",\"port_value\":80"
        "}}},\"health_status\":\"UNKNOWN\",\"metadata\":{\"filter_metadata\":{\"leased\":{\"id\":"
        "\"1\",\"kept\":true},\"envoy.lb\":{\"k\":\"\\\"v\\\"\"}}},\"load_balancing_weight\":1}],"
        "\"load_balancing_weight\":1}]}");
    buffer_clear(&out);
}

static void versions_are_read_back_for_the_same_zone_alone(void **state) {
    char text[XDS_VERSION_SIZE];
    struct bytes zone = bytes_from_text("a");
    size_t size = xds_version_write(text, 77, zone);
    assert_true(bytes_equal(bytes_of(text, size), bytes_from_text("77@a")));
    assert_int_equal(xds_version_read(bytes_of(text, size), zone), 77);
    assert_int_equal(xds_version_read(bytes_of(text, size), bytes_from_text("b")), 0);
    assert_int_equal(xds_version_read(bytes_of(text, size), bytes_of("", 0)), 0);
    assert_int_equal(xds_version_read(bytes_from_text("5"), bytes_of("", 0)), 5);
    assert_int_equal(xds_version_read(bytes_from_text("-5"), bytes_of("", 0)), 0);
    assert_int_equal(xds_version_read(bytes_from_text("05"), bytes_of("", 0)), 0);
    assert_int_equal(xds_version_read(bytes_from_text("99999999999999999999999"), zone), 0);
}

static void names_have_tags(void **state) {
    struct xds_name name;
    assert_true(xds_name_parse(bytes_from_text("web"), &name) && name.n_tags == 0);
    assert_true(xds_name_parse(bytes_from_text("a/b?x?tag=v2&tag=w"), &name));
    assert_true(bytes_equal(name.service, bytes_from_text("a/b?x")));
    assert_int_equal(name.n_tags, 2);
    assert_true(bytes_equal(name.tags[0], bytes_from_text("v2")));
    assert_true(bytes_equal(name.tags[1], bytes_from_text("w")));
    assert_true(xds_name_parse(bytes_from_text("web;tag=v2;tag=w"), &name));
    assert_true(bytes_equal(name.service, bytes_from_text("web")) && name.n_tags == 2);
    static const char *const wrong[] = {
        "", "xdstp://a/b", "web?tag=", "a\x01", "a?tag=1&tag=2&tag=3&tag=4&tag=5", "?tag=x"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(xds_name_parse(bytes_from_text(wrong[i]), &name));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zones_are_localities_and_the_near_one_is_first),
        cmocka_unit_test(health_follows_state_and_checks),
        cmocka_unit_test(what_clients_would_refuse_is_left_out),
        cmocka_unit_test(the_sum_of_weights_fits_32_bits),
        cmocka_unit_test(json_has_the_same_fields),
        cmocka_unit_test(versions_are_read_back_for_the_same_zone_alone),
        cmocka_unit_test(names_have_tags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
