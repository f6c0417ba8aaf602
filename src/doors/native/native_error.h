/*
 * Codes and sentences of refusals. A code tells a program what to do; the text says what happened
 * and what to do about it.
 */
#ifndef LEASED_DOORS_NATIVE_NATIVE_ERROR_H
#define LEASED_DOORS_NATIVE_NATIVE_ERROR_H

#include "base/status.h"
#include "net/grpc.h"

struct native_error {
    enum grpc_code code;
    const char *text;
};

/* NULL for STATUS_OK. */
const struct native_error *native_error_of(enum status status);

/* What is wrong with a request. */
extern const struct native_error native_error_malformed;
extern const struct native_error native_error_name;
extern const struct native_error native_error_owner;
extern const struct native_error native_error_note;
extern const struct native_error native_error_value;
extern const struct native_error native_error_request_id;
extern const struct native_error native_error_class;
extern const struct native_error native_error_ttl;
extern const struct native_error native_error_wants;
extern const struct native_error native_error_want;
extern const struct native_error native_error_wait;
extern const struct native_error native_error_transfer;
extern const struct native_error native_error_pool;
extern const struct native_error native_error_token;
extern const struct native_error native_error_why;

/* What the state says. */
extern const struct native_error native_error_acquisition; /* no such one of the session */
extern const struct native_error native_error_session_lost;
extern const struct native_error native_error_lost; /* while the call waited */
extern const struct native_error native_error_busy; /* and the call does not wait */
extern const struct native_error native_error_wait_over;
extern const struct native_error native_error_queue_limit;
extern const struct native_error native_error_pool_missing;
extern const struct native_error native_error_pool_in_use;
extern const struct native_error native_error_transfer_target;
extern const struct native_error native_error_not_read; /* answers of a stream */
extern const struct native_error native_error_missed;   /* events were compacted away */

/* Ends the call with an error, which must not be NULL. */
void native_error_finish(struct grpc_call *call, const struct native_error *error);

#endif
