/* Pure: run by every replica when the command is applied, with the same result. */
#include "registry/registry_check_rules.h"

#include "core/cluster_version.h"
#include "registry/registry_estimate_rules.h"
#include "registry/registry_keys.h"
#include "registry/registry_request_model.h"
#include "registry/registry_text_model.h"

/* --- What is accepted. --- */

bool registry_check_is_acceptable(const struct registry_check *check) {
    return registry_check_is_valid(check) && check->ttl_lease_id == 0 &&
           check->deregister_lease_id == 0 &&
           registry_text_is_valid(check->output, REGISTRY_TEXT_SIZE_MAX);
}

bool registry_checks_are_acceptable(const struct registry_check *checks, size_t n) {
    bool are_valid = n <= REGISTRY_CHECKS_MAX;
    for (size_t i = 0; i < n && are_valid; i++) {
        are_valid = registry_check_is_acceptable(&checks[i]);
        for (size_t j = 0; j < i && are_valid; j++) {
            are_valid = !bytes_equal(checks[i].id, checks[j].id);
        }
    }
    return are_valid;
}

static void put_question(struct buffer *out, const struct registry_check *check) {
    struct registry_check question = *check;
    question.health = REGISTRY_PASSING;
    question.output = bytes_of(NULL, 0);
    question.changed_wall_ms = 0;
    question.ttl_lease_id = 0;
    question.deregister_lease_id = 0;
    registry_check_encode(out, &question);
}

bool registry_check_asks_the_same(const struct registry_check *a, const struct registry_check *b) {
    struct buffer first;
    struct buffer second;
    buffer_init(&first);
    buffer_init(&second);
    put_question(&first, a);
    put_question(&second, b);
    bool is_same =
        bytes_equal(bytes_of(first.data, first.size), bytes_of(second.data, second.size));
    buffer_clear(&first);
    buffer_clear(&second);
    return is_same;
}

/* --- Leases. --- */

/* A child of the instance's lease; 0: the run is refused. */
static int64_t grant(struct registry_work *work, const struct registry_instance *instance,
                     const struct registry_check *check, int64_t ttl_ms, uint32_t hook,
                     struct key_space_id owner) {
    const struct rule_lease lease = {.ttl_ms = ttl_ms,
                                     .parent_id = instance->lease_id,
                                     .class = REGISTRY_LEASE_CHECK,
                                     .owner = owner};
    const struct registry_delete_check name = {
        .service = instance->service, .id = instance->id, .check = check->id};
    struct buffer request;
    int64_t id = 0;
    buffer_init(&request);
    registry_delete_check_encode(&request, &name);
    enum status status = rule_lease_grant(work->run, &lease, &id);
    if (status == STATUS_OK) {
        status = rule_on_lease_end(work->run, id, hook, bytes_of(request.data, request.size));
    }
    buffer_clear(&request);
    return status == STATUS_OK ? id : 0;
}

/* Clients renew the lease of a TTL check; that of a critical one belongs to nobody. */
static void start_leases(struct registry_work *work, const struct registry_instance *instance,
                         struct registry_check *check) {
    bool is_critical = check->health == REGISTRY_CRITICAL;
    if (check->kind == REGISTRY_CHECK_TTL && !is_critical && check->ttl_lease_id == 0) {
        check->ttl_lease_id = grant(work, instance, check, check->ttl_ms,
                                    REGISTRY_RULE_CHECK_SILENT, KEY_SPACE_REGISTRY);
    }
    if (is_critical && check->deregister_after_ms > 0 && check->deregister_lease_id == 0) {
        check->deregister_lease_id =
            grant(work, instance, check, check->deregister_after_ms, REGISTRY_RULE_CHECK_CRITICAL,
                  KEY_SPACE_REGISTRY_RECORDS);
    }
}

static void end_lease(struct registry_work *work, int64_t *lease_id) {
    if (*lease_id != 0) {
        (void)rule_lease_end(work->run, *lease_id, LEASE_END_REVOKED);
        *lease_id = 0;
    }
}

void registry_check_put(struct registry_work *work, const struct registry_instance *instance,
                        const struct registry_check *check) {
    struct buffer value;
    buffer_init(&value);
    registry_check_encode(&value, check);
    (void)rule_put(work->run, KEY_SPACE_REGISTRY,
                   registry_key_check(work->arena, instance->service, instance->id, check->id),
                   bytes_of(value.data, value.size), instance->lease_id);
    buffer_clear(&value);
}

void registry_check_start(struct registry_work *work, const struct registry_instance *instance,
                          struct registry_check *check) {
    check->changed_wall_ms = rule_wall_ms(work->run);
    check->ttl_lease_id = 0;
    check->deregister_lease_id = 0;
    start_leases(work, instance, check);
    registry_check_put(work, instance, check);
}

/* --- One check of an instance that is there. --- */

static struct registry_check *find_check(struct registry_work_checks *checks, struct bytes id) {
    for (size_t i = 0; i < checks->n; i++) {
        if (bytes_equal(checks->at[i].id, id)) {
            return &checks->at[i];
        }
    }
    return NULL;
}

/* The checks have become as they are: the service changes, and the mirror if the health does. */
static void checks_changed(struct registry_work *work, struct registry_instance *instance,
                           enum registry_health before, const struct registry_work_checks *checks) {
    enum registry_health after = registry_checks_health(checks->at, checks->n);
    if (after != before) {
        registry_work_put(work, instance, instance->lease_id, after);
    }
    registry_work_touch(registry_work_service(work, instance->service));
}

/* --- Put. --- */

static enum status put_check(struct registry_work *work, const struct registry_put_check *request) {
    struct registry_instance instance;
    if (!registry_work_find(work, request->service, request->id, &instance)) {
        return STATUS_KEY_NOT_FOUND;
    }
    struct registry_work_checks *checks = registry_work_checks(work, request->service, request->id);
    enum registry_health before = registry_checks_health(checks->at, checks->n);
    struct registry_check *check = find_check(checks, request->check.id);
    if (check != NULL) {
        end_lease(work, &check->ttl_lease_id);
        end_lease(work, &check->deregister_lease_id);
    } else if (checks->n < REGISTRY_CHECKS_MAX) {
        check = &checks->at[checks->n++];
    } else {
        return STATUS_TOO_MANY_REQUESTS;
    }
    *check = request->check;
    registry_check_start(work, &instance, check);
    checks_changed(work, &instance, before, checks);
    registry_work_finish(work);
    return STATUS_OK;
}

static enum status run_put_check(struct rule_run *run, struct bytes bytes, struct buffer *answer) {
    (void)answer;
    struct registry_work work;
    struct registry_put_check request;
    registry_work_init(&work, run);
    if (!registry_put_check_decode(bytes, work.arena, &request)) {
        return STATUS_MALFORMED;
    }
    if (!registry_name_is_valid(request.service) || !registry_name_is_valid(request.id) ||
        !registry_check_is_acceptable(&request.check)) {
        return STATUS_INVALID;
    }
    return registry_work_may(&work, request.service) ? put_check(&work, &request)
                                                     : STATUS_PERMISSION_DENIED;
}

const struct rule registry_rule_put_check = {.number = REGISTRY_RULE_PUT_CHECK,
                                             .name = "registry put check",
                                             .since_version = CLUSTER_VERSION_RULES,
                                             .spaces = REGISTRY_RULE_SPACES,
                                             .run = run_put_check,
                                             .estimate = registry_estimate_change};

/* --- Delete. --- */

static enum status delete_check(struct registry_work *work,
                                const struct registry_delete_check *request) {
    struct registry_instance instance;
    if (!registry_work_find(work, request->service, request->id, &instance)) {
        return STATUS_KEY_NOT_FOUND;
    }
    struct registry_work_checks *checks = registry_work_checks(work, request->service, request->id);
    enum registry_health before = registry_checks_health(checks->at, checks->n);
    struct registry_check *check = find_check(checks, request->check);
    if (check == NULL) {
        return STATUS_KEY_NOT_FOUND;
    }
    end_lease(work, &check->ttl_lease_id);
    end_lease(work, &check->deregister_lease_id);
    rule_delete(work->run, KEY_SPACE_REGISTRY,
                registry_key_check(work->arena, instance.service, instance.id, check->id));
    *check = checks->at[--checks->n];
    checks_changed(work, &instance, before, checks);
    registry_work_finish(work);
    return STATUS_OK;
}

static enum status run_delete_check(struct rule_run *run, struct bytes bytes,
                                    struct buffer *answer) {
    (void)answer;
    struct registry_work work;
    struct registry_delete_check request;
    registry_work_init(&work, run);
    if (!registry_delete_check_decode(bytes, &request)) {
        return STATUS_MALFORMED;
    }
    if (!registry_name_is_valid(request.service) || !registry_name_is_valid(request.id) ||
        !registry_name_is_valid(request.check)) {
        return STATUS_INVALID;
    }
    return registry_work_may(&work, request.service) ? delete_check(&work, &request)
                                                     : STATUS_PERMISSION_DENIED;
}

const struct rule registry_rule_delete_check = {.number = REGISTRY_RULE_DELETE_CHECK,
                                                .name = "registry delete check",
                                                .since_version = CLUSTER_VERSION_RULES,
                                                .spaces = REGISTRY_RULE_SPACES,
                                                .run = run_delete_check,
                                                .runs_when_full = true,
                                                .estimate = registry_estimate_change};

/* --- Report. --- */

/* Renews the lease of a TTL check that goes on passing, and starts and ends what its new health
 * needs. True: the check is another than it was. */
static bool take_report(struct registry_work *work, const struct registry_instance *instance,
                        struct registry_check *check, const struct registry_report *report) {
    int64_t ttl_lease_id = check->ttl_lease_id;
    int64_t deregister_lease_id = check->deregister_lease_id;
    bool is_other = check->health != report->health;
    if (is_other) {
        check->health = report->health;
        check->changed_wall_ms = rule_wall_ms(work->run);
    }
    if (!report->keeps_output && !bytes_equal(check->output, report->output)) {
        check->output = report->output;
        is_other = true;
    }
    if (report->health == REGISTRY_CRITICAL) {
        end_lease(work, &check->ttl_lease_id);
    } else {
        end_lease(work, &check->deregister_lease_id);
        if (check->ttl_lease_id != 0 &&
            rule_lease_set_ttl(work->run, check->ttl_lease_id, check->ttl_ms) != STATUS_OK) {
            check->ttl_lease_id = 0;
        }
    }
    start_leases(work, instance, check);
    return is_other || ttl_lease_id != check->ttl_lease_id ||
           deregister_lease_id != check->deregister_lease_id;
}

/* False: there is no such check. */
static bool report_one(struct registry_work *work, const struct registry_report *report) {
    struct registry_instance instance;
    if (registry_work_find_token(work, report->service, report->id, report->token, &instance) !=
        STATUS_OK) {
        return false;
    }
    struct registry_work_checks *checks = registry_work_checks(work, report->service, report->id);
    enum registry_health before = registry_checks_health(checks->at, checks->n);
    struct registry_check *check = find_check(checks, report->check);
    if (check == NULL) {
        return false;
    }
    if (take_report(work, &instance, check, report)) {
        registry_check_put(work, &instance, check);
        checks_changed(work, &instance, before, checks);
    }
    return true;
}

/* One report reads an instance with all its checks and writes at most an instance, its mirror and a
 * check, three leases with hooks, and what its service needs. */
static bool has_room(const struct registry_work *work) {
    enum { RECORDS = 256, CHANGES = 64 };
    return rule_bytes_left(work->run) >= 6 * (size_t)REGISTRY_INSTANCE_SIZE_MAX &&
           rule_records_left(work->run) >= RECORDS && rule_changes_left(work->run) >= CHANGES;
}

static bool are_named(const struct registry_report *reports, size_t n) {
    bool are_named = true;
    for (size_t i = 0; i < n && are_named; i++) {
        are_named = registry_name_is_valid(reports[i].service) &&
                    registry_name_is_valid(reports[i].id) &&
                    registry_name_is_valid(reports[i].check) &&
                    registry_text_is_valid(reports[i].output, REGISTRY_TEXT_SIZE_MAX);
    }
    return are_named;
}

/* To all services, before the first change. */
static bool may_report(struct registry_work *work, const struct registry_report *reports,
                       size_t n) {
    bool may = true;
    for (size_t i = 0; i < n && may; i++) {
        struct key_range range = registry_service_range(work->arena, reports[i].service);
        may = (i > 0 && bytes_equal(reports[i].service, reports[i - 1].service)) ||
              rule_may(work->run, RIGHT_WRITE, &range);
    }
    if (may) {
        rule_act_for_server(work->run);
    }
    return may;
}

static enum status run_report(struct rule_run *run, struct bytes bytes, struct buffer *answer) {
    struct registry_work work;
    const struct registry_report *reports;
    struct registry_reported reported = {0};
    size_t n;
    registry_work_init(&work, run);
    if (!registry_reports_decode(bytes, work.arena, &reports, &n)) {
        return STATUS_MALFORMED;
    }
    if (!are_named(reports, n)) {
        return STATUS_INVALID;
    }
    if (!may_report(&work, reports, n)) {
        return STATUS_PERMISSION_DENIED;
    }
    while (reported.n_done < n && has_room(&work)) {
        reported.n_found += report_one(&work, &reports[reported.n_done]);
        reported.n_done++;
    }
    registry_work_finish(&work);
    registry_reported_encode(answer, &reported);
    return reported.n_found > 0 || reported.n_done < n ? STATUS_OK : STATUS_KEY_NOT_FOUND;
}

const struct rule registry_rule_report = {.number = REGISTRY_RULE_REPORT,
                                          .name = "registry report",
                                          .since_version = CLUSTER_VERSION_RULES,
                                          .spaces = REGISTRY_RULE_SPACES,
                                          .run = run_report,
                                          .estimate = registry_estimate_reports};

/* --- When time is up. --- */

/* The check whose lease has ended by itself, in a hook; NULL: it is none any more, or another. */
static struct registry_check *find_ended(struct registry_work *work, struct bytes request,
                                         struct registry_instance *instance,
                                         struct registry_work_checks **out_checks,
                                         int64_t *out_lease_id) {
    struct registry_delete_check name;
    struct lease_facts facts;
    enum lease_end reason;
    if (!rule_ended_lease(work->run, &facts, &reason) || reason != LEASE_END_EXPIRED ||
        !registry_delete_check_decode(request, &name) ||
        !registry_work_find(work, name.service, name.id, instance)) {
        return NULL;
    }
    *out_lease_id = facts.id;
    *out_checks = registry_work_checks(work, name.service, name.id);
    return find_check(*out_checks, name.check);
}

static enum status run_check_silent(struct rule_run *run, struct bytes request,
                                    struct buffer *answer) {
    (void)answer;
    struct registry_work work;
    struct registry_instance instance;
    struct registry_work_checks *checks = NULL;
    int64_t lease_id = 0;
    registry_work_init(&work, run);
    struct registry_check *check = find_ended(&work, request, &instance, &checks, &lease_id);
    if (check == NULL || check->ttl_lease_id != lease_id) {
        return STATUS_OK;
    }
    enum registry_health before = registry_checks_health(checks->at, checks->n);
    check->health = REGISTRY_CRITICAL;
    check->output = bytes_from_text("TTL expired");
    check->changed_wall_ms = rule_wall_ms(run);
    check->ttl_lease_id = 0;
    start_leases(&work, &instance, check);
    registry_check_put(&work, &instance, check);
    checks_changed(&work, &instance, before, checks);
    registry_work_finish(&work);
    return STATUS_OK;
}

const struct rule registry_rule_check_silent = {.number = REGISTRY_RULE_CHECK_SILENT,
                                                .name = "registry check silent",
                                                .since_version = CLUSTER_VERSION_RULES,
                                                .spaces = REGISTRY_RULE_SPACES,
                                                .run = run_check_silent};

static enum status run_check_critical(struct rule_run *run, struct bytes request,
                                      struct buffer *answer) {
    (void)answer;
    struct registry_work work;
    struct registry_instance instance;
    struct registry_work_checks *checks = NULL;
    int64_t lease_id = 0;
    registry_work_init(&work, run);
    struct registry_check *check = find_ended(&work, request, &instance, &checks, &lease_id);
    if (check == NULL || check->deregister_lease_id != lease_id) {
        return STATUS_OK;
    }
    struct registry_work_service *service = registry_work_service(&work, instance.service);
    registry_work_tell(&work, REGISTRY_EVENT_DEREGISTERED, &service->service, instance.id);
    return rule_lease_end(run, instance.lease_id, LEASE_END_REVOKED);
}

const struct rule registry_rule_check_critical = {.number = REGISTRY_RULE_CHECK_CRITICAL,
                                                  .name = "registry check critical",
                                                  .since_version = CLUSTER_VERSION_RULES,
                                                  .spaces = REGISTRY_RULE_SPACES,
                                                  .run = run_check_critical};
