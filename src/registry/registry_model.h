/*
 * What the registry keeps: instances of services, their checks, and what is known of a service as a
 * whole. Pure: values and their codec, nothing else. Every protocol that registers or discovers
 * (native, Consul, Eureka, DNS, xDS) uses these records, so that one instance is seen through all
 * of them.
 */
#ifndef LEASED_REGISTRY_REGISTRY_MODEL_H
#define LEASED_REGISTRY_REGISTRY_MODEL_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    REGISTRY_NAME_SIZE_MAX = 255, /* of a service, an instance's id, a check's id, a node, a zone */
    REGISTRY_TEXT_SIZE_MAX = 4096, /* an address, an URL, a note, the output of a check */
    REGISTRY_TAGS_MAX = 64,
    REGISTRY_PAIRS_MAX = 64,  /* of metadata; of headers */
    REGISTRY_CHECKS_MAX = 16, /* of one instance */
    REGISTRY_EXTRA_SIZE_MAX = 16 * 1024,
    REGISTRY_WEIGHT_MAX = 65535,
    REGISTRY_INSTANCE_SIZE_MAX = 64 * 1024 /* of an encoded instance, and of an encoded check */
};

/* The least TTL of a registration, of a TTL check, and the least interval of a check. */
#define REGISTRY_TTL_MS_MIN INT64_C(1000)
#define REGISTRY_INTERVAL_MS_MIN INT64_C(100)

/* A name: 1 to REGISTRY_NAME_SIZE_MAX bytes of UTF-8 without control characters. */
bool registry_name_is_valid(struct bytes name);

/* --- Instances. --- */

enum registry_state {
    REGISTRY_STATE_NONE = 0, /* of an override: there is none */
    REGISTRY_STARTING = 1,
    REGISTRY_UP = 2,
    REGISTRY_DRAINING = 3, /* takes no new work; the lease ends the rest */
    REGISTRY_OUT_OF_SERVICE = 4,
    REGISTRY_DOWN = 5,
    REGISTRY_STATES = 6
};

/* Which API registered it. */
enum registry_origin {
    REGISTRY_ORIGIN_NATIVE = 1,
    REGISTRY_ORIGIN_CONSUL = 2,
    REGISTRY_ORIGIN_EUREKA = 3,
    REGISTRY_ORIGINS = 4
};

struct registry_pair {
    struct bytes key;
    struct bytes value;
};

struct registry_instance {
    /* Of its key: unique together. */
    struct bytes service;
    struct bytes id;
    /* Of its record; not encoded. */
    int64_t token;    /* grows with every registration: the later process has the greater */
    int64_t revision; /* in which the record last changed */
    int64_t lease_id;

    uint8_t origin;
    uint8_t state;
    uint8_t override_state; /* an operator's word goes before the instance's own */
    uint16_t port;          /* 0: none */
    uint32_t weight;        /* 1 by default; 0: listed, never chosen */
    struct bytes address;   /* an IP address or a host name; may be empty: the node's */
    struct bytes zone;      /* may be empty, as all that follows */
    struct bytes version;
    struct bytes node;  /* the machine: Consul's node, Eureka's hostName */
    struct bytes owner; /* who registered it, for people */
    size_t n_tags;
    const struct bytes *tags;
    size_t n_metadata;
    const struct registry_pair *metadata; /* each key once */
    /* What only the protocol that registered it understands; others leave it alone. */
    struct bytes extra;
    int64_t ttl_ms; /* of its lease, without the service's grace; LEASE_TTL_FOREVER: until it is
                       deregistered */
    int64_t registered_wall_ms; /* information, as every wall time; set by the rule */
    int64_t state_wall_ms;      /* when its state last changed; set by the rule */
    uint64_t user_id;           /* who asked; 0: nobody. Set by the rule */
};

/* The override, if there is one, else its own. */
enum registry_state registry_instance_state(const struct registry_instance *instance);
/* Sizes, names, states, nothing twice. */
bool registry_instance_is_valid(const struct registry_instance *instance);
/* All but what is in its key and record. */
void registry_instance_encode(struct buffer *out, const struct registry_instance *instance);
/* Arrays are arena memory, texts point into the value. */
bool registry_instance_decode(struct bytes value, struct arena *arena,
                              struct registry_instance *out_instance);
/* The value of a key of its metadata; false: there is none. */
bool registry_instance_metadata(const struct registry_instance *instance, const char *key,
                                struct bytes *out_value);
bool registry_instance_has_tag(const struct registry_instance *instance, struct bytes tag);

/* --- Lost instances: their leases have ended. --- */

enum registry_health {
    REGISTRY_PASSING = 0,
    REGISTRY_WARNING = 1,
    REGISTRY_CRITICAL = 2,
    REGISTRY_HEALTHS = 3
};

struct registry_lost {
    struct registry_instance instance; /* as it was, with its token */
    uint8_t health;                    /* as it was; its checks are gone */
    uint64_t round;                    /* that of the service then; of an older one it is litter */
};
void registry_lost_encode(struct buffer *out, const struct registry_lost *lost);
/* Arrays are arena memory, texts point into the value. */
bool registry_lost_decode(struct bytes value, struct arena *arena, struct registry_lost *out_lost);

/* --- Checks. --- */

enum registry_check_kind {
    REGISTRY_CHECK_TTL = 1, /* the client reports; silence is critical */
    REGISTRY_CHECK_HTTP = 2,
    REGISTRY_CHECK_TCP = 3,
    REGISTRY_CHECK_GRPC = 4,
    REGISTRY_CHECK_COMMAND = 5,
    REGISTRY_CHECK_ALIAS = 6,  /* as another instance is */
    REGISTRY_CHECK_MANUAL = 7, /* as somebody says: maintenance, the catalog's API */
    REGISTRY_CHECK_KINDS = 8
};

struct registry_check {
    struct bytes id;  /* of its key; unique within the instance */
    int64_t revision; /* of its record; not encoded */
    uint8_t kind;
    uint8_t origin;
    struct bytes name;
    struct bytes notes;

    /* What is asked. */
    struct bytes target; /* URL, host:port, the command as its arguments with NUL between */
    struct bytes method; /* of HTTP; empty: GET. Of gRPC: the service's name */
    size_t n_headers;
    const struct registry_pair *headers;
    struct bytes body;        /* sent */
    struct bytes body_match;  /* the answer's body has to contain it; empty: any */
    uint16_t status_min;      /* of HTTP; 0: 200 */
    uint16_t status_max;      /* 0: 299. 429 is a warning unless it is within */
    struct bytes server_name; /* of TLS; empty: the host's */
    bool is_tls;              /* of gRPC and TCP; HTTP's is in the URL */
    bool skips_verification;
    struct bytes alias_service;
    struct bytes alias_id; /* empty: all instances of the service */

    /* When. */
    int64_t interval_ms;
    int64_t timeout_ms;          /* 0: the interval, at most 10 s */
    int64_t ttl_ms;              /* of REGISTRY_CHECK_TTL */
    uint32_t rises;              /* results in a row that make it passing; 0 is 1 */
    uint32_t falls;              /* and critical */
    int64_t deregister_after_ms; /* critical for so long: the instance goes; 0: never */

    /* What came of it. */
    uint8_t health;
    struct bytes output;
    int64_t changed_wall_ms;
    int64_t ttl_lease_id;        /* of REGISTRY_CHECK_TTL while it is not critical; 0: none */
    int64_t deregister_lease_id; /* counts deregister_after_ms; 0: none */
};

bool registry_check_is_valid(const struct registry_check *check);
void registry_check_encode(struct buffer *out, const struct registry_check *check);
/* Arrays are arena memory, texts point into the value. */
bool registry_check_decode(struct bytes value, struct arena *arena,
                           struct registry_check *out_check);

/* --- Services. --- */

/* How a service is kept from flapping and from vanishing by mistake; 0 means the default. */
struct registry_service_settings {
    int64_t grace_ms; /* added to the TTL of its instances' leases */
    /* The mass-failure guard. Instances whose leases ended within `guard_window_ms` are lost; when
     * at least `guard_minimum` are lost and they are at least `guard_percent` of lost and live
     * together, all of them stay listed, marked, for `guard_hold_ms`, or until so many are back
     * that the lost are less than half of that share. */
    uint32_t guard_percent; /* 1 to 100; 101: no guard */
    uint32_t guard_minimum;
    int64_t guard_window_ms;
    int64_t guard_hold_ms;
};
enum {
    REGISTRY_GUARD_PERCENT = 50,
    REGISTRY_GUARD_MINIMUM = 3,
    REGISTRY_GUARD_WINDOW_MS = 30 * 1000,
    REGISTRY_GUARD_HOLD_MS = 5 * 60 * 1000,
    REGISTRY_GUARD_OFF = 101
};

/* The record of a service: counted by the rules, and written in every revision that changes
 * anything of the service, so that its revision is that of the service. It exists while the service
 * has instances, lost ones or settings. */
struct registry_service {
    struct bytes name; /* of its key */
    int64_t revision;  /* of its record; not encoded */
    struct registry_service_settings settings;
    uint32_t n_live;
    uint32_t n_lost;
    int64_t guard_lease_id; /* counts guard_hold_ms; 0: the guard is not on */
    int64_t guard_wall_ms;  /* since when */
    uint64_t n_guarded;     /* how often it was on */
    /* Lost instances are counted by rounds: when the guard goes off, a round ends, and what was
     * lost in it is no longer listed or counted. Its records go a little later, by and by. */
    uint64_t round;
    uint32_t n_tombstones; /* records of lost instances, of all rounds */
    int64_t kept_lease_id; /* to which the records of kept instances are attached; 0: none yet */
};
/* Times up to a year; 0 or at least REGISTRY_TTL_MS_MIN. */
#define REGISTRY_SETTING_MS_MAX (INT64_C(366) * 24 * 60 * 60 * 1000)
bool registry_settings_are_valid(const struct registry_service_settings *settings);
void registry_settings_put(struct buffer *out, const struct registry_service_settings *settings);
struct registry_service_settings registry_settings_get(struct reader *reader);
void registry_service_encode(struct buffer *out, const struct registry_service *service);
bool registry_service_decode(struct bytes value, struct registry_service *out_service);
/* With the defaults filled in. */
struct registry_service_settings registry_service_settings(const struct registry_service *service);

/* --- What happened. --- */

enum registry_event_kind {
    REGISTRY_EVENT_LOST = 1,     /* the lease of an instance ended */
    REGISTRY_EVENT_GUARD_ON = 2, /* the guard keeps lost instances listed */
    REGISTRY_EVENT_GUARD_OFF = 3,
    REGISTRY_EVENT_DEREGISTERED = 4, /* because it was critical for too long */
    REGISTRY_EVENT_KINDS = 5
};
enum { REGISTRY_EVENTS_MAX = 1000 };
struct registry_event {
    uint64_t number; /* from 1 on */
    uint8_t kind;
    struct bytes service;
    struct bytes id; /* may be empty */
    uint32_t n_live;
    uint32_t n_lost;
    int64_t revision;
    int64_t wall_ms;
};
void registry_event_encode(struct buffer *out, const struct registry_event *event);
bool registry_event_decode(struct bytes value, struct registry_event *out_event);

#endif
