/*
 * How etcd derives ids: that of a member from its peer URLs, that of a cluster from the ids of its
 * first members. Given the same flags, leased and etcd have the same ids.
 */
#ifndef LEASED_CORE_MEMBER_ID_H
#define LEASED_CORE_MEMBER_ID_H

#include "base/bytes.h"

#include <stddef.h>
#include <stdint.h>

/* From the peer URLs, in any order, and a suffix: the token of its cluster, or, of a member that is
 * added to a running cluster, the time of the wall clock in seconds, written as a decimal number.
 * Never 0. */
uint64_t member_id_derive(const struct bytes *peer_urls, size_t n, struct bytes suffix);

/* From the ids of the first members, in any order, at most MEMBERS_MAX. Never 0. */
uint64_t member_id_of_cluster(const uint64_t *member_ids, size_t n);

#endif
