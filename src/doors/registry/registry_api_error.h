/*
 * Refusals in the words of services and instances (doors/leased_v1/leased_v1_error.h).
 */
#ifndef LEASED_DOORS_REGISTRY_REGISTRY_API_ERROR_H
#define LEASED_DOORS_REGISTRY_REGISTRY_API_ERROR_H

#include "doors/leased_v1/leased_v1_error.h"

/* NULL for STATUS_OK. */
const struct leased_v1_error *registry_api_error_of(enum status status);

/* What is wrong with a request. */
extern const struct leased_v1_error registry_api_error_malformed;
extern const struct leased_v1_error registry_api_error_name;
extern const struct leased_v1_error registry_api_error_instance;
extern const struct leased_v1_error registry_api_error_check;
extern const struct leased_v1_error registry_api_error_checks;
extern const struct leased_v1_error registry_api_error_state;
extern const struct leased_v1_error registry_api_error_metadata;
extern const struct leased_v1_error registry_api_error_query;
extern const struct leased_v1_error registry_api_error_reports;
extern const struct leased_v1_error registry_api_error_renewals;
extern const struct leased_v1_error registry_api_error_settings;
extern const struct leased_v1_error registry_api_error_time;
extern const struct leased_v1_error registry_api_error_missed; /* changes were compacted away */

#endif
