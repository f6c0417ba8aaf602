/*
 * The keys of the native API. Integers are eight bytes, highest first, with the sign bit flipped,
 * so that the order of keys is that of numbers; NUL ends a name.
 *
 * In KEY_SPACE_NATIVE, named by what they are about: the right to a name (core/auth_names.h) is the
 * right to all its keys, to write what acquires and releases, to read what looks.
 *
 *     r NAME NUL h MODE ID   a holder of a resource; MODE is a byte, 0 exclusive, 1 shared. No
 *                            value. Its create revision is the token. Written again, as it is, when
 *                            the value of its acquisition is changed.
 *     r NAME NUL q MODE ID   a place in its queue. No value.
 *     p NAME NUL c           a pool (struct native_pool)
 *     p NAME NUL u SLOT      a slot that is taken (struct native_taken)
 *     p NAME NUL v ID        a place in the queue of a pool (struct native_pool_waiter)
 *
 * In KEY_SPACE_NATIVE_RECORDS, to which no permission is given and none needed: a door shows of
 * them what the caller's rights to the names allow.
 *
 *     s SESSION              a session (struct native_session)
 *     a ID                   an acquisition (struct native_acquisition)
 *     i SESSION REQUEST      finds a request again; the value is the acquisition's id, eight bytes
 *     e PLACE                an end (struct native_ended): NATIVE_ENDED_MAX places, used in turn
 *     n                      how many ends there were
 *     m REVISION LEASE COUNT queues to be looked at again by the rule "settle"; LEASE is the one
 * whose end left them, or 0
 *
 * All but pools, ends and m are attached to the lease of the session, whose id is the session's.
 */
#ifndef LEASED_DOORS_NATIVE_NATIVE_KEYS_H
#define LEASED_DOORS_NATIVE_NATIVE_KEYS_H

#include "base/arena.h"
#include "core/permission.h"
#include "doors/native/native_model.h"

struct key_store;

/* --- Keys, in arena memory. --- */

struct bytes native_key_holder(struct arena *arena, struct bytes name, enum native_mode mode,
                               int64_t id);
struct bytes native_key_waiter(struct arena *arena, struct bytes name, enum native_mode mode,
                               int64_t id);
struct bytes native_key_pool(struct arena *arena, struct bytes name);
struct bytes native_key_taken(struct arena *arena, struct bytes name, struct bytes slot);
struct bytes native_key_pool_waiter(struct arena *arena, struct bytes name, int64_t id);

struct bytes native_key_session(struct arena *arena, int64_t session_id);
struct bytes native_key_acquisition(struct arena *arena, int64_t id);
/* With an empty request id the wants, normalized, are the id. */
struct bytes native_key_request(struct arena *arena, int64_t session_id, struct bytes request_id,
                                const struct native_want *wants, size_t n_wants);
struct bytes native_key_ended(struct arena *arena, uint64_t number);
struct bytes native_key_ended_count(void);
struct bytes native_key_unsettled(struct arena *arena, int64_t revision, int64_t lease_id,
                                  uint32_t count);

/* --- Ranges, in arena memory. --- */

/* All keys of one name, and of all names that begin so. */
struct key_range native_name_range(struct arena *arena, bool is_pool, struct bytes name);
struct key_range native_prefix_range(struct arena *arena, bool is_pool, struct bytes prefix);
/* Of a resource: both modes, or one. */
struct key_range native_holders(struct arena *arena, struct bytes name);
struct key_range native_holders_of(struct arena *arena, struct bytes name, enum native_mode mode);
struct key_range native_waiters(struct arena *arena, struct bytes name);
struct key_range native_waiters_of(struct arena *arena, struct bytes name, enum native_mode mode);
/* Those with ids in (after, before). */
struct key_range native_waiters_between(struct arena *arena, struct bytes name,
                                        enum native_mode mode, int64_t after, int64_t before);
/* Of a pool. */
struct key_range native_taken_slots(struct arena *arena, struct bytes name);
struct key_range native_pool_waiters(struct arena *arena, struct bytes name);
/* All requests of a session. */
struct key_range native_requests(struct arena *arena, int64_t session_id);
/* All records of a kind: 's', 'a', 'e' or 'm'. */
struct key_range native_records(char kind);

/* --- Reading keys. --- */

enum native_key_kind {
    NATIVE_KEY_OTHER, /* not one of ours */
    NATIVE_KEY_HOLDER,
    NATIVE_KEY_WAITER,
    NATIVE_KEY_POOL,
    NATIVE_KEY_TAKEN,
    NATIVE_KEY_POOL_WAITER,
    NATIVE_KEY_SESSION,
    NATIVE_KEY_ACQUISITION,
    NATIVE_KEY_REQUEST,
    NATIVE_KEY_ENDED,
    NATIVE_KEY_ENDED_COUNT,
    NATIVE_KEY_UNSETTLED
};
struct native_key {
    enum native_key_kind kind;
    bool is_pool;
    struct bytes name; /* of a resource or a pool */
    enum native_mode mode;
    int64_t id;        /* of an acquisition; of a session */
    struct bytes slot; /* that is taken */
};
/* Texts point into the record. */
struct native_key native_key_read(const struct record *record);

/* --- Fences: keys of etcd's space, so that transactions there can compare them. --- */

/* `leased/fences/` and the resource. */
struct bytes native_fence_key(struct arena *arena, struct bytes resource);
enum { NATIVE_FENCE_DIGITS = 20 };
/* The highest token in decimal, with leading zeros. */
void native_fence_write(int64_t token, uint8_t out_digits[NATIVE_FENCE_DIGITS]);
/* False: the value is none. */
bool native_fence_read(struct bytes value, int64_t *out_token);

#endif
