/*
 * The replicated state: keys, leases, alarms, members, and the watch hub over them. The only way in
 * is state_machine_apply(): the same commands in the same order give byte-equal snapshots on every
 * replica. It reads no clock: `now_ms` only feeds the leader's local deadlines.
 */
#ifndef LEASED_CORE_STATE_MACHINE_H
#define LEASED_CORE_STATE_MACHINE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/status.h"
#include "core/apply_context.h"
#include "core/auth.h"
#include "core/command.h"
#include "core/key_store.h"
#include "core/lease_table.h"
#include "core/member_table.h"
#include "core/rule.h"
#include "core/snapshot_sink.h"
#include "core/watch_hub.h"

struct state_machine;

struct state_machine_options {
    const struct rule_set *rules;    /* NULL: none. The rules outlive the machine. */
    const struct hash_key *hash_key; /* of tables in memory; NULL: hash_key_fixed */
    uint32_t cluster_version_known;  /* for tests: 0 is the newest */
};

/* Options may be NULL. */
struct state_machine *state_machine_create(const struct state_machine_options *options);
void state_machine_destroy(struct state_machine *machine);

struct key_store *state_machine_keys(struct state_machine *machine);
struct lease_table *state_machine_leases(struct state_machine *machine);
struct watch_hub *state_machine_watches(struct state_machine *machine);
const struct member_table *state_machine_members(const struct state_machine *machine);
const struct auth *state_machine_auth(const struct state_machine *machine);
/* The same to be looked at: state_view.h. Lives as long as the machine. */
struct state_view;
const struct state_view *state_machine_view(const struct state_machine *machine);
/* What may be used: see cluster_version.h. */
uint32_t state_machine_cluster_version(const struct state_machine *machine);

/* False: the command is of a newer release than this one, which must not go on without it. */
bool state_machine_knows(const struct state_machine *machine, const struct command *command);
/* False: not every member is sure to know the command, which must not be proposed yet. */
bool state_machine_allows(const struct state_machine *machine, const struct command *command);
/* How much work the rule of a COMMAND_RULE says its run may be; 0: little. */
size_t state_machine_rule_work(struct state_machine *machine, const struct command *command);
/* Applies one command that it knows. Outcome arrays are in the arena. */
void state_machine_apply(struct state_machine *machine, const struct command *command,
                         const struct apply_context *context, struct arena *arena,
                         struct outcome *out_outcome);

struct alarm_entry {
    uint64_t member_id;
    enum alarm_type alarm;
};
enum { STATE_MACHINE_ALARMS_MAX = 64 };
size_t state_machine_alarms(const struct state_machine *machine,
                            struct alarm_entry out_alarms[STATE_MACHINE_ALARMS_MAX]);

/* --- Snapshots. --- */

struct snapshot_encoder;
struct snapshot_view;

/* Cheap, on the loop. */
struct snapshot_view *snapshot_view_open(struct state_machine *machine);
/* Its parts. */
const struct key_view *snapshot_view_keys(const struct snapshot_view *view);
const struct lease_view *snapshot_view_leases(const struct snapshot_view *view);
/* Users and roles, as auth_encode() wrote them. */
struct bytes snapshot_view_auth(const struct snapshot_view *view);
/* Slow, from any one thread: the whole state, versioned and checksummed, piece by piece. */
void snapshot_view_stream(const struct snapshot_view *view, const struct snapshot_sink *sink);
/* The same in parts (snapshot.h), without the keys of one space, and with these users and roles
 * (auth_encode()), which outlive the encoder. To be destroyed before the view is closed. */
struct snapshot_encoder *snapshot_view_encoder_without(const struct snapshot_view *view,
                                                       struct key_space_id left_out,
                                                       struct bytes auth);
/* The same, appended to a buffer that holds all of it. */
void snapshot_view_write(const struct snapshot_view *view, struct buffer *buffer);
/* On the loop. */
void snapshot_view_close(struct snapshot_view *view);

/* Replaces the whole state. On failure (STATUS_CORRUPT; STATUS_UNSUPPORTED: of a newer version, or
 * a hook names a rule that is not known here) nothing is changed.
 * The watch hub stays the same object and goes on with the new keys; deadlines are not running
 * afterwards. */
enum status state_machine_restore(struct state_machine *machine, struct bytes snapshot);

#endif
