/* Who has a lock of etcd's, and who waits: the keys under its name, oldest first. */
#ifndef LEASED_LEASE_LIB_ETCD_LOOK_H
#define LEASED_LEASE_LIB_ETCD_LOOK_H

#include "lease/lib_etcd_wire.h"

void lib_etcd_look_encode(const char *name, uint32_t n_waiters, struct lib_request *out_request);
bool lib_etcd_look_decode(struct arena *arena, struct bytes message, const char *name,
                          struct lease_resource *out);
/* Changes of any of the keys. */
void lib_etcd_look_encode_watch(const char *name, int64_t start_revision,
                                struct buffer *out_message);

/* Fences: keys whose values are tokens of 20 digits. */
void lib_etcd_fence_encode(const char *resource, int64_t token, struct lib_request *out_request);
bool lib_etcd_fence_decode(struct bytes message, int64_t token, bool *out_accepted,
                           int64_t *out_highest);
void lib_etcd_fence_encode_get(const char *resource, struct lib_request *out_request);
bool lib_etcd_fence_decode_get(struct bytes message, int64_t *out_highest);

#endif
