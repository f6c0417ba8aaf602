/*
 * Every flag of this program: the server's own (option_table.h), and for each door --listen-<door>
 * and the flags that it brings. Parsing, the environment names and --help are made from it.
 */
#ifndef LEASED_SERVER_OPTION_SET_H
#define LEASED_SERVER_OPTION_SET_H

#include "base/arena.h"
#include "doors/door.h"
#include "server/option_table.h"

enum { OPTION_SET_MAX = 256 };

struct option_set {
    size_t n;
    struct option options[OPTION_SET_MAX];
};

/* In the arena. The doors are borrowed. */
const struct option_set *option_set_create(const struct door_list *doors, struct arena *arena);

/* NULL: there is no such option. */
const struct option *option_set_find(const struct option_set *set, const char *name,
                                     size_t name_size);

/* The name that comes nearest to one that does not exist, or NULL when none is near. */
const struct option *option_set_nearest(const struct option_set *set, const char *name);

#endif
