/* A watch for the deletions of a load's keys, on one connection. */
#ifndef LEASED_LOAD_DELETE_WATCH_H
#define LEASED_LOAD_DELETE_WATCH_H

#include "tools/load/load.h"

struct delete_watch {
    struct load *load;
    void *context;
    /* The key with this index was deleted; `now_us` is when the event arrived. */
    void (*on_deleted)(void *context, uint64_t index, uint64_t now_us);
    bool created;
};

/* Returns when the server has confirmed the watch. */
void delete_watch_start(struct delete_watch *watch, struct lease_client *client);

#endif
