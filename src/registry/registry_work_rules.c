/* Pure: run by every replica when the command is applied, with the same result. */
#include "registry/registry_work_rules.h"

#include "registry/registry_keys.h"
#include "registry/registry_mirror_model.h"

static const struct bytes nothing = {0};

void registry_work_init(struct registry_work *work, struct rule_run *run) {
    *work = (struct registry_work){.run = run, .arena = rule_arena(run)};
}

bool registry_work_may(struct registry_work *work, struct bytes service) {
    struct key_range range = registry_service_range(work->arena, service);
    if (!rule_may(work->run, RIGHT_WRITE, &range)) {
        return false;
    }
    rule_act_for_server(work->run);
    return true;
}

/* --- Services. --- */

struct registry_work_service *registry_work_service(struct registry_work *work, struct bytes name) {
    for (struct registry_work_service *at = work->services; at != NULL; at = at->next) {
        if (bytes_equal(at->service.name, name)) {
            return at;
        }
    }
    struct registry_work_service *service = arena_calloc(work->arena, 1, sizeof *service);
    const struct record *record =
        rule_get(work->run, KEY_SPACE_REGISTRY, registry_key_service(work->arena, name));
    service->is_stored =
        record != NULL && registry_service_decode(record_value(record), &service->service);
    service->service.name = name;
    service->next = work->services;
    work->services = service;
    return service;
}

void registry_work_touch(struct registry_work_service *service) {
    service->is_touched = true;
}

static bool has_settings(const struct registry_service_settings *settings) {
    return settings->grace_ms != 0 || settings->guard_percent != 0 ||
           settings->guard_minimum != 0 || settings->guard_window_ms != 0 ||
           settings->guard_hold_ms != 0;
}

static void delete_service(struct registry_work *work, struct bytes name) {
    rule_delete(work->run, KEY_SPACE_REGISTRY, registry_key_service(work->arena, name));
    rule_delete(work->run, KEY_SPACE_REGISTRY_RECORDS, registry_key_name(work->arena, name));
    (void)rule_put(work->run, KEY_SPACE_REGISTRY_RECORDS, registry_key_deleted(), nothing, 0);
}

static void put_service(struct registry_work *work, const struct registry_work_service *service) {
    struct buffer value;
    struct bytes name = service->service.name;
    buffer_init(&value);
    registry_service_encode(&value, &service->service);
    (void)rule_put(work->run, KEY_SPACE_REGISTRY, registry_key_service(work->arena, name),
                   bytes_of(value.data, value.size), 0);
    buffer_clear(&value);
    if (!service->is_stored) {
        (void)rule_put(work->run, KEY_SPACE_REGISTRY_RECORDS, registry_key_name(work->arena, name),
                       nothing, 0);
    }
}

void registry_work_finish(struct registry_work *work) {
    for (struct registry_work_service *at = work->services; at != NULL; at = at->next) {
        const struct registry_service *service = &at->service;
        bool is_needed = service->n_live > 0 || service->n_tombstones > 0 ||
                         service->guard_lease_id != 0 || has_settings(&service->settings);
        if (at->is_touched && is_needed) {
            put_service(work, at);
        } else if (at->is_touched && at->is_stored) {
            delete_service(work, service->name);
        }
    }
}

/* --- Instances. --- */

bool registry_work_find(struct registry_work *work, struct bytes service, struct bytes id,
                        struct registry_instance *out_instance) {
    const struct record *record =
        rule_get(work->run, KEY_SPACE_REGISTRY, registry_key_instance(work->arena, service, id));
    if (record == NULL ||
        !registry_instance_decode(record_value(record), work->arena, out_instance)) {
        return false;
    }
    out_instance->service = service;
    out_instance->id = id;
    out_instance->token = record->create_revision;
    out_instance->revision = record->mod_revision;
    out_instance->lease_id = record->lease_id;
    return true;
}

enum status registry_work_find_token(struct registry_work *work, struct bytes service,
                                     struct bytes id, int64_t token,
                                     struct registry_instance *out_instance) {
    if (!registry_work_find(work, service, id, out_instance)) {
        return STATUS_KEY_NOT_FOUND;
    }
    return token == 0 || token == out_instance->token ? STATUS_OK : STATUS_FENCED;
}

void registry_work_put(struct registry_work *work, struct registry_instance *instance,
                       int64_t lease_id, enum registry_health health) {
    struct buffer value;
    buffer_init(&value);
    registry_instance_encode(&value, instance);
    instance->token = rule_put(work->run, KEY_SPACE_REGISTRY,
                               registry_key_instance(work->arena, instance->service, instance->id),
                               bytes_of(value.data, value.size), lease_id);
    instance->lease_id = lease_id;
    value.size = 0;
    registry_mirror_write(&value, instance, health);
    (void)rule_put(work->run, KEY_SPACE_ETCD,
                   registry_key_mirror(work->arena, instance->service, instance->id),
                   bytes_of(value.data, value.size), lease_id);
    buffer_clear(&value);
}

void registry_work_put_index(struct registry_work *work, struct bytes service, struct bytes id,
                             int64_t lease_id) {
    (void)rule_put(work->run, KEY_SPACE_REGISTRY_RECORDS,
                   registry_key_index(work->arena, id, service), nothing, lease_id);
}

/* --- Checks. --- */

struct collecting {
    struct arena *arena;
    struct registry_work_checks *checks;
};

static bool collect(void *context, const struct record *record) {
    struct collecting *collecting = context;
    struct registry_work_checks *checks = collecting->checks;
    struct registry_check *check = &checks->at[checks->n];
    if (registry_check_decode(record_value(record), collecting->arena, check)) {
        check->id = registry_key_read(record).check;
        check->revision = record->mod_revision;
        checks->n++;
    }
    return checks->n < REGISTRY_CHECKS_MAX;
}

struct registry_work_checks *registry_work_checks(struct registry_work *work, struct bytes service,
                                                  struct bytes id) {
    struct key_range range = registry_checks_range(work->arena, service, id);
    struct collecting collecting = {
        .arena = work->arena, .checks = arena_calloc(work->arena, 1, sizeof *collecting.checks)};
    (void)rule_visit(work->run, range.space, range.key, range.range_end, collect, &collecting);
    return collecting.checks;
}

enum registry_health registry_checks_health(const struct registry_check *checks, size_t n) {
    enum registry_health health = REGISTRY_PASSING;
    for (size_t i = 0; i < n; i++) {
        if (checks[i].health > health) {
            health = (enum registry_health)checks[i].health;
        }
    }
    return health;
}

/* --- Events. --- */

void registry_work_tell(struct registry_work *work, enum registry_event_kind kind,
                        const struct registry_service *service, struct bytes id) {
    int64_t number =
        rule_count_up(work->run, KEY_SPACE_REGISTRY_RECORDS, registry_key_event_count());
    const struct registry_event event = {.number = (uint64_t)number,
                                         .kind = (uint8_t)kind,
                                         .service = service->name,
                                         .id = id,
                                         .n_live = service->n_live,
                                         .n_lost = service->n_lost,
                                         .revision = rule_revision(work->run),
                                         .wall_ms = rule_wall_ms(work->run)};
    struct buffer value;
    buffer_init(&value);
    registry_event_encode(&value, &event);
    (void)rule_put(work->run, KEY_SPACE_REGISTRY_RECORDS,
                   registry_key_event(work->arena, event.number), bytes_of(value.data, value.size),
                   0);
    buffer_clear(&value);
}
