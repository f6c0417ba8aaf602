/* Who runs checks: a key for each member, attached to a lease that the member renews. */
#include "checks/check_runner_internal.h"

#include "base/log.h"

enum { RETRY_MS = 500, RENEW_MS = CHECK_RUNNER_TTL_MS / 3 };

static bool deliver(struct service_watch *watch, const struct watch_batch *batch) {
    struct check_runner *runner = list_entry(watch, struct check_runner, members_watch);
    (void)batch;
    runner->members_changed = true;
    check_runner_wake(runner, check_runner_now(runner));
    return true;
}

static void compacted(struct service_watch *watch, int64_t compacted_revision) {
    struct check_runner *runner = list_entry(watch, struct check_runner, members_watch);
    (void)compacted_revision;
    runner->is_watching_members = false;
    check_runner_wake(runner, check_runner_now(runner) + RETRY_MS);
}

static void revoked(struct service_watch *watch, enum status status) {
    (void)status;
    compacted(watch, 0);
}

void check_members_init(struct check_runner *runner) {
    runner->members_watch =
        (struct service_watch){.deliver = deliver, .compacted = compacted, .revoked = revoked};
}

static uint64_t own_id(struct check_runner *runner) {
    struct service_info info;
    service_info(runner->service, &info);
    return info.member_id;
}

/* ---- the set ---- */

static bool add_runner(void *context, const struct record *record) {
    struct check_shares *shares = context;
    shares->runners[shares->n++] = check_shares_hash(record_key(record));
    return shares->n < CHECK_RUNNERS_MAX;
}

static bool is_same_set(const struct check_shares *a, const struct check_shares *b) {
    return a->n == b->n && a->own == b->own &&
           memcmp(a->runners, b->runners, a->n * sizeof a->runners[0]) == 0;
}

static void read_members(struct check_runner *runner) {
    struct key_range range = registry_records('r');
    struct check_shares shares = {0};
    struct bytes own = registry_key_runner(&runner->arena, own_id(runner));
    shares.own = check_shares_hash(own);
    (void)key_store_visit(check_runner_keys(runner), range.space, range.key, range.range_end,
                          add_runner, &shares);
    if (!is_same_set(&shares, &runner->shares)) {
        runner->shares = shares;
        if (shares.n > 0) {
            log_info("health checks are shared anew", LOG_NUMBER("members", shares.n));
        }
        check_follow_rescan(runner);
    }
}

static void watch_members(struct check_runner *runner) {
    const struct service_watch_options options = {.range = registry_records('r')};
    runner->is_watching_members = service_watch(runner->service, &caller_server,
                                                &runner->members_watch, &options) == STATUS_OK;
    runner->members_changed = true;
}

/* ---- our own key ---- */

static void entered(struct service_request *request, const struct outcome *outcome) {
    struct check_runner *runner = list_entry(request, struct check_runner, member_request);
    uint64_t now_ms = check_runner_now(runner);
    runner->is_member_requested = false;
    runner->next_member_ms = now_ms + RETRY_MS;
    if (outcome->status == STATUS_OK) {
        struct reader reader;
        reader_init(&reader, outcome->rule.answer);
        runner->lease_id = reader_get_zigzag(&reader);
        runner->next_member_ms = now_ms + RENEW_MS;
    }
    check_runner_wake(runner, runner->next_member_ms);
}

static void enter(struct check_runner *runner) {
    struct buffer request;
    buffer_init(&request);
    const struct registry_runner member = {.member_id = own_id(runner),
                                           .ttl_ms = CHECK_RUNNER_TTL_MS};
    registry_runner_encode(&request, &member);
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = REGISTRY_RULE_RUNNER, .request = bytes_of(request.data, request.size)}};
    runner->is_member_requested = true;
    runner->member_request.done = entered;
    service_submit(runner->service, &caller_server, &runner->member_request, &command);
    buffer_clear(&request);
}

static void renewal_answered(struct check_runner *runner, enum status status) {
    uint64_t now_ms = check_runner_now(runner);
    runner->is_renewing = false;
    runner->next_member_ms = now_ms + (status == STATUS_OK ? RENEW_MS : RETRY_MS);
    if (status == STATUS_LEASE_NOT_FOUND) {
        runner->lease_id = 0;
        runner->next_member_ms = now_ms;
    }
    check_runner_wake(runner, runner->next_member_ms);
}

static void renewed(struct service_renewal *renewal, enum status status, int64_t ttl_ms) {
    (void)ttl_ms;
    renewal_answered(list_entry(renewal, struct check_runner, renewal), status);
}

static void renew(struct check_runner *runner) {
    int64_t ttl_ms = 0;
    runner->is_renewing = true;
    runner->renewal.id = runner->lease_id;
    runner->renewal.owner = KEY_SPACE_REGISTRY;
    runner->renewal.done = renewed;
    enum status status = service_renew(runner->service, &caller_server, &runner->renewal, &ttl_ms);
    if (status != STATUS_PENDING) {
        renewal_answered(runner, status);
    }
}

void check_members_poll(struct check_runner *runner) {
    uint64_t now_ms = check_runner_now(runner);
    if (!runner->is_watching_members) {
        watch_members(runner);
    }
    if (runner->members_changed) {
        runner->members_changed = false;
        read_members(runner);
    }
    /* Where there is nothing to run nothing is written: a server that is used for something else
     * has no revisions of ours. */
    bool is_asking = runner->is_member_requested || runner->is_renewing || !runner->is_needed;
    if (!is_asking && now_ms >= runner->next_member_ms) {
        if (runner->lease_id == 0) {
            enter(runner);
        } else {
            renew(runner);
        }
    }
    is_asking = runner->is_member_requested || runner->is_renewing;
    if (!is_asking && runner->is_needed) {
        check_runner_wake(runner, runner->next_member_ms);
    }
}
