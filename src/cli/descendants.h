/*
 * All processes that descend from the calling one. A subreaper (PR_SET_CHILD_SUBREAPER) inherits
 * the orphans among them, so nothing escapes by leaving its process group or by ending its parent.
 * Safe after a fork in a program with threads: nothing is allocated.
 */
#ifndef LEASED_CLI_DESCENDANTS_H
#define LEASED_CLI_DESCENDANTS_H

#include <stddef.h>
#include <sys/types.h>

/* Sends the signal to each descendant but `except` and what descends from it (0: nobody is left
 * out). Gives how many got it. One that forks meanwhile may need another round. */
size_t descendants_signal(int number, pid_t except);

#endif
