/* Registrations: renewed, registered again with their token, and ended by a successor. */
#ifndef LEASED_LEASE_LIB_REGISTER_H
#define LEASED_LEASE_LIB_REGISTER_H

#include "lease/lib_connection.h"

/* With the mutex held: */
void lib_registrations_poll(struct lease_connection *connection, uint64_t now_ms);
uint64_t lib_registrations_wake_ms(const struct lease_connection *connection);

#endif
