/* A check that is as another instance is: no connection is made, the records say it. */
#include "checks/check_runner_internal.h"

#include "registry/registry_view.h"

struct look {
    const struct check_job *job;
    bool is_found;
    enum registry_health health;
    struct bytes worst; /* the instance */
};

/* Two that name each other must not keep each other critical. */
static bool names_us(const struct look *look, const struct registry_check *check) {
    return check->kind == REGISTRY_CHECK_ALIAS &&
           bytes_equal(check->alias_service, look->job->service) &&
           (check->alias_id.size == 0 || bytes_equal(check->alias_id, look->job->id));
}

static enum registry_health health_of(const struct look *look, const struct registry_entry *entry) {
    enum registry_state state = registry_instance_state(&entry->instance);
    if (entry->is_kept || state == REGISTRY_DOWN || state == REGISTRY_OUT_OF_SERVICE) {
        return REGISTRY_CRITICAL;
    }
    enum registry_health worst = REGISTRY_PASSING;
    for (size_t i = 0; i < entry->n_checks; i++) {
        if (!names_us(look, &entry->checks[i]) && entry->checks[i].health > worst) {
            worst = entry->checks[i].health;
        }
    }
    return worst;
}

static bool is_us(const struct look *look, const struct registry_entry *entry) {
    return bytes_equal(entry->instance.service, look->job->service) &&
           bytes_equal(entry->instance.id, look->job->id);
}

static bool look_at(void *context, const struct registry_entry *entry) {
    struct look *look = context;
    if (is_us(look, entry)) {
        return true;
    }
    enum registry_health health = health_of(look, entry);
    if (!look->is_found || health > look->health) {
        look->health = health;
        look->worst = entry->instance.id;
    }
    look->is_found = true;
    return look->health != REGISTRY_CRITICAL;
}

static const char *health_text(enum registry_health health) {
    return health == REGISTRY_PASSING   ? " is passing"
           : health == REGISTRY_WARNING ? " is warning"
                                        : " is critical";
}

size_t check_alias_look(struct check_runner *runner, const struct registry_check *check,
                        const struct check_job *job, struct check_result *out_result) {
    struct look look = {.job = job};
    struct registry_entry entry;
    size_t n_records = 1;
    if (check->alias_id.size == 0) {
        n_records = registry_view_visit(check_runner_keys(runner), &runner->arena,
                                        check->alias_service, look_at, &look);
    } else if (registry_view_find(check_runner_keys(runner), &runner->arena, check->alias_service,
                                  check->alias_id, &entry)) {
        (void)look_at(&look, &entry);
    }
    check_result_set(out_result, look.is_found ? look.health : REGISTRY_CRITICAL, "");
    if (!look.is_found) {
        check_result_add_text(out_result, "no such instance of ");
        check_result_add(out_result, check->alias_service);
        return n_records;
    }
    check_result_add(out_result, look.worst);
    check_result_add_text(out_result, health_text(look.health));
    return n_records;
}
