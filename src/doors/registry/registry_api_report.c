/* Reports of checks. A TTL check that is reported as it was is a renewal of its lease: no log
 * entry. All else is a rule. */
#include "doors/registry/registry_api_call.h"
#include "doors/registry/registry_api_request.h"
#include "registry/registry_keys.h"
#include "registry/registry_view.h"

#include <stdlib.h>
#include <string.h>

/* A call while its renewals are under way. Lives until the last of them is answered. */
struct reporting {
    struct grpc_call *call; /* NULL: the client is gone */
    struct registry_api *door;
    size_t n_waiting;   /* renewals, and one while they are begun */
    bool has_ended;     /* a lease was not there any more: the rule decides */
    enum status status; /* of one that failed; STATUS_OK: none */
    size_t message_size;
    uint8_t message[];
};

struct renewal {
    struct service_renewal service;
    struct reporting *reporting;
};

static void submit(struct grpc_call *call, struct bytes message, size_t first);

/* Large checks may be more work than one entry may do: then the rest follows. */
static void reported(struct leased_v1_call *waiting, const struct outcome *outcome) {
    struct registry_reported done;
    if (!registry_reported_decode(outcome->rule.answer, &done) || done.n_done == 0) {
        leased_v1_error_finish(waiting->call, registry_api_error_of(STATUS_CORRUPT));
        return;
    }
    submit(leased_v1_call_take(waiting), bytes_of(waiting->message, waiting->message_size),
           (size_t)waiting->number + done.n_done);
}

/* The reports of the message from the first of these on, by the rule. */
static void submit(struct grpc_call *call, struct bytes message, size_t first) {
    struct registry_api *door = registry_api_of(call);
    struct registry_report *reports = NULL;
    size_t n = 0;
    (void)registry_api_request_reports(message, &door->arena, &reports, &n);
    if (first >= n) {
        leased_v1_answer_finish(call, registry_api_answer_begin(door));
        return;
    }
    door->api.scratch.size = 0;
    registry_reports_encode(&door->api.scratch, reports + first, n - first);
    struct leased_v1_call *waiting =
        registry_api_call_run(call, REGISTRY_RULE_REPORT, &door->api.scratch, reported);
    if (waiting == NULL) {
        return;
    }
    waiting->number = (int64_t)first;
    if (!leased_v1_call_keep(waiting, message)) {
        leased_v1_error_finish(leased_v1_call_take(waiting),
                               registry_api_error_of(STATUS_NO_MEMORY));
    }
}

static void uncount(struct reporting *reporting) {
    reporting->n_waiting--;
    if (reporting->n_waiting > 0) {
        return;
    }
    struct grpc_call *call = reporting->call;
    if (call != NULL) {
        grpc_call_set_data(call, NULL);
        if (reporting->status != STATUS_OK) {
            leased_v1_error_finish(call, registry_api_error_of(reporting->status));
        } else if (reporting->has_ended) {
            submit(call, bytes_of(reporting->message, reporting->message_size), 0);
            arena_reset(&reporting->door->arena);
        } else {
            leased_v1_answer_finish(call, registry_api_answer_begin(reporting->door));
        }
    }
    free(reporting);
}

static void count(struct reporting *reporting, enum status status) {
    if (status == STATUS_LEASE_NOT_FOUND) {
        reporting->has_ended = true;
    } else if (status != STATUS_OK) {
        reporting->status = status;
    }
}

static void on_renewed(struct service_renewal *service_renewal, enum status status,
                       int64_t ttl_ms) {
    (void)ttl_ms;
    struct renewal *renewal = list_entry(service_renewal, struct renewal, service);
    struct reporting *reporting = renewal->reporting;
    free(renewal);
    count(reporting, status);
    uncount(reporting);
}

static void renew(struct reporting *reporting, int64_t lease_id) {
    struct renewal *renewal = malloc(sizeof *renewal);
    if (renewal == NULL) {
        count(reporting, STATUS_NO_MEMORY);
        return;
    }
    *renewal = (struct renewal){.reporting = reporting};
    renewal->service.id = lease_id;
    renewal->service.owner = KEY_SPACE_REGISTRY;
    renewal->service.done = on_renewed;
    int64_t ttl_ms = 0;
    enum status status = service_renew(reporting->door->service, grpc_call_caller(reporting->call),
                                       &renewal->service, &ttl_ms);
    if (status == STATUS_PENDING) {
        reporting->n_waiting++;
        return;
    }
    free(renewal);
    count(reporting, status);
}

/* The lease of a check that is reported as it is; 0: the report changes something, or nobody knows
 * here. What this member knows may be old: then the lease is not there any more. */
static int64_t lease_of(struct registry_api *door, const struct registry_report *report) {
    struct registry_entry entry;
    if (!registry_view_find(registry_api_keys(door), &door->arena, report->service, report->id,
                            &entry) ||
        entry.is_kept || (report->token != 0 && report->token != entry.instance.token)) {
        return 0;
    }
    for (size_t i = 0; i < entry.n_checks; i++) {
        const struct registry_check *check = &entry.checks[i];
        if (bytes_equal(check->id, report->check)) {
            bool is_same = check->kind == REGISTRY_CHECK_TTL && check->health == report->health &&
                           (report->keeps_output || bytes_equal(check->output, report->output));
            return is_same ? check->ttl_lease_id : 0;
        }
    }
    return 0;
}

/* The leases of all, or false: a report among them needs the rule. */
static bool find_leases(struct registry_api *door, const struct registry_report *reports, size_t n,
                        int64_t lease_ids[REGISTRY_REPORTS_MAX]) {
    for (size_t i = 0; i < n; i++) {
        lease_ids[i] = lease_of(door, &reports[i]);
        if (lease_ids[i] == 0) {
            return false;
        }
    }
    return true;
}

static void renew_all(struct grpc_call *call, struct bytes message, const int64_t *lease_ids,
                      size_t n) {
    struct reporting *reporting = malloc(sizeof *reporting + message.size);
    if (reporting == NULL) {
        leased_v1_error_finish(call, registry_api_error_of(STATUS_NO_MEMORY));
        return;
    }
    *reporting = (struct reporting){
        .call = call, .door = registry_api_of(call), .n_waiting = 1, .message_size = message.size};
    memcpy(reporting->message, message.data, message.size);
    grpc_call_set_data(call, reporting);
    for (size_t i = 0; i < n; i++) {
        renew(reporting, lease_ids[i]);
    }
    uncount(reporting);
}

static void on_report(struct grpc_call *call, struct bytes message) {
    struct registry_api *door = registry_api_of(call);
    struct registry_report *reports = NULL;
    size_t n = 0;
    int64_t lease_ids[REGISTRY_REPORTS_MAX];
    const struct leased_v1_error *error =
        registry_api_request_reports(message, &door->arena, &reports, &n);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
    } else {
        door->stats.reports += n;
        if (find_leases(door, reports, n, lease_ids)) {
            renew_all(call, message, lease_ids, n);
        } else {
            submit(call, message, 0);
        }
    }
    arena_reset(&door->arena);
}

/* What waits for the service is a reporting or a registry_api_call: both begin with the call. */
static void on_close(struct grpc_call *call) {
    struct grpc_call **waiting = grpc_call_data(call);
    if (waiting != NULL) {
        *waiting = NULL;
    }
}
_Static_assert(offsetof(struct reporting, call) == 0 && offsetof(struct leased_v1_call, call) == 0,
               "on_close() takes either");

static const struct grpc_method methods[] = {
    {.path = "/leased.v1.Registry/Report",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_report,
     .on_close = on_close},
};
const struct registry_api_methods registry_api_report_methods = {methods, sizeof methods /
                                                                              sizeof methods[0]};
