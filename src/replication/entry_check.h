/*
 * What another member sends for the log, checked before it gets there: an entry that cannot be read
 * would stop every node that applies it, and one that no client could have caused would be state
 * that nobody can explain. Every byte is untrusted.
 */
#ifndef LEASED_REPLICATION_ENTRY_CHECK_H
#define LEASED_REPLICATION_ENTRY_CHECK_H

#include "base/arena.h"
#include "base/bytes.h"
#include "core/command.h"
#include "raft/log_item.h"

#include <stdbool.h>
#include <stdint.h>

/* What its encoding as a command may add to a request, and the largest command of all. */
enum {
    ENTRY_COMMAND_OVERHEAD = 64 * 1024,
    ENTRY_COMMAND_SIZE_MAX = COMMAND_SIZE_MAX + ENTRY_COMMAND_OVERHEAD
};

/* Exactly `n` commands, each readable, of at most so many bytes, allowed by command_check() and by
 * `is_allowed` (NULL: all are). The arena is reset. */
bool entry_check_commands(struct bytes commands, uint64_t n, size_t command_size_max,
                          bool (*is_allowed)(void *context, const struct command *command),
                          void *context, struct arena *arena);

/* An entry as a leader sends it: readable to the last command, in its place, and of nothing but
 * what this release knows (state_machine_knows()). The arena is reset. */
struct state_machine;
bool entry_check_item(const struct log_item *item, const struct state_machine *machine,
                      struct arena *arena);

#endif
