#include "net/http2_streams.h"

static bool contains(const int32_t *ids, size_t n, int32_t stream_id) {
    for (size_t i = 0; i < n; i++) {
        if (ids[i] == stream_id) {
            return true;
        }
    }
    return false;
}

void http2_streams_note_ended(struct http2_streams *streams, int32_t stream_id) {
    streams->ended[streams->n_ended++ % HTTP2_STREAMS_ENDED] = stream_id;
    if (stream_id > streams->highest_ended) {
        streams->highest_ended = stream_id;
    }
}

void http2_streams_note_reset(struct http2_streams *streams, int32_t stream_id) {
    if (!contains(streams->reset, HTTP2_STREAMS_RESET, stream_id)) {
        streams->reset[streams->n_reset++ % HTTP2_STREAMS_RESET] = stream_id;
    }
}

bool http2_streams_has_ended(const struct http2_streams *streams, int32_t stream_id) {
    return stream_id != 0 && contains(streams->ended, HTTP2_STREAMS_ENDED, stream_id);
}

enum http2_streams_result http2_streams_check_old(const struct http2_streams *streams,
                                                  int32_t stream_id, bool is_open) {
    if (is_open || contains(streams->reset, HTTP2_STREAMS_RESET, stream_id)) {
        return HTTP2_STREAMS_OK;
    }
    return http2_streams_has_ended(streams, stream_id) ? HTTP2_STREAMS_CLOSED
                                                       : HTTP2_STREAMS_BACKWARDS;
}
