/*
 * One gRPC call: what it sends, what came of it, and whose it is. A call waits until its connection
 * is ready, is then a stream of HTTP/2, and ends once: by the server, by its deadline, or with its
 * connection. A call that changes nothing when it is repeated moves to the next connection instead.
 */
#ifndef LEASED_LEASE_LIB_CALL_H
#define LEASED_LEASE_LIB_CALL_H

#include "base/buffer.h"
#include "base/list.h"

#include <lease.h>

enum lib_code {
    LIB_CODE_OK = 0,
    LIB_CODE_CANCELLED = 1,
    LIB_CODE_UNKNOWN = 2,
    LIB_CODE_INVALID_ARGUMENT = 3,
    LIB_CODE_DEADLINE_EXCEEDED = 4,
    LIB_CODE_NOT_FOUND = 5,
    LIB_CODE_ALREADY_EXISTS = 6,
    LIB_CODE_PERMISSION_DENIED = 7,
    LIB_CODE_RESOURCE_EXHAUSTED = 8,
    LIB_CODE_FAILED_PRECONDITION = 9,
    LIB_CODE_ABORTED = 10,
    LIB_CODE_OUT_OF_RANGE = 11,
    LIB_CODE_UNIMPLEMENTED = 12,
    LIB_CODE_INTERNAL = 13,
    LIB_CODE_UNAVAILABLE = 14,
    LIB_CODE_DATA_LOSS = 15,
    LIB_CODE_UNAUTHENTICATED = 16
};

enum {
    LIB_TEXT_SIZE_MAX = 512,                 /* of a sentence, with its NUL */
    LIB_MESSAGE_SIZE_MAX = 16 * 1024 * 1024, /* of an answer */
    LIB_FRAME_PREFIX_SIZE = 5                /* compressed or not, length */
};

struct lib_call;

struct lib_method {
    const char *path;
    bool is_repeatable; /* may be sent again when its connection was lost */
    bool keeps_message; /* may be sent again when its token was refused, or when its method has
                         * become one that is repeatable */
    bool is_stream;     /* the client may go on sending */
    bool is_early;      /* belongs to the making of a connection */
    bool is_farewell;   /* nobody hears that it was refused for want of room: sent again */
    /* A message of the answer; valid during the call. Not NULL. */
    void (*on_message)(struct lib_call *call, struct bytes message);
    /* The last that is heard of it; its memory goes when this returns. `text` is a sentence. */
    void (*on_end)(struct lib_call *call, enum lib_code code, const char *text);
};

struct lib_call {
    struct list link; /* in the connection's waiting or open calls */
    struct lease_connection *connection;
    const struct lib_method *method;
    void *context;
    uint64_t deadline_ms;   /* 0: none */
    int64_t session_id;     /* of a farewell, which is given up with this session; 0: none */
    uint64_t not_before_ms; /* of one that is repeated */
    uint64_t opened_ms;
    bool was_authenticated_again;
    bool is_canceled; /* in its own callback: nothing more is told */

    /* What HTTP/2 knows of it. */
    int32_t stream_id; /* 0: not opened */
    struct buffer out; /* framed messages */
    size_t out_at;
    bool half_closed; /* no more is sent than `out` */
    struct buffer in; /* a message that has not come whole */
    bool is_closed;   /* the stream is */
    bool has_news;    /* something came */
    int http_status;
    int grpc_status; /* -1: none came */
    char text[LIB_TEXT_SIZE_MAX];
};

/* Frames a message into what the call sends. */
void lib_call_frame(struct lib_call *call, struct bytes message);

/* Gives the whole messages that came to the method. False: what came is malformed, `text` says how.
 */
bool lib_call_take_messages(struct lib_call *call);

/* How a closed call ended, by its trailers. */
enum lib_code lib_call_code(const struct lib_call *call, const char **out_text);

/* Ready to be opened again on another connection. */
void lib_call_rewind(struct lib_call *call);
void lib_call_free(struct lib_call *call);

/* What a code means to users of the library. */
enum lease_status lib_code_status(enum lib_code code);

#endif
