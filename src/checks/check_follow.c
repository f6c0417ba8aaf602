/* Which checks there are: a watch of the registry's records, and scans of them in small portions
 * when the watch is new, or when the shares have changed. */
#include "checks/check_runner_internal.h"

#include <assert.h>

enum {
    SCAN_RECORDS = 512,
    RETRY_MS = 500,
    FIRST_MS_MAX = 1000,
    TIMEOUT_MS_MAX = 10000,
    ALIAS_PAUSE_MS = 50, /* a service may change often */
    ALIASES_WOKEN = 2048 /* in one iteration of the loop: a service may have any number */
};

static bool is_run(uint8_t kind) {
    return check_probe_kind_of(kind) != NULL || kind == REGISTRY_CHECK_ALIAS;
}

/* ---- one record ---- */

static int64_t interval_of(const struct registry_check *check) {
    int64_t fallback = TIMEOUT_MS_MAX;
    return check->interval_ms > 0 ? check->interval_ms : fallback;
}

static int64_t timeout_of(const struct registry_check *check) {
    int64_t interval_ms = interval_of(check);
    int64_t longest_ms = interval_ms < TIMEOUT_MS_MAX ? interval_ms : TIMEOUT_MS_MAX;
    return check->timeout_ms > 0 ? check->timeout_ms : longest_ms;
}

/* The definition is what was registered, without what came of it. */
static void encode_definition(struct buffer *out, const struct registry_check *check) {
    struct registry_check plain = *check;
    plain.health = REGISTRY_PASSING;
    plain.output = bytes_of("", 0);
    plain.changed_wall_ms = 0;
    plain.ttl_lease_id = 0;
    plain.deregister_lease_id = 0;
    registry_check_encode(out, &plain);
}

void check_follow_decode(struct check_runner *runner, const struct check_job *job,
                         struct registry_check *out_check) {
    bool is_good = registry_check_decode(bytes_of(job->definition.data, job->definition.size),
                                         &runner->arena, out_check);
    assert(is_good); /* it was encoded here */
    out_check->id = job->check;
}

static void point_into_key(struct check_job *job, const struct registry_key *key,
                           const struct record *record) {
    const uint8_t *from = record_key(record).data;
    const uint8_t *to = job->key.data;
    job->service = bytes_of(to + (key->service.data - from), key->service.size);
    job->id = bytes_of(to + (key->id.data - from), key->id.size);
    job->check = bytes_of(to + (key->check.data - from), key->check.size);
}

/* The first run: soon for one that has no result yet, else at any time of the interval, the same
 * for the same check, so that checks are spread evenly however they came. */
static uint64_t first_due(struct check_runner *runner, const struct check_job *job, bool is_new) {
    uint64_t span = (uint64_t)job->interval_ms;
    if (is_new && span > FIRST_MS_MAX) {
        span = FIRST_MS_MAX;
    }
    return check_runner_now(runner) + job->hash % (span > 0 ? span : 1);
}

static void define(struct check_runner *runner, struct check_job *job,
                   const struct registry_check *check, const struct buffer *definition) {
    job->definition.size = 0;
    buffer_append(&job->definition, definition->data, definition->size);
    job->kind = check->kind;
    job->interval_ms = interval_of(check);
    job->timeout_ms = timeout_of(check);
    job->thresholds = (struct check_thresholds){.rises = check->rises, .falls = check->falls};
    check_aliases_remove(&runner->aliases, job);
    if (job->kind == REGISTRY_CHECK_ALIAS) {
        check_aliases_add(&runner->aliases, job, check->alias_service);
    }
}

/* What the log says is what is in effect: somebody else may have reported. */
static void take_record(struct check_job *job, const struct registry_check *check) {
    job->recorded_health = check->health;
    job->has_recorded_output = check->output.size > 0;
    if (!job->has_recorded_output) {
        job->state = (struct check_state){.health = check->health};
    } else if (!job->state.is_known || (list_is_empty(&job->in_reports) && !job->is_reporting &&
                                        job->state.health != check->health)) {
        job->state = (struct check_state){.health = check->health, .is_known = true};
    }
}

void check_runner_drop(struct check_runner *runner, struct check_job *job) {
    check_runner_stop(runner, job);
    list_remove(&job->in_reports);
    check_aliases_remove(&runner->aliases, job);
    check_jobs_remove(&runner->jobs, job);
}

static void begin(struct check_runner *runner, struct check_job *job, bool is_new) {
    check_runner_stop(runner, job);
    list_remove(&job->in_reports);
    job->due_ms = first_due(runner, job, is_new);
    check_jobs_arm(&runner->jobs, job, job->due_ms);
    check_runner_wake(runner, job->due_ms);
}

static void upsert(struct check_runner *runner, const struct record *record,
                   const struct registry_key *key, const struct registry_check *check,
                   uint64_t hash) {
    struct check_job *job = check_jobs_find(&runner->jobs, record_key(record));
    struct buffer definition;
    bool is_added = job == NULL;
    buffer_init(&definition);
    encode_definition(&definition, check);
    if (is_added) {
        job = check_jobs_add(&runner->jobs, record_key(record));
        job->runner = runner;
        job->hash = hash;
        point_into_key(job, key, record);
    }
    bool is_changed =
        is_added || !bytes_equal(bytes_of(definition.data, definition.size),
                                 bytes_of(job->definition.data, job->definition.size));
    if (is_changed) {
        job->state = (struct check_state){0};
        define(runner, job, check, &definition);
    }
    bool was_known = job->state.is_known;
    take_record(job, check);
    job->round = runner->round;
    if (is_changed || (was_known && !job->state.is_known)) {
        begin(runner, job, !job->state.is_known);
    }
    buffer_clear(&definition);
}

static void look_at_record(struct check_runner *runner, const struct record *record) {
    struct registry_key key = registry_key_read(record);
    if (key.kind != REGISTRY_KEY_CHECK) {
        return;
    }
    struct registry_check check;
    uint64_t hash = check_shares_hash(record_key(record));
    bool is_ours = check_shares_is_own(&runner->shares, hash);
    bool matters = (is_ours || !runner->is_needed) && !record_is_tombstone(record) &&
                   registry_check_decode(record_value(record), &runner->arena, &check) &&
                   is_run(check.kind);
    if (matters && !runner->is_needed) {
        runner->is_needed = true;
        check_runner_wake(runner, check_runner_now(runner));
    }
    if (is_ours && matters) {
        upsert(runner, record, &key, &check, hash);
    } else {
        struct check_job *job = check_jobs_find(&runner->jobs, record_key(record));
        if (job != NULL) {
            check_runner_drop(runner, job);
        }
    }
}

/* ---- the watch ---- */

/* Those that are as instances of the service are have to look again. */
static void touch_aliases(struct check_runner *runner, const struct record *record) {
    if (check_aliases_touch(&runner->aliases, registry_key_read(record).service)) {
        check_runner_wake(runner, check_runner_now(runner));
    }
}

static void wake_alias(struct check_runner *runner, struct check_job *job) {
    uint64_t now_ms = check_runner_now(runner);
    uint64_t soonest_ms = job->started_ms + ALIAS_PAUSE_MS;
    uint64_t due_ms = now_ms > soonest_ms ? now_ms : soonest_ms;
    if (due_ms < job->due_ms) {
        job->due_ms = due_ms;
        check_jobs_arm(&runner->jobs, job, due_ms);
        check_runner_wake(runner, due_ms);
    }
}

static void wake_aliases(struct check_runner *runner) {
    struct check_job *job = NULL;
    size_t n = 0;
    while (n < ALIASES_WOKEN && (job = check_aliases_next(&runner->aliases)) != NULL) {
        wake_alias(runner, job);
        n++;
    }
    if (n == ALIASES_WOKEN) {
        check_runner_wake(runner, check_runner_now(runner));
    }
}

static bool deliver(struct service_watch *watch, const struct watch_batch *batch) {
    struct check_runner *runner = list_entry(watch, struct check_runner, watch);
    for (size_t i = 0; i < batch->n_events; i++) {
        look_at_record(runner, batch->events[i]);
        touch_aliases(runner, batch->events[i]);
        arena_reset(&runner->arena);
    }
    return true;
}

static void compacted(struct service_watch *watch, int64_t compacted_revision) {
    struct check_runner *runner = list_entry(watch, struct check_runner, watch);
    (void)compacted_revision;
    runner->is_watching = false;
    check_runner_wake(runner, check_runner_now(runner) + RETRY_MS);
}

static void revoked(struct service_watch *watch, enum status status) {
    (void)status;
    compacted(watch, 0);
}

void check_follow_init(struct check_runner *runner) {
    runner->watch =
        (struct service_watch){.deliver = deliver, .compacted = compacted, .revoked = revoked};
    buffer_init(&runner->scan_key);
    check_aliases_init(&runner->aliases);
}

/* ---- scans ---- */

void check_follow_rescan(struct check_runner *runner) {
    runner->round++;
    runner->is_scanning = true;
    runner->scan_key.size = 0;
    runner->stats.scans++;
    check_runner_wake(runner, check_runner_now(runner));
}

struct scan {
    struct check_runner *runner;
    size_t n;
};

static bool scan_record(void *context, const struct record *record) {
    struct scan *scan = context;
    struct buffer *place = &scan->runner->scan_key;
    if (scan->n++ == SCAN_RECORDS) {
        place->size = 0;
        buffer_append(place, record_key(record).data, record_key(record).size);
        return false;
    }
    look_at_record(scan->runner, record);
    return true;
}

/* Those that were not seen are gone, or another member's by now. */
static void drop_unseen(struct check_runner *runner) {
    for (size_t i = 0; i < runner->jobs.n_handles; i++) {
        struct check_job *job = runner->jobs.jobs[i];
        if (job != NULL && job->round != runner->round) {
            check_runner_drop(runner, job);
        }
    }
}

static void scan_portion(struct check_runner *runner) {
    struct scan scan = {.runner = runner};
    struct key_range range = registry_prefix_range(&runner->arena, bytes_of("", 0));
    struct bytes from = runner->scan_key.size > 0
                            ? bytes_of(runner->scan_key.data, runner->scan_key.size)
                            : range.key;
    (void)key_store_visit(check_runner_keys(runner), range.space, from, range.range_end,
                          scan_record, &scan);
    if (scan.n <= SCAN_RECORDS) {
        runner->is_scanning = false;
        drop_unseen(runner);
    } else {
        check_runner_wake(runner, check_runner_now(runner));
    }
}

void check_follow_poll(struct check_runner *runner) {
    if (!runner->is_watching) {
        const struct service_watch_options options = {
            .range = registry_prefix_range(&runner->arena, bytes_of("", 0))};
        runner->is_watching =
            service_watch(runner->service, &caller_server, &runner->watch, &options) == STATUS_OK;
        check_follow_rescan(runner);
        check_runner_wake(runner, check_runner_now(runner) + RETRY_MS);
    }
    if (runner->is_scanning) {
        scan_portion(runner);
    }
    wake_aliases(runner);
}
