/*
 * What a command needs of its caller. Asked twice: when a client submits it, to refuse it at once,
 * and when it is applied, on every replica alike.
 */
#ifndef LEASED_CORE_AUTH_COMMAND_H
#define LEASED_CORE_AUTH_COMMAND_H

#include "core/auth.h"
#include "core/command.h"
#include "core/lease_table.h"

/* A caller that renews or uses a lease must be allowed to write all keys attached to it; who ends
 * it or changes its time, also those of all leases that descend from it. What one command needs is
 * looked up to this many keys, in all the leases that it names, and LEASE_FAMILY_MAX descendants:
 * beyond that it needs the right to write the whole space, or the role "root". */
enum { AUTH_LEASE_KEYS_MAX = 1024, AUTH_LEASES_REMEMBERED = 16 };

/* What one command has had looked at. Zeroed in the beginning. */
struct auth_lease_checks {
    size_t n_keys;
    size_t n_allowed;
    int64_t allowed[AUTH_LEASES_REMEMBERED]; /* leases that may be written, not looked at again */
};

/* STATUS_OK, or as auth_check_range() and auth_check_admin() say. The command is none that carries
 * a caller itself. */
enum status auth_check_command(const struct auth *auth, struct lease_table *leases,
                               const struct caller *caller, const struct command *command);

/* The same for the use of a lease: a renewal, its time left, a key attached to it. A lease that
 * does not exist is for others to report. */
enum status auth_check_lease(const struct auth *auth, struct lease_table *leases,
                             const struct caller *caller, int64_t lease_id, enum right right);
/* To write, as one of several in a command. */
enum status auth_check_lease_use(const struct auth *auth, struct lease_table *leases,
                                 const struct caller *caller, int64_t lease_id,
                                 struct auth_lease_checks *checks);
/* To end it or to change its time. */
enum status auth_check_lease_end(const struct auth *auth, struct lease_table *leases,
                                 const struct caller *caller, int64_t lease_id,
                                 struct auth_lease_checks *checks);

/* True for what only a server proposes, and never for a client: it needs no caller. */
bool auth_is_server_command(const struct command *command);

#endif
