#include "net/http2_session.h"

#include "base/log.h"
#include "net/http2_memory.h"
#include "net/http2_request.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    STREAM_WINDOW_SIZE = 256 * 1024,
    CONNECTION_WINDOW_SIZE = 1024 * 1024,
    /* Our answers repeat a handful of headers. */
    DEFLATE_TABLE_SIZE = 1024,
    /* nghttp2's own guards stand behind http2_guard's, which gives the peer a reason. */
    LIBRARY_RESET_BURST = 40000,
    LIBRARY_RESETS_PER_SECOND = 4000
};

struct http2_library {
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    struct http2_memory *memory;
};

static const struct http_wire http2_wire;

/* --- ends ---------------------------------------------------------------------------------- */

void http2_session_terminate(struct http2_session *session, uint32_t error_code,
                             const char *reason) {
    if (session->http.state >= SESSION_ENDING) {
        return;
    }
    session->http.state = SESSION_ENDING;
    session->http.shared->stats.protocol_errors++;
    log_info("connection ended", LOG_TEXT("reason", reason));
    nghttp2_session_terminate_session(session->nghttp2, error_code);
    session->http.host->wake(session->http.host);
}

/* nghttp2 refuses a submission only when memory is out, or for a stream that is gone, whose close
 * was or will be reported. */
void http2_session_check_submitted(struct http2_session *session, int result) {
    if (result == NGHTTP2_ERR_NOMEM) {
        http_session_fail(&session->http, "out of memory");
    }
    session->http.host->wake(session->http.host);
}

static void reset_stream(struct http2_session *session, int32_t stream_id, uint32_t error_code) {
    http2_streams_note_reset(&session->streams, stream_id);
    http2_session_check_submitted(
        session,
        nghttp2_submit_rst_stream(session->nghttp2, NGHTTP2_FLAG_NONE, stream_id, error_code));
}

/* RFC 9113, 8.1.1: a malformed request is a stream error. */
__attribute__((noinline)) static void refuse_malformed(struct http2_session *session,
                                                       int32_t stream_id) {
    session->http.shared->stats.protocol_errors++;
    reset_stream(session, stream_id, NGHTTP2_PROTOCOL_ERROR);
}

/* The same once the request is being served. */
static void refuse_exchange(struct http2_session *session, struct http_exchange *exchange) {
    exchange->is_finished = true;
    exchange->is_cut_off = true;
    refuse_malformed(session, exchange->stream_id);
    http_exchange_close_later(exchange);
}

static void resume(struct http_exchange *exchange) {
    struct http2_session *session = http2_session_of(exchange);
    http2_session_check_submitted(
        session, nghttp2_session_resume_data(session->nghttp2, exchange->stream_id));
}

static void reset(struct http_exchange *exchange) {
    reset_stream(http2_session_of(exchange), exchange->stream_id, NGHTTP2_CANCEL);
}

static const struct http_wire http2_wire = {
    .start = http2_response_start,
    .want_body = http2_response_want_body,
    .resume = resume,
    .reset = reset,
    .apply_priority = http2_priority_apply,
};

/* --- callbacks of nghttp2 ------------------------------------------------------------------ */

/* One request is several frames, and each of its frames several callbacks. */
static inline struct http_exchange *exchange_of(struct http2_session *session, int32_t stream_id) {
    if (stream_id != session->known_id) {
        struct http_exchange *exchange =
            nghttp2_session_get_stream_user_data(session->nghttp2, stream_id);
        if (exchange == NULL) {
            return NULL;
        }
        http2_session_know(session, stream_id, exchange);
    }
    return session->known;
}

static uint64_t now_ms(const struct http2_session *session) {
    return net_timers_now_ms(session->http.shared->timers);
}

/* RFC 9113, 5.1: HEADERS on a stream that is not new: trailers, or an error. */
__attribute__((noinline)) static int check_old_stream(struct http2_session *session,
                                                      int32_t stream_id) {
    bool is_open = exchange_of(session, stream_id) != NULL;
    switch (http2_streams_check_old(&session->streams, stream_id, is_open)) {
    case HTTP2_STREAMS_OK:
        return 0;
    case HTTP2_STREAMS_CLOSED:
        http2_session_terminate(session, NGHTTP2_STREAM_CLOSED, "HEADERS on a closed stream");
        break;
    case HTTP2_STREAMS_BACKWARDS:
        http2_session_terminate(session, NGHTTP2_PROTOCOL_ERROR, "a stream with an old number");
        break;
    }
    /* Nothing behind it is read. */
    return NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_begin_frame(nghttp2_session *nghttp2, const nghttp2_frame_hd *head, void *user_data) {
    (void)nghttp2;
    struct http2_session *session = user_data;
    if (head->type != NGHTTP2_HEADERS || http2_streams_open(&session->streams, head->stream_id)) {
        return 0;
    }
    return check_old_stream(session, head->stream_id);
}

static bool is_request(const nghttp2_frame *frame) {
    return frame->hd.type == NGHTTP2_HEADERS && frame->headers.cat == NGHTTP2_HCAT_REQUEST;
}

static int on_begin_headers(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *user_data) {
    (void)nghttp2;
    struct http2_session *session = user_data;
    if (!is_request(frame)) {
        /* RFC 9113, 8.1: trailers end their stream. */
        if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) {
            refuse_malformed(session, frame->hd.stream_id);
            return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
        }
        return 0;
    }
    http2_request_give_back(session->request, session->http.shared);
    session->request = http2_request_take(session->http.shared);
    return session->request != NULL ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_header(nghttp2_session *nghttp2, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *user_data) {
    (void)nghttp2;
    (void)flags;
    struct http2_session *session = user_data;
    struct bytes field = bytes_of(name, name_size);
    struct bytes content = bytes_of(value, value_size);
    bool is_valid = false;
    if (!is_request(frame)) {
        is_valid = http2_request_check_trailer(field, content);
    } else if (session->request != NULL) {
        is_valid = http2_request_add(session->request, &session->http, field, content);
    }
    if (!is_valid) {
        refuse_malformed(session, frame->hd.stream_id);
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    return 0;
}

static void on_request(struct http2_session *session, const nghttp2_frame *frame) {
    struct http2_request *request = session->request;
    session->request = NULL;
    if (request == NULL) {
        return;
    }
    bool is_complete = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (session->http.is_draining ||
        !http_session_admits(&session->http, http2_request_size(request))) {
        reset_stream(session, frame->hd.stream_id, NGHTTP2_REFUSED_STREAM);
    } else if (!http2_request_start(request, session, frame->hd.stream_id, is_complete)) {
        refuse_malformed(session, frame->hd.stream_id);
    }
    http2_request_give_back(request, session->http.shared);
}

static void on_end_stream(struct http2_session *session, int32_t stream_id) {
    struct http_exchange *exchange = exchange_of(session, stream_id);
    if (exchange == NULL || exchange->is_half_closed || exchange->is_cut_off) {
        return;
    }
    exchange->is_half_closed = true;
    /* RFC 9113, 8.1.1: content-length is the sum of all DATA. */
    if (exchange->has_length && exchange->length_left > 0) {
        refuse_exchange(session, exchange);
        return;
    }
    exchange->handler->on_half_close(exchange);
}

static int on_frame_recv(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *user_data) {
    (void)nghttp2;
    struct http2_session *session = user_data;
    switch (frame->hd.type) {
    case NGHTTP2_HEADERS:
        if (frame->headers.cat == NGHTTP2_HCAT_REQUEST) {
            on_request(session, frame);
        }
        break;
    case NGHTTP2_DATA:
        if (frame->hd.length == 0 && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0 &&
            !http2_guard_allows_idle_frame(&session->guard, now_ms(session))) {
            http2_session_terminate(session, NGHTTP2_ENHANCE_YOUR_CALM, "empty frames");
        }
        break;
    case NGHTTP2_RST_STREAM:
        if (!http2_guard_allows_reset(&session->guard, now_ms(session))) {
            http2_session_terminate(session, NGHTTP2_ENHANCE_YOUR_CALM, "too many resets");
        }
        return 0;
    case NGHTTP2_SETTINGS:
        if (session->http.state == SESSION_OPENING) {
            session->http.state = SESSION_OPEN;
        }
        if (!http2_guard_allows_settings(&session->guard, now_ms(session),
                                         session->http.n_exchanges)) {
            http2_session_terminate(session, NGHTTP2_ENHANCE_YOUR_CALM, "too many settings");
        }
        return 0;
    case NGHTTP2_PING:
        if (!http2_guard_allows_idle_frame(&session->guard, now_ms(session))) {
            http2_session_terminate(session, NGHTTP2_ENHANCE_YOUR_CALM, "too many control frames");
        }
        return 0;
    default:
        return 0;
    }
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        on_end_stream(session, frame->hd.stream_id);
    }
    return 0;
}

static int on_data_chunk_recv(nghttp2_session *nghttp2, uint8_t flags, int32_t stream_id,
                              const uint8_t *data, size_t size, void *user_data) {
    (void)nghttp2;
    (void)flags;
    struct http2_session *session = user_data;
    struct http_exchange *exchange = exchange_of(session, stream_id);
    if (exchange == NULL || exchange->is_cut_off) {
        return 0;
    }
    if (exchange->has_length) {
        if (size > exchange->length_left) {
            refuse_exchange(session, exchange);
            return 0;
        }
        exchange->length_left -= size;
    }
    exchange->handler->on_bytes(exchange, bytes_of(data, size));
    return 0;
}

static int on_stream_close(nghttp2_session *nghttp2, int32_t stream_id, uint32_t error_code,
                           void *user_data) {
    (void)nghttp2;
    (void)error_code;
    struct http2_session *session = user_data;
    struct http_exchange *exchange = exchange_of(session, stream_id);
    if (exchange != NULL) {
        if (exchange->is_half_closed) {
            http2_streams_note_ended(&session->streams, stream_id);
        }
        /* nghttp2 forgets the stream when this returns. */
        http2_session_know(session, 0, NULL);
        http_exchange_on_wire_close(exchange);
    }
    return 0;
}

static int on_frame_send(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *user_data) {
    struct http2_session *session = user_data;
    if (frame->hd.type == NGHTTP2_RST_STREAM) {
        http2_streams_note_reset(&session->streams, frame->hd.stream_id);
        /* Frames that make us reset streams cost as much as resets that are sent to us. */
        if (frame->rst_stream.error_code != NGHTTP2_NO_ERROR &&
            !http2_guard_allows_reset(&session->guard, now_ms(session))) {
            http2_session_terminate(session, NGHTTP2_ENHANCE_YOUR_CALM, "too many stream errors");
        }
        return 0;
    }
    if ((frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) ||
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) {
        return 0;
    }
    struct http_exchange *exchange = exchange_of(session, frame->hd.stream_id);
    if (exchange != NULL && !exchange->is_half_closed) {
        /* The answer is complete, so the rest of the request is not wanted (RFC 9113, 8.1). */
        nghttp2_submit_rst_stream(nghttp2, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
                                  NGHTTP2_NO_ERROR);
    }
    return 0;
}

static int on_invalid_frame(nghttp2_session *nghttp2, const nghttp2_frame *frame, int error_code,
                            void *user_data) {
    (void)nghttp2;
    (void)frame;
    (void)error_code;
    struct http2_session *session = user_data;
    session->http.shared->stats.protocol_errors++;
    return 0;
}

struct http2_library *http2_library_create(void) {
    struct http2_library *library = calloc(1, sizeof *library);
    if (library == NULL || nghttp2_session_callbacks_new(&library->callbacks) != 0 ||
        nghttp2_option_new(&library->option) != 0) {
        abort();
    }
    nghttp2_session_callbacks *callbacks = library->callbacks;
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk_recv);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, http2_response_send_data);
    library->memory = http2_memory_create();
    nghttp2_option *option = library->option;
    nghttp2_option_set_max_deflate_dynamic_table_size(option, DEFLATE_TABLE_SIZE);
    nghttp2_option_set_no_closed_streams(option, 1);
    /* The rules of RFC 9113, section 8 are checked by http2_request.c. The library would refuse
     * the ":authority" of etcd's clients. */
    nghttp2_option_set_no_http_messaging(option, 1);
    nghttp2_option_set_max_reserved_remote_streams(option, 0);
    nghttp2_option_set_stream_reset_rate_limit(option, LIBRARY_RESET_BURST,
                                               LIBRARY_RESETS_PER_SECOND);
    return library;
}

void http2_library_destroy(struct http2_library *library) {
    if (library == NULL) {
        return;
    }
    nghttp2_session_callbacks_del(library->callbacks);
    nghttp2_option_del(library->option);
    http2_memory_destroy(library->memory);
    free(library);
}

/* --- the protocol's table ------------------------------------------------------------------ */

static void http2_close(void *opaque) {
    struct http2_session *session = opaque;
    http_session_close_exchanges(&session->http);
    http2_request_give_back(session->request, session->http.shared);
    nghttp2_session_del(session->nghttp2);
    free(session);
}

static void *http2_open(struct protocol_host *host) {
    struct net_shared *shared = host->shared;
    struct http2_session *session = calloc(1, sizeof *session);
    if (session == NULL) {
        return NULL;
    }
    http_session_init(&session->http, &http2_wire, host);
    http2_scanner_init(&session->scanner);
    http2_guard_init(&session->guard, net_timers_now_ms(shared->timers));
    if (nghttp2_session_server_new3(&session->nghttp2, shared->http2->callbacks, session,
                                    shared->http2->option,
                                    http2_memory_functions(shared->http2->memory)) != 0) {
        free(session);
        return NULL;
    }
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, (uint32_t)shared->limits.streams_max},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW_SIZE},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, (uint32_t)shared->limits.header_size_max},
        /* Trees of priorities are work that a client can ask for without end (RFC 9218, 2.1). */
        {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
    };
    int result = nghttp2_submit_settings(session->nghttp2, NGHTTP2_FLAG_NONE, settings,
                                         sizeof settings / sizeof settings[0]);
    if (result == 0) {
        result = nghttp2_session_set_local_window_size(session->nghttp2, NGHTTP2_FLAG_NONE, 0,
                                                       CONNECTION_WINDOW_SIZE);
    }
    if (result != 0) {
        http2_close(session);
        return NULL;
    }
    host->wake(host);
    return session;
}

/* False: the session is over. */
static bool scan(struct http2_session *session, struct bytes bytes) {
    size_t n_priorities = 0;
    switch (http2_scanner_scan(&session->scanner, &session->streams, bytes, &n_priorities)) {
    case HTTP2_SCAN_OK:
        break;
    case HTTP2_SCAN_PRIORITY_ERROR:
        http2_session_terminate(session, NGHTTP2_PROTOCOL_ERROR, "a malformed PRIORITY frame");
        return false;
    case HTTP2_SCAN_STREAM_CLOSED:
        http2_session_terminate(session, NGHTTP2_STREAM_CLOSED, "DATA on a closed stream");
        return false;
    }
    while (n_priorities > 0) {
        n_priorities--;
        if (!http2_guard_allows_idle_frame(&session->guard, now_ms(session))) {
            http2_session_terminate(session, NGHTTP2_ENHANCE_YOUR_CALM, "too many control frames");
            return false;
        }
    }
    return true;
}

static void http2_on_bytes(void *opaque, struct bytes bytes) {
    struct http2_session *session = opaque;
    if (session->http.state >= SESSION_ENDING) {
        return;
    }
    if (!scan(session, bytes)) {
        return;
    }
    ssize_t result = nghttp2_session_mem_recv(session->nghttp2, bytes.data, bytes.size);
    if (result < 0 && session->http.state < SESSION_ENDING) {
        session->http.shared->stats.protocol_errors++;
        log_debug("connection failed", LOG_TEXT("reason", nghttp2_strerror((int)result)));
        session->http.state = nghttp2_is_fatal((int)result) ? SESSION_FAILED : SESSION_ENDING;
    }
    if (result < 0 || nghttp2_session_want_write(session->nghttp2) ||
        !list_is_empty(&session->http.closing)) {
        session->http.host->wake(session->http.host);
    }
}

static void http2_produce(void *opaque, size_t size_max, struct buffer *out) {
    struct http2_session *session = opaque;
    session->sink = out;
    session->sink_size_max = out->size + size_max;
    while (out->size < session->sink_size_max) {
        const uint8_t *data = NULL;
        ssize_t size = nghttp2_session_mem_send(session->nghttp2, &data);
        if (size < 0) {
            http_session_fail(&session->http, nghttp2_strerror((int)size));
            break;
        }
        if (size == 0) {
            break;
        }
        buffer_append(out, data, (size_t)size);
    }
    session->sink = NULL;
}

static void http2_settle(void *opaque) {
    struct http2_session *session = opaque;
    http_session_settle(&session->http);
}

static enum session_state http2_state(const void *opaque) {
    const struct http2_session *session = opaque;
    if (session->http.state < SESSION_ENDING && !nghttp2_session_want_read(session->nghttp2) &&
        !nghttp2_session_want_write(session->nghttp2)) {
        return SESSION_ENDING;
    }
    return session->http.state;
}

static size_t http2_queued_bytes(const void *opaque) {
    const struct http2_session *session = opaque;
    return session->http.queued_bytes + session->http.bridged_bytes;
}

/* Answers that wait for a window wait for ever when nothing more comes from the peer. */
static bool http2_is_idle(const void *opaque) {
    const struct http2_session *session = opaque;
    const struct http_session *http = &session->http;
    if (!session->is_input_ended || http->n_exchanges == 0) {
        return http->n_exchanges == 0;
    }
    for (const struct list *node = http->exchanges.next; node != &http->exchanges;
         node = node->next) {
        const struct http_exchange *exchange =
            list_entry(node, const struct http_exchange, in_session);
        if (!exchange->is_finished && !exchange->is_wire_closed) {
            return false;
        }
    }
    return true;
}

static void http2_ping(void *opaque) {
    struct http2_session *session = opaque;
    http2_session_check_submitted(session,
                                  nghttp2_submit_ping(session->nghttp2, NGHTTP2_FLAG_NONE, NULL));
}

static void http2_drain(void *opaque) {
    struct http2_session *session = opaque;
    if (session->http.is_draining || session->http.state >= SESSION_ENDING) {
        return;
    }
    session->http.is_draining = true;
    http2_session_check_submitted(
        session, nghttp2_submit_goaway(session->nghttp2, NGHTTP2_FLAG_NONE,
                                       nghttp2_session_get_last_proc_stream_id(session->nghttp2),
                                       NGHTTP2_NO_ERROR, NULL, 0));
    http_session_drain_exchanges(&session->http);
}

static void http2_end_input(void *opaque) {
    struct http2_session *session = opaque;
    session->is_input_ended = true;
    http_session_end_input(&session->http);
}

const struct protocol http2_protocol = {
    .name = "http2",
    .sniff = sniff_http2,
    .open = http2_open,
    .on_bytes = http2_on_bytes,
    .produce = http2_produce,
    .settle = http2_settle,
    .state = http2_state,
    .queued_bytes = http2_queued_bytes,
    .is_idle = http2_is_idle,
    .end_input = http2_end_input,
    .ping = http2_ping,
    .drain = http2_drain,
    .close = http2_close,
};
