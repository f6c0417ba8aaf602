/* Pure: run by every replica when the command is applied, with the same result. */
#include "registry/registry_change_rules.h"

#include "core/cluster_version.h"
#include "registry/registry_estimate_rules.h"
#include "registry/registry_guard_rules.h"
#include "registry/registry_keys.h"
#include "registry/registry_request_model.h"
#include "registry/registry_text_model.h"

/* Writes an instance that was changed, where it is. */
static void put_changed(struct registry_work *work, struct registry_instance *instance) {
    const struct registry_work_checks *checks =
        registry_work_checks(work, instance->service, instance->id);
    registry_work_put(work, instance, instance->lease_id,
                      registry_checks_health(checks->at, checks->n));
    registry_work_touch(registry_work_service(work, instance->service));
    registry_work_finish(work);
}

static bool is_named(struct bytes service, struct bytes id, int64_t token) {
    return registry_name_is_valid(service) && registry_name_is_valid(id) && token >= 0;
}

/* --- State. --- */

static enum status set_state(struct registry_work *work, const struct registry_set_state *request) {
    struct registry_instance instance;
    enum status status =
        registry_work_find_token(work, request->service, request->id, request->token, &instance);
    if (status != STATUS_OK) {
        return status;
    }
    uint8_t *state = request->is_override ? &instance.override_state : &instance.state;
    if (*state != request->state) {
        *state = request->state;
        instance.state_wall_ms = rule_wall_ms(work->run);
        put_changed(work, &instance);
    }
    return STATUS_OK;
}

static enum status run_set_state(struct rule_run *run, struct bytes bytes, struct buffer *answer) {
    (void)answer;
    struct registry_work work;
    struct registry_set_state request;
    registry_work_init(&work, run);
    if (!registry_set_state_decode(bytes, &request)) {
        return STATUS_MALFORMED;
    }
    if (!is_named(request.service, request.id, request.token) || request.state >= REGISTRY_STATES ||
        (!request.is_override && request.state == REGISTRY_STATE_NONE)) {
        return STATUS_INVALID;
    }
    return registry_work_may(&work, request.service) ? set_state(&work, &request)
                                                     : STATUS_PERMISSION_DENIED;
}

const struct rule registry_rule_set_state = {.number = REGISTRY_RULE_SET_STATE,
                                             .name = "registry set state",
                                             .since_version = CLUSTER_VERSION_RULES,
                                             .spaces = REGISTRY_RULE_SPACES,
                                             .run = run_set_state,
                                             .estimate = registry_estimate_change};

/* --- Metadata. --- */

/* Pairs that stay and those that are set; one with an empty value is taken away. False: too many.
 */
static bool merge(struct registry_work *work, struct registry_instance *instance,
                  const struct registry_set_metadata *request) {
    struct registry_pair *pairs =
        arena_calloc(work->arena, instance->n_metadata + request->n_pairs, sizeof *pairs);
    size_t n = 0;
    for (size_t i = 0; i < instance->n_metadata; i++) {
        pairs[n++] = instance->metadata[i];
    }
    for (size_t i = 0; i < request->n_pairs; i++) {
        size_t at = 0;
        while (at < n && !bytes_equal(pairs[at].key, request->pairs[i].key)) {
            at++;
        }
        if (request->pairs[i].value.size > 0) {
            pairs[at] = request->pairs[i];
            n = at == n ? n + 1 : n;
        } else if (at < n) {
            memmove(pairs + at, pairs + at + 1, (--n - at) * sizeof *pairs);
        }
    }
    instance->metadata = pairs;
    instance->n_metadata = n;
    if (request->replaces_extra) {
        instance->extra = request->extra;
    }
    return registry_instance_is_valid(instance);
}

static enum status set_metadata(struct registry_work *work,
                                const struct registry_set_metadata *request) {
    struct registry_instance instance;
    enum status status =
        registry_work_find_token(work, request->service, request->id, request->token, &instance);
    if (status != STATUS_OK) {
        return status;
    }
    if (!merge(work, &instance, request)) {
        return STATUS_INVALID;
    }
    put_changed(work, &instance);
    return STATUS_OK;
}

static enum status run_set_metadata(struct rule_run *run, struct bytes bytes,
                                    struct buffer *answer) {
    (void)answer;
    struct registry_work work;
    struct registry_set_metadata request;
    registry_work_init(&work, run);
    if (!registry_set_metadata_decode(bytes, work.arena, &request)) {
        return STATUS_MALFORMED;
    }
    if (!is_named(request.service, request.id, request.token) ||
        !registry_pairs_are_valid(request.pairs, request.n_pairs, false) ||
        request.extra.size > REGISTRY_EXTRA_SIZE_MAX) {
        return STATUS_INVALID;
    }
    return registry_work_may(&work, request.service) ? set_metadata(&work, &request)
                                                     : STATUS_PERMISSION_DENIED;
}

const struct rule registry_rule_set_metadata = {.number = REGISTRY_RULE_SET_METADATA,
                                                .name = "registry set metadata",
                                                .since_version = CLUSTER_VERSION_RULES,
                                                .spaces = REGISTRY_RULE_SPACES,
                                                .run = run_set_metadata,
                                                .estimate = registry_estimate_change};

/* --- Settings. --- */

static enum status run_settings(struct rule_run *run, struct bytes bytes, struct buffer *answer) {
    (void)answer;
    struct registry_work work;
    struct registry_settings request;
    registry_work_init(&work, run);
    if (!registry_settings_decode(bytes, &request)) {
        return STATUS_MALFORMED;
    }
    if (!registry_name_is_valid(request.service) ||
        !registry_settings_are_valid(&request.settings)) {
        return STATUS_INVALID;
    }
    if (!registry_work_may(&work, request.service)) {
        return STATUS_PERMISSION_DENIED;
    }
    struct registry_work_service *service = registry_work_service(&work, request.service);
    service->service.settings = request.settings;
    registry_work_touch(service);
    registry_guard_settle(&work, service);
    registry_work_finish(&work);
    return STATUS_OK;
}

const struct rule registry_rule_settings = {.number = REGISTRY_RULE_SETTINGS,
                                            .name = "registry settings",
                                            .since_version = CLUSTER_VERSION_RULES,
                                            .spaces = REGISTRY_RULE_SPACES,
                                            .run = run_settings};

/* --- Members that run checks. --- */

static enum status run_runner(struct rule_run *run, struct bytes bytes, struct buffer *answer) {
    struct registry_runner request;
    if (!registry_runner_decode(bytes, &request)) {
        return STATUS_MALFORMED;
    }
    if (request.ttl_ms < REGISTRY_TTL_MS_MIN || request.ttl_ms > LEASE_TTL_MS_MAX) {
        return STATUS_INVALID;
    }
    const struct rule_lease lease = {.ttl_ms = request.ttl_ms, .class = REGISTRY_LEASE_RUNNER};
    struct bytes key = registry_key_runner(rule_arena(run), request.member_id);
    const struct record *old = rule_get(run, KEY_SPACE_REGISTRY_RECORDS, key);
    int64_t lease_id = 0;
    if (old != NULL) {
        (void)rule_lease_end(run, old->lease_id, LEASE_END_REVOKED);
    }
    enum status status = rule_lease_grant(run, &lease, &lease_id);
    (void)rule_put(run, KEY_SPACE_REGISTRY_RECORDS, key, bytes_of(NULL, 0), lease_id);
    buffer_put_zigzag(answer, lease_id);
    return status;
}

const struct rule registry_rule_runner = {.number = REGISTRY_RULE_RUNNER,
                                          .name = "registry runner",
                                          .since_version = CLUSTER_VERSION_RULES,
                                          .spaces = REGISTRY_RULE_SPACES,
                                          .run = run_runner};
