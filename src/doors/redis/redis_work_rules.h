/*
 * How much work a command may be, told before it runs, in units of core/key_work.h: for those who
 * decide how many are let through at a time. A guess, on which no result depends.
 */
#ifndef LEASED_DOORS_REDIS_REDIS_WORK_RULES_H
#define LEASED_DOORS_REDIS_REDIS_WORK_RULES_H

#include "base/bytes.h"
#include "core/key_store.h"
#include "doors/redis/redis_command_rules.h"

#include <stddef.h>

/* Of any command, a script as well. */
size_t redis_work_of(const struct key_store *keys, unsigned db, const struct redis_command *command,
                     const struct bytes *argv, size_t argc);
/* What it is more when it runs as a rule, because of the values that it copies.
 * `size_to_come`: of a value that a change on its way may make, of a key that is small now. */
size_t redis_work_of_values(const struct key_store *keys, unsigned db,
                            const struct redis_command *command, const struct bytes *argv,
                            size_t argc, size_t size_to_come);
/* Of these two, what is of values that it may make where none was, beyond those of its request. */
size_t redis_work_of_made(const struct redis_command *command, size_t work, size_t of_values);
/* What the members of its keys are, of which so many are looked at: for reads that compare them. */
size_t redis_work_of_members(const struct key_store *keys, unsigned db,
                             const struct redis_command *command, const struct bytes *argv,
                             size_t argc, size_t n_max);
/* Bytes of strings, and about those of collections, that are there and that it writes again, which
 * fill the history although its request is short. Elements are not looked at. */
size_t redis_work_kept_bytes(const struct key_store *keys, unsigned db,
                             const struct redis_command *command, const struct bytes *argv,
                             size_t argc);
/* The bytes that its reply may have, as far as its keys tell. */
size_t redis_work_reply_size(const struct key_store *keys, unsigned db,
                             const struct redis_command *command, const struct bytes *argv,
                             size_t argc);

#endif
