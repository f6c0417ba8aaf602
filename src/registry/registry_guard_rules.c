/* Pure: run by every replica when the command is applied, with the same result. */
#include "registry/registry_guard_rules.h"

#include "core/cluster_version.h"
#include "registry/registry_keys.h"

static const struct bytes nothing = {0};

/* Records that share a lease: ending one is little work. */
enum { KEPT_MAX = 256 };

static void count_down(uint32_t *count) {
    if (*count > 0) {
        (*count)--;
    }
}

/* --- On and off. --- */

/* Whether so many are lost that it is not believed. */
static bool is_mass_failure(const struct registry_service *service) {
    struct registry_service_settings settings = registry_service_settings(service);
    uint64_t lost = service->n_lost;
    uint64_t all = lost + service->n_live;
    return settings.guard_percent <= 100 && lost >= settings.guard_minimum &&
           lost * 100 >= settings.guard_percent * all;
}

/* Whether so many are back, or gone for good, that the rest is believed. */
static bool is_over(const struct registry_service *service) {
    struct registry_service_settings settings = registry_service_settings(service);
    uint64_t lost = service->n_lost;
    uint64_t all = lost + service->n_live;
    return settings.guard_percent > 100 || lost == 0 ||
           lost * 100 * 2 < settings.guard_percent * all;
}

static void switch_on(struct registry_work *work, struct registry_service *service) {
    const struct rule_lease lease = {.ttl_ms = registry_service_settings(service).guard_hold_ms,
                                     .class = REGISTRY_LEASE_GUARD,
                                     .owner = KEY_SPACE_REGISTRY_RECORDS};
    int64_t id = 0;
    if (rule_lease_grant(work->run, &lease, &id) != STATUS_OK ||
        rule_on_lease_end(work->run, id, REGISTRY_RULE_GUARD_ENDED, service->name) != STATUS_OK) {
        return;
    }
    service->guard_lease_id = id;
    service->guard_wall_ms = rule_wall_ms(work->run);
    service->n_guarded++;
    registry_work_tell(work, REGISTRY_EVENT_GUARD_ON, service, nothing);
}

static void switch_off(struct registry_work *work, struct registry_work_service *at) {
    struct registry_service *service = &at->service;
    registry_work_tell(work, REGISTRY_EVENT_GUARD_OFF, service, nothing);
    service->guard_lease_id = 0;
    service->guard_wall_ms = 0;
    service->kept_lease_id = 0;
    service->n_lost = 0;
    service->round++;
    registry_work_touch(at);
}

void registry_guard_settle(struct registry_work *work, struct registry_work_service *service) {
    int64_t lease_id = service->service.guard_lease_id;
    if (lease_id != 0 && is_over(&service->service)) {
        switch_off(work, service);
        /* Its hook finds another lease in the record, or none, and does nothing. */
        (void)rule_lease_end(work->run, lease_id, LEASE_END_REVOKED);
    }
}

/* --- Records of lost instances. --- */

/* The lease could be granted unless the run is refused anyway: its time is one of the settings. */
static void put_lost(struct registry_work *work, const struct registry_service *service,
                     struct bytes id, struct bytes value, int64_t lease_id) {
    (void)rule_put(work->run, KEY_SPACE_REGISTRY, registry_key_lost(work->arena, service->name, id),
                   value, lease_id);
    registry_work_put_index(work, service->name, id, lease_id);
}

/* A lease for one of them; 0: the run is refused. */
static int64_t grant_window(struct registry_work *work, const struct registry_service *service) {
    const struct rule_lease lease = {.ttl_ms = registry_service_settings(service).guard_window_ms,
                                     .class = REGISTRY_LEASE_WINDOW,
                                     .owner = KEY_SPACE_REGISTRY_RECORDS};
    int64_t id = 0;
    return rule_lease_grant(work->run, &lease, &id) == STATUS_OK &&
                   rule_on_lease_end(work->run, id, REGISTRY_RULE_LOST_ENDED, service->name) ==
                       STATUS_OK
               ? id
               : 0;
}

/* The lease that the kept ones share, or another one when it is full. It lasts longer than the
 * guard, which began before it. */
static int64_t find_kept_lease(struct registry_work *work, struct registry_service *service) {
    struct lease_facts facts;
    if (service->kept_lease_id != 0 && rule_lease_find(work->run, service->kept_lease_id, &facts) &&
        rule_lease_key_count(work->run, service->kept_lease_id) < 2 * KEPT_MAX) {
        return service->kept_lease_id;
    }
    const struct rule_lease lease = {.ttl_ms = 2 * registry_service_settings(service).guard_hold_ms,
                                     .class = REGISTRY_LEASE_KEPT,
                                     .owner = KEY_SPACE_REGISTRY_RECORDS};
    int64_t id = 0;
    if (rule_lease_grant(work->run, &lease, &id) != STATUS_OK ||
        rule_on_lease_end(work->run, id, REGISTRY_RULE_LOST_ENDED, service->name) != STATUS_OK) {
        return 0;
    }
    service->kept_lease_id = id;
    return id;
}

static const struct record *find_lost(struct registry_work *work,
                                      const struct registry_service *service, struct bytes id,
                                      struct registry_lost *out_lost) {
    const struct record *record =
        rule_get(work->run, KEY_SPACE_REGISTRY, registry_key_lost(work->arena, service->name, id));
    return record != NULL && registry_lost_decode(record_value(record), work->arena, out_lost)
               ? record
               : NULL;
}

bool registry_guard_keeps(struct registry_work *work, struct registry_work_service *service,
                          struct bytes id, int64_t *out_token) {
    struct registry_lost lost;
    if (service->service.guard_lease_id == 0 ||
        find_lost(work, &service->service, id, &lost) == NULL ||
        lost.round != service->service.round) {
        return false;
    }
    *out_token = lost.instance.token;
    return true;
}

bool registry_guard_forget(struct registry_work *work, struct registry_work_service *service,
                           struct bytes id) {
    struct registry_lost lost;
    struct lease_facts facts;
    struct bytes name = service->service.name;
    const struct record *record = find_lost(work, &service->service, id, &lost);
    if (record == NULL) {
        return false;
    }
    if (lost.round == service->service.round) {
        count_down(&service->service.n_lost);
    }
    count_down(&service->service.n_tombstones);
    registry_work_touch(service);
    if (rule_lease_find(work->run, record->lease_id, &facts) &&
        facts.class == REGISTRY_LEASE_WINDOW) {
        (void)rule_lease_end(work->run, facts.id, LEASE_END_REVOKED);
    } else {
        rule_delete(work->run, KEY_SPACE_REGISTRY, registry_key_lost(work->arena, name, id));
        rule_delete(work->run, KEY_SPACE_REGISTRY_RECORDS,
                    registry_key_index(work->arena, id, name));
    }
    return true;
}

void registry_guard_lose(struct registry_work *work, struct registry_work_service *at,
                         const struct registry_lost *lost) {
    struct registry_service *service = &at->service;
    struct registry_lost written = *lost;
    struct buffer value;
    bool is_on = service->guard_lease_id != 0;
    (void)registry_guard_forget(work, at, lost->instance.id);
    written.round = service->round;
    buffer_init(&value);
    registry_lost_encode(&value, &written);
    put_lost(work, service, lost->instance.id, bytes_of(value.data, value.size),
             is_on ? find_kept_lease(work, service) : grant_window(work, service));
    buffer_clear(&value);
    service->n_lost++;
    service->n_tombstones++;
    registry_work_touch(at);
    /* While it is on, thousands may follow: its own event must not be lost among them. */
    if (!is_on) {
        registry_work_tell(work, REGISTRY_EVENT_LOST, service, lost->instance.id);
    }
    if (!is_on && is_mass_failure(service)) {
        switch_on(work, service);
    }
}

/* --- When a window, or a lease that several share, has ended. --- */

struct ended {
    struct registry_work *work;
    struct registry_work_service *service;
    bool is_window;
};

/* The only record of its lease goes on to one that many share. */
static void keep_on(struct registry_work *work, struct registry_service *service,
                    const struct record *record) {
    put_lost(work, service, registry_key_read(record).id, record_value(record),
             find_kept_lease(work, service));
}

static bool end_lost(void *context, const struct record *record) {
    struct ended *ended = context;
    struct registry_service *service = &ended->service->service;
    struct registry_lost lost;
    if (registry_key_read(record).kind != REGISTRY_KEY_LOST ||
        !registry_lost_decode(record_value(record), ended->work->arena, &lost)) {
        return true;
    }
    bool is_counted = lost.round == service->round;
    if (is_counted && ended->is_window && service->guard_lease_id != 0) {
        keep_on(ended->work, service, record);
        return true;
    }
    count_down(&service->n_tombstones);
    if (is_counted) {
        count_down(&service->n_lost);
    }
    return true;
}

static enum status run_lost_ended(struct rule_run *run, struct bytes request,
                                  struct buffer *answer) {
    (void)answer;
    struct registry_work work;
    struct lease_facts facts;
    enum lease_end reason;
    if (!rule_ended_lease(run, &facts, &reason)) {
        return STATUS_INVALID;
    }
    /* Who revokes it has done the rest already. */
    if (reason != LEASE_END_EXPIRED) {
        return STATUS_OK;
    }
    registry_work_init(&work, run);
    struct ended ended = {.work = &work,
                          .service = registry_work_service(&work, request),
                          .is_window = facts.class == REGISTRY_LEASE_WINDOW};
    rule_visit_ended_keys(run, end_lost, &ended);
    registry_work_touch(ended.service);
    registry_guard_settle(&work, ended.service);
    registry_work_finish(&work);
    return STATUS_OK;
}

const struct rule registry_rule_lost_ended = {.number = REGISTRY_RULE_LOST_ENDED,
                                              .name = "registry lost ended",
                                              .since_version = CLUSTER_VERSION_RULES,
                                              .spaces = REGISTRY_RULE_SPACES,
                                              .run = run_lost_ended};

/* --- When the guard's own lease has ended. --- */

static enum status run_guard_ended(struct rule_run *run, struct bytes request,
                                   struct buffer *answer) {
    (void)answer;
    struct registry_work work;
    struct lease_facts facts;
    enum lease_end reason;
    if (!rule_ended_lease(run, &facts, &reason)) {
        return STATUS_INVALID;
    }
    registry_work_init(&work, run);
    struct registry_work_service *service = registry_work_service(&work, request);
    if (service->service.guard_lease_id == facts.id) {
        switch_off(&work, service);
    }
    registry_work_finish(&work);
    return STATUS_OK;
}

const struct rule registry_rule_guard_ended = {.number = REGISTRY_RULE_GUARD_ENDED,
                                               .name = "registry guard ended",
                                               .since_version = CLUSTER_VERSION_RULES,
                                               .spaces = REGISTRY_RULE_SPACES,
                                               .run = run_guard_ended};
