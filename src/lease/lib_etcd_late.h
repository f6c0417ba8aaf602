/*
 * Keys of etcd's recipe that may still be made: a request for a place that was lost may lie in a
 * member that was stopped, and is carried out when that goes on. By then nobody may want the place
 * any more, and its session, which may be renewed for ever, would have the lock. So such a key is
 * deleted again for an hour, or until its session ends.
 */
#ifndef LEASED_LEASE_LIB_ETCD_LATE_H
#define LEASED_LEASE_LIB_ETCD_LATE_H

#include "lease/lib_session.h"

/* All with the mutex held. The key is wanted no more and was deleted just now, or is being deleted;
 * nobody asks for it again. */
void lib_etcd_late_add(struct lease_connection *connection, int64_t session_id, const char *key);
void lib_etcd_late_poll(struct lease_connection *connection, uint64_t now_ms);
uint64_t lib_etcd_late_wake_ms(const struct lease_connection *connection);
/* At the end of the connection, when no call is left. */
void lib_etcd_late_clear(struct lease_connection *connection);

#endif
