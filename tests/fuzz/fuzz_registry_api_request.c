/* Requests of leased.v1.Registry: the first byte says which, the rest is the message. What is
 * accepted can be given to a rule. */
#include "doors/registry/registry_api_request.h"

#include <assert.h>
#include <stdint.h>

static void check_register(struct bytes message, struct arena *arena, struct buffer *out) {
    struct registry_register request;
    if (registry_api_request_register(message, arena, &request) == NULL) {
        assert(registry_instance_is_valid(&request.instance));
        assert(request.n_checks <= REGISTRY_CHECKS_MAX);
        registry_register_encode(out, &request);
    }
}

static void check_changes(struct bytes message, struct arena *arena, struct buffer *out) {
    struct registry_deregister deregister;
    struct registry_set_state state;
    struct registry_set_metadata metadata;
    struct registry_put_check put;
    struct registry_delete_check delete;
    struct registry_settings settings;
    if (registry_api_request_deregister(message, &deregister) == NULL) {
        registry_deregister_encode(out, &deregister);
    }
    if (registry_api_request_set_state(message, &state) == NULL) {
        assert(state.state < REGISTRY_STATES);
        registry_set_state_encode(out, &state);
    }
    if (registry_api_request_set_metadata(message, arena, &metadata) == NULL) {
        registry_set_metadata_encode(out, &metadata);
    }
    if (registry_api_request_put_check(message, arena, &put) == NULL) {
        assert(registry_check_is_valid(&put.check));
        registry_put_check_encode(out, &put);
    }
    if (registry_api_request_delete_check(message, &delete) == NULL) {
        registry_delete_check_encode(out, &delete);
    }
    if (registry_api_request_settings(message, &settings) == NULL) {
        registry_settings_encode(out, &settings);
    }
}

static void check_reads(struct bytes message, struct arena *arena, struct buffer *out) {
    struct registry_api_discover discover;
    struct registry_api_name name;
    struct registry_api_renewals renewals;
    struct registry_report *reports = NULL;
    size_t n = 0;
    if (registry_api_request_discover(message, arena, &discover) == NULL) {
        assert(registry_name_is_valid(discover.service));
    }
    for (int kind = REGISTRY_API_NAME_OF_SERVICE; kind <= REGISTRY_API_NAME_OF_EVENTS; kind++) {
        if (registry_api_request_name(message, (enum registry_api_name_kind)kind, &name) == NULL) {
            assert(name.limit <= REGISTRY_API_LIST_MAX);
        }
    }
    if (registry_api_request_renewals(message, arena, &renewals) == NULL) {
        assert(renewals.n <= REGISTRY_API_RENEWALS_MAX);
    }
    if (registry_api_request_reports(message, arena, &reports, &n) == NULL) {
        assert(n > 0 && n <= REGISTRY_REPORTS_MAX);
        registry_reports_encode(out, reports, n);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const parts[])(struct bytes message, struct arena * arena,
                                 struct buffer * out) = {check_register, check_changes,
                                                         check_reads};
    struct arena arena;
    struct buffer out;
    if (size == 0) {
        return 0;
    }
    arena_init(&arena);
    buffer_init(&out);
    parts[data[0] % (sizeof parts / sizeof parts[0])](bytes_of(data + 1, size - 1), &arena, &out);
    buffer_clear(&out);
    arena_clear(&arena);
    return 0;
}
