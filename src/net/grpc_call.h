/*
 * A gRPC call from the inside: an HTTP/2 exchange whose bodies are length-prefixed messages and
 * whose status comes in trailers.
 */
#ifndef LEASED_NET_GRPC_CALL_H
#define LEASED_NET_GRPC_CALL_H

#include "net/grpc.h"
#include "net/grpc_framing.h"
#include "net/grpc_stats.h"
#include "net/http_exchange.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GRPC_ENCODING_NAME_MAX = 15, GRPC_TEXT_SIZE_MAX = 1024 };

struct grpc_call {
    struct http_exchange exchange;
    const struct grpc_method *method; /* NULL: a refusal */
    struct grpc_stats *stats;         /* of the method; NULL: not counted, or counted already */
    uint64_t started_us;
    struct grpc_framing framing;
    size_t reserved_size;
    size_t message_left; /* of a message in pieces: what is still to be appended */
    char *text;          /* of the status; NULL: none */
    uint8_t code;
    bool is_handled;       /* its end is counted */
    bool is_opened;        /* the door knows it */
    bool is_overdue;       /* its deadline has passed, and its answer is on its way */
    bool has_message;      /* unary, server stream: the one message came */
    bool refuses_encoding; /* the answer names the encodings we take */
    char encoding[GRPC_ENCODING_NAME_MAX + 1];
};

/* A fresh call without a method joins the session. */
struct grpc_call *grpc_call_create(struct http_session *session, int32_t stream_id);
/* Frees the free list. */
void grpc_call_drop_free(struct net_shared *shared);

/* What the client says that it compresses messages with ("gzip"). */
void grpc_call_set_encoding(struct grpc_call *call, const char *encoding);

/* Finds the caller of a call that has its method and metadata. False: the call was refused. */
bool grpc_call_authenticate(struct grpc_call *call);
/* From here on the call counts as one of its method. */
void grpc_call_count(struct grpc_call *call, struct grpc_stats *stats);

/* The door learns of the call. */
void grpc_call_open(struct grpc_call *call);

#endif
