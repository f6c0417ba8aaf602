/*
 * What changes the registry, as rules (core/rule.h): one struct for each request, with its codec.
 * A registration is a lease: whatever ends it takes the instance, its checks and its mirror in one
 * revision. Registering, and replacing an older registration of the same id, is one entry. Renewing
 * is service_renew() of the lease and costs no entry; so is a TTL check that passes again.
 */
#ifndef LEASED_REGISTRY_REGISTRY_RULES_H
#define LEASED_REGISTRY_REGISTRY_RULES_H

#include "core/rule.h"
#include "registry/registry_model.h"

enum {
    REGISTRY_RULE_REGISTER = 19 * 65536 + 1,
    REGISTRY_RULE_DEREGISTER = 19 * 65536 + 2,
    REGISTRY_RULE_SET_STATE = 19 * 65536 + 3,
    REGISTRY_RULE_SET_METADATA = 19 * 65536 + 4,
    REGISTRY_RULE_PUT_CHECK = 19 * 65536 + 5,
    REGISTRY_RULE_DELETE_CHECK = 19 * 65536 + 6,
    REGISTRY_RULE_REPORT = 19 * 65536 + 7,
    REGISTRY_RULE_SETTINGS = 19 * 65536 + 8,
    REGISTRY_RULE_RUNNER = 19 * 65536 + 9,
    /* Hooks. */
    REGISTRY_RULE_INSTANCE_ENDED = 19 * 65536 + 10,
    REGISTRY_RULE_LOST_ENDED = 19 * 65536 + 11,
    REGISTRY_RULE_GUARD_ENDED = 19 * 65536 + 12,
    REGISTRY_RULE_CHECK_SILENT = 19 * 65536 + 13,
    REGISTRY_RULE_CHECK_CRITICAL = 19 * 65536 + 14
};

/* All of them, for the table of the door that brings them. */
enum { REGISTRY_N_RULES = 14 };
extern const struct rule *const registry_rules[REGISTRY_N_RULES];

/* --- Register: STATUS_INVALID (see registry_instance_is_valid()), STATUS_FENCED (a newer
 * registration has the id). --- */

struct registry_register {
    struct registry_instance
        instance; /* its key, and all that is encoded but wall times and user */
    size_t n_checks;
    const struct registry_check *checks;
    /* Checks of an older registration of the same id stay, unless they are among these. */
    bool keeps_checks;
    /* The same process again: when the id is registered with the same content, only the lease is
     * counted anew (and the token stays). */
    bool is_idempotent;
    /* The token of an earlier registration by the same process; 0: none. If the id has a greater
     * one by now, this process has a successor, and is refused. */
    int64_t previous_token;
    int64_t lease_id; /* 0: chosen */
};
void registry_register_encode(struct buffer *out, const struct registry_register *request);
struct registry_registered {
    int64_t token;
    int64_t lease_id;
    int64_t ttl_ms;         /* of the lease: with the service's grace */
    int64_t replaced_token; /* 0: there was none */
};
bool registry_registered_decode(struct bytes answer, struct registry_registered *out_registered);

/* --- Deregister: STATUS_KEY_NOT_FOUND, STATUS_FENCED (the token is another one's),
 * STATUS_INVALID. One that is draining already goes on draining; without `drain_ms` it goes at
 * once. What the guard keeps listed can be deregistered too. --- */

struct registry_deregister {
    struct bytes service;
    struct bytes id;
    int64_t token;    /* 0: whoever it is */
    int64_t drain_ms; /* above 0: it is draining for so long, and then goes */
};
void registry_deregister_encode(struct buffer *out, const struct registry_deregister *request);

/* --- Set state: the instance's own, or the override (REGISTRY_STATE_NONE takes it away).
 * STATUS_KEY_NOT_FOUND, STATUS_FENCED, STATUS_INVALID. --- */

struct registry_set_state {
    struct bytes service;
    struct bytes id;
    int64_t token;
    bool is_override;
    uint8_t state;
};
void registry_set_state_encode(struct buffer *out, const struct registry_set_state *request);

/* --- Set metadata: pairs are set, those with an empty value taken away. The statuses are the same.
 * --- */

struct registry_set_metadata {
    struct bytes service;
    struct bytes id;
    int64_t token;
    size_t n_pairs;
    const struct registry_pair *pairs;
    bool replaces_extra;
    struct bytes extra;
};
void registry_set_metadata_encode(struct buffer *out, const struct registry_set_metadata *request);

/* --- Checks of an instance that is there. STATUS_KEY_NOT_FOUND, STATUS_INVALID,
 * STATUS_TOO_MANY_REQUESTS (REGISTRY_CHECKS_MAX). --- */

struct registry_put_check {
    struct bytes service;
    struct bytes id;
    struct registry_check check;
};
void registry_put_check_encode(struct buffer *out, const struct registry_put_check *request);
struct registry_delete_check {
    struct bytes service;
    struct bytes id;
    struct bytes check;
};
void registry_delete_check_encode(struct buffer *out, const struct registry_delete_check *request);

/* --- Reports: what checks have found, of any instances. Those that are not there, or have the
 * token of an older registration, are left out; STATUS_KEY_NOT_FOUND when nothing was found. A TTL
 * check that is reported passing or warning gets a new lease when it had none, and else is only
 * renewed. A report that changes neither health nor output changes nothing. --- */

enum { REGISTRY_REPORTS_MAX = 256 };
struct registry_report {
    struct bytes service;
    struct bytes id;
    struct bytes check;
    int64_t token; /* 0: any */
    uint8_t health;
    bool keeps_output;
    struct bytes output; /* is cut at REGISTRY_TEXT_SIZE_MAX */
};
void registry_reports_encode(struct buffer *out, const struct registry_report *reports, size_t n);
struct registry_reported {
    size_t n_done;  /* of the reports, from the first on; when the checks are large, less than all:
                       the rest is to be reported again */
    size_t n_found; /* of those, how many are of a check that is there */
};
bool registry_reported_decode(struct bytes answer, struct registry_reported *out_reported);

/* --- Settings of a service. STATUS_INVALID. --- */

struct registry_settings {
    struct bytes service;
    struct registry_service_settings settings;
};
void registry_settings_encode(struct buffer *out, const struct registry_settings *request);

/* --- A member that runs checks: writes its key, attached to a lease that it then renews. The
 * answer is the lease's id, zigzag. --- */

struct registry_runner {
    uint64_t member_id;
    int64_t ttl_ms;
};
void registry_runner_encode(struct buffer *out, const struct registry_runner *request);

#endif
