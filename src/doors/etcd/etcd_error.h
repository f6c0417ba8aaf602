/*
 * The codes and texts of refusals. Clients compare the texts as strings, so
 * they are etcd's, to the letter.
 */
#ifndef LEASED_DOORS_ETCD_ETCD_ERROR_H
#define LEASED_DOORS_ETCD_ETCD_ERROR_H

#include "base/status.h"
#include "net/grpc.h"

struct etcd_error {
    enum grpc_code code;
    const char *text;
};

/* NULL for STATUS_OK. */
const struct etcd_error *etcd_error_of(enum status status);
/* The same of a command. A change of the leader leaves its fate unknown, which etcd calls a
 * timeout: "leader changed" is said of reads, which can be asked again. */
const struct etcd_error *etcd_error_of_command(enum status status);

/* Errors that only this door knows. */
extern const struct etcd_error etcd_error_sort_option;
extern const struct etcd_error etcd_error_compare;
extern const struct etcd_error etcd_error_alarm;
extern const struct etcd_error etcd_error_malformed;        /* a unary request */
extern const struct etcd_error etcd_error_malformed_stream; /* a message of a stream */
extern const struct etcd_error etcd_error_answer_too_large;
extern const struct etcd_error etcd_error_member_urls;
extern const struct etcd_error etcd_error_not_leader;
extern const struct etcd_error etcd_error_bad_transferee;
extern const struct etcd_error etcd_error_downgrade_target;
extern const struct etcd_error etcd_error_downgrade_format;
extern const struct etcd_error etcd_error_no_downgrade;
extern const struct etcd_error etcd_error_unknown_method;

/* Ends the call with an error, which must not be NULL. */
void etcd_error_finish(struct grpc_call *call, const struct etcd_error *error);

#endif
