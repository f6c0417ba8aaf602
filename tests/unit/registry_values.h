/* Values of the registry for tests: a full instance and a full check. */
#ifndef LEASED_TESTS_REGISTRY_VALUES_H
#define LEASED_TESTS_REGISTRY_VALUES_H

#include "core/lease_table.h"
#include "registry/registry_model.h"

static const struct bytes registry_test_tags[] = {{(const uint8_t *)"v2", 2},
                                                  {(const uint8_t *)"blue", 4}};
static const struct registry_pair registry_test_pairs[] = {
    {{(const uint8_t *)"rack", 4}, {(const uint8_t *)"r1", 2}},
    {{(const uint8_t *)"empty", 5}, {(const uint8_t *)"", 0}}};

static inline struct registry_instance registry_test_instance(const char *service, const char *id) {
    return (struct registry_instance){.service = bytes_from_text(service),
                                      .id = bytes_from_text(id),
                                      .origin = REGISTRY_ORIGIN_NATIVE,
                                      .state = REGISTRY_UP,
                                      .port = 80,
                                      .weight = 1,
                                      .address = bytes_from_text("10.0.0.1"),
                                      .zone = bytes_from_text("z1"),
                                      .version = bytes_from_text("1.2.3"),
                                      .node = bytes_from_text("node-1"),
                                      .owner = bytes_from_text("ann"),
                                      .n_tags = 2,
                                      .tags = registry_test_tags,
                                      .n_metadata = 2,
                                      .metadata = registry_test_pairs,
                                      .extra = bytes_of("\0\1\2", 3),
                                      .ttl_ms = 10 * 1000};
}

static inline struct registry_check registry_test_check(const char *id,
                                                        enum registry_check_kind kind) {
    return (struct registry_check){.id = bytes_from_text(id),
                                   .kind = (uint8_t)kind,
                                   .origin = REGISTRY_ORIGIN_NATIVE,
                                   .name = bytes_from_text("a check"),
                                   .target = bytes_from_text("http://10.0.0.1:80/health"),
                                   .n_headers = 2,
                                   .headers = registry_test_pairs,
                                   .alias_service = bytes_from_text("other"),
                                   .interval_ms = 1000,
                                   .ttl_ms = 5000};
}

#endif
