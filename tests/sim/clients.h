/*
 * The simulated clients. Lockers take locks, hold them by leases that they renew, and judge by
 * their own drifting clocks whether they still hold them; registers are written and read, and their
 * history must be linearizable; watchers follow every key and must miss nothing; upkeep makes
 * backups and compacts; tickets run the rule of the sample door (tests/doors);
 * queuers run the trial rules (tests/rules): a lock that is handed on when a lease ends; mutexes
 * share one lock by the rules of etcd's Lock service and by its recipe for clients; natives want
 * several things at once by the rules of the native API; registrars register instances of a
 * service; pipelines send without waiting; the last three take locks as clients of Redis, ZooKeeper
 * and Consul do.
 */
#ifndef LEASED_SIM_CLIENTS_H
#define LEASED_SIM_CLIENTS_H

#include "core/rule.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct lockers_options {
    size_t n;
    size_t n_locks;
    int64_t ttl_ms_min;
    int64_t ttl_ms_max;
    bool abandons;             /* now and then somebody just stops to renew */
    bool keeps_what_it_renews; /* who renews in time never loses a lease */
};
void lockers_start(const struct lockers_options *options);
/* Everybody stops to renew and to ask. */
void lockers_stop(void);

void registers_start(size_t n_clients, size_t n_registers);
void registers_stop(void);
void registers_check(void);

void watchers_start(size_t n);
void watchers_stop(void);
/* Whether they have got everything up to the end. */
bool watchers_are_done(void);
void watchers_check(void);

/* The newest revision up to which every watcher has got everything. */
int64_t watchers_seen_by_all(void);

struct upkeep_options {
    bool backs_up;
    bool compacts;
    bool has_ballast;
};
void upkeep_start(const struct upkeep_options *options);
void upkeep_stop(void);
/* Up to there the history may be gone. */
int64_t upkeep_compacted_revision(void);

void tickets_start(size_t n_clients);
void tickets_stop(void);
void queuers_start(size_t n);
void queuers_stop(void);
/* When no lease is left. */
void queuers_check(void);
void mutexes_start(size_t n);
void mutexes_stop(void);
/* When no lease is left. */
void mutexes_check(void);

/* Clients of the native API: sessions, resources, a pool. */
enum { NATIVES_MAX = 6 };
void natives_start(size_t n);
void natives_stop(void);
/* When no lease is left. */
void natives_check(void);

/* Processes that register instances of a service. */
enum { REGISTRARS_MAX = 8 };
void registrars_start(size_t n);
void registrars_stop(void);
/* When no lease is left. */
void registrars_check(void);

/* Clients that send without waiting for answers. */
enum { PIPELINES_MAX = 4 };
struct log_item;
void pipelines_start(size_t n);
void pipelines_stop(void);
/* A committed entry that no node has applied before, in the order of the log. */
void pipelines_applied(const struct log_item *item);

/* Clients of locks by other protocols: see actor.h, too. */
enum { REDIS_LOCKERS_MAX = 5, ZK_LOCKERS_MAX = 5, CONSUL_LOCKERS_MAX = 5 };
void redis_locks_start(size_t n);
void zk_locks_start(size_t n);
void consul_locks_start(size_t n);
/* When no lease is left. */
void redis_locks_check(void);
void zk_locks_check(void);
void consul_locks_check(void);

/* The rules that every node knows. */
const struct rule_set *clients_rules(void);

/* A client's choice. */
struct node;
struct node *clients_choose_node(void);

#endif
