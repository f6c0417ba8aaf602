/*
 * Reading the registry: instances with their checks and what follows of them. The doors call it
 * after service_read() of the ranges (registry_keys.h), or with a watch of them.
 */
#ifndef LEASED_REGISTRY_REGISTRY_VIEW_H
#define LEASED_REGISTRY_REGISTRY_VIEW_H

#include "base/arena.h"
#include "core/key_store.h"
#include "registry/registry_model.h"

struct registry_entry {
    struct registry_instance instance;
    size_t n_checks;
    const struct registry_check *checks; /* by id */
    /* The worst of its checks; passing without any. */
    enum registry_health health;
    /* Its lease has ended; the guard keeps it listed. */
    bool is_kept;
    /* Whether it should be given new work: its state is up, its health not critical. */
    bool is_serving;
};

/* The instances of a service by id, the kept ones among them, until `visit` returns false. What
 * they point to is arena memory and the store's. Returns how many records were looked at. */
size_t registry_view_visit(const struct key_store *keys, struct arena *arena, struct bytes service,
                           bool (*visit)(void *context, const struct registry_entry *entry),
                           void *context);
/* Those whose ids come after `after`; empty: all. */
size_t registry_view_visit_after(const struct key_store *keys, struct arena *arena,
                                 struct bytes service, struct bytes after,
                                 bool (*visit)(void *context, const struct registry_entry *entry),
                                 void *context);
/* One of them. */
bool registry_view_find(const struct key_store *keys, struct arena *arena, struct bytes service,
                        struct bytes id, struct registry_entry *out_entry);
/* The instances of an id, in whatever service. */
size_t registry_view_visit_id(const struct key_store *keys, struct arena *arena, struct bytes id,
                              bool (*visit)(void *context, const struct registry_entry *entry),
                              void *context);

/* The record of a service; false: there is none. */
bool registry_view_service(const struct key_store *keys, struct arena *arena, struct bytes service,
                           struct registry_service *out_service);
/* Names by order, those after `after` (empty: from the first). */
void registry_view_visit_services(const struct key_store *keys, struct arena *arena,
                                  struct bytes after,
                                  bool (*visit)(void *context, struct bytes service),
                                  void *context);

/* A revision that has grown whenever anything of the service has changed, and is never 0: that of
 * its record, or of the last record that was deleted, or 1. */
int64_t registry_view_revision(const struct key_store *keys, struct arena *arena,
                               struct bytes service);

#endif
