/* What hold.c and hold_child.c share. */
#ifndef LEASED_CLI_HOLD_INTERNAL_H
#define LEASED_CLI_HOLD_INTERNAL_H

#include "cli/hold.h"

/* The next signal that came, 0: none. */
int hold_next_signal(struct hold *hold);
/* Waits for the server, signals, the command (-1: none) and the renewals that it writes, at most so
 * long (-1: no limit), and does what the server's answers ask for. */
void hold_pump(struct hold *hold, int child_file, int limit_ms);

#endif
