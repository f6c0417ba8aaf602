/* Watches of doors. The right to read is checked when a watch begins and again before it is given
 * anything after users or roles changed, so that a right that was taken away shows nothing more. */
#include "core/auth.h"
#include "replication/service_internal.h"

static const struct auth *auth_of(const struct service *service) {
    return state_machine_auth(service->machine);
}

static enum status check(struct service *service, const struct caller *caller,
                         const struct key_range *range) {
    return refusals_note(service, caller,
                         auth_check_range(auth_of(service), caller, RIGHT_READ, range), "watch");
}

/* The hub is delivering and must not lose the watcher now: it is taken out at the end of the
 * iteration. Until then it takes everything and shows nothing. */
static bool revoke_if_denied(struct service_watch *watch) {
    struct service *service = watch->private.service;
    if (watch->private.auth_generation == auth_generation(auth_of(service))) {
        return false;
    }
    struct key_range range = watcher_range(watch->private.watcher);
    if (check(service, &watch->private.caller, &range) == STATUS_OK) {
        watch->private.auth_generation = auth_generation(auth_of(service));
        return false;
    }
    if (list_is_empty(&watch->private.link)) {
        list_append(&service->revoked_watches, &watch->private.link);
    }
    return true;
}

static bool deliver(void *data, const struct watch_batch *batch) {
    struct service_watch *watch = data;
    return revoke_if_denied(watch) || watch->deliver(watch, batch);
}

static void compacted(void *data, int64_t compacted_revision) {
    struct service_watch *watch = data;
    watch->private.watcher = NULL;
    list_remove(&watch->private.link);
    watch->compacted(watch, compacted_revision);
}

static const struct watcher_callbacks callbacks = {.deliver = deliver, .compacted = compacted};

enum status service_watch(struct service *service, const struct caller *caller,
                          struct service_watch *watch,
                          const struct service_watch_options *options) {
    enum status status = service->closing || service->failed
                             ? STATUS_STOPPED
                             : check(service, caller, &options->range);
    if (status != STATUS_OK) {
        return status;
    }
    watch->private.service = service;
    watch->private.caller = *caller;
    watch->private.auth_generation = auth_generation(auth_of(service));
    list_init(&watch->private.link);
    const struct watcher_options watcher = {.space = options->range.space,
                                            .key = options->range.key,
                                            .range_end = options->range.range_end,
                                            .start_revision = options->start_revision,
                                            .without_puts = options->without_puts,
                                            .without_deletes = options->without_deletes,
                                            .callbacks = &callbacks,
                                            .data = watch};
    watch->private.watcher = watch_hub_add(state_machine_watches(service->machine), &watcher);
    return STATUS_OK;
}

void service_unwatch(struct service *service, struct service_watch *watch) {
    if (watch->private.watcher != NULL) {
        watch_hub_remove(state_machine_watches(service->machine), watch->private.watcher);
        watch->private.watcher = NULL;
        list_remove(&watch->private.link);
    }
}

void service_watch_resume(struct service *service, struct service_watch *watch) {
    if (watch->private.watcher != NULL) {
        watch_hub_resume(state_machine_watches(service->machine), watch->private.watcher);
    }
}

bool service_watch_is_current(struct service *service, const struct service_watch *watch) {
    return watch->private.watcher != NULL &&
           watcher_is_current(state_machine_watches(service->machine), watch->private.watcher);
}

void watches_poll(struct service *service) {
    struct list *link;
    while ((link = list_pop_first(&service->revoked_watches)) != NULL) {
        struct service_watch *watch = list_entry(link, struct service_watch, private.link);
        service_unwatch(service, watch);
        watch->revoked(watch, STATUS_PERMISSION_DENIED);
    }
}
