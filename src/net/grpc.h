/*
 * gRPC as a door sees it: methods, calls, messages. Framing, flow control, deadlines
 * (grpc-timeout), compression refusal and trailers are done below this line (gRPC over HTTP/2,
 * PROTOCOL-HTTP2.md). Everything happens on the loop's thread.
 */
#ifndef LEASED_NET_GRPC_H
#define LEASED_NET_GRPC_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Request metadata of one call that is kept; more is dropped. */
#define GRPC_METADATA_SIZE_MAX 4096

enum grpc_code {
    GRPC_OK = 0,
    GRPC_CANCELLED = 1,
    GRPC_UNKNOWN = 2,
    GRPC_INVALID_ARGUMENT = 3,
    GRPC_DEADLINE_EXCEEDED = 4,
    GRPC_NOT_FOUND = 5,
    GRPC_ALREADY_EXISTS = 6,
    GRPC_PERMISSION_DENIED = 7,
    GRPC_RESOURCE_EXHAUSTED = 8,
    GRPC_FAILED_PRECONDITION = 9,
    GRPC_ABORTED = 10,
    GRPC_OUT_OF_RANGE = 11,
    GRPC_UNIMPLEMENTED = 12,
    GRPC_INTERNAL = 13,
    GRPC_UNAVAILABLE = 14,
    GRPC_DATA_LOSS = 15,
    GRPC_UNAUTHENTICATED = 16
};

enum grpc_kind { GRPC_UNARY, GRPC_SERVER_STREAM, GRPC_BIDIRECTIONAL };

struct grpc_call;

/* One method, constant. For unary and server-stream methods on_message comes exactly once per
 * call (a second message or a missing one is refused below). Any callback may be NULL but
 * on_message. */
struct grpc_method {
    const char *path; /* "/etcdserverpb.KV/Range" */
    enum grpc_kind kind;
    /* The door itself refuses callers that the authenticator refuses, in the words of its protocol:
     * they get here. Otherwise they do not. */
    bool answers_refused;
    /* The call's headers arrived. */
    void (*on_open)(struct grpc_call *call);
    /* One whole message, borrowed for the call. */
    void (*on_message)(struct grpc_call *call, struct bytes message);
    /* The client will send no more (streams only). */
    void (*on_half_close)(struct grpc_call *call);
    /* What was queued has drained below the low-water mark after grpc_call_is_writable() was
     * false. */
    void (*on_writable)(struct grpc_call *call);
    /* The call is over for whatever reason: finished by us and flushed or not, cancelled by the
     * client, deadline passed, connection lost. Exactly once, last, and also when on_open has
     * not set data; the call must not be touched afterwards. Never called from inside
     * grpc_call_send or grpc_call_finish. */
    void (*on_close)(struct grpc_call *call);
    /* Optional: a message that on_message() will be given in a moment, to prefetch the memory that
     * it will touch; called a second time, with `is_near`, when it is nearer. False: nothing is
     * gained, call no more for these. */
    bool (*prefetch)(struct grpc_call *call, struct bytes message, bool is_near);
    /* Its messages are small and must come soon, whatever else the connection carries: they go
     * before large answers. */
    bool is_prompt;
    /* A unary method that may wait for long: a server that stops ends it, as it ends streams. */
    bool waits;
};

/* The door's own state of this call. */
void grpc_call_set_data(struct grpc_call *call, void *data);
void *grpc_call_data(const struct grpc_call *call);
/* What was given to net_server_add_methods(). */
void *grpc_call_context(const struct grpc_call *call);

/* As http_caller(). */
struct caller;
const struct caller *grpc_call_caller(const struct grpc_call *call);

/* As http_address(). */
enum { GRPC_ADDRESS_SIZE = 64 };
void grpc_call_address(const struct grpc_call *call, char out_text[GRPC_ADDRESS_SIZE]);

/* Whether the listener of this call serves methods of a service ("etcdserverpb.KV"). */
bool grpc_call_has_service(const struct grpc_call *call, const char *service);

/* A request header by lower-case name ("hasleader", "token"); false: not there. Only ASCII
 * metadata up to GRPC_METADATA_SIZE_MAX in all is kept. Valid until the call is over. */
bool grpc_call_metadata(const struct grpc_call *call, const char *name, struct bytes *out_value);

/* Queues one message (copied). Never blocks and never fails; a stream should look at
 * grpc_call_is_writable() first. Harmless after finish. */
void grpc_call_send(struct grpc_call *call, struct bytes message);

/* The same without a copy: reserve at least `size` bytes of room for a message, write it there,
 * commit with its true size (at most what was reserved). Nothing else may be called on any call of
 * this connection in between. */
uint8_t *grpc_call_reserve(struct grpc_call *call, size_t size);
void grpc_call_commit(struct grpc_call *call, size_t size);

/* A large message in pieces: its size first, then pieces that add up to exactly that, as fast as
 * grpc_call_is_writable() says. No other message may come in between. */
void grpc_call_begin_message(struct grpc_call *call, size_t size);
void grpc_call_append(struct grpc_call *call, struct bytes piece);

/* False when more than the high-water mark of bytes waits to be sent on this stream or on its
 * connection, and when the call is over, so that `while writable, send` always ends. */
bool grpc_call_is_writable(struct grpc_call *call);
/* True when nothing can be sent any more: the client has left or its deadline has passed, even if
 * on_close is still to come. */
bool grpc_call_is_over(const struct grpc_call *call);
/* False when so much waits to be sent, to this peer or to all together, that an answer which may be
 * large should be refused instead of being made. */
bool grpc_call_has_room(const struct grpc_call *call);

/* Counts memory that the door is about to hold for this call, for as long as it is open, such as a
 * watch. False: nothing was counted, because this connection holds more than its share of what all
 * may hold; the door refuses. */
bool grpc_call_hold(struct grpc_call *call, size_t size);
void grpc_call_release(struct grpc_call *call, size_t size);

/* Ends the call: queued messages go out first, then the trailers. `text` (may be NULL) is copied
 * and percent-encoded. Later sends and finishes are ignored. */
void grpc_call_finish(struct grpc_call *call, enum grpc_code code, const char *text);

/* The whole answer of a unary method. */
static inline void grpc_call_reply(struct grpc_call *call, struct bytes message) {
    grpc_call_send(call, message);
    grpc_call_finish(call, GRPC_OK, NULL);
}

#endif
