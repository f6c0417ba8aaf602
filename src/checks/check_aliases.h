/*
 * The alias checks of this member by the service that they name, and those among them that have to
 * look again because it has changed. To note a change takes the same time however many there are:
 * they are taken out one by one, a few in each iteration of the loop. Does not own the jobs.
 */
#ifndef LEASED_CHECKS_CHECK_ALIASES_H
#define LEASED_CHECKS_CHECK_ALIASES_H

#include "base/keyed_hash.h"
#include "checks/check_jobs.h"

struct check_aliases {
    struct list *buckets; /* of services that are named */
    size_t n_buckets;
    size_t n_services;
    struct list changed; /* services with aliases that have to look again */
    struct hash_key hash_key;
};

/* Aborts when memory is out, as the next. */
void check_aliases_init(struct check_aliases *aliases);
/* Every job was removed. */
void check_aliases_clear(struct check_aliases *aliases);

/* The job is in none yet. The name is copied. */
void check_aliases_add(struct check_aliases *aliases, struct check_job *job, struct bytes service);
/* Harmless when it is not there. */
void check_aliases_remove(struct check_aliases *aliases, struct check_job *job);

/* The service has changed: those that name it have to look again, those that wait for it longest
 * first. False: there are none. */
bool check_aliases_touch(struct check_aliases *aliases, struct bytes service);
/* One that has to look again, and is told so but once; NULL: none. Services take turns. */
struct check_job *check_aliases_next(struct check_aliases *aliases);

#endif
