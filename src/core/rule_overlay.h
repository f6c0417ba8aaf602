/*
 * The changes of one run of a rule before they are carried out: in the order in which they were
 * made, and what each key and lease has become by them, so that the run reads what it wrote. All of
 * it is arena memory: throwing it away is doing nothing.
 */
#ifndef LEASED_CORE_RULE_OVERLAY_H
#define LEASED_CORE_RULE_OVERLAY_H

#include "base/arena.h"
#include "core/lease_table.h"
#include "core/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rule_change_type {
    RULE_CHANGE_PUT,
    RULE_CHANGE_DELETE,
    RULE_CHANGE_GRANT,
    RULE_CHANGE_SET_TTL,
    RULE_CHANGE_END
};

struct rule_change {
    enum rule_change_type type;
    union {
        const struct record *put; /* as it will be, but for its place in the revision */
        struct {
            struct key_space_id space;
            struct bytes key;
        } delete;
        struct lease_facts grant;
        struct {
            int64_t id;
            int64_t ttl_ms;
        } set_ttl;
        struct {
            int64_t id;
            enum lease_end reason;
        } end;
    };
};

/* What a key has become. */
struct rule_overlay_key {
    struct bytes stored_key;
    const struct record *record; /* NULL: deleted */
};

/* What a lease has become. */
struct rule_overlay_lease {
    struct lease_facts facts;
    bool is_ended;
};

struct rule_overlay {
    struct arena *arena;
    struct {
        struct rule_change *at;
        size_t n;
        size_t capacity;
    } changes;
    struct {
        struct rule_overlay_key *at; /* by stored key */
        size_t n;
        size_t capacity;
    } keys;
    struct {
        struct rule_overlay_lease *at; /* by id */
        size_t n;
        size_t capacity;
    } leases;
    size_t n_ended;
    uint32_t n_epochs; /* of leases, that the changes will take */
    bool has_grown;    /* something was put or granted */
};

void rule_overlay_init(struct rule_overlay *overlay, struct arena *arena);

/* The place of a key, or where it would be: the first that is not below it. */
size_t rule_overlay_seek(const struct rule_overlay *overlay, struct bytes stored_key);
/* What the key has become; NULL when the run has not touched it. */
const struct rule_overlay_key *rule_overlay_key(const struct rule_overlay *overlay,
                                                struct bytes stored_key);
/* What the lease has become; NULL when the run has not touched it. */
const struct rule_overlay_lease *rule_overlay_lease(const struct rule_overlay *overlay, int64_t id);

/* The record is kept: it is arena memory. */
void rule_overlay_put(struct rule_overlay *overlay, const struct record *record);
/* `live` is what the key is now; its bytes stay valid. */
void rule_overlay_delete(struct rule_overlay *overlay, const struct record *live);
void rule_overlay_grant(struct rule_overlay *overlay, const struct lease_facts *facts);
/* Both take the facts that the lease has now. */
void rule_overlay_set_ttl(struct rule_overlay *overlay, const struct lease_facts *facts,
                          int64_t ttl_ms);
void rule_overlay_end(struct rule_overlay *overlay, const struct lease_facts *facts,
                      enum lease_end reason);

#endif
