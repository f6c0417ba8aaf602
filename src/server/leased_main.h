/*
 * The program `leased` with a list of doors; main() gives it the list of doors.c, tests give
 * others.
 */
#ifndef LEASED_SERVER_LEASED_MAIN_H
#define LEASED_SERVER_LEASED_MAIN_H

#include "doors/door.h"

/* Runs until a signal ends it; gives the exit code. */
int leased_main(const struct door_list *doors, int argc, char **argv);

#endif
