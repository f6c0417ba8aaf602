/* Sessions within a run: what other rules of the native API need of them. */
#ifndef LEASED_DOORS_NATIVE_NATIVE_SESSION_RULES_H
#define LEASED_DOORS_NATIVE_NATIVE_SESSION_RULES_H

#include "doors/native/native_rules.h"
#include "doors/native/native_work_rules.h"

/* As native_session_create_encode() wrote it, among other things. */
void native_session_create_get(struct reader *reader, struct native_session_create *out_create);
/* STATUS_OK, or why it cannot be. */
enum status native_session_create_check(const struct native_session_create *create);
/* Grants the lease and writes the record. The caller's rights to the parent are looked at, unless
 * the run acts for the server by now. */
enum status native_session_start(struct native_work *work,
                                 const struct native_session_create *create, uint64_t user_id,
                                 int64_t *out_id);
/* Notes why and ends the lease; its hook does the rest. STATUS_LEASE_NOT_FOUND. */
enum status native_session_stop(struct native_work *work, int64_t session_id,
                                enum native_end_reason reason, uint64_t user_id);
/* Tells of the end of an acquisition; NULL: of a session that had none. */
void native_session_tell(struct native_work *work, int64_t session_id,
                         const struct native_session *session, int64_t session_revision,
                         enum native_end_reason reason, uint64_t user_id,
                         const struct native_acquisition *acquisition);

#endif
