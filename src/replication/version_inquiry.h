/*
 * What to do about an entry or a snapshot of another member that this release cannot read. Such
 * bytes are refused, never stored: on a peer port without a proof anybody may have sent them, and
 * they must neither reach the log nor end this process. Instead the members are asked, at the
 * addresses that this node dials by itself, which version the cluster has. If it is more than this
 * release knows, this member stops with a sentence. Where members prove who they are, the word of
 * one counts; otherwise anybody may answer at the address of one that is down, and it takes a
 * majority of the members.
 */
#ifndef LEASED_REPLICATION_VERSION_INQUIRY_H
#define LEASED_REPLICATION_VERSION_INQUIRY_H

#include "core/member.h"

#include <stdint.h>

struct service;
struct peer_ask;

struct version_question {
    struct service *service;
    struct peer_ask *ask; /* NULL: answered, or not asked */
};

struct version_inquiry {
    uint64_t begun_ms; /* the last one; 0: none yet */
    size_t n_newer;    /* answers of it that name a version which is not known here */
    struct version_question questions[MEMBERS_MAX];
};

/* Something came that cannot be read. Asks the members, unless they were asked a moment ago. */
void version_inquiry_start(struct service *service);
/* Nothing is heard of it any more. */
void version_inquiry_cancel(struct service *service);

#endif
