/*
 * An exchange from the inside: the part that HTTP/1 and HTTP/2, plain routes and gRPC calls have in
 * common. It belongs to a session, which writes it to the wire, and has a handler, which serves it.
 * It is over for the wire when its stream is closed or its answer is sent, and over for its door
 * when on_close was called; its memory is given back when both are true, which happens only in
 * http_session_settle().
 */
#ifndef LEASED_NET_HTTP_EXCHANGE_H
#define LEASED_NET_HTTP_EXCHANGE_H

#include "base/buffer.h"
#include "base/list.h"
#include "net/http.h"
#include "net/net_shared.h"
#include "net/net_timers.h"
#include "net/protocol.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_LENGTH_UNKNOWN UINT64_MAX

enum {
    /* Fields of one answer, with those that net adds. */
    HTTP_ANSWER_FIELDS_MAX = 24,
    /* Storage for the text of a trailer. */
    HTTP_TRAILER_TEXT_MAX = 4096
};

struct http_exchange;
struct http_session;

struct http_answer {
    unsigned status;
    const struct http_field *fields;
    size_t n_fields;
    uint64_t length; /* of the body, or of the one that HEAD leaves out */
    bool has_body;   /* false: the answer ends with its headers */
};

/* How a session writes. Nothing is sent inside of these. */
struct http_wire {
    /* Status and headers; the exchange's queue is the body. */
    void (*start)(struct http_exchange *exchange, const struct http_answer *answer);
    /* 100 Continue: the body is wanted. */
    void (*want_body)(struct http_exchange *exchange);
    /* More is queued, or the answer finished, after the wire had found the queue empty. */
    void (*resume)(struct http_exchange *exchange);
    /* Cuts the exchange off so that the client notices. */
    void (*reset)(struct http_exchange *exchange);
    /* The exchange is prompt, or has become bulky: where it stands among the others of its
     * connection. NULL: there are no others. */
    void (*apply_priority)(struct http_exchange *exchange);
};

/* The part that the sessions of HTTP/1 and HTTP/2 have in common. */
struct http_session {
    const struct http_wire *wire;
    struct protocol_host *host;
    struct net_shared *shared;
    const struct route_table *routes; /* of the scope of the listener */
    struct list exchanges;            /* by in_session, oldest first */
    struct list closing;
    struct list blocked;        /* writers that wait for room */
    struct list blocked_prompt; /* those whose messages do not wait for others' large answers */
    struct list in_crowded; /* of net_shared, while writers wait for others' answers to be taken */
    size_t held_bytes;      /* of open exchanges */
    size_t n_exchanges;     /* not closed on the wire */
    size_t queued_bytes;    /* of all exchanges, not yet produced */
    size_t prompt_bytes;    /* the part of it that is of prompt ones */
    size_t bridged_bytes;   /* answers of calls of grpc_bridge.h that wait for room among these */
    enum session_state state;
    bool is_draining;
    bool is_closed; /* close has begun: the wire is not used any more */
};

/* Serves an exchange: a route or a gRPC method. All functions are there but `trailers`. */
struct http_handler {
    void (*on_bytes)(struct http_exchange *exchange, struct bytes bytes);
    /* The request is complete. */
    void (*on_half_close)(struct http_exchange *exchange);
    void (*on_writable)(struct http_exchange *exchange);
    /* The door learns that the exchange is over. */
    void (*on_close)(struct http_exchange *exchange);
    /* The time limit has passed. */
    void (*on_deadline)(struct http_exchange *exchange);
    /* The server stops. */
    void (*on_drain)(struct http_exchange *exchange);
    /* The client sends no more on this connection; what is not complete never will be. */
    void (*on_input_end)(struct http_exchange *exchange);
    /* Too many requests are unfinished, and this one has not grown for longest: it has to go. */
    void (*on_overflow)(struct http_exchange *exchange);
    /* Over for the wire and for the door. */
    void (*give_back)(struct http_exchange *exchange);
    /* Fields behind the body, at most HTTP_ANSWER_FIELDS_MAX; `text` has HTTP_TRAILER_TEXT_MAX
     * bytes for values. NULL: none. */
    size_t (*trailers)(const struct http_exchange *exchange, char *text, struct http_field *out);
};

struct http_exchange {
    struct http_session *session;
    const struct http_handler *handler;
    void *context; /* of the door */
    void *data;

    struct list in_session;
    struct list in_closing;  /* something is over and has to be settled */
    struct list in_blocked;  /* the door waits for on_writable */
    struct list in_partials; /* of net_shared, while a part of the request is held */
    struct net_timer deadline;

    struct buffer out; /* HTTP/1: `head_left` bytes of headers first; then the body */
    size_t out_sent;
    struct buffer fields; /* headers of the request, see http_fields.h */
    size_t partial_bytes; /* of the request, counted in net_shared */
    size_t held_bytes;    /* counted in the session and in net_shared */
    uint64_t length_left; /* of the request's body, if `has_length` */
    uint64_t caller[NET_CALLER_SIZE_MAX / sizeof(uint64_t)];

    int32_t stream_id;  /* HTTP/2 */
    uint32_t head_left; /* HTTP/1 */

    bool has_length;          /* the request has said how long its body is */
    bool is_half_closed;      /* the request is complete */
    bool is_response_started; /* headers are with the wire */
    bool is_deferred;         /* the wire found the queue empty and waits for resume */
    bool is_bodyless;         /* HEAD: what is sent is dropped */
    bool is_finished;         /* the answer is complete, or given up */
    bool is_cut_off;          /* the answer will not be completed */
    bool is_chunked;          /* HTTP/1: the answer's body comes in chunks */
    bool is_door_closed;      /* on_close was called, or never has to be */
    bool is_wire_closed;      /* the stream is gone, or the answer sent */
    bool is_prompt;           /* its messages go before others' large answers */
    bool is_bulky;            /* much is queued: it takes turns with others */
};

void http_session_init(struct http_session *session, const struct http_wire *wire,
                       struct protocol_host *host);
/* The session cannot go on: the connection is closed at the end of the iteration, with a log line.
 */
void http_session_fail(struct http_session *session, const char *reason);
/* Calls on_close of what is over and gives finished exchanges back; then wakes writers. */
void http_session_settle(struct http_session *session);
/* Ends every exchange. The session's memory may be freed afterwards. */
void http_session_close_exchanges(struct http_session *session);
/* Tells every exchange that the server stops. */
void http_session_drain_exchanges(struct http_session *session);
/* Tells every exchange that no more input comes. */
void http_session_end_input(struct http_session *session);

/* A zeroed exchange, whose `out` and `fields` may hold memory of an earlier one, joins a session.
 */
void http_exchange_init(struct http_exchange *exchange, struct http_session *session,
                        const struct http_handler *handler, int32_t stream_id);
/* The messages of this exchange are small and must come soon. Before anything is queued. */
void http_exchange_set_prompt(struct http_exchange *exchange);
/* To be called by give_back(): leaves every list and count. `out` and `fields` are emptied and keep
 * a small block for the next exchange. */
void http_exchange_leave(struct http_exchange *exchange);
/* Frees `out` and `fields`. */
void http_exchange_clear(struct http_exchange *exchange);

/* Nothing can be sent any more. */
static inline bool http_exchange_is_over(const struct http_exchange *exchange) {
    return exchange->is_finished || exchange->is_wire_closed || exchange->session->is_closed ||
           exchange->session->state == SESSION_FAILED;
}

/* Bytes queued and not yet handed to the socket. */
static inline size_t http_exchange_queued_bytes(const struct http_exchange *exchange) {
    return exchange->out.size - exchange->out_sent;
}

/* Moves what is queued to the beginning of its buffer. */
void http_exchange_pack(struct http_exchange *exchange);

/* Room for `size` bytes behind what is queued; if the exchange is over, somewhere else. */
static inline uint8_t *http_exchange_reserve(struct http_exchange *exchange, size_t size) {
    if (http_exchange_is_over(exchange) || exchange->is_bodyless) {
        return buffer_reserve(&exchange->session->shared->discarded, size);
    }
    if (exchange->out_sent > 0 && exchange->out_sent >= exchange->out.size / 2) {
        http_exchange_pack(exchange);
    }
    return buffer_reserve(&exchange->out, size);
}
/* `size` bytes were written there. */
void http_exchange_commit(struct http_exchange *exchange, size_t size);
/* Queued bytes were produced. */
void http_exchange_drop_sent(struct http_exchange *exchange, size_t size);

void http_exchange_start(struct http_exchange *exchange, const struct http_answer *answer);
/* The answer is complete, once started. */
void http_exchange_finish(struct http_exchange *exchange);
/* The answer will not be completed. */
void http_exchange_cut_off(struct http_exchange *exchange);
/* Settles the exchange at the end of the iteration. */
void http_exchange_close_later(struct http_exchange *exchange);
/* The stream is gone, or the answer sent. */
void http_exchange_on_wire_close(struct http_exchange *exchange);

/* `wants_wake`: on_writable is to be called when it is false. */
bool http_exchange_is_writable(struct http_exchange *exchange, bool wants_wake);
bool http_exchange_has_room(const struct http_exchange *exchange);

void http_exchange_set_timeout(struct http_exchange *exchange, uint64_t timeout_ms);

/* --- http_shares.c ------------------------------------------------------------------------- */

/* False: the connection holds more than its share, and a request with so many bytes of headers has
 * to be refused. */
bool http_session_admits(const struct http_session *session, size_t fields_size);
/* What an open exchange holds, and to count it; 0: nothing any more. */
size_t http_exchange_cost(const struct http_exchange *exchange);
void http_exchange_count_held(struct http_exchange *exchange, size_t held);

/* What a door holds for an open exchange counts as well. False: nothing was counted, the connection
 * has used up its share. What is not released is when the exchange ends. */
bool http_exchange_hold(struct http_exchange *exchange, size_t size);
void http_exchange_release(struct http_exchange *exchange, size_t size);

/* See http_has_room(). */
bool http_session_has_room(const struct http_session *session);
/* See http_has_spare_room(). */
bool http_session_has_spare_room(const struct http_session *session);
/* True when so much waits to be taken, by all together, that nobody is to queue more. Writers are
 * woken when there is room again. */
bool http_session_wait_if_crowded(struct http_session *session);
/* To be called in each iteration of the loop. */
void http_shares_wake_crowded(struct net_shared *shared);

/* The same, when some were held before or are now. */
bool http_exchange_count_partial_change(struct http_exchange *exchange, size_t held);
/* So many bytes of the unfinished request are held now. When all together are too many, those that
 * have not grown for longest are ended; false: that is this one. */
static inline bool http_exchange_count_partial(struct http_exchange *exchange, size_t held) {
    return (held == 0 && exchange->partial_bytes == 0) ||
           http_exchange_count_partial_change(exchange, held);
}

#endif
