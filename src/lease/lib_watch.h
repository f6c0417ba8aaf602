/* Watches: streams that are opened again when their connection was lost, and whose news are
 * notices. */
#ifndef LEASED_LEASE_LIB_WATCH_H
#define LEASED_LEASE_LIB_WATCH_H

#include "lease/lib_connection.h"

/* With the mutex held: */
void lib_watches_poll(struct lease_connection *connection, uint64_t now_ms);
uint64_t lib_watches_wake_ms(const struct lease_connection *connection);

#endif
