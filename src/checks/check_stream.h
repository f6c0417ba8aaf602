/*
 * A connection to what is checked: TCP, with TLS over it or without, from a name or an address.
 * Everything happens on the loop's thread and nothing waits. It has no time-out of its own: its
 * owner closes it. Connections are counted against the descriptors that checks may have.
 */
#ifndef LEASED_CHECKS_CHECK_STREAM_H
#define LEASED_CHECKS_CHECK_STREAM_H

#include "base/bytes.h"
#include "base/host_port.h"
#include "base/list.h"
#include "checks/check_network.h"

struct check_stream;

/* What the owner learns; never from inside a function of this header. */
struct check_stream_events {
    /* Bytes may be sent. */
    void (*on_open)(struct check_stream *stream);
    /* Borrowed for the call. */
    void (*on_bytes)(struct check_stream *stream, struct bytes bytes);
    /* It could not be opened, failed, or was ended by the other side (`reason` is NULL then). Only
     * check_stream_close() may follow, and must. */
    void (*on_end)(struct check_stream *stream, const char *reason);
};

/* Where it goes. Texts are copied. */
struct check_stream_options {
    const char *host;
    uint16_t port;
    bool is_tls;
    bool skips_verification;
    bool is_http2;           /* what is agreed on by ALPN */
    const char *server_name; /* whom the certificate must be for; "": the host */
    bool resets;             /* closed by a reset, which leaves no port behind to wait */
};

/* The name of a check, as a text for the options. False: it cannot be one, and `out_reason` says
 * why. */
bool check_stream_server_name(struct bytes name, char out_name[REGISTRY_NAME_SIZE_MAX + 1],
                              const char **out_reason);

/* The caller has seen that check_network_is_ready() for it. Aborts when memory is out. */
struct check_stream *check_stream_open(struct check_network *network,
                                       const struct check_stream_options *options,
                                       const struct check_stream_events *events, void *context);
/* No event comes afterwards. */
void check_stream_close(struct check_stream *stream);

/* Sends all of it, or queues it. Only after on_open. */
void check_stream_send(struct check_stream *stream, struct bytes bytes);
/* For what HTTP/2 is agreed on by ALPN; "" without TLS. */
const char *check_stream_alpn(const struct check_stream *stream);
void *check_stream_context(const struct check_stream *stream);
/* Another owner. */
void check_stream_give(struct check_stream *stream, const struct check_stream_events *events,
                       void *context);
/* Whether it goes there, in the same way. */
bool check_stream_is_for(const struct check_stream *stream,
                         const struct check_stream_options *options);
/* Of the owner, for lists of idle ones: a time that is kept, and a link. */
void check_stream_mark(struct check_stream *stream, uint64_t time_ms);
uint64_t check_stream_marked(const struct check_stream *stream);
struct list *check_stream_link(struct check_stream *stream);
struct check_stream *check_stream_of_link(struct list *link);

#endif
