/*
 * Users of the simulated cluster: who asks, and what is checked of their rights. In three seeds of
 * four there are none, and everybody is anonymous.
 */
#ifndef LEASED_SIM_USERS_H
#define LEASED_SIM_USERS_H

#include "core/caller.h"
#include "core/command.h"

#include <stdbool.h>

struct node;
struct state_machine;

/* As whom clients ask, and as whom operators do. */
const struct caller *users_worker(void);
const struct caller *users_root(void);

/* `has_doors`: clients of Redis, ZooKeeper and Consul work as users, too. */
void users_start(bool has_doors);
void users_stop(void);

bool users_guest_may_write(const struct state_machine *machine);
/* `was_enabled`, `might_write`: before the command was applied. */
void users_check_applied(const struct node *node, const struct command *command, bool was_enabled,
                         bool might_write, const struct outcome *outcome);

#endif
