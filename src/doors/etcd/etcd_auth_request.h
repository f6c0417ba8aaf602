/*
 * Requests of etcd's Auth service. Pure, as etcd_request.h.
 */
#ifndef LEASED_DOORS_ETCD_ETCD_AUTH_REQUEST_H
#define LEASED_DOORS_ETCD_ETCD_AUTH_REQUEST_H

#include "base/bytes.h"
#include "core/auth.h"
#include "doors/etcd/etcd_error.h"

/* All of them have the same few parts, each at its own place. */
struct etcd_auth_request {
    struct bytes user;
    struct bytes role;
    struct bytes password;
    bool no_password;
    struct permission permission; /* .right is 0 when none was given */
};

/* NULL, or the error to answer with; `out_request` is written only on success. What the action does
 * not take is empty. AUTH_USER_SET_PASSWORD also reads Authenticate. */
const struct etcd_error *etcd_auth_request(enum auth_action action, struct bytes message,
                                           struct etcd_auth_request *out_request);

/* etcd's numbers of rights. */
uint64_t etcd_auth_right_number(enum right right);

#endif
