/*
 * Requests of the native API, from the bytes of a message to what the rules take
 * (native_rules.h). Bounds are checked here as the rules check them again, so that a client is told
 * what is wrong. Texts are views of the message. Pure.
 */
#ifndef LEASED_DOORS_NATIVE_NATIVE_REQUEST_H
#define LEASED_DOORS_NATIVE_NATIVE_REQUEST_H

#include "base/arena.h"
#include "doors/native/native_error.h"
#include "doors/native/native_rules.h"

enum {
    /* Sessions, resources or ends in one answer; what a request asks for beyond is cut. */
    NATIVE_LIST_MAX = 1000,
    NATIVE_LIST_DEFAULT = 100
};

/* All functions: NULL, or what is wrong with the request. */

/* `owner` is taken when the request has none: who it came from. */
const struct leased_v1_error *native_request_create(struct bytes message, struct bytes owner,
                                                    struct native_session_create *out);
const struct leased_v1_error *native_request_change(struct bytes message,
                                                    struct native_session_change *out);
const struct leased_v1_error *native_request_end(struct bytes message,
                                                 struct native_session_end *out);
/* Requests of one number in field 1: the id of a session. */
const struct leased_v1_error *native_request_id(struct bytes message, int64_t *out_id);

struct native_acquire_request {
    struct native_acquire acquire;
    int64_t wait_ms; /* -1: as long as the call lives */
};
const struct leased_v1_error *native_request_acquire(struct bytes message, struct bytes owner,
                                                     struct native_acquire_request *out);
const struct leased_v1_error *native_request_release(struct bytes message,
                                                     struct native_release *out);
const struct leased_v1_error *native_request_proclaim(struct bytes message,
                                                      struct native_proclaim *out);
const struct leased_v1_error *native_request_transfer(struct bytes message,
                                                      struct native_transfer *out);

struct native_list_request {
    struct bytes prefix; /* of names or owners */
    struct bytes after;
    int64_t after_id;
    uint32_t limit; /* 1 to NATIVE_LIST_MAX */
    bool with_acquisitions;
    bool with_remaining;
};
const struct leased_v1_error *native_request_list_sessions(struct bytes message,
                                                           struct native_list_request *out);
const struct leased_v1_error *native_request_list_resources(struct bytes message,
                                                            struct native_list_request *out);

struct native_get_request {
    struct bytes name;
    uint32_t n_waiters;
    bool with_remaining;
};
const struct leased_v1_error *native_request_get_resource(struct bytes message,
                                                          struct native_get_request *out);
/* Requests of one name in field 1. */
const struct leased_v1_error *native_request_name(struct bytes message, struct bytes *out_name);

/* Arrays are arena memory. */
const struct leased_v1_error *native_request_set_pool(struct bytes message, struct arena *arena,
                                                      struct native_pool_set *out);

const struct leased_v1_error *native_request_check_fence(struct bytes message,
                                                         struct native_fence_check *out);

struct native_why_request {
    bool is_pool;
    struct bytes name;  /* of a resource or a pool; or */
    int64_t session_id; /* or */
    int64_t acquisition_id;
    uint32_t limit;
};
const struct leased_v1_error *native_request_why(struct bytes message,
                                                 struct native_why_request *out);

struct native_events_request {
    struct bytes prefix;
    int64_t start_revision;
};
const struct leased_v1_error *native_request_events(struct bytes message,
                                                    struct native_events_request *out);

#endif
