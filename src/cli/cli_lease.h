/* liblease (include/lease.h) with the settings of `lease`: connecting, and what is said when
 * something fails. */
#ifndef LEASED_CLI_CLI_LEASE_H
#define LEASED_CLI_CLI_LEASE_H

#include "cli/cli.h"

#include <lease.h>

/* Opens a connection without a thread of the library's: its functions that wait do so by
 * themselves, and a command that waits for other things too calls lease_process(). CLI_OK, or the
 * exit code after a message. */
enum cli_exit cli_open(struct cli *cli, struct lease_connection **out_connection);

/* What was done to a session by its id gave this status: if there is no such session, it may be a
 * lease of the etcd API. A connection for that, to be closed, or NULL. */
struct lease_connection *cli_open_for_lease(struct cli *cli, struct lease_connection *connection,
                                            enum lease_status status);

/* Prints lease_error(), or `reason` where it is not NULL; gives CLI_FAILED. */
enum cli_exit cli_lease_failed(const struct cli *cli, enum lease_status status, const char *reason);

/* ---- options that several commands have ---- */

/* A time of at least `min_ms`; `fallback_ms` when the option was not given. False: cli_usage() was
 * called. */
bool cli_time_option(struct cli *cli, const char *name, int64_t fallback_ms, int64_t min_ms,
                     int64_t *out_ms);
/* --for: lock, leader, session, reservation, cache. */
bool cli_class_option(struct cli *cli, enum lease_class fallback, enum lease_class *out_class);

const char *cli_class_text(enum lease_class purpose);
const char *cli_strategy_text(enum lease_strategy strategy);

#endif
