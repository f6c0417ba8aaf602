#include "net/http2_session.h"

#include "base/log.h"
#include "net/grpc_call.h"
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
    /* nghttp2's own guards stand behind http2_guard's, which tells the peer why. */
    LIBRARY_RESET_BURST = 40000,
    LIBRARY_RESETS_PER_SECOND = 4000
};

struct http2_library {
    nghttp2_session_callbacks *callbacks;
    nghttp2_option *option;
    struct http2_memory *memory;
};

/* --- ends ---------------------------------------------------------------------------------- */

void http2_session_fail(struct http2_session *session, const char *reason) {
    if (session->state == SESSION_FAILED) {
        return;
    }
    session->state = SESSION_FAILED;
    session->shared->stats.protocol_errors++;
    log_warning("connection closed", LOG_TEXT("reason", reason),
                LOG_NUMBER("queued_bytes", session->queued_bytes + session->host->unsent_bytes));
    session->host->wake(session->host);
}

void http2_session_terminate(struct http2_session *session, uint32_t error_code,
                             const char *reason) {
    if (session->state >= SESSION_ENDING) {
        return;
    }
    session->state = SESSION_ENDING;
    session->shared->stats.protocol_errors++;
    log_info("connection ended", LOG_TEXT("reason", reason));
    nghttp2_session_terminate_session(session->nghttp2, error_code);
    session->host->wake(session->host);
}

/* nghttp2 refuses a submission only when memory is out, or for a stream that is gone, whose close
 * was or will be told. */
static void check_submitted(struct http2_session *session, int result) {
    if (result == NGHTTP2_ERR_NOMEM) {
        http2_session_fail(session, "out of memory");
    }
    session->host->wake(session->host);
}

void http2_session_resume(struct http2_session *session, struct grpc_call *call) {
    call->is_deferred = false;
    check_submitted(session, nghttp2_session_resume_data(session->nghttp2, call->stream_id));
}

void http2_session_reset(struct http2_session *session, struct grpc_call *call,
                         uint32_t error_code) {
    check_submitted(session, nghttp2_submit_rst_stream(session->nghttp2, NGHTTP2_FLAG_NONE,
                                                       call->stream_id, error_code));
}

/* --- what nghttp2 tells -------------------------------------------------------------------- */

static struct grpc_call *call_of(struct http2_session *session, int32_t stream_id) {
    return nghttp2_session_get_stream_user_data(session->nghttp2, stream_id);
}

static uint64_t now_ms(const struct http2_session *session) {
    return net_timers_now_ms(session->shared->timers);
}

static int on_begin_headers(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *user_data) {
    (void)nghttp2;
    struct http2_session *session = user_data;
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) {
        return 0;
    }
    http2_request_give_back(session->request, session->shared);
    session->request = http2_request_take(session->shared);
    return session->request != NULL ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static int on_header(nghttp2_session *nghttp2, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *user_data) {
    (void)nghttp2;
    (void)flags;
    struct http2_session *session = user_data;
    /* Trailers of a request mean nothing in gRPC. */
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST ||
        session->request == NULL) {
        return 0;
    }
    bool fits = http2_request_add(session->request, session->shared, bytes_of(name, name_size),
                                  bytes_of(value, value_size));
    return fits ? 0 : NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
}

static void on_request(struct http2_session *session, const nghttp2_frame *frame) {
    struct http2_request *request = session->request;
    session->request = NULL;
    if (request == NULL) {
        return;
    }
    if (session->is_draining) {
        check_submitted(session,
                        nghttp2_submit_rst_stream(session->nghttp2, NGHTTP2_FLAG_NONE,
                                                  frame->hd.stream_id, NGHTTP2_REFUSED_STREAM));
    } else {
        http2_request_start(request, session, frame->hd.stream_id);
    }
    http2_request_give_back(request, session->shared);
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
        if (session->state == SESSION_OPENING) {
            session->state = SESSION_OPEN;
        }
        /* fallthrough */
    case NGHTTP2_PING:
    case NGHTTP2_PRIORITY:
        if (!http2_guard_allows_idle_frame(&session->guard, now_ms(session))) {
            http2_session_terminate(session, NGHTTP2_ENHANCE_YOUR_CALM, "too many control frames");
        }
        return 0;
    default:
        return 0;
    }
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0) {
        struct grpc_call *call = call_of(session, frame->hd.stream_id);
        if (call != NULL) {
            grpc_call_on_half_close(call);
        }
    }
    return 0;
}

static int on_data_chunk_recv(nghttp2_session *nghttp2, uint8_t flags, int32_t stream_id,
                              const uint8_t *data, size_t size, void *user_data) {
    (void)nghttp2;
    (void)flags;
    struct http2_session *session = user_data;
    struct grpc_call *call = call_of(session, stream_id);
    if (call != NULL) {
        grpc_call_on_bytes(call, bytes_of(data, size));
    }
    return 0;
}

static int on_stream_close(nghttp2_session *nghttp2, int32_t stream_id, uint32_t error_code,
                           void *user_data) {
    (void)error_code;
    struct http2_session *session = user_data;
    struct grpc_call *call = call_of(session, stream_id);
    if (call != NULL) {
        nghttp2_session_set_stream_user_data(nghttp2, stream_id, NULL);
        grpc_call_on_wire_close(call);
    }
    return 0;
}

static int on_frame_send(nghttp2_session *nghttp2, const nghttp2_frame *frame, void *user_data) {
    struct http2_session *session = user_data;
    if (frame->hd.type == NGHTTP2_RST_STREAM && frame->rst_stream.error_code != NGHTTP2_NO_ERROR) {
        /* Frames that make us reset streams cost as much as resets that are sent to us. */
        if (!http2_guard_allows_reset(&session->guard, now_ms(session))) {
            http2_session_terminate(session, NGHTTP2_ENHANCE_YOUR_CALM, "too many stream errors");
        }
        return 0;
    }
    if ((frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA) ||
        (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) {
        return 0;
    }
    struct grpc_call *call = call_of(session, frame->hd.stream_id);
    if (call != NULL && !call->is_half_closed) {
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
    session->shared->stats.protocol_errors++;
    return 0;
}

struct http2_library *http2_library_create(void) {
    struct http2_library *library = calloc(1, sizeof *library);
    if (library == NULL || nghttp2_session_callbacks_new(&library->callbacks) != 0 ||
        nghttp2_option_new(&library->option) != 0) {
        abort();
    }
    nghttp2_session_callbacks *callbacks = library->callbacks;
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data_chunk_recv);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_frame_send);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_send_data_callback(callbacks, http2_session_send_data);
    library->memory = http2_memory_create();
    nghttp2_option *option = library->option;
    nghttp2_option_set_max_deflate_dynamic_table_size(option, DEFLATE_TABLE_SIZE);
    nghttp2_option_set_no_closed_streams(option, 1);
    /* The library's rules for requests go beyond what is harmful: they refuse the ":authority" of
     * etcdctl 3.4 when its endpoint is written as a URL. What could harm is checked in
     * http2_request_add(), and a request that lacks something leads nowhere. */
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
    session->is_closed = true;
    struct list *node = session->calls.next;
    while (node != &session->calls) {
        struct grpc_call *call = list_entry(node, struct grpc_call, in_session);
        node = node->next;
        if (!call->is_wire_closed) {
            grpc_call_on_wire_close(call);
        }
    }
    grpc_call_settle(session);
    assert(list_is_empty(&session->calls));
    assert(session->queued_bytes == 0);
    http2_request_give_back(session->request, session->shared);
    nghttp2_session_del(session->nghttp2);
    free(session);
}

static void *http2_open(struct protocol_host *host) {
    struct net_shared *shared = host->shared;
    struct http2_session *session = calloc(1, sizeof *session);
    if (session == NULL) {
        return NULL;
    }
    session->host = host;
    session->shared = shared;
    list_init(&session->calls);
    list_init(&session->closing);
    list_init(&session->blocked);
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

static void http2_on_bytes(void *opaque, struct bytes bytes) {
    struct http2_session *session = opaque;
    if (session->state >= SESSION_ENDING) {
        return;
    }
    ssize_t result = nghttp2_session_mem_recv(session->nghttp2, bytes.data, bytes.size);
    if (result < 0 && session->state < SESSION_ENDING) {
        session->shared->stats.protocol_errors++;
        log_debug("connection failed", LOG_TEXT("reason", nghttp2_strerror((int)result)));
        session->state = nghttp2_is_fatal((int)result) ? SESSION_FAILED : SESSION_ENDING;
    }
    if (result < 0 || nghttp2_session_want_write(session->nghttp2) ||
        !list_is_empty(&session->closing)) {
        session->host->wake(session->host);
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
            http2_session_fail(session, nghttp2_strerror((int)size));
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
    grpc_call_settle(opaque);
}

static enum session_state http2_state(const void *opaque) {
    const struct http2_session *session = opaque;
    if (session->state < SESSION_ENDING && !nghttp2_session_want_read(session->nghttp2) &&
        !nghttp2_session_want_write(session->nghttp2)) {
        return SESSION_ENDING;
    }
    return session->state;
}

static size_t http2_queued_bytes(const void *opaque) {
    const struct http2_session *session = opaque;
    return session->queued_bytes;
}

static bool http2_is_idle(const void *opaque) {
    const struct http2_session *session = opaque;
    return session->n_calls == 0;
}

static void http2_ping(void *opaque) {
    struct http2_session *session = opaque;
    check_submitted(session, nghttp2_submit_ping(session->nghttp2, NGHTTP2_FLAG_NONE, NULL));
}

static void http2_drain(void *opaque) {
    struct http2_session *session = opaque;
    if (session->is_draining || session->state >= SESSION_ENDING) {
        return;
    }
    session->is_draining = true;
    check_submitted(session,
                    nghttp2_submit_goaway(session->nghttp2, NGHTTP2_FLAG_NONE,
                                          nghttp2_session_get_last_proc_stream_id(session->nghttp2),
                                          NGHTTP2_NO_ERROR, NULL, 0));
    for (struct list *node = session->calls.next; node != &session->calls; node = node->next) {
        struct grpc_call *call = list_entry(node, struct grpc_call, in_session);
        if (call->method != NULL && call->method->kind != GRPC_UNARY) {
            grpc_call_finish(call, GRPC_UNAVAILABLE, "server shutting down");
        }
    }
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
    .ping = http2_ping,
    .drain = http2_drain,
    .close = http2_close,
};
