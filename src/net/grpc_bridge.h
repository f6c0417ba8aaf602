/*
 * A gRPC method run for an HTTP exchange of the same listener, so that a door can offer its methods
 * in another form, JSON for example, without a second implementation. The method sees an ordinary
 * call: the same caller, metadata, limits, back-pressure and end. Its answers come back as messages
 * in pieces, and the door sends them on in its own form.
 */
#ifndef LEASED_NET_GRPC_BRIDGE_H
#define LEASED_NET_GRPC_BRIDGE_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "net/grpc.h"
#include "net/http.h"

#include <stdbool.h>
#include <stddef.h>

struct grpc_bridge;

/* What the method answers. May be called from inside of every function below but create and
 * destroy. */
struct grpc_bridge_events {
    /* A message of this size begins. */
    void (*on_message)(struct http_exchange *exchange, size_t size);
    /* A piece of it, borrowed for the call. A message without bytes is one empty piece. */
    void (*on_piece)(struct http_exchange *exchange, struct bytes piece, bool is_last);
    /* The call waited, and is open now. */
    void (*on_admitted)(struct http_exchange *exchange);
    /* The last word, unless the exchange was cut off. `text` is "" if there is none. */
    void (*on_end)(struct http_exchange *exchange, enum grpc_code code, const char *text);
};

/* For a call of the method with this path. Request headers named grpc-metadata-<name> become the
 * metadata <name>, authorization stays what it is, grpc-timeout limits the time. NULL: the listener
 * has no such method. */
struct grpc_bridge *grpc_bridge_create(struct http_exchange *exchange, const char *method_path,
                                       const struct grpc_bridge_events *events);
/* Authenticates the caller and tells the method; once, after create. When as many are open as the
 * limits allow, it waits for its turn. */
void grpc_bridge_open(struct grpc_bridge *bridge);
/* Nothing may be sent yet; on_admitted follows. */
bool grpc_bridge_is_waiting(const struct grpc_bridge *bridge);
/* From the exchange's on_close. NULL is accepted. */
void grpc_bridge_destroy(struct grpc_bridge *bridge);

enum grpc_kind grpc_bridge_kind(const struct grpc_bridge *bridge);
/* The largest message that a client may send. */
size_t grpc_bridge_message_max(const struct grpc_bridge *bridge);
/* The method has not ended the call. */
bool grpc_bridge_is_open(const struct grpc_bridge *bridge);

/* A message is gathered behind room for its prefix: begin empties the buffer and leaves that room,
 * send adds the prefix and hands the message to the method. */
void grpc_bridge_begin(struct buffer *message);
void grpc_bridge_send(struct grpc_bridge *bridge, struct buffer *message);
/* No more messages will come. */
void grpc_bridge_half_close(struct grpc_bridge *bridge);
/* Ends the call with an error of the door's own. */
void grpc_bridge_finish(struct grpc_bridge *bridge, enum grpc_code code, const char *text);
/* So many bytes of an unfinished request are held by the door. When all together are too many the
 * call is ended. */
void grpc_bridge_count_partial(struct grpc_bridge *bridge, size_t held);

/* For the functions of the same names of the route. */
void grpc_bridge_writable(struct grpc_bridge *bridge);
void grpc_bridge_input_end(struct grpc_bridge *bridge);
void grpc_bridge_drain(struct grpc_bridge *bridge);

#endif
