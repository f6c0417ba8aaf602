/*
 * A door: everything that leased needs to know to speak one protocol, as a constant table. The list
 * of doors is doors.c; the server opens the chosen ones, gives them their listeners, flags, limits
 * and callers, and asks them for routes, methods, raw protocols, rules and metrics.
 */
#ifndef LEASED_DOORS_DOOR_H
#define LEASED_DOORS_DOOR_H

#include "base/buffer.h"
#include "core/rule.h"
#include "core/service.h"
#include "net/net_server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum {
    DOORS_MAX = 16,
    DOOR_FLAGS_MAX = 8 /* of one door */
};

/* --- Flags. --- */

enum door_flag_kind {
    DOOR_FLAG_TEXT,
    DOOR_FLAG_WORD,    /* one of `choices` */
    DOOR_FLAG_SWITCH,  /* --flag alone means true */
    DOOR_FLAG_NUMBER,  /* between min and max */
    DOOR_FLAG_DURATION /* "30s", "5m" */
};

/* A flag that a door adds to those of the server; it is given with any choice of doors. */
struct door_flag {
    /* Without dashes; begins with the door's name unless another server named it. */
    const char *name;
    enum door_flag_kind kind;
    const char *fallback; /* the value when it is left out */
    const char *shown;    /* what --help shows instead of the fallback; may be NULL */
    const char *choices;  /* of DOOR_FLAG_WORD: with | between them */
    uint64_t min;         /* of DOOR_FLAG_NUMBER */
    uint64_t max;
    const char *help;
};

/* The value of one flag: the member of its kind. */
union door_value {
    const char *text; /* also of DOOR_FLAG_WORD */
    bool is_on;
    uint64_t number;
    int64_t duration_ms;
};

/* --- Requests. --- */

/* What a caller needs, when authentication is on, for a request to be served. */
enum door_right {
    DOOR_RIGHT_NONE,       /* nothing: health alone */
    DOOR_RIGHT_USER,       /* to be known, whatever the rights */
    DOOR_RIGHT_READ,       /* to read the keys that the request names */
    DOOR_RIGHT_WRITE,      /* to write them */
    DOOR_RIGHT_READ_WRITE, /* both: a transaction */
    DOOR_RIGHT_ROOT        /* the root role */
};

/* One request that a door serves. The names are those of the wire: a gRPC path, "GET
 * /v1/kv/{key...}", a command. The test of rights asks for this list (leased --list-requests), so
 * that it knows all of them. */
struct door_request {
    const char *name;
    enum door_right right;
};

/* --- The door. --- */

struct authenticator;
struct datagram_handler; /* net/datagram.h */

/* What a door is opened with. It lives as long as the door, with all that it names. */
struct door_environment {
    uv_loop_t *loop;
    struct service *service;
    struct authenticator
        *authenticator;             /* authenticator.h: for protocols that log in by themselves */
    const struct net_server *net;   /* for its statistics */
    uint64_t quota_bytes;           /* of keys and their history */
    size_t request_size_max;        /* of a client: --max-request-bytes */
    size_t check_sockets_max;       /* connections that health checks may have */
    const union door_value *values; /* of its flags, in their order */
};

struct door {
    const char *name;  /* "redis": of --doors, --listen-redis, metrics and docs/doors/redis.md */
    const char *title; /* for people: "etcd API" */
    const char *api_version; /* of the protocol that is served; may be NULL */
    uint16_t default_port;   /* where its clients look for it; shown by --help */
    bool is_default;         /* served when --doors is left out */
    /* No bytes of it tell it from other protocols: it is served on listeners of its own alone. */
    bool needs_own_port;

    const struct door_flag *flags;
    size_t n_flags;
    const struct door_request *requests; /* ends with an entry without a name */
    /* What it changes beyond plain commands, see core/rule.h. Every build has the rules of all its
     * doors, whichever are served: each replica must be able to apply what another one proposes. */
    const struct rule *const *rules;
    size_t n_rules;

    /* Looks at the values of its flags beyond what their kinds say. NULL: they are all right; else
     * the flag and what is wrong with it, as a constant text. May be NULL itself. */
    const char *(*check)(const union door_value *values);
    /* Gives what the functions below are called with. Called once, at start, so it aborts when
     * memory is out. NULL: the door needs no more than its environment, and is called with that. */
    void *(*open)(const struct door_environment *environment);
    /* Adds routes, gRPC methods and raw protocols to a scope (net_scope_add_...()): to that of the
     * client URLs when the door is chosen, and to that of its own listeners. */
    void (*serve)(void *door, struct net_scope *scope);
    /* UDP, on the addresses of its own listeners that speak plain text over TCP. The handler is
     * called with the door, and lives as long as it does. NULL: it speaks none. */
    const struct datagram_handler *(*datagrams)(void *door);
    /* Appends metrics in Prometheus' format; names begin with leased_<name>_. NULL: none. */
    void (*write_metrics)(const void *door, struct buffer *out);
    /* Every connection is closed, and the service is about to be: timers that use it must not fire
     * any more. NULL: there are none. */
    void (*stop)(void *door);
    /* After every connection is closed and the service has answered every request. The loop runs
     * on, so that handles can be closed. NULL: there is nothing to do. */
    void (*close)(void *door);
};

struct door_list {
    const struct door *const *doors;
    size_t n_doors;
};

#endif
