/*
 * Endpoints of a service as they were last encoded, shared by all streams that are subscribed to
 * them: a change is encoded once, however many clients are told of it.
 */
#ifndef LEASED_DOORS_XDS_XDS_SHARED_H
#define LEASED_DOORS_XDS_XDS_SHARED_H

#include "base/bytes.h"
#include "doors/xds/xds_state.h"

#include <stdbool.h>
#include <stdint.h>

struct xds_shared;

/* Aborts when memory is out. */
struct xds_shared_table *xds_shared_table_create(void);
/* None is held any more. */
void xds_shared_table_destroy(struct xds_shared_table *table);

/* The one of this name (which is valid) and near zone; to be given back. NULL: memory is out. */
struct xds_shared *xds_shared_hold(struct xds_shared_table *table, struct bytes name,
                                   struct bytes near_zone);
void xds_shared_release(struct xds_shared_table *table, struct xds_shared *shared);

struct xds_encoded {
    struct bytes message; /* a ClusterLoadAssignment; valid until the next call */
    /* Of the service, when the message last became another one. */
    int64_t revision;
    bool is_behind;   /* the service has changed since, and is read again later */
    bool has_message; /* there is one, and it is not older than what is wanted */
};
/* False: this iteration of the loop has spent enough on reading endpoints; those that are behind
 * stay so until the next one. */
bool xds_shared_has_time(struct xds_door *door);
/* A large service is being read by as many workers as there may be; the end of one goes on. */
bool xds_shared_is_waiting(const struct xds_door *door);
/* As the registry is now, or was when it was wanted for the first time: `*wanted_revision` is the
 * caller's, 0 at first. A large service is read by a worker: later. One so large that this takes
 * milliseconds is read for at most a tenth of the time, however often it changes. */
struct xds_encoded xds_shared_read(struct xds_door *door, struct xds_shared *shared,
                                   int64_t *wanted_revision);

#endif
