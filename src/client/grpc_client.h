/*
 * One connection to a gRPC server: HTTP/2 over TCP or a Unix socket, with TLS or without, any
 * number of unary calls and streams in flight. Everything happens on the loop's thread; what one
 * iteration submits leaves in as few writes as possible. A lost connection ends every call and is
 * then the owner's to replace: this layer never reconnects, because only the owner knows what may
 * be repeated.
 */
#ifndef LEASED_CLIENT_GRPC_CLIENT_H
#define LEASED_CLIENT_GRPC_CLIENT_H

#include "base/bytes.h"
#include "base/status.h"
#include "net/grpc.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

/* A longer message from the server ends its call. */
#define GRPC_CLIENT_MESSAGE_SIZE_MAX ((size_t)256 * 1024 * 1024)
/* The status text kept of an answer, with its end; the rest is cut. */
#define GRPC_CLIENT_TEXT_SIZE_MAX 256
/* Bytes inside each call for the layer above, so that it need not allocate for each call. */
#define GRPC_CLIENT_CALL_ROOM 64
/* Addresses of one name that are tried in turn. */
#define GRPC_CLIENT_ADDRESSES_MAX 8

struct grpc_client;
struct grpc_client_call;

struct tls_context;

struct grpc_client_options {
    const char *host; /* a name or an address, without brackets; NULL with a socket_path */
    uint16_t port;
    const char *socket_path; /* a Unix socket; NULL: host and port */
    /* NULL: plain text. Outlives the client. The certificate must be for the host; behind a Unix
     * socket, for "localhost". */
    struct tls_context *tls;
    uint32_t connect_timeout_ms; /* until the server's SETTINGS came; 0: no limit */
    void *context;
    /* The server's SETTINGS came: it is there and speaks HTTP/2. May be NULL. */
    void (*on_ready)(void *context);
    /* The connection failed or ended, `reason` is for people. Every open call has ended before.
     * Only grpc_client_destroy() may follow. May be NULL. */
    void (*on_closed)(void *context, const char *reason);
};

/* Starts to connect. Calls may be opened at once; they leave when the connection stands. The texts
 * in the options are copied. STATUS_INVALID: a host or a path that is too long or cannot be.
 * STATUS_NO_MEMORY, STATUS_IO: nothing was started. */
enum status grpc_client_create(uv_loop_t *loop, const struct grpc_client_options *options,
                               struct grpc_client **out_client);

/* Closes the connection. No callback comes after this, not even for open calls; the memory goes
 * when the loop has closed the handles. Safe inside any callback. Accepts NULL. */
void grpc_client_destroy(struct grpc_client *client);

/* Who the calls are from: a token of Auth/Authenticate, for every call that is opened from now on.
 * Copied. False: out of memory, or the connection is closed. */
bool grpc_client_set_token(struct grpc_client *client, const char *token);

bool grpc_client_is_closed(const struct grpc_client *client);
/* True between on_ready and on_closed. */
bool grpc_client_is_ready(const struct grpc_client *client);
size_t grpc_client_calls_open(const struct grpc_client *client);

/* Constant for each method. */
struct grpc_client_method {
    const char *path; /* "/etcdserverpb.KV/Range" */
    /* Unary: the one message comes with on_end, whole. Streams: each comes with on_message. */
    bool unary;
    void (*on_message)(struct grpc_client_call *call, struct bytes message);
    /* Once, last; the call must not be touched afterwards. `message` is the answer of a unary call
     * that ended with GRPC_OK. All pointers are borrowed. Comes from the loop, never from inside a
     * function of this header. */
    void (*on_end)(struct grpc_client_call *call, enum grpc_code code, const char *text,
                   struct bytes message);
};

/* Opens a call; `timeout_ms` 0: no deadline. NULL: the connection is closed. Nothing is sent before
 * the loop goes on. */
struct grpc_client_call *grpc_client_open(struct grpc_client *client,
                                          const struct grpc_client_method *method,
                                          uint32_t timeout_ms);

/* GRPC_CLIENT_CALL_ROOM bytes, aligned for any type, not zeroed. */
void *grpc_client_call_room(struct grpc_client_call *call);
struct grpc_client *grpc_client_call_client(const struct grpc_client_call *call);

/* Queues one message without a copy: reserve room, write the message there, commit its true size.
 * Nothing else may be called on this call in between. */
uint8_t *grpc_client_call_reserve(struct grpc_client_call *call, size_t size);
void grpc_client_call_commit(struct grpc_client_call *call, size_t size);

/* Nothing more will be sent on this call. A unary call needs it after its message. */
void grpc_client_call_half_close(struct grpc_client_call *call);

/* Ends the call at once, without on_end; it must not be touched afterwards. */
void grpc_client_call_cancel(struct grpc_client_call *call);

#endif
