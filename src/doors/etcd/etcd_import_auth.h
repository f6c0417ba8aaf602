/* Users and roles of etcd's file; a part of etcd_import.c. */
#ifndef LEASED_DOORS_ETCD_IMPORT_AUTH_H
#define LEASED_DOORS_ETCD_IMPORT_AUTH_H

#include "bolt/bolt_reader.h"
#include "core/auth.h"

/* Into an empty one. `token_key`: used if authentication is on. STATUS_CORRUPT,
 * STATUS_TOO_MANY_REQUESTS (beyond a limit of core/auth.h). */
enum status etcd_import_auth(const struct bolt_file *file, struct bytes token_key,
                             struct auth *auth);

#endif
