/*
 * `leased restore FILE`: makes a data directory from a backup, etcd's or ours (etcd_import.h), with
 * the flags of `etcdutl snapshot restore`. Never over existing data; the directory appears whole or
 * not at all.
 */
#ifndef LEASED_SERVER_RESTORE_H
#define LEASED_SERVER_RESTORE_H

#include "doors/door.h"

/* `argv` begins with the program's name and "restore". Gives the exit code. */
int restore_main(const struct door_list *doors, int argc, char **argv);

#endif
