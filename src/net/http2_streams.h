/*
 * What nghttp2 forgets about streams and RFC 9113, section 5.1 wants to be known: a frame on a
 * stream that the client itself has ended, or a stream number that goes backwards, is an error of
 * the connection; a frame on a stream that we have reset may have been on its way and is ignored.
 * Only the latest streams are remembered: an older one is never taken for an error by guessing,
 * except for a number that goes backwards.
 */
#ifndef LEASED_NET_HTTP2_STREAMS_H
#define LEASED_NET_HTTP2_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP2_STREAMS_ENDED = 8, HTTP2_STREAMS_RESET = 32 };

struct http2_streams {
    int32_t highest;
    int32_t highest_ended;
    int32_t ended[HTTP2_STREAMS_ENDED]; /* by the client, and closed; a ring */
    int32_t reset[HTTP2_STREAMS_RESET]; /* by us, before the client had ended them; a ring */
    uint8_t n_ended;
    uint8_t n_reset;
};

/* Closed after the client had sent END_STREAM or RST_STREAM. */
void http2_streams_note_ended(struct http2_streams *streams, int32_t stream_id);
/* Reset by us while the client may still be sending. */
void http2_streams_note_reset(struct http2_streams *streams, int32_t stream_id);

bool http2_streams_has_ended(const struct http2_streams *streams, int32_t stream_id);

/* A DATA frame begins. False: the client has ended this stream before. */
static inline bool http2_streams_allow_data(const struct http2_streams *streams,
                                            int32_t stream_id) {
    return stream_id > streams->highest_ended || !http2_streams_has_ended(streams, stream_id);
}

enum http2_streams_result {
    HTTP2_STREAMS_OK,
    HTTP2_STREAMS_CLOSED,   /* ended before */
    HTTP2_STREAMS_BACKWARDS /* a new stream with an old number */
};

/* A HEADERS frame begins: a new stream. False: its number is not higher than all before. */
static inline bool http2_streams_open(struct http2_streams *streams, int32_t stream_id) {
    if (stream_id <= streams->highest) {
        return false;
    }
    streams->highest = stream_id;
    return true;
}
/* What HEADERS on a stream with such a number mean. `is_open`: the stream is being served. */
enum http2_streams_result http2_streams_check_old(const struct http2_streams *streams,
                                                  int32_t stream_id, bool is_open);

#endif
