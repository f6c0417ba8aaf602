/* Pure: run by every replica when the command is applied, with the same result. */
#include "registry/registry_register_rules.h"

#include "core/cluster_version.h"
#include "registry/registry_check_rules.h"
#include "registry/registry_estimate_rules.h"
#include "registry/registry_guard_rules.h"
#include "registry/registry_keys.h"
#include "registry/registry_request_model.h"

static const struct bytes nothing = {0};

/* --- Register. --- */

/* One registration as it goes on. */
struct registering {
    struct registry_work *work;
    struct registry_register *request;
    struct registry_work_service *service;
    /* An older registration of the same id. */
    bool has_old;
    struct registry_instance old;
    struct registry_work_checks *old_checks;
};

static int64_t ttl_with_grace(const struct registry_instance *instance,
                              const struct registry_service *service) {
    if (instance->ttl_ms == LEASE_TTL_FOREVER) {
        return LEASE_TTL_FOREVER;
    }
    int64_t ttl_ms = instance->ttl_ms + service->settings.grace_ms;
    return ttl_ms > LEASE_TTL_MS_MAX ? LEASE_TTL_MS_MAX : ttl_ms;
}

static bool has_same_content(const struct registry_instance *a, const struct registry_instance *b) {
    struct registry_instance other = *b;
    struct buffer first;
    struct buffer second;
    other.registered_wall_ms = a->registered_wall_ms;
    other.state_wall_ms = a->state_wall_ms;
    other.user_id = a->user_id;
    buffer_init(&first);
    buffer_init(&second);
    registry_instance_encode(&first, a);
    registry_instance_encode(&second, &other);
    bool is_same =
        bytes_equal(bytes_of(first.data, first.size), bytes_of(second.data, second.size));
    buffer_clear(&first);
    buffer_clear(&second);
    return is_same;
}

static const struct registry_check *find_check(const struct registry_check *checks, size_t n,
                                               struct bytes id) {
    for (size_t i = 0; i < n; i++) {
        if (bytes_equal(checks[i].id, id)) {
            return &checks[i];
        }
    }
    return NULL;
}

/* Whether the id is registered just so, by a process that has not begun to leave. */
static bool is_registered_so(const struct registering *registering) {
    const struct registry_register *request = registering->request;
    const struct registry_work_checks *old = registering->old_checks;
    struct lease_facts facts;
    if (!registering->has_old ||
        !rule_lease_find(registering->work->run, registering->old.lease_id, &facts) ||
        facts.class == REGISTRY_LEASE_DRAIN ||
        !has_same_content(&registering->old, &request->instance) ||
        (!request->keeps_checks && old->n != request->n_checks)) {
        return false;
    }
    bool is_so = true;
    for (size_t i = 0; i < request->n_checks && is_so; i++) {
        const struct registry_check *check = find_check(old->at, old->n, request->checks[i].id);
        is_so = check != NULL && registry_check_asks_the_same(check, &request->checks[i]);
    }
    return is_so;
}

static enum status renew(struct registering *registering, struct registry_registered *out) {
    const struct registry_instance *old = &registering->old;
    *out =
        (struct registry_registered){.token = old->token,
                                     .lease_id = old->lease_id,
                                     .ttl_ms = ttl_with_grace(old, &registering->service->service)};
    return rule_lease_set_ttl(registering->work->run, old->lease_id, out->ttl_ms);
}

/* The request's checks, and those of the older registration that stay. */
static enum status gather_checks(const struct registering *registering,
                                 struct registry_work_checks *out_checks) {
    const struct registry_register *request = registering->request;
    out_checks->n = request->n_checks;
    for (size_t i = 0; i < request->n_checks; i++) {
        out_checks->at[i] = request->checks[i];
    }
    if (!registering->has_old || !request->keeps_checks) {
        return STATUS_OK;
    }
    for (size_t i = 0; i < registering->old_checks->n; i++) {
        const struct registry_check *check = &registering->old_checks->at[i];
        if (find_check(request->checks, request->n_checks, check->id) != NULL) {
            continue;
        }
        if (out_checks->n == REGISTRY_CHECKS_MAX) {
            return STATUS_TOO_MANY_REQUESTS;
        }
        out_checks->at[out_checks->n++] = *check;
    }
    return STATUS_OK;
}

/* What an older registration of the id has left. Its hook is taken back: who replaces it counts. */
static void replace(struct registering *registering) {
    struct registry_work *work = registering->work;
    if (registering->has_old) {
        int64_t lease_id = registering->old.lease_id;
        (void)rule_cancel_on_lease_end(work->run, lease_id, REGISTRY_RULE_INSTANCE_ENDED, nothing);
        (void)rule_lease_end(work->run, lease_id, LEASE_END_REVOKED);
    } else {
        registering->service->service.n_live++;
    }
    (void)registry_guard_forget(work, registering->service, registering->request->instance.id);
}

static enum status grant(struct registering *registering, int64_t *out_id, int64_t *out_ttl_ms) {
    struct rule_run *run = registering->work->run;
    const struct rule_lease lease = {
        .id = registering->request->lease_id,
        .ttl_ms = ttl_with_grace(&registering->request->instance, &registering->service->service),
        .class = REGISTRY_LEASE_INSTANCE};
    *out_ttl_ms = lease.ttl_ms;
    enum status status = rule_lease_grant(run, &lease, out_id);
    return status == STATUS_OK
               ? rule_on_lease_end(run, *out_id, REGISTRY_RULE_INSTANCE_ENDED, nothing)
               : status;
}

static enum status enter(struct registering *registering, struct registry_registered *out) {
    struct registry_work *work = registering->work;
    struct registry_instance *instance = &registering->request->instance;
    struct registry_work_checks *checks = arena_calloc(work->arena, 1, sizeof *checks);
    int64_t lease_id = 0;
    int64_t ttl_ms = 0;
    enum status status = gather_checks(registering, checks);
    if (status != STATUS_OK) {
        return status;
    }
    replace(registering);
    status = grant(registering, &lease_id, &ttl_ms);
    if (status != STATUS_OK) {
        return status;
    }
    instance->registered_wall_ms = rule_wall_ms(work->run);
    instance->state_wall_ms = instance->registered_wall_ms;
    registry_work_put(work, instance, lease_id, registry_checks_health(checks->at, checks->n));
    registry_work_put_index(work, instance->service, instance->id, lease_id);
    for (size_t i = 0; i < checks->n; i++) {
        registry_check_start(work, instance, &checks->at[i]);
    }
    registry_work_touch(registering->service);
    registry_guard_settle(work, registering->service);
    *out = (struct registry_registered){.token = instance->token,
                                        .lease_id = lease_id,
                                        .ttl_ms = ttl_ms,
                                        .replaced_token =
                                            registering->has_old ? registering->old.token : 0};
    return STATUS_OK;
}

static enum status register_one(struct registry_work *work, struct registry_register *request,
                                struct registry_registered *out_registered) {
    struct registry_instance *instance = &request->instance;
    struct registering registering = {.work = work,
                                      .request = request,
                                      .service = registry_work_service(work, instance->service)};
    registering.has_old =
        registry_work_find(work, instance->service, instance->id, &registering.old);
    if (registering.has_old) {
        if (request->previous_token != 0 && request->previous_token < registering.old.token) {
            return STATUS_FENCED;
        }
        registering.old_checks = registry_work_checks(work, instance->service, instance->id);
        /* An operator's word outlives the process it was about. */
        if (instance->override_state == REGISTRY_STATE_NONE) {
            instance->override_state = registering.old.override_state;
        }
    }
    enum status status = request->is_idempotent && is_registered_so(&registering)
                             ? renew(&registering, out_registered)
                             : enter(&registering, out_registered);
    registry_work_finish(work);
    return status;
}

static enum status run_register(struct rule_run *run, struct bytes bytes, struct buffer *answer) {
    struct registry_work work;
    struct registry_register request;
    struct registry_registered registered = {0};
    registry_work_init(&work, run);
    if (!registry_register_decode(bytes, work.arena, &request)) {
        return STATUS_MALFORMED;
    }
    if (!registry_instance_is_valid(&request.instance) || request.previous_token < 0 ||
        !registry_checks_are_acceptable(request.checks, request.n_checks)) {
        return STATUS_INVALID;
    }
    request.instance.user_id = rule_caller(run)->user_id;
    if (!registry_work_may(&work, request.instance.service)) {
        return STATUS_PERMISSION_DENIED;
    }
    enum status status = register_one(&work, &request, &registered);
    registry_registered_encode(answer, &registered);
    return status;
}

const struct rule registry_rule_register = {
    .number = REGISTRY_RULE_REGISTER,
    .name = "registry register",
    .since_version = CLUSTER_VERSION_RULES,
    .spaces = REGISTRY_RULE_SPACES,
    .run = run_register,
    /* Of the one that it replaces, whose checks it may keep. */
    .estimate = registry_estimate_move};

/* --- Deregister. --- */

/* Moves the instance and all it owns to a lease that nobody renews. The checks that the server runs
 * go on; a client that reports is leaving. */
static enum status drain(struct registry_work *work, struct registry_instance *instance,
                         int64_t drain_ms) {
    const struct rule_lease lease = {
        .ttl_ms = drain_ms, .class = REGISTRY_LEASE_DRAIN, .owner = KEY_SPACE_REGISTRY_RECORDS};
    struct lease_facts facts;
    int64_t old_id = instance->lease_id;
    int64_t id = 0;
    if (rule_lease_find(work->run, old_id, &facts) && facts.class == REGISTRY_LEASE_DRAIN) {
        return STATUS_OK;
    }
    struct registry_work_checks *checks =
        registry_work_checks(work, instance->service, instance->id);
    enum status status = rule_lease_grant(work->run, &lease, &id);
    if (status == STATUS_OK) {
        status = rule_on_lease_end(work->run, id, REGISTRY_RULE_INSTANCE_ENDED, nothing);
    }
    if (status != STATUS_OK) {
        return status;
    }
    instance->state = REGISTRY_DRAINING;
    instance->override_state = REGISTRY_STATE_NONE;
    instance->state_wall_ms = rule_wall_ms(work->run);
    registry_work_put(work, instance, id, registry_checks_health(checks->at, checks->n));
    registry_work_put_index(work, instance->service, instance->id, id);
    for (size_t i = 0; i < checks->n; i++) {
        checks->at[i].ttl_lease_id = 0;
        checks->at[i].deregister_lease_id = 0;
        registry_check_put(work, instance, &checks->at[i]);
    }
    (void)rule_cancel_on_lease_end(work->run, old_id, REGISTRY_RULE_INSTANCE_ENDED, nothing);
    (void)rule_lease_end(work->run, old_id, LEASE_END_REVOKED);
    registry_work_touch(registry_work_service(work, instance->service));
    registry_work_finish(work);
    return STATUS_OK;
}

/* One that the guard keeps listed. */
static enum status deregister_kept(struct registry_work *work,
                                   const struct registry_deregister *request) {
    struct registry_work_service *service = registry_work_service(work, request->service);
    int64_t token = 0;
    if (!registry_guard_keeps(work, service, request->id, &token)) {
        return STATUS_KEY_NOT_FOUND;
    }
    if (request->token != 0 && request->token != token) {
        return STATUS_FENCED;
    }
    (void)registry_guard_forget(work, service, request->id);
    registry_guard_settle(work, service);
    registry_work_finish(work);
    return STATUS_OK;
}

static enum status deregister(struct registry_work *work,
                              const struct registry_deregister *request) {
    struct registry_instance instance;
    enum status status =
        registry_work_find_token(work, request->service, request->id, request->token, &instance);
    if (status == STATUS_KEY_NOT_FOUND) {
        return deregister_kept(work, request);
    }
    if (status != STATUS_OK) {
        return status;
    }
    return request->drain_ms > 0 ? drain(work, &instance, request->drain_ms)
                                 : rule_lease_end(work->run, instance.lease_id, LEASE_END_REVOKED);
}

static enum status run_deregister(struct rule_run *run, struct bytes bytes, struct buffer *answer) {
    (void)answer;
    struct registry_work work;
    struct registry_deregister request;
    registry_work_init(&work, run);
    if (!registry_deregister_decode(bytes, &request)) {
        return STATUS_MALFORMED;
    }
    if (!registry_name_is_valid(request.service) || !registry_name_is_valid(request.id) ||
        request.token < 0 || request.drain_ms < 0 || request.drain_ms > LEASE_TTL_MS_MAX) {
        return STATUS_INVALID;
    }
    return registry_work_may(&work, request.service) ? deregister(&work, &request)
                                                     : STATUS_PERMISSION_DENIED;
}

const struct rule registry_rule_deregister = {.number = REGISTRY_RULE_DEREGISTER,
                                              .name = "registry deregister",
                                              .since_version = CLUSTER_VERSION_RULES,
                                              .spaces = REGISTRY_RULE_SPACES,
                                              .run = run_deregister,
                                              .runs_when_full = true,
                                              .estimate = registry_estimate_move};

/* --- When the lease of an instance has ended, whatever ended it. --- */

struct gone {
    struct arena *arena;
    bool is_found;
    struct registry_lost lost;
};

static bool note_gone(void *context, const struct record *record) {
    struct gone *gone = context;
    struct registry_key key = registry_key_read(record);
    struct registry_check check;
    if (key.kind == REGISTRY_KEY_INSTANCE &&
        registry_instance_decode(record_value(record), gone->arena, &gone->lost.instance)) {
        gone->lost.instance.service = key.service;
        gone->lost.instance.id = key.id;
        gone->lost.instance.token = record->create_revision;
        gone->is_found = true;
    } else if (key.kind == REGISTRY_KEY_CHECK &&
               registry_check_decode(record_value(record), gone->arena, &check) &&
               check.health > gone->lost.health) {
        gone->lost.health = check.health;
    }
    return true;
}

static enum status run_instance_ended(struct rule_run *run, struct bytes request,
                                      struct buffer *answer) {
    (void)request;
    (void)answer;
    struct registry_work work;
    struct lease_facts facts;
    enum lease_end reason;
    if (!rule_ended_lease(run, &facts, &reason)) {
        return STATUS_INVALID;
    }
    registry_work_init(&work, run);
    struct gone gone = {.arena = work.arena};
    rule_visit_ended_keys(run, note_gone, &gone);
    if (!gone.is_found) {
        return STATUS_OK;
    }
    struct registry_work_service *service =
        registry_work_service(&work, gone.lost.instance.service);
    if (service->service.n_live > 0) {
        service->service.n_live--;
    }
    registry_work_touch(service);
    if (reason == LEASE_END_EXPIRED && facts.class == REGISTRY_LEASE_INSTANCE) {
        registry_guard_lose(&work, service, &gone.lost);
    }
    registry_work_finish(&work);
    return STATUS_OK;
}

const struct rule registry_rule_instance_ended = {.number = REGISTRY_RULE_INSTANCE_ENDED,
                                                  .name = "registry instance ended",
                                                  .since_version = CLUSTER_VERSION_RULES,
                                                  .spaces = REGISTRY_RULE_SPACES,
                                                  .run = run_instance_ended};
