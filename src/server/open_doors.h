/*
 * The doors that this process serves: those chosen with --doors, on the listeners of
 * --listen-client-urls, and those that have a listener of their own.
 */
#ifndef LEASED_SERVER_OPEN_DOORS_H
#define LEASED_SERVER_OPEN_DOORS_H

#include "doors/door.h"
#include "server/options.h"

/* The rules of all doors of a list, whichever are served: replicas must agree on them. In the
 * arena. */
const struct rule_set *open_doors_rules(const struct door_list *doors, struct arena *arena);

struct open_doors {
    const struct options *options;
    /* In the order of the options' list. */
    struct door_environment environments[DOORS_MAX];
    void *instances[DOORS_MAX]; /* NULL: not open */
};

/* Opens every door that is to be served. The options outlive the doors. The values of flags are
 * filled into the environment here. */
void open_doors_open(struct open_doors *doors, const struct options *options,
                     const struct door_environment *environment);

/* Adds what the chosen doors serve to the main scope. STATUS_INVALID, with a reason, when two of
 * them would serve the same request: they cannot share a port. */
enum status open_doors_serve(struct open_doors *doors, struct net_server *server, char *out_error,
                             size_t error_size);

/* The scope of the listeners of one door, by its place in the list; NULL: it has none. */
struct net_scope *open_doors_own_scope(struct open_doors *doors, struct net_server *server,
                                       size_t i);

/* What the same listeners speak over UDP; NULL: nothing. `out_door` is what it is called with. */
const struct datagram_handler *open_doors_datagrams(struct open_doors *doors, size_t i,
                                                    void **out_door);

void open_doors_write_metrics(const struct open_doors *doors, struct buffer *out);

/* Before the service is closed. */
void open_doors_stop(struct open_doors *doors);
/* After net_server_shutdown() has called back and no request is left with the service. */
void open_doors_close(struct open_doors *doors);

#endif
