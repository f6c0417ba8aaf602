/* Directories: the keys under a prefix, kept in memory by a watch, with the age of what is known.
 */
#ifndef LEASED_LEASE_LIB_DISCOVER_H
#define LEASED_LEASE_LIB_DISCOVER_H

#include "lease/lib_connection.h"

/* With the mutex held: */
void lib_directories_poll(struct lease_connection *connection, uint64_t now_ms);
uint64_t lib_directories_wake_ms(const struct lease_connection *connection);

#endif
