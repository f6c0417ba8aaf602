/*
 * What the rules of the registry share within one run: services as they are read once and written
 * once, instances with their mirrors, checks, events.
 */
#ifndef LEASED_REGISTRY_REGISTRY_WORK_RULES_H
#define LEASED_REGISTRY_REGISTRY_WORK_RULES_H

#include "registry/registry_rules.h"

/* Classes of leases: what a lease of the registry is for. */
enum {
    REGISTRY_LEASE_INSTANCE = 0,
    REGISTRY_LEASE_DRAIN = 1,  /* of an instance that is leaving */
    REGISTRY_LEASE_WINDOW = 2, /* counts for how long one instance is counted as lost */
    REGISTRY_LEASE_KEPT = 3,   /* of records of several lost instances */
    REGISTRY_LEASE_GUARD = 4,
    REGISTRY_LEASE_CHECK = 5,
    REGISTRY_LEASE_RUNNER = 6
};

/* A service that the run has looked at. */
struct registry_work_service {
    struct registry_work_service *next;
    struct registry_service service;
    bool is_stored;
    bool is_touched;
};

struct registry_work {
    struct rule_run *run;
    struct arena *arena;
    struct registry_work_service *services;
};

void registry_work_init(struct registry_work *work, struct rule_run *run);

/* The rights to change a service are the caller's; from then on the run works for the server.
 * False: the run is refused. */
bool registry_work_may(struct registry_work *work, struct bytes service);

/* As it is stored or as the run has made it; a new one when there is none. */
struct registry_work_service *registry_work_service(struct registry_work *work, struct bytes name);
/* It will be written when the run finishes. */
void registry_work_touch(struct registry_work_service *service);
/* Writes the services that were touched; deletes those of which nothing is left. Last. */
void registry_work_finish(struct registry_work *work);

/* False: there is none. Texts and arrays are of the store and the arena. */
bool registry_work_find(struct registry_work *work, struct bytes service, struct bytes id,
                        struct registry_instance *out_instance);
/* The same, for one that names the token that it was given; 0: any. STATUS_KEY_NOT_FOUND,
 * STATUS_FENCED. */
enum status registry_work_find_token(struct registry_work *work, struct bytes service,
                                     struct bytes id, int64_t token,
                                     struct registry_instance *out_instance);
/* Writes the instance, and its mirror, attached to the lease, and sets its token. */
void registry_work_put(struct registry_work *work, struct registry_instance *instance,
                       int64_t lease_id, enum registry_health health);
void registry_work_put_index(struct registry_work *work, struct bytes service, struct bytes id,
                             int64_t lease_id);

/* The checks of an instance by id, in arena memory; at most REGISTRY_CHECKS_MAX. */
struct registry_work_checks {
    struct registry_check at[REGISTRY_CHECKS_MAX];
    size_t n;
};
struct registry_work_checks *registry_work_checks(struct registry_work *work, struct bytes service,
                                                  struct bytes id);
enum registry_health registry_checks_health(const struct registry_check *checks, size_t n);

/* Number, revision and time are filled in. */
void registry_work_tell(struct registry_work *work, enum registry_event_kind kind,
                        const struct registry_service *service, struct bytes id);

/* Of all rules of the registry. */
#define REGISTRY_RULE_SPACES                                                                       \
    { KEY_SPACE_REGISTRY, KEY_SPACE_REGISTRY_RECORDS, KEY_SPACE_ETCD }

#endif
