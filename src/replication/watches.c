/* Watches of doors: a thin layer over the hub, so that no door reaches into the state. */
#include "replication/service_internal.h"

static bool deliver(void *data, const struct watch_batch *batch) {
    struct service_watch *watch = data;
    return watch->deliver(watch, batch);
}

static void compacted(void *data, int64_t compacted_revision) {
    struct service_watch *watch = data;
    watch->private.watcher = NULL;
    watch->compacted(watch, compacted_revision);
}

static const struct watcher_callbacks callbacks = {.deliver = deliver, .compacted = compacted};

enum status service_watch(struct service *service, const struct caller *caller,
                          struct service_watch *watch,
                          const struct service_watch_options *options) {
    (void)caller;
    if (service->closing || service->failed) {
        return STATUS_STOPPED;
    }
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
