/*
 * What the two halves of the gRPC client share: grpc_client.c owns the socket and the session,
 * grpc_client_call.c the calls on it.
 */
#ifndef LEASED_CLIENT_GRPC_CLIENT_INTERNAL_H
#define LEASED_CLIENT_GRPC_CLIENT_INTERNAL_H

#include "base/buffer.h"
#include "base/list.h"
#include "client/grpc_client.h"

#include <nghttp2/nghttp2.h>
#include <stdalign.h>

#define GRPC_CLIENT_HOST_SIZE_MAX 256
#define GRPC_CLIENT_READ_SIZE (64 * 1024)
#define GRPC_CLIENT_WRITE_SIZE (64 * 1024)
/* A byte that tells whether the message is compressed, then its length. */
#define GRPC_FRAME_PREFIX_SIZE 5
/* A recycled call keeps its buffers only up to this size. */
#define GRPC_CLIENT_KEPT_BUFFER_SIZE_MAX (16 * 1024)

enum grpc_client_state { GRPC_CLIENT_CONNECTING, GRPC_CLIENT_CONNECTED, GRPC_CLIENT_CLOSED };

struct grpc_client_call {
    struct list link;          /* in the client's open or idle calls */
    struct list deadline_link; /* in the client's deadlines, nearest first */
    struct grpc_client *client;
    const struct grpc_client_method *method;
    uint64_t deadline_ms;
    int32_t stream_id;
    int http_status;
    int grpc_status; /* -1: none came */
    bool is_grpc;
    bool half_closed;
    bool deferred; /* nghttp2 waits for more to send */
    /* The owner knows the end already; the object stays until nghttp2 lets go of the stream. */
    bool ended;
    bool message_whole; /* unary: `in` holds the whole answer */
    struct buffer out;
    size_t out_sent;
    struct buffer in;
    char text[GRPC_CLIENT_TEXT_SIZE_MAX];
    char timeout_text[16];
    alignas(max_align_t) uint8_t room[GRPC_CLIENT_CALL_ROOM];
};

struct grpc_client {
    uv_loop_t *loop;
    struct grpc_client_options options;
    enum grpc_client_state state;
    bool destroyed;
    bool tcp_live;      /* the handle is initialised and not closed */
    bool write_pending; /* `out` belongs to the kernel until written */
    bool settings_received;
    bool dirty;     /* the session may have something to send */
    unsigned users; /* handles and requests that must end before the memory goes */

    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_write_t write;
    uv_prepare_t prepare;
    uv_timer_t deadline_timer;
    uv_timer_t connect_timer;
    uv_getaddrinfo_t resolver;

    struct sockaddr_storage addresses[GRPC_CLIENT_ADDRESSES_MAX];
    size_t n_addresses;
    size_t next_address;
    int connect_error;

    nghttp2_session *session;
    struct list calls;
    struct list idle_calls;
    struct list deadlines;
    size_t n_calls;
    uint64_t deadline_timer_ms; /* when the timer is due, while it runs */

    struct buffer out;
    char host[GRPC_CLIENT_HOST_SIZE_MAX];
    char authority[GRPC_CLIENT_HOST_SIZE_MAX + 16];
    size_t authority_size;
    char goaway_text[GRPC_CLIENT_TEXT_SIZE_MAX];
    uint8_t read_buffer[GRPC_CLIENT_READ_SIZE];
};

/* Registers the session callbacks that belong to calls. */
void grpc_client_call_register(nghttp2_session_callbacks *callbacks);

/* Ends every open call with this status; the calls return to the idle list. */
void grpc_client_end_calls(struct grpc_client *client, enum grpc_code code, const char *text);

/* Releases every call object. */
void grpc_client_free_calls(struct grpc_client *client);

#endif
