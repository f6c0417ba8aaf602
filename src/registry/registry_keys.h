/*
 * The keys of the registry. NUL ends a name.
 *
 * In KEY_SPACE_REGISTRY, named by the service: the right to `leased/services/NAME` in etcd's space
 * (core/auth_names.h) is the right to all of them. One range holds all that concerns a service, so
 * that one watch sees it and no other service wakes it.
 *
 *     s SERVICE NUL g             the service (struct registry_service)
 *     s SERVICE NUL i ID          an instance (struct registry_instance), attached to its lease
 *     s SERVICE NUL i ID NUL CHECK   a check of it (struct registry_check), attached as well
 *     s SERVICE NUL l ID          a lost instance (struct registry_lost), attached to the lease
 * that counts the guard's window, or to one that it shares
 *
 * In KEY_SPACE_REGISTRY_RECORDS, which needs no permission:
 *
 *     n SERVICE                   there is such a service (no value)
 *     x ID NUL SERVICE            finds an instance by its id alone (no value), attached to its
 *                                 lease
 *     d                           written when a service's record is deleted: its revision is an
 *                                 upper bound of that of every service that is not there
 *     e PLACE, c                  events in turn, and how many there were
 *     r MEMBER                    a member that runs checks, attached to a lease that it renews
 *
 * In KEY_SPACE_ETCD, for etcd's clients to read and watch, attached to the lease of the instance:
 *
 *     leased/services/SERVICE/ID  the instance as JSON
 */
#ifndef LEASED_REGISTRY_REGISTRY_KEYS_H
#define LEASED_REGISTRY_REGISTRY_KEYS_H

#include "base/arena.h"
#include "core/permission.h"
#include "core/record.h"

/* --- Keys, in arena memory. --- */

struct bytes registry_key_service(struct arena *arena, struct bytes service);
struct bytes registry_key_instance(struct arena *arena, struct bytes service, struct bytes id);
struct bytes registry_key_check(struct arena *arena, struct bytes service, struct bytes id,
                                struct bytes check);
struct bytes registry_key_lost(struct arena *arena, struct bytes service, struct bytes id);
struct bytes registry_key_name(struct arena *arena, struct bytes service);
struct bytes registry_key_index(struct arena *arena, struct bytes id, struct bytes service);
struct bytes registry_key_deleted(void);
struct bytes registry_key_event(struct arena *arena, uint64_t number);
struct bytes registry_key_event_count(void);
struct bytes registry_key_runner(struct arena *arena, uint64_t member_id);
struct bytes registry_key_mirror(struct arena *arena, struct bytes service, struct bytes id);

/* --- Ranges, in arena memory. --- */

/* All of one service: for reads, watches and rights. */
struct key_range registry_service_range(struct arena *arena, struct bytes service);
/* All services whose names begin so; an empty prefix: all. */
struct key_range registry_prefix_range(struct arena *arena, struct bytes prefix);
struct key_range registry_instances_range(struct arena *arena, struct bytes service);
struct key_range registry_checks_range(struct arena *arena, struct bytes service, struct bytes id);
struct key_range registry_lost_range(struct arena *arena, struct bytes service);
struct key_range registry_names_range(struct arena *arena, struct bytes prefix);
struct key_range registry_index_range(struct arena *arena, struct bytes id);
/* All records of a kind: 'e' or 'r'. */
struct key_range registry_records(char kind);

/* --- Reading keys. --- */

enum registry_key_kind {
    REGISTRY_KEY_OTHER,
    REGISTRY_KEY_SERVICE,
    REGISTRY_KEY_INSTANCE,
    REGISTRY_KEY_CHECK,
    REGISTRY_KEY_LOST
};
struct registry_key {
    enum registry_key_kind kind;
    struct bytes service;
    struct bytes id;
    struct bytes check;
};
/* Of a record of KEY_SPACE_REGISTRY; texts point into it. */
struct registry_key registry_key_read(const struct record *record);

#endif
