/*
 * The instances that a list shows, gathered from a view of the registry by a worker: which of them
 * belong in it, in which order, and how many have each status. Holds no more than a few words an
 * instance; what they say is read again when it is written.
 */
#ifndef LEASED_DOORS_EUREKA_EUREKA_COLLECTION_H
#define LEASED_DOORS_EUREKA_EUREKA_COLLECTION_H

#include "core/permission.h"
#include "doors/eureka/eureka_document.h"

/* Which list. */
enum eureka_list {
    EUREKA_LIST_ALL,
    EUREKA_LIST_DELTA,       /* what has changed since a revision */
    EUREKA_LIST_APPLICATION, /* the services in `ranges` */
    EUREKA_LIST_VIP,
    EUREKA_LIST_SECURE_VIP
};

/* Names of a service that may be that of an application: lower case, as asked, upper case. */
enum { EUREKA_NAMES_MAX = 3 };

struct eureka_query {
    enum eureka_list list;
    int64_t since_revision;                    /* of the delta */
    struct bytes vip;                          /* of the lists of VIPs */
    struct key_range ranges[EUREKA_NAMES_MAX]; /* what is read: of the application, or all */
    size_t n_ranges;
};

struct eureka_item {
    const struct record *record; /* the view's */
    struct bytes service;        /* in the record */
    struct bytes id;
    uint8_t health;
    uint8_t action;
    bool is_kept;
};

struct eureka_collection {
    struct buffer memory; /* of items */
    size_t n_items;
    struct eureka_counts counts; /* of all in the registry; of a VIP: of those in the list */
};

void eureka_collection_init(struct eureka_collection *collection);
void eureka_collection_clear(struct eureka_collection *collection);

/* Reads the view. By the name of the application, then by service and id. */
void eureka_collection_fill(struct eureka_collection *collection, const struct key_view *view,
                            const struct eureka_query *query);
const struct eureka_item *eureka_collection_at(const struct eureka_collection *collection,
                                               size_t index);
/* An item as it is shown, in arena memory. False: its record cannot be read. */
bool eureka_item_show(const struct eureka_item *item, struct arena *arena,
                      struct eureka_instance *out_instance);
/* Whether both are of the same application. */
bool eureka_item_is_beside(const struct eureka_item *a, const struct eureka_item *b);

#endif
