/*
 * Writes the request of an HTTP check (RFC 9112). What a client registered is checked here: nothing
 * of it can end the request or add another one. Pure.
 */
#ifndef LEASED_CHECKS_CHECK_REQUEST_H
#define LEASED_CHECKS_CHECK_REQUEST_H

#include "base/buffer.h"
#include "checks/check_target.h"

/* False: it is not a request, and `out_reason` says why; what was appended is of no use. */
bool check_request_write(struct buffer *out, const struct registry_check *check,
                         const struct check_target *target, const char **out_reason);

#endif
