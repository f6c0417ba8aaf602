/* A watch for the deletions of a benchmark's keys, on one connection. */
#ifndef LEASED_BENCH_BENCH_DELETE_WATCH_H
#define LEASED_BENCH_BENCH_DELETE_WATCH_H

#include "bench/bench.h"

struct bench_delete_watch {
    struct bench *bench;
    void *context;
    /* The key with this index was deleted; `now_ns` is when the event arrived. */
    void (*on_deleted)(void *context, uint64_t index, uint64_t now_ns);
    bool created;
};

/* Returns when the server has confirmed the watch. It lasts as long as the connection. */
void bench_delete_watch_start(struct bench_delete_watch *watch, struct lease_client *client);

#endif
