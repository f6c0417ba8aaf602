/*
 * A call from the inside: its state on the wire and towards its door. It is over for the wire when
 * its HTTP/2 stream is closed, and over for the door when on_close was called; the object goes back
 * to the free list when both are true, which happens only in grpc_call_settle().
 */
#ifndef LEASED_NET_GRPC_CALL_H
#define LEASED_NET_GRPC_CALL_H

#include "base/buffer.h"
#include "base/list.h"
#include "net/grpc.h"
#include "net/grpc_framing.h"
#include "net/net_shared.h"
#include "net/net_timers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GRPC_ENCODING_NAME_MAX = 15, GRPC_TEXT_SIZE_MAX = 1024 };

struct http2_session;

struct grpc_call {
    struct http2_session *session;
    const struct grpc_method *method; /* NULL: a page or a refusal */
    void *context;
    void *data;

    struct list in_session; /* in the session's calls, or in the free list */
    struct list in_closing; /* something is over and has to be told */
    struct list in_blocked; /* the door waits for on_writable */
    struct net_timer deadline;

    struct grpc_framing framing;
    size_t counted_partial_bytes;

    struct buffer out; /* framed messages, or a page's body */
    size_t out_sent;
    size_t reserved_size;
    char *text; /* of the status; NULL: none */

    struct buffer metadata; /* u16 name size, u16 value size, name, value; again and again */

    int32_t stream_id;
    uint8_t code;
    bool is_page;
    bool is_opened;           /* the door knows it */
    bool is_door_closed;      /* on_close was called, or never has to be */
    bool is_wire_closed;      /* the stream is gone */
    bool has_message;         /* unary, server stream: the one message came */
    bool is_half_closed;      /* the client sends no more */
    bool is_response_started; /* headers are submitted */
    bool is_deferred;         /* nghttp2 waits for nghttp2_session_resume_data() */
    bool is_finished;
    bool refuses_encoding; /* the answer names the encodings we take */
    char encoding[GRPC_ENCODING_NAME_MAX + 1];
};

/* A fresh call in no state, in no list. */
struct grpc_call *grpc_call_take(struct http2_session *session, int32_t stream_id);
/* Frees the free list. */
void grpc_call_drop_free(struct net_shared *shared);

/* The door learns of the call. */
void grpc_call_open(struct grpc_call *call);
/* Bytes of request messages. */
void grpc_call_on_bytes(struct grpc_call *call, struct bytes bytes);
/* The client will send no more. */
void grpc_call_on_half_close(struct grpc_call *call);
/* The stream is gone, whoever ended it. */
void grpc_call_on_wire_close(struct grpc_call *call);
/* Arms the deadline. */
void grpc_call_set_timeout(struct grpc_call *call, uint64_t timeout_ms);

/* Queued bytes went out: takes them off the queue. */
void grpc_call_drop_sent(struct grpc_call *call, size_t size);

/* Tells the door of what is over and takes finished calls back; then wakes writers. */
void grpc_call_settle(struct http2_session *session);

#endif
