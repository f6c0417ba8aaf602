/*
 * What makes a protocol of net (protocol.h) out of a raw protocol of a door (raw_protocol.h).
 */
#ifndef LEASED_NET_RAW_SESSION_H
#define LEASED_NET_RAW_SESSION_H

#include "net/protocol.h"
#include "net/raw_protocol.h"

/* A raw protocol as it was registered. The host of a raw session names one in `raw`. */
struct raw_route {
    const struct raw_protocol *protocol;
    void *context; /* of the door */
};

/* Has no sniff(): the one of the raw protocol is asked. */
extern const struct protocol raw_session_protocol;

#endif
