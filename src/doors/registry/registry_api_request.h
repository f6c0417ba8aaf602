/*
 * Requests of the wire, read and checked to the last byte. What they point to is the message's and
 * arena memory. Each gives NULL, or what is wrong.
 */
#ifndef LEASED_DOORS_REGISTRY_REGISTRY_API_REQUEST_H
#define LEASED_DOORS_REGISTRY_REGISTRY_API_REQUEST_H

#include "base/arena.h"
#include "doors/registry/registry_api_error.h"
#include "registry/registry_rules.h"
#include "registry/registry_select.h"

enum {
    REGISTRY_API_RENEWALS_MAX = 10 * 1000, /* of one message */
    REGISTRY_API_TTL_MS = 15 * 1000,       /* of a registration that says none */
    REGISTRY_API_LIST_MAX = 10 * 1000      /* of services or events in one answer */
};

const struct leased_v1_error *registry_api_request_register(struct bytes message,
                                                            struct arena *arena,
                                                            struct registry_register *out_request);
const struct leased_v1_error *
registry_api_request_deregister(struct bytes message, struct registry_deregister *out_request);
const struct leased_v1_error *
registry_api_request_set_state(struct bytes message, struct registry_set_state *out_request);
const struct leased_v1_error *
registry_api_request_set_metadata(struct bytes message, struct arena *arena,
                                  struct registry_set_metadata *out_request);
const struct leased_v1_error *
registry_api_request_put_check(struct bytes message, struct arena *arena,
                               struct registry_put_check *out_request);
const struct leased_v1_error *
registry_api_request_delete_check(struct bytes message, struct registry_delete_check *out_request);
const struct leased_v1_error *registry_api_request_reports(struct bytes message,
                                                           struct arena *arena,
                                                           struct registry_report **out_reports,
                                                           size_t *out_n);
const struct leased_v1_error *registry_api_request_settings(struct bytes message,
                                                            struct registry_settings *out_request);

struct registry_api_discover {
    struct bytes service;
    struct registry_query query;
    bool with_checks;
    bool is_local;
};
const struct leased_v1_error *
registry_api_request_discover(struct bytes message, struct arena *arena,
                              struct registry_api_discover *out_request);

/* WatchServiceRequest, GetServiceRequest, RegistryEventsRequest and ListServicesRequest: a name in
 * field 1, and little else. */
struct registry_api_name {
    struct bytes service; /* or a prefix */
    bool with_checks;     /* field 2 of a watch */
    struct bytes after;   /* field 2 of a list */
    uint64_t number;      /* field 2 of events */
    uint32_t limit;       /* field 3 */
};
enum registry_api_name_kind {
    REGISTRY_API_NAME_OF_SERVICE,
    REGISTRY_API_NAME_OF_WATCH,
    REGISTRY_API_NAME_OF_LIST,
    REGISTRY_API_NAME_OF_EVENTS
};
const struct leased_v1_error *registry_api_request_name(struct bytes message,
                                                        enum registry_api_name_kind kind,
                                                        struct registry_api_name *out_request);

/* RenewInstancesRequest. */
struct registry_api_renewals {
    size_t n;
    int64_t *lease_ids;
    uint64_t sequence;
};
const struct leased_v1_error *registry_api_request_renewals(struct bytes message,
                                                            struct arena *arena,
                                                            struct registry_api_renewals *out);

#endif
