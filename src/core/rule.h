/*
 * A rule: what a protocol changes, as a pure function that every replica runs at the same place of
 * the log. It reads and changes keys of its own spaces and leases that belong to them, nothing
 * else. It has no clock, no randomness and no memory but the arena. All its changes are one
 * revision; when it returns anything but STATUS_OK, nothing was changed. Reads see the changes that
 * the same run has made so far.
 *
 * While authentication is on, what a rule reads and changes for a client needs the client's own
 * rights to those keys, and a lease that it changes, attaches to, grants another under or hooks a
 * rule to the right to write the keys of that lease; without them the run is refused with
 * STATUS_PERMISSION_DENIED. A door need not ask.
 *
 * Work is counted: a run that exceeds one of the bounds below, or reaches outside its spaces, is
 * refused whatever it returns, with the same status on every replica.
 */
#ifndef LEASED_CORE_RULE_H
#define LEASED_CORE_RULE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "core/caller.h"
#include "core/key_space.h"
#include "core/lease_table.h"
#include "core/permission.h"
#include "core/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of one run; beyond them STATUS_REQUEST_TOO_LARGE. */
enum {
    RULE_SPACES_MAX = 5,
    RULE_REQUEST_SIZE_MAX = 3 * 512 * 1024, /* COMMAND_SIZE_DEFAULT */
    RULE_RECORDS_MAX = 65536,               /* looked at */
    RULE_CHANGES_MAX = 4096,                /* puts, deletes, and changes of leases */
    RULE_BYTES_MAX = 4 * 1024 * 1024,       /* of keys and values written */
    RULE_ANSWER_SIZE_MAX = 1024 * 1024,
    /* Keys that go with the leases which a run and the hooks that it sets off end: those of one
     * lease that is as full as can be, and as many more. A family has LEASE_FAMILY_MAX leases at
     * most. */
    RULE_ENDED_KEYS_MAX = 2 * LEASE_KEYS_MAX,
    /* A rule that runs because a lease has ended: a batch of thousands may end at once. */
    RULE_HOOK_RECORDS_MAX = 4096, /* and four more for each key that went with the lease … */
    RULE_HOOK_CHANGES_MAX = 512,  /* and one more for each of these; never more than a run has */
    RULE_HOOK_REQUEST_SIZE_MAX = 1024,
    RULE_HOOKS_OF_LEASE_MAX = 64,
    RULE_HOOK_DEPTH_MAX = 4,  /* a hook ends a lease whose hook ends a lease … */
    RULE_HOOK_ENDS_MAX = 1024 /* leases that the hooks of one command may end */
};

struct rule_run; /* one execution */
struct key_store;

struct rule {
    /* In the log: a released number never changes its meaning. By convention the number of its
     * first space times 65,536, plus a count. */
    uint32_t number;
    const char *name;
    uint32_t since_version; /* of the cluster: refused before, with STATUS_UNSUPPORTED */
    /* What it may read and change; unused places are KEY_SPACE_NONE. Leases that it grants belong
     * to the first. */
    struct key_space_id spaces[RULE_SPACES_MAX];
    /* The answer may be anything within its bound; it is given to the caller only with STATUS_OK.
     * The request is what a client caused: it must be checked to the last byte. */
    enum status (*run)(struct rule_run *run, struct bytes request, struct buffer *answer);
    /* It gives room back, although it may write a little: it runs while the space alarm stands. */
    bool runs_when_full;
    /* NULL, or how much work a run may be, in units of key_work.h, told before it is proposed: only
     * so much is on its way at a time. For rules that may look at many records or end many keys. */
    size_t (*estimate)(const struct key_store *keys, const struct lease_table *leases,
                       struct bytes request);
};

/* The rules that a member knows, in any order, each number once. All rules of all protocols,
 * whether this member speaks them or not: every replica must run them. */
struct rule_set {
    const struct rule *const *rules;
    size_t n;
};

/* --- What a run knows. --- */

/* On whose behalf; of a hook, the server itself. */
const struct caller *rule_caller(const struct rule_run *run);
/* The proposer's wall clock: information only, it may jump. */
int64_t rule_wall_ms(const struct rule_run *run);
/* The revision that the changes of this run will have. */
int64_t rule_revision(const struct rule_run *run);
/* Memory for this run alone. */
struct arena *rule_arena(struct rule_run *run);
/* What is left of the bounds: for a rule that does as much as it may and leaves the rest to another
 * run. */
size_t rule_records_left(const struct rule_run *run);
size_t rule_changes_left(const struct rule_run *run);
size_t rule_bytes_left(const struct rule_run *run);
/* Tells of work that is seen nowhere else, in units of key_work.h: one record that is decoded as a
 * thousand things. It brings the next snapshot nearer, so that a start does not do all of it again,
 * and when leases end, the rest of them is left to another entry sooner. */
void rule_add_work(struct rule_run *run, size_t work);

/* --- Rights. --- */

/* Whether the caller has the right to a range; if not, the run is refused. */
bool rule_may(struct rule_run *run, enum right right, const struct key_range *range);
/* What follows is done for the server, with its rights: what comes of a request that its caller had
 * the right to make, and does not concern the caller. A lock that its holder gives back goes to the
 * next in the queue, whatever rights the holder has. */
void rule_act_for_server(struct rule_run *run);

/* --- Keys. --- */

/* The live record of a key, or NULL. Valid until the run ends. */
const struct record *rule_get(struct rule_run *run, struct key_space_id space, struct bytes key);

/* Visits the live records of [key, range_end) in key order until `visit` returns false; a
 * range_end of one zero byte means the end of the space. `visit` must not change anything. False:
 * a bound was met, and the run is refused. */
bool rule_visit(struct rule_run *run, struct key_space_id space, struct bytes key,
                struct bytes range_end, bool (*visit)(void *context, const struct record *record),
                void *context);

/* How many live keys a range had before this run; counted, not looked at. Keys of leases that are
 * ending with the command count. */
size_t rule_count(struct rule_run *run, struct key_space_id space, struct bytes key,
                  struct bytes range_end);

/* Writes a key and attaches it to a lease (0: to none). Returns its create revision, which is the
 * fencing token when the key is an acquisition; 0 when the run is refused (an empty key, no such
 * lease, a bound). */
int64_t rule_put(struct rule_run *run, struct key_space_id space, struct bytes key,
                 struct bytes value, int64_t lease_id);
/* True when there was such a key. */
bool rule_delete(struct rule_run *run, struct key_space_id space, struct bytes key);

/* Counts one up and returns the new number: 1 the first time. The number is the value of the key,
 * eight bytes, highest first; a key with another value refuses the run (0 is returned). The key
 * keeps its lease. */
int64_t rule_count_up(struct rule_run *run, struct key_space_id space, struct bytes key);

/* --- Leases. Those of other spaces do not exist for the rule. --- */

/* Its epoch is 0 when its time was changed in this run, or it was granted after the end of
 * another. */
bool rule_lease_find(struct rule_run *run, int64_t id, struct lease_facts *out_facts);

/* Whether the lease exists for the rule. While rights count, the caller must be allowed to write
 * the keys that are attached to it; otherwise the run is refused. */
bool rule_lease_use(struct rule_run *run, int64_t id);
/* How many keys were attached to it before this run. */
size_t rule_lease_key_count(struct rule_run *run, int64_t id);

struct rule_lease {
    int64_t id;     /* 0: chosen, the same on every replica */
    int64_t ttl_ms; /* as in struct lease_facts */
    int64_t parent_id;
    lease_class class;
    /* One of the rule's spaces; KEY_SPACE_NONE: its first. */
    struct key_space_id owner;
};
/* STATUS_LEASE_EXISTS, _LEASE_NOT_FOUND (the parent), _LEASE_TTL_TOO_LARGE, _INVALID. These do not
 * refuse the run: the rule decides. */
enum status rule_lease_grant(struct rule_run *run, const struct rule_lease *lease, int64_t *out_id);
/* Ends a lease, and with it its children, the keys of all of them, in whatever space, and then runs
 * their hooks, after the changes of this run. The reason is LEASE_END_REVOKED or _EXPIRED.
 * STATUS_LEASE_NOT_FOUND. */
enum status rule_lease_end(struct rule_run *run, int64_t id, enum lease_end reason);
/* Counts anew from now, in a new epoch. Not a change of a key: alone it takes no revision.
 * STATUS_LEASE_NOT_FOUND, _LEASE_TTL_TOO_LARGE, _INVALID. */
enum status rule_lease_set_ttl(struct rule_run *run, int64_t id, int64_t ttl_ms);

/* --- When a lease ends. --- */

/* Runs a rule in the revision in which the lease ends, whatever ends it: a lock is handed to the
 * next in its queue, a session's registrations are counted down, a lock-delay begins. Asking twice
 * for the same is asking once. Hooks of one lease run in the order of their numbers, then requests.
 * A hook that is refused changes nothing, and the lease ends all the same. STATUS_LEASE_NOT_FOUND,
 * STATUS_INVALID (no such rule, a request that is too large), STATUS_TOO_MANY_REQUESTS (hooks of
 * one lease). */
enum status rule_on_lease_end(struct rule_run *run, int64_t lease_id, uint32_t rule_number,
                              struct bytes request);
/* Takes it back; false when it was not asked for. */
bool rule_cancel_on_lease_end(struct rule_run *run, int64_t lease_id, uint32_t rule_number,
                              struct bytes request);

/* In a hook: the lease that has ended and why; false in any other run. */
bool rule_ended_lease(const struct rule_run *run, struct lease_facts *out_facts,
                      enum lease_end *out_reason);
/* In a hook: the keys that went with the lease, as far as they are of the rule's spaces, in key
 * order. */
void rule_visit_ended_keys(struct rule_run *run,
                           bool (*visit)(void *context, const struct record *record),
                           void *context);

#endif
