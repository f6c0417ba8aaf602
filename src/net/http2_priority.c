/* Which stream of a connection sends next (RFC 9218). Small answers go in the order in which they
 * were made. Large ones take turns, frame by frame, and what must be prompt goes before both. */
#include "net/http2_session.h"

enum { URGENCY_PROMPT = 1 };

void http2_priority_apply(struct http_exchange *exchange) {
    struct http2_session *session = http2_session_of(exchange);
    const nghttp2_extpri priority = {
        .urgency = exchange->is_prompt ? URGENCY_PROMPT : NGHTTP2_EXTPRI_DEFAULT_URGENCY, .inc = 1};
    /* Of a stream that is gone by now nothing waits. */
    int result = nghttp2_session_change_extpri_stream_priority(session->nghttp2,
                                                               exchange->stream_id, &priority, 1);
    if (result == NGHTTP2_ERR_NOMEM) {
        http_session_fail(&session->http, "out of memory");
    }
}
