/*
 * leased.v1.Registry in bytes: what is asked of it, and what it says of instances and services.
 * What is read is in the arena. False: malformed.
 */
#ifndef LEASED_LEASE_LIB_SERVICE_WIRE_H
#define LEASED_LEASE_LIB_SERVICE_WIRE_H

#include "base/arena.h"
#include "base/buffer.h"

#include <lease.h>

enum { LIB_SERVICE_NAME_SIZE_MAX = 255 };

/* LEASE_INVALID: a name that is empty or too long, or too many of something. */
enum lease_status lib_service_check_name(const char *what, const char *name);

/* The fields of Instance. */
void lib_service_encode_instance(const struct lease_register_options *options, const char *id,
                                 const char *node, const char *owner, struct buffer *out);
struct lib_register_wire {
    struct bytes instance; /* encoded */
    enum lease_instance_state state;
    int64_t previous_token;
    int64_t lease_id;
};
void lib_service_encode_register(const struct lib_register_wire *request, struct buffer *out);
bool lib_service_decode_registered(struct bytes message, int64_t *out_token, int64_t *out_ttl_ms);

void lib_service_encode_renew(int64_t lease_id, struct buffer *out);
/* `out_has_ended`: the registration is not there any more. */
bool lib_service_decode_renewed(struct bytes message, bool *out_has_ended);

bool lib_service_read_instance(struct arena *arena, struct bytes message,
                               struct lease_instance *out);
bool lib_service_read_info(struct arena *arena, struct bytes message,
                           struct lease_service_info *out);

#endif
