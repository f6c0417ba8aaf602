/*
 * Commands that only read, run over the state as it is in this iteration of the loop, after a read
 * of the service: linearizable, and no log entry.
 */
#ifndef LEASED_DOORS_REDIS_REDIS_VIEW_H
#define LEASED_DOORS_REDIS_REDIS_VIEW_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/status.h"
#include "core/permission.h"
#include "core/service.h"
#include "doors/redis/redis_exec_rules.h"

struct redis_door;

/* The ranges that a command reads, in arena memory. */
struct key_range *redis_view_ranges(struct arena *arena, const struct redis_exec_command *command,
                                    size_t *out_n);

/* Appends the reply. STATUS_REQUEST_TOO_LARGE: it looked at more records, or answers with more
 * bytes, than one read may; then nothing is appended. */
enum status redis_view_run(struct redis_door *door, const struct redis_exec_command *command,
                           struct buffer *out);
/* The same in a worker, with a store that is a view: of KEYS, which may look at more there, and of
 * operations on sets. */
enum status redis_view_run_long(const struct key_store *keys, struct arena *arena,
                                const struct redis_exec_command *command, struct buffer *out);

#endif
