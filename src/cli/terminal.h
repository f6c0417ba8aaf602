/*
 * The terminal that `lease` was started from: the command that it runs gets the foreground, so that
 * Ctrl-C goes to the command alone, and `lease` takes it back afterwards.
 */
#ifndef LEASED_CLI_TERMINAL_H
#define LEASED_CLI_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

struct terminal {
    int file;   /* the controlling terminal; -1: none */
    bool given; /* the foreground is somebody else's because we gave it away */
};

void terminal_init(struct terminal *terminal);
void terminal_clear(struct terminal *terminal);

/* We are in the foreground, so it is ours to give. */
bool terminal_is_ours(const struct terminal *terminal);
/* To this process group; does nothing unless it is ours. */
void terminal_give(struct terminal *terminal, pid_t group);
/* Somebody else gave it away in our name: the command itself, before it runs. */
void terminal_given(struct terminal *terminal);
void terminal_take_back(struct terminal *terminal);

/* It was there and was closed. */
bool terminal_is_gone(const struct terminal *terminal);

#endif
