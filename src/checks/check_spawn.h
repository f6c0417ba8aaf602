/*
 * Starts a program as another user, without a shell and without a copy of this process's memory: a
 * fork of a server with gigabytes of leases would stop its loop for many milliseconds.
 */
#ifndef LEASED_CHECKS_CHECK_SPAWN_H
#define LEASED_CHECKS_CHECK_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

struct check_spawn_options {
    char *const *arguments; /* ends with NULL; the first is an absolute path */
    char *const *environment;
    int output; /* becomes its standard output and error */
    int null;   /* of /dev/null; becomes its standard input */
    bool changes_user;
    uid_t user;
    gid_t group;
};

/* The process, the leader of a new session and process group; or -1 with errno, also when the
 * program could not be executed. Its other descriptors are those without close-on-exec. */
pid_t check_spawn(const struct check_spawn_options *options);

#endif
