/*
 * Where the Consul API keeps its state.
 *
 * In KEY_SPACE_CONSUL, named by the key: the right to `leased/consul/kv/KEY` in etcd's space
 * (core/auth_names.h) is the right to both records. NUL ends a name, and sorts before everything.
 *
 *     KEY NUL l      the lock (struct consul_lock)
 *     KEY NUL v      the value (struct consul_value)
 *
 * In KEY_SPACE_CONSUL_RECORDS, which needs no permission:
 *
 *     b UUID         a session is bound to checks of services (no value), attached to its lease
 *     d              written whenever a key is deleted: its revision is an upper bound of that of
 *                    every deletion. Also written once, before anything else
 *     e              the same for sessions that ended
 *     m UUID KEY     a session holds a key (no value), attached to the session's lease
 *     s UUID         a session (struct consul_session), attached to its lease
 *     u NUMBER       an event of users, in turn, and `w`: how many there were
 */
#ifndef LEASED_DOORS_CONSUL_CONSUL_KEYS_H
#define LEASED_DOORS_CONSUL_CONSUL_KEYS_H

#include "base/arena.h"
#include "core/key_store.h"
#include "core/permission.h"
#include "doors/consul/consul_model.h"

struct bytes consul_key_lock(struct arena *arena, struct bytes key);
struct bytes consul_key_value(struct arena *arena, struct bytes key);
/* Both records of a key. */
struct key_range consul_key_range(struct arena *arena, struct bytes key);
/* Those of all keys that begin so; an empty prefix: all. */
struct key_range consul_prefix_range(struct arena *arena, struct bytes prefix);
/* The key of a record, and whether it is that of the value. False: neither. */
bool consul_key_read(const struct record *record, struct bytes *out_key, bool *out_is_value);

struct bytes consul_key_deleted(void);
struct bytes consul_key_sessions_ended(void);
struct bytes consul_key_session(struct arena *arena, struct bytes id);
struct bytes consul_key_bound(struct arena *arena, struct bytes id);
struct key_range consul_bound_range(void);
struct bytes consul_key_held(struct arena *arena, struct bytes id, struct bytes key);
/* Of one session, or, with an empty id, of all. */
struct key_range consul_sessions_range(struct arena *arena, struct bytes id);
struct key_range consul_held_range(struct arena *arena, struct bytes id);
struct bytes consul_key_event(struct arena *arena, uint64_t place);
struct bytes consul_key_event_count(void);
struct key_range consul_events_range(void);

/* --- Reading, after service_read(). What they give points into the store. --- */

/* The keys of a range in order, until `visit` returns false. */
void consul_keys_visit(const struct key_store *keys, const struct key_range *range,
                       bool (*visit)(void *context, const struct consul_entry *entry),
                       void *context);
/* The revision of a record of KEY_SPACE_CONSUL_RECORDS; 1 when there is none. */
int64_t consul_keys_revision(const struct key_store *keys, struct bytes key);
bool consul_keys_session(const struct key_store *keys, struct arena *arena, struct bytes id,
                         struct consul_session *out_session);
/* From its record. */
bool consul_keys_read_session(const struct record *record, struct arena *arena,
                              struct consul_session *out_session);

#endif
