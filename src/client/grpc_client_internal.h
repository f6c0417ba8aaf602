/*
 * What the parts of the gRPC client share: grpc_client.c owns the connection, grpc_client_socket.c
 * makes it, grpc_client_tls.c encrypts it, grpc_client_frames.c speaks HTTP/2 on it,
 * grpc_client_call.c keeps the calls.
 */
#ifndef LEASED_CLIENT_GRPC_CLIENT_INTERNAL_H
#define LEASED_CLIENT_GRPC_CLIENT_INTERNAL_H

#include "base/buffer.h"
#include "base/list.h"
#include "client/grpc_client.h"
#include "client/header_codec.h"
#include "client/http2_wire.h"
#include "tls/tls_stream.h"

#include <stdalign.h>
#include <sys/un.h>

#define GRPC_CLIENT_HOST_SIZE_MAX 256
#define GRPC_CLIENT_READ_SIZE (64 * 1024)
#define GRPC_CLIENT_WRITE_SIZE (64 * 1024)
/* A byte that says whether the message is compressed, then its length. */
#define GRPC_FRAME_PREFIX_SIZE 5
/* A recycled call keeps its buffers only up to this size. */
#define GRPC_CLIENT_KEPT_BUFFER_SIZE_MAX (16 * 1024)
#define GRPC_CLIENT_REASON_SIZE_MAX 512
/* A reason in a GOAWAY frame that is longer is not shown. */
#define GRPC_CLIENT_GOAWAY_SIZE_MAX 128

enum grpc_client_state { GRPC_CLIENT_CONNECTING, GRPC_CLIENT_CONNECTED, GRPC_CLIENT_CLOSED };

struct grpc_client_call {
    struct list link;          /* in the client's open, dead or idle calls */
    struct list send_link;     /* in the client's calls that have something to send */
    struct list deadline_link; /* in the client's deadlines, nearest first */
    struct grpc_client_call *next_in_bucket;
    struct grpc_client *client;
    const struct grpc_client_method *method;
    uint64_t deadline_ms;
    uint32_t timeout_ms;
    int32_t stream_id;       /* 0: not sent yet */
    int64_t send_window;     /* may fall below zero when the peer lowers it */
    uint32_t unacknowledged; /* bytes received that were not acknowledged yet */
    int http_status;
    int grpc_status; /* -1: none came */
    bool is_grpc;
    bool half_closed;   /* the owner has no more to send */
    bool end_sent;      /* and the peer knows */
    bool ended;         /* the owner knows the end */
    bool message_whole; /* unary: `in` holds the whole answer */
    struct buffer out;
    size_t out_sent;
    struct buffer in;
    char text[GRPC_CLIENT_TEXT_SIZE_MAX];
    alignas(max_align_t) uint8_t room[GRPC_CLIENT_CALL_ROOM];
};

/* HTTP/2 on one connection. */
struct grpc_client_session {
    struct header_codec *codec;
    int32_t next_stream_id;
    int32_t goaway_last_id; /* -1: the peer takes new streams */
    int64_t send_window;
    uint32_t unacknowledged;
    uint32_t peer_window_size;
    uint32_t peer_frame_size_max;
    uint32_t peer_streams_max;
    size_t n_streams;                  /* that the peer knows and that are open */
    struct grpc_client_call **buckets; /* streams by id */
    size_t n_buckets;
    struct list to_send;     /* calls with something to send, in their order */
    struct buffer control;   /* frames of no call, they go first */
    struct buffer partial;   /* a frame that has not come whole */
    struct buffer block;     /* headers that continue */
    int32_t block_stream_id; /* 0: none */
    uint8_t block_flags;
    char goaway_text[GRPC_CLIENT_GOAWAY_SIZE_MAX]; /* why the peer takes no new streams */
};

struct grpc_client {
    uv_loop_t *loop;
    struct grpc_client_options options;
    enum grpc_client_state state;
    bool destroyed;
    bool socket_live;   /* the handle is initialised and not closed */
    bool write_pending; /* `out` belongs to the kernel until written */
    bool settings_received;
    unsigned users; /* handles and requests that must end before the memory goes */

    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } socket;
    uv_connect_t connect;
    uv_write_t write;
    uv_prepare_t prepare; /* runs while there may be something to send */
    uv_timer_t deadline_timer;
    uv_timer_t connect_timer;
    uv_getaddrinfo_t resolver;

    struct sockaddr_storage addresses[GRPC_CLIENT_ADDRESSES_MAX];
    size_t n_addresses;
    size_t next_address;
    int connect_error;

    struct grpc_client_session session;
    struct list calls;
    struct list
        dead_calls; /* ended in this iteration; callers up the stack may still look at them */
    struct list idle_calls;
    struct list deadlines;
    size_t n_calls;
    uint64_t deadline_timer_ms; /* when the timer is due, while it runs */

    struct tls_stream *tls; /* NULL: plain text */
    struct buffer frames;   /* with TLS: what is to be encrypted next */
    struct buffer out;
    char host[GRPC_CLIENT_HOST_SIZE_MAX]; /* "localhost" behind a Unix socket */
    char socket_path[sizeof((struct sockaddr_un *)0)->sun_path];
    char authority[GRPC_CLIENT_HOST_SIZE_MAX + 16];
    uint8_t read_buffer[GRPC_CLIENT_READ_SIZE];
};

/* ---- grpc_client.c ---- */

/* There may be something to send: it leaves before the loop waits. */
void grpc_client_touch(struct grpc_client *client);
/* The socket is connected. Result of libuv: below zero it cannot be used. */
int grpc_client_on_connected(struct grpc_client *client);
/* Ends the connection and reports to its owner: "AUTHORITY what: why". Must not run while the
 * session handles bytes: the calls end here, and their owners may destroy the client. */
void grpc_client_fail(struct grpc_client *client, const char *what, const char *why);
/* The same with a whole sentence. */
void grpc_client_fail_with_text(struct grpc_client *client, const char *reason);
/* A handle or request that counts as a user has ended. */
void grpc_client_release(struct grpc_client *client);
/* Where the server is, for people. */
const char *grpc_client_place(const struct grpc_client *client);

/* ---- grpc_client_socket.c ---- */

/* Starts to connect, to one address after the other. Result of libuv: below zero nothing was
 * started. */
int grpc_client_socket_open(struct grpc_client *client);
/* Does nothing when there is none. */
void grpc_client_socket_close(struct grpc_client *client);

/* ---- grpc_client_tls.c: nothing here may be called without TLS. ---- */

/* False: the certificate could not be for such a host. */
bool grpc_client_tls_begin(struct grpc_client *client);
bool grpc_client_tls_is_open(const struct grpc_client *client);
/* Moves what is to be sent into `out`, which is empty: the handshake, or frames encrypted. */
void grpc_client_tls_fill(struct grpc_client *client, struct buffer *out);
/* Appends what can be read. */
void grpc_client_tls_receive(struct grpc_client *client, struct bytes ciphertext,
                             struct buffer *out_plaintext);
/* Ends the connection if TLS is over, and reports why to the owner. */
void grpc_client_tls_settle(struct grpc_client *client);
/* The peer hung up; reports why to the owner. */
void grpc_client_tls_receive_end(struct grpc_client *client);
/* Says goodbye, if that is possible without waiting. */
void grpc_client_tls_end(struct grpc_client *client);

/* ---- grpc_client_frames.c ---- */

enum status grpc_client_session_init(struct grpc_client *client);
void grpc_client_session_clear(struct grpc_client *client);
/* Takes bytes from the peer. NULL, or why the connection cannot go on. */
const char *grpc_client_session_receive(struct grpc_client *client, struct bytes bytes);
/* Appends frames to `out` until there are no more or it is full enough for one write. */
void grpc_client_session_fill(struct grpc_client *client, struct buffer *out);
/* True when the peer takes no new streams and none is open. */
bool grpc_client_session_is_over(const struct grpc_client *client);
/* The call has something to send. */
void grpc_client_session_queue(struct grpc_client_call *call);
/* Forgets the call's stream; the stream is reset unless the peer has closed it. */
void grpc_client_session_drop(struct grpc_client_call *call, bool peer_knows);

/* ---- grpc_client_call.c ---- */

/* What came of a call. */
void grpc_client_call_on_headers(struct grpc_client_call *call,
                                 const struct header_codec_answer *answer);
void grpc_client_call_on_data(struct grpc_client_call *call, struct bytes data);
/* The stream is closed by the peer; not HTTP2_NO_ERROR: reset. */
void grpc_client_call_on_close(struct grpc_client_call *call, uint32_t error_code);
/* Ends one call, or every open one, with this status. */
void grpc_client_call_end(struct grpc_client_call *call, enum grpc_code code, const char *text);
void grpc_client_end_calls(struct grpc_client *client, enum grpc_code code, const char *text);
/* What ended in the last iteration can be used again. */
void grpc_client_recycle_calls(struct grpc_client *client);
/* Releases every call object. */
void grpc_client_free_calls(struct grpc_client *client);

#endif
