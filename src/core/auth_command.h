/*
 * What a command needs of its caller. Asked twice: when a client submits it, to tell it at once,
 * and when it is applied, on every replica alike.
 */
#ifndef LEASED_CORE_AUTH_COMMAND_H
#define LEASED_CORE_AUTH_COMMAND_H

#include "core/auth.h"
#include "core/command.h"
#include "core/lease_table.h"

/* Whoever renews, ends or uses a lease must be allowed to write all keys attached to it. A lease
 * with more keys than this is looked at no further: it needs the right to write the whole space, or
 * the role "root". */
enum { AUTH_LEASE_KEYS_MAX = 4096 };

/* STATUS_OK, or as auth_check_range() and auth_check_admin() say. The command is none that carries
 * a caller itself. */
enum status auth_check_command(const struct auth *auth, const struct lease_table *leases,
                               const struct caller *caller, const struct command *command);

/* The same for the use of a lease: a renewal, its time left, its end. A lease that does not exist
 * is for others to report. */
enum status auth_check_lease(const struct auth *auth, const struct lease_table *leases,
                             const struct caller *caller, int64_t lease_id, enum right right);

/* True for what only a server proposes, and never for a client: it needs no caller. */
bool auth_is_server_command(const struct command *command);

#endif
