/*
 * Random requests of the registry against a plain table of who is alive, lost and kept, on two
 * machines: one that lives through everything, one that is restored from snapshots now and then.
 * Both must be equal to the byte. After every step the listing of every service is that of the
 * table, counters are true, tokens grow, a stale token is refused, and the mirror has exactly those
 * that are alive. The seed is printed; give it as the first argument to replay a run.
 */
#include "../storage/thorough.h"
#include "model_machines.h"
#include "model_random.h"
#include "registry/registry_keys.h"
#include "registry/registry_rules.h"
#include "registry/registry_view.h"
#include "registry/registry_work_rules.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 1500, ROUNDS = THOROUGH(8), SERVICES = 3, IDS = 8 };

static const char *const service_names[SERVICES] = {"web", "webs", "a/b"};
static const char *const ids[IDS] = {"a", "a/b", "b", "ab", "i1", "i10", "i2", "z"};

struct ref_instance {
    bool is_live;
    bool is_draining;
    bool is_lost; /* and counted */
    enum registry_health health;
    int64_t token;
};

static struct ref_service {
    struct ref_instance all[IDS];
    bool is_on;
    bool has_settings;
} ref[SERVICES];

static const struct rule_set rules = {registry_rules, REGISTRY_N_RULES};

/* --- The reference. --- */

static void count(const struct ref_service *service, size_t *out_live, size_t *out_lost) {
    *out_live = 0;
    *out_lost = 0;
    for (size_t i = 0; i < IDS; i++) {
        *out_live += service->all[i].is_live;
        *out_lost += service->all[i].is_lost;
    }
}

static void switch_off(struct ref_service *service) {
    service->is_on = false;
    for (size_t i = 0; i < IDS; i++) {
        service->all[i].is_lost = false;
    }
}

static void settle(struct ref_service *service) {
    size_t live;
    size_t lost;
    count(service, &live, &lost);
    if (service->is_on && (lost == 0 || lost * 4 < lost + live)) {
        switch_off(service);
    }
}

static void lose(struct ref_service *service, size_t i) {
    size_t live;
    size_t lost;
    service->all[i].is_live = false;
    service->all[i].is_lost = true;
    count(service, &live, &lost);
    if (lost >= 3 && lost * 2 >= lost + live) {
        service->is_on = true;
    }
}

static size_t index_of(const char *const *names, size_t n, struct bytes name) {
    for (size_t i = 0; i < n; i++) {
        if (bytes_equal(bytes_from_text(names[i]), name)) {
            return i;
        }
    }
    assert(!"a name that nobody gave");
    return 0;
}

/* --- What is there. --- */

struct listing {
    const struct ref_service *service;
    size_t n;
    struct bytes last;
};

static bool check_entry(void *data, const struct registry_entry *entry) {
    struct listing *listing = data;
    const struct ref_instance *instance =
        &listing->service->all[index_of(ids, IDS, entry->instance.id)];
    assert(listing->n == 0 || bytes_compare(listing->last, entry->instance.id) < 0);
    assert(entry->is_kept ? instance->is_lost && listing->service->is_on : instance->is_live);
    assert(entry->instance.token == instance->token);
    assert(entry->health == instance->health);
    assert(entry->is_kept || (registry_instance_state(&entry->instance) == REGISTRY_DRAINING) ==
                                 instance->is_draining);
    listing->last = entry->instance.id;
    listing->n++;
    return true;
}

static void check_service(size_t s, size_t *n_live) {
    const struct key_store *keys = state_machine_keys(machine);
    struct listing listing = {.service = &ref[s]};
    struct registry_service stored = {0};
    size_t live;
    size_t lost;
    count(&ref[s], &live, &lost);
    bool is_there = registry_view_service(keys, &arena, bytes_from_text(service_names[s]), &stored);
    assert(stored.n_live == live);
    assert(stored.n_lost == lost);
    assert((stored.guard_lease_id != 0) == ref[s].is_on);
    assert(is_there || (live == 0 && lost == 0 && !ref[s].has_settings));
    registry_view_visit(keys, &arena, bytes_from_text(service_names[s]), check_entry, &listing);
    assert(listing.n == live + (ref[s].is_on ? lost : 0));
    struct key_range range = registry_lost_range(&arena, bytes_from_text(service_names[s]));
    assert(stored.n_tombstones == key_store_count(keys, range.space, range.key, range.range_end));
    *n_live += live;
}

static void check(void) {
    size_t n_live = 0;
    for (size_t s = 0; s < SERVICES; s++) {
        check_service(s, &n_live);
    }
    assert(key_store_count(state_machine_keys(machine), KEY_SPACE_ETCD, bytes_of("", 1),
                           bytes_of("", 1)) == n_live);
}

/* --- Steps. --- */

static void step_register(size_t s, size_t i) {
    struct ref_instance *instance = &ref[s].all[i];
    bool has_check = random_one_in(2);
    const struct registry_check check = {.id = bytes_from_text("c"),
                                         .kind = REGISTRY_CHECK_TTL,
                                         .origin = REGISTRY_ORIGIN_NATIVE,
                                         .ttl_ms = 5000,
                                         .deregister_after_ms = 10000};
    const struct registry_register request = {
        .instance = {.service = bytes_from_text(service_names[s]),
                     .id = bytes_from_text(ids[i]),
                     .origin = REGISTRY_ORIGIN_NATIVE,
                     .state = REGISTRY_UP,
                     .weight = 1,
                     .ttl_ms = 10000},
        .checks = &check,
        .n_checks = has_check,
        .previous_token =
            instance->is_live && random_one_in(4) ? instance->token - (int64_t)random_below(2) : 0};
    struct buffer buffer;
    struct registry_registered registered;
    buffer_init(&buffer);
    registry_register_encode(&buffer, &request);
    struct outcome outcome = run_rule(REGISTRY_RULE_REGISTER, &buffer);
    if (request.previous_token != 0 && request.previous_token < instance->token) {
        assert(outcome.status == STATUS_FENCED);
        return;
    }
    assert(outcome.status == STATUS_OK);
    assert(registry_registered_decode(outcome.rule.answer, &registered));
    assert(registered.token > instance->token);
    assert(registered.token == outcome.revision);
    assert((registered.replaced_token != 0) == instance->is_live);
    *instance = (struct ref_instance){.is_live = true, .token = registered.token};
    settle(&ref[s]);
}

static void step_deregister(size_t s, size_t i, int64_t drain_ms) {
    struct ref_instance *instance = &ref[s].all[i];
    int64_t token = random_one_in(2) ? 0 : instance->token + (int64_t)random_below(2);
    const struct registry_deregister request = {.service = bytes_from_text(service_names[s]),
                                                .id = bytes_from_text(ids[i]),
                                                .token = token,
                                                .drain_ms = drain_ms};
    struct buffer buffer;
    buffer_init(&buffer);
    registry_deregister_encode(&buffer, &request);
    enum status status = run_rule(REGISTRY_RULE_DEREGISTER, &buffer).status;
    bool is_kept = instance->is_lost && ref[s].is_on;
    if (!instance->is_live && !is_kept) {
        assert(status == STATUS_KEY_NOT_FOUND);
        return;
    }
    if (token != 0 && token != instance->token) {
        assert(status == STATUS_FENCED);
        return;
    }
    assert(status == STATUS_OK);
    if (instance->is_live && drain_ms > 0) {
        instance->is_draining = true;
        return;
    }
    instance->is_live = false;
    instance->is_lost = false;
    if (is_kept) {
        settle(&ref[s]);
    }
}

static void step_report(size_t s, size_t i) {
    struct ref_instance *instance = &ref[s].all[i];
    struct registry_entry entry;
    const struct registry_report report = {.service = bytes_from_text(service_names[s]),
                                           .id = bytes_from_text(ids[i]),
                                           .check = bytes_from_text("c"),
                                           .health = (uint8_t)random_below(REGISTRY_HEALTHS)};
    struct buffer buffer;
    bool is_there = instance->is_live &&
                    registry_view_find(state_machine_keys(machine), &arena, report.service,
                                       report.id, &entry) &&
                    entry.n_checks == 1;
    buffer_init(&buffer);
    registry_reports_encode(&buffer, &report, 1);
    enum status status = run_rule(REGISTRY_RULE_REPORT, &buffer).status;
    assert(status == (is_there ? STATUS_OK : STATUS_KEY_NOT_FOUND));
    if (is_there) {
        instance->health = (enum registry_health)report.health;
    }
}

static void step_settings(size_t s) {
    struct buffer buffer;
    const struct registry_settings request = {.service = bytes_from_text(service_names[s]),
                                              .settings = {.grace_ms = random_one_in(2) ? 0 : 5}};
    buffer_init(&buffer);
    registry_settings_encode(&buffer, &request);
    assert(run_rule(REGISTRY_RULE_SETTINGS, &buffer).status == STATUS_OK);
    ref[s].has_settings = request.settings.grace_ms != 0;
}

/* What follows of the end of a lease, told by its class and the keys that it has. */
static void end_in_reference(const struct lease_facts *facts) {
    const struct record *record = lease_table_first_key(state_machine_leases(machine), facts->id);
    for (; record != NULL; record = record->lease_next) {
        struct registry_key key = registry_key_read(record);
        if (key.kind != REGISTRY_KEY_INSTANCE && key.kind != REGISTRY_KEY_LOST) {
            continue;
        }
        struct ref_service *service = &ref[index_of(service_names, SERVICES, key.service)];
        size_t i = index_of(ids, IDS, key.id);
        struct registry_lost lost;
        struct registry_service stored;
        switch (facts->class) {
        case REGISTRY_LEASE_INSTANCE:
            lose(service, i);
            break;
        case REGISTRY_LEASE_DRAIN:
            service->all[i].is_live = false;
            break;
        case REGISTRY_LEASE_WINDOW:
        case REGISTRY_LEASE_KEPT:
            assert(registry_lost_decode(record_value(record), &arena, &lost));
            assert(
                registry_view_service(state_machine_keys(machine), &arena, key.service, &stored));
            if (lost.round == stored.round &&
                (facts->class == REGISTRY_LEASE_KEPT || !service->is_on)) {
                service->all[i].is_lost = false;
            }
            break;
        default:
            break;
        }
    }
    for (size_t s = 0; s < SERVICES; s++) {
        struct registry_service stored = {0};
        (void)registry_view_service(state_machine_keys(machine), &arena,
                                    bytes_from_text(service_names[s]), &stored);
        if (facts->class == REGISTRY_LEASE_GUARD && stored.guard_lease_id == facts->id) {
            switch_off(&ref[s]);
        }
    }
}

/* A lease of a check has no key but that of its hook: it is found in the check. */
static void end_check(const struct lease_facts *facts) {
    for (size_t s = 0; s < SERVICES; s++) {
        for (size_t i = 0; i < IDS; i++) {
            struct registry_entry entry;
            if (!ref[s].all[i].is_live ||
                !registry_view_find(state_machine_keys(machine), &arena,
                                    bytes_from_text(service_names[s]), bytes_from_text(ids[i]),
                                    &entry) ||
                entry.n_checks == 0) {
                continue;
            }
            if (entry.checks[0].ttl_lease_id == facts->id) {
                ref[s].all[i].health = REGISTRY_CRITICAL;
            } else if (entry.checks[0].deregister_lease_id == facts->id) {
                ref[s].all[i].is_live = false;
            }
        }
    }
}

static void step_expire(void) {
    size_t n = 0;
    int64_t *all = lease_table_ids(state_machine_leases(machine), &n);
    if (n > 0) {
        struct lease_facts facts;
        int64_t id = all[random_below(n)];
        assert(lease_table_find(state_machine_leases(machine), id, &facts));
        if (facts.class == REGISTRY_LEASE_CHECK) {
            end_check(&facts);
        } else {
            end_in_reference(&facts);
        }
        const struct command command = {
            .type = COMMAND_LEASE_EXPIRE,
            .expire = {.term = 1, .n = 1, .ids = &id, .epochs = &facts.epoch}};
        assert(apply(&command).expire.n_ended == 1);
        for (size_t s = 0; s < SERVICES; s++) {
            if (facts.class == REGISTRY_LEASE_WINDOW || facts.class == REGISTRY_LEASE_KEPT) {
                settle(&ref[s]);
            }
        }
    }
    free(all);
}

static void step(void) {
    size_t s = random_below(SERVICES);
    size_t i = random_below(IDS);
    switch (random_below(12)) {
    case 0:
    case 1:
    case 2:
    case 3:
        step_register(s, i);
        break;
    case 4:
        step_deregister(s, i, 0);
        break;
    case 5:
        step_deregister(s, i, 5000);
        break;
    case 6:
        step_report(s, i);
        break;
    case 7:
        if (random_one_in(4)) {
            step_settings(s);
        }
        break;
    default:
        step_expire();
        break;
    }
    check();
    if (random_one_in(40)) {
        machines_compare(true);
    }
    arena_reset(&arena);
}

int main(int argc, char **argv) {
    random_seed(argc, argv);
    arena_init(&arena);
    for (size_t round = 0; round < ROUNDS; round++) {
        memset(ref, 0, sizeof ref);
        machines_open(&rules);
        for (size_t i = 0; i < STEPS; i++) {
            step();
        }
        machines_close();
    }
    arena_clear(&arena);
    return 0;
}
