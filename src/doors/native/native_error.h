/*
 * Refusals in the words of sessions, resources and pools (doors/leased_v1/leased_v1_error.h).
 */
#ifndef LEASED_DOORS_NATIVE_NATIVE_ERROR_H
#define LEASED_DOORS_NATIVE_NATIVE_ERROR_H

#include "doors/leased_v1/leased_v1_error.h"

/* NULL for STATUS_OK. */
const struct leased_v1_error *native_error_of(enum status status);

/* What is wrong with a request. */
extern const struct leased_v1_error native_error_malformed;
extern const struct leased_v1_error native_error_name;
extern const struct leased_v1_error native_error_owner;
extern const struct leased_v1_error native_error_note;
extern const struct leased_v1_error native_error_value;
extern const struct leased_v1_error native_error_request_id;
extern const struct leased_v1_error native_error_class;
extern const struct leased_v1_error native_error_ttl;
extern const struct leased_v1_error native_error_wants;
extern const struct leased_v1_error native_error_want;
extern const struct leased_v1_error native_error_wait;
extern const struct leased_v1_error native_error_transfer;
extern const struct leased_v1_error native_error_pool;
extern const struct leased_v1_error native_error_token;
extern const struct leased_v1_error native_error_why;

/* What the state says. */
extern const struct leased_v1_error native_error_acquisition; /* no such one of the session */
extern const struct leased_v1_error native_error_session_lost;
extern const struct leased_v1_error native_error_lost; /* while the call waited */
extern const struct leased_v1_error native_error_busy; /* and the call does not wait */
extern const struct leased_v1_error native_error_wait_over;
extern const struct leased_v1_error native_error_queue_limit;
extern const struct leased_v1_error native_error_pool_missing;
extern const struct leased_v1_error native_error_pool_in_use;
extern const struct leased_v1_error native_error_transfer_target;
extern const struct leased_v1_error native_error_not_read; /* answers of a stream */
extern const struct leased_v1_error native_error_missed;   /* events were compacted away */

#endif
