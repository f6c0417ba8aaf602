/*
 * Codes and sentences of refusals. A code tells a program what to do; the text says what happened
 * and what to do about it.
 */
#ifndef LEASED_DOORS_LEASED_V1_LEASED_V1_ERROR_H
#define LEASED_DOORS_LEASED_V1_LEASED_V1_ERROR_H

#include "base/status.h"
#include "net/grpc.h"

struct leased_v1_error {
    enum grpc_code code;
    const char *text;
};

/* What a status means: in the door's own words where it has some, by its status, otherwise in those
 * that are the same for every method. NULL for STATUS_OK. */
const struct leased_v1_error *leased_v1_error_of(const struct leased_v1_error own[STATUS_COUNT],
                                                 enum status status);

/* Ends the call with an error, which must not be NULL. */
void leased_v1_error_finish(struct grpc_call *call, const struct leased_v1_error *error);

#endif
