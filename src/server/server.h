/*
 * The server as a whole: opens the data directory, starts replication, opens the doors, listens,
 * runs until it is stopped, and closes everything in the opposite order.
 */
#ifndef LEASED_SERVER_SERVER_H
#define LEASED_SERVER_SERVER_H

#include "server/options.h"

/* Runs until SIGTERM or SIGINT, or until the member is removed, and returns the exit code
 * (exit_code.h). Where it cannot start or go on, it says why in the log and ends the process
 * itself.
 */
int server_run(const struct options *options);

#endif
