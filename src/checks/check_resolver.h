/*
 * Host names of checks, resolved by libuv's workers, few at a time, so that a name server that does
 * not answer holds up neither the loop nor those who use the workers for snapshots. What was found
 * is used again for a few seconds, as is what was not found.
 */
#ifndef LEASED_CHECKS_CHECK_RESOLVER_H
#define LEASED_CHECKS_CHECK_RESOLVER_H

#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

enum {
    CHECK_ADDRESSES_MAX = 4, /* of one name */
    CHECK_LOOKUPS_MAX = 2,   /* at a time; libuv has four workers */
    CHECK_NAMES_MAX = 4096   /* remembered or waited for */
};

struct check_addresses {
    size_t n; /* 0: there are none */
    const char *error;
    struct sockaddr_storage addresses[CHECK_ADDRESSES_MAX]; /* their ports are not set */
};

/* Embedded in what waits. */
struct check_lookup {
    struct list link;
    /* The addresses are borrowed for the call. */
    void (*done)(struct check_lookup *lookup, const struct check_addresses *addresses);
};

struct check_resolver;

/* Aborts when memory is out. */
struct check_resolver *check_resolver_create(uv_loop_t *loop);
/* Nothing waits any more; the memory goes when the workers have ended. */
void check_resolver_destroy(struct check_resolver *resolver);

/* True: known at once (a numeric address, "localhost", a name of a moment ago), and done() is not
 * called. False: done() is called later, unless it is canceled before. */
bool check_resolver_find(struct check_resolver *resolver, const char *host, uint64_t now_ms,
                         struct check_lookup *lookup, struct check_addresses *out_addresses);
/* Harmless when it does not wait, and its link was initialised. */
void check_lookup_cancel(struct check_lookup *lookup);

#endif
