/*
 * Under which id this node may start. A node that joins a cluster asks the members in
 * --initial-cluster for its id; a node of a new cluster asks whether its id has been in use,
 * because a member whose data directory was replaced has lost its votes and what it helped to
 * acknowledge.
 */
#ifndef LEASED_SERVER_ADMISSION_H
#define LEASED_SERVER_ADMISSION_H

#include "base/arena.h"
#include "core/member.h"
#include "replication/replication.h"
#include "server/identity.h"
#include "server/options.h"

#include <uv.h>

struct join_options;

struct admission {
    size_t n_members;
    struct replication_member members[MEMBERS_MAX]; /* of the cluster that is joined */
};

/* Asks until a member knows this node by its peer URLs, for a while. STATUS_MEMBER_NOT_ADDED
 * (no member knows it), STATUS_DATA_DIR_REPLACED (its id has been in use), STATUS_INVALID (wrong
 * flags), STATUS_TIMED_OUT, with a reason a person can act on. Texts are in the arena. Nothing else
 * may be on the loop. */
enum status admission_join(uv_loop_t *loop, const struct join_options *proof,
                           const struct options *options, struct arena *arena,
                           struct identity *out_identity, struct admission *out_admission,
                           char *out_error, size_t error_size);

/* Asks the members that run already, once. STATUS_DATA_DIR_REPLACED when this identity has been in
 * use, STATUS_MEMBER_REMOVED, STATUS_MEMBER_NOT_ADDED when an address in --initial-cluster belongs
 * to a cluster without this member. */
enum status admission_check(uv_loop_t *loop, const struct join_options *proof,
                            const struct options *options, const struct identity *identity,
                            char *out_error, size_t error_size);

/* Before --force-new-cluster: asks the others in --initial-cluster, once. STATUS_INVALID when one
 * of them answers for this cluster: two clusters would go on with the same data, and a flag that
 * was left in a unit file would remove members that are well. */
enum status admission_check_forced(uv_loop_t *loop, const struct join_options *proof,
                                   const struct options *options, const struct identity *identity,
                                   char *out_error, size_t error_size);

#endif
