/* What /metrics says of the registry. */
#include "base/prometheus.h"
#include "doors/registry/registry_api_call.h"
#include "registry/registry_keys.h"
#include "registry/registry_view.h"

#include <stdio.h>

enum {
    /* Services that are looked at for one answer, and those that are named in it. */
    SERVICES_MAX = 20 * 1000,
    NAMED_MAX = 100,
    NAME_SIZE = 256
};

struct counting {
    const struct key_store *keys;
    struct arena arena;
    size_t n_services;
    uint64_t n_live;
    uint64_t n_kept;
    size_t n_guarded;
    struct guarded {
        char name[NAME_SIZE];
        uint64_t n_kept;
    } guarded[NAMED_MAX];
};

static bool count_one(void *context, struct bytes name) {
    struct counting *counting = context;
    struct registry_service service;
    if (registry_view_service(counting->keys, &counting->arena, name, &service)) {
        counting->n_live += service.n_live;
        if (service.guard_lease_id != 0) {
            counting->n_kept += service.n_lost;
            if (counting->n_guarded < NAMED_MAX) {
                struct guarded *guarded = &counting->guarded[counting->n_guarded];
                snprintf(guarded->name, sizeof guarded->name, "%.*s", (int)name.size,
                         (const char *)name.data);
                guarded->n_kept = service.n_lost;
            }
            counting->n_guarded++;
        }
    }
    arena_reset(&counting->arena);
    return ++counting->n_services < SERVICES_MAX;
}

static void write_guarded(struct buffer *out, const struct counting *counting) {
    static const char name[] = "leased_registry_kept_instances";
    prometheus_family(out, name, PROMETHEUS_GAUGE,
                      "Lost instances that the mass-failure guard keeps listed.");
    for (size_t i = 0; i < counting->n_guarded && i < NAMED_MAX; i++) {
        const struct prometheus_label label = {"service", counting->guarded[i].name};
        prometheus_sample_u64(out, name, "", &label, 1, counting->guarded[i].n_kept);
    }
}

void registry_api_metrics_write(const struct registry_api *door, struct buffer *out) {
    const struct registry_api_stats *stats = &door->stats;
    static struct counting counting;
    struct arena names;
    counting = (struct counting){.keys = registry_api_keys(door)};
    arena_init(&counting.arena);
    arena_init(&names);
    registry_view_visit_services(counting.keys, &names, bytes_of(NULL, 0), count_one, &counting);
    arena_clear(&names);
    arena_clear(&counting.arena);
    prometheus_gauge(out, "leased_registry_services", "Services of the registry.",
                     counting.n_services);
    prometheus_gauge(out, "leased_registry_instances", "Live instances of all services.",
                     counting.n_live);
    prometheus_gauge(out, "leased_registry_guarded_services",
                     "Services whose mass-failure guard keeps lost instances listed.",
                     counting.n_guarded);
    write_guarded(out, &counting);
    prometheus_gauge(out, "leased_registry_watchers", "Open streams of WatchService.",
                     stats->watchers);
    prometheus_gauge(out, "leased_registry_renew_streams", "Open streams of renewals.",
                     stats->renew_streams);
    prometheus_counter(out, "leased_registry_registered_total",
                       "Registrations through this member by Register.", stats->registered);
    prometheus_counter(out, "leased_registry_deregistered_total",
                       "Registrations ended through this member by Deregister.",
                       stats->deregistered);
    prometheus_counter(out, "leased_registry_fenced_total",
                       "Requests of processes whose successor has registered.", stats->fenced);
    prometheus_counter(out, "leased_registry_renewals_total",
                       "Renewals of registrations asked of this member.", stats->renewals);
    prometheus_counter(out, "leased_registry_reports_total",
                       "Reports of checks to this member by Report.", stats->reports);
    prometheus_counter(out, "leased_registry_discoveries_total",
                       "Requests of Discover to this member.", stats->discoveries);
    prometheus_counter(out, "leased_registry_changes_told_total",
                       "Changes told to watchers on this member.", stats->changes_told);
}
