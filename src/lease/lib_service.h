/* Services in memory: watched, confirmed from time to time, and marked when they are too old. */
#ifndef LEASED_LEASE_LIB_SERVICE_H
#define LEASED_LEASE_LIB_SERVICE_H

#include "lease/lib_connection.h"

/* With the mutex held: */
void lib_services_poll(struct lease_connection *connection, uint64_t now_ms);
uint64_t lib_services_wake_ms(const struct lease_connection *connection);

#endif
