/*
 * Codes and sentences of refusals. A code tells a program what to do; the text says what happened
 * and what to do about it.
 */
#ifndef LEASED_DOORS_REGISTRY_REGISTRY_API_ERROR_H
#define LEASED_DOORS_REGISTRY_REGISTRY_API_ERROR_H

#include "base/status.h"
#include "net/grpc.h"

struct registry_api_error {
    enum grpc_code code;
    const char *text;
};

/* NULL for STATUS_OK. */
const struct registry_api_error *registry_api_error_of(enum status status);

/* What is wrong with a request. */
extern const struct registry_api_error registry_api_error_malformed;
extern const struct registry_api_error registry_api_error_name;
extern const struct registry_api_error registry_api_error_instance;
extern const struct registry_api_error registry_api_error_check;
extern const struct registry_api_error registry_api_error_checks;
extern const struct registry_api_error registry_api_error_state;
extern const struct registry_api_error registry_api_error_metadata;
extern const struct registry_api_error registry_api_error_query;
extern const struct registry_api_error registry_api_error_reports;
extern const struct registry_api_error registry_api_error_renewals;
extern const struct registry_api_error registry_api_error_settings;
extern const struct registry_api_error registry_api_error_time;
extern const struct registry_api_error registry_api_error_missed; /* changes were compacted away */

/* Ends the call with an error, which must not be NULL. */
void registry_api_error_finish(struct grpc_call *call, const struct registry_api_error *error);

#endif
