#include "net/refusal.h"

#include "base/log.h"
#include "net/connection_pool.h"
#include "net/protocol.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    /* From accept until the end, whatever the client does meanwhile. */
    REFUSAL_MS_MAX = 1000,
    REFUSAL_LOG_INTERVAL_MS = 10000,
    DISCARDED_PER_POLL_MAX = 64 * 1024
};

struct refusal {
    uv_poll_t poll;
    struct connection_pool *pool;
    struct list in_refusals;
    struct net_timer timer;
    int socket;
    enum refusal_reason reason;
    bool is_told;
    uint8_t sniffed_size;
    uint8_t sniffed[SNIFF_SIZE_MAX];
};

#define REASON_ALL                                                                                 \
    "too many connections: the server is at --max-connections or its limit of open files"
#define REASON_CLIENT "too many connections from this address: see --max-connections-per-address"

#define HTTP1_ANSWER(reason, length)                                                               \
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 1\r\n"           \
    "Connection: close\r\nContent-Length: " length "\r\n\r\n" reason "\n"

/* RFC 9113: the server's preface is a SETTINGS frame (3.4), then GOAWAY (6.8) with the last stream
 * 0, so that the client may send its requests elsewhere, and ENHANCE_YOUR_CALM (7). */
#define HTTP2_ANSWER(reason, length)                                                               \
    "\0\0\0\x04\0\0\0\0\0"                                                                         \
    "\0\0" length "\x07\0\0\0\0\0"                                                                 \
    "\0\0\0\0\0\0\0\x0b" reason

static const char http1_all[] = HTTP1_ANSWER(REASON_ALL, "84");
static const char http1_client[] = HTTP1_ANSWER(REASON_CLIENT, "74");
static const char http2_all[] = HTTP2_ANSWER(REASON_ALL, "\x5b");
static const char http2_client[] = HTTP2_ANSWER(REASON_CLIENT, "\x51");
_Static_assert(sizeof REASON_ALL == 84, "Content-Length counts the reason and its line feed");
_Static_assert(sizeof REASON_CLIENT == 74, "Content-Length counts the reason and its line feed");
_Static_assert(sizeof REASON_ALL - 1 + 8 == 0x5b, "GOAWAY's length: two numbers and the reason");
_Static_assert(sizeof REASON_CLIENT - 1 + 8 == 0x51, "GOAWAY's length, likewise");

/* RFC 8446, section 6: fatal, internal_error. No handshake is begun for a client that must go. */
static const char tls_answer[] = {21, 3, 1, 0, 2, 2, 80};

void refusals_init(struct refusals *refusals) {
    *refusals = (struct refusals){0};
    list_init(&refusals->open);
}

static void on_closed(uv_handle_t *handle) {
    struct refusal *refusal = handle->data;
    struct connection_pool *pool = refusal->pool;
    free(refusal);
    assert(pool->n_handles > 0);
    pool->n_handles--;
    if (pool->n_handles == 0 && pool->on_empty != NULL) {
        pool->on_empty(pool->on_empty_data);
    }
}

static void refusal_close(struct refusal *refusal) {
    struct connection_pool *pool = refusal->pool;
    list_remove(&refusal->in_refusals);
    assert(pool->refusals.n_open > 0);
    pool->refusals.n_open--;
    net_timers_disarm(pool->shared->timers, &refusal->timer);
    uv_close((uv_handle_t *)&refusal->poll, on_closed);
    close(refusal->socket);
    refusal->socket = -1;
}

static void on_timeout(struct net_timer *timer) {
    refusal_close(list_entry(timer, struct refusal, timer));
}

/* A new socket takes these few bytes at once, or it is closed without them. */
static void send_refusal(struct refusal *refusal, const char *answer, size_t size) {
    ssize_t n = send(refusal->socket, answer, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    refusal->is_told = true;
    if (n != (ssize_t)size || shutdown(refusal->socket, SHUT_WR) != 0) {
        refusal_close(refusal);
    }
}

static void sniff_and_tell(struct refusal *refusal) {
    struct bytes first = bytes_of(refusal->sniffed, refusal->sniffed_size);
    enum sniff_result http2 = sniff_http2(first);
    enum sniff_result http1 = sniff_http1(first);
    enum sniff_result tls = tls_hello_protocol.sniff(first);
    bool is_client = refusal->reason == REFUSED_FOR_CLIENT;
    if (http2 == SNIFF_YES) {
        send_refusal(refusal, is_client ? http2_client : http2_all,
                     (is_client ? sizeof http2_client : sizeof http2_all) - 1);
    } else if (http1 == SNIFF_YES) {
        send_refusal(refusal, is_client ? http1_client : http1_all,
                     (is_client ? sizeof http1_client : sizeof http1_all) - 1);
    } else if (tls == SNIFF_YES) {
        send_refusal(refusal, tls_answer, sizeof tls_answer);
    } else if (http1 == SNIFF_NO && http2 == SNIFF_NO && tls == SNIFF_NO) {
        refusal_close(refusal);
    }
}

/* Reads on after the answer: closing with unread bytes would reset the connection, and the client
 * might lose the answer. */
static void on_readable(uv_poll_t *poll, int status, int events) {
    struct refusal *refusal = poll->data;
    (void)events;
    uint8_t discarded[4096];
    for (size_t total = 0; total < DISCARDED_PER_POLL_MAX;) {
        bool is_sniffing = !refusal->is_told;
        uint8_t *room = is_sniffing ? refusal->sniffed + refusal->sniffed_size : discarded;
        size_t size =
            is_sniffing ? (size_t)SNIFF_SIZE_MAX - refusal->sniffed_size : sizeof discarded;
        ssize_t n = status < 0 ? 0 : recv(refusal->socket, room, size, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return;
        }
        if (n <= 0) {
            refusal_close(refusal);
            return;
        }
        total += (size_t)n;
        if (is_sniffing) {
            refusal->sniffed_size = (uint8_t)(refusal->sniffed_size + n);
            sniff_and_tell(refusal);
            if (refusal->socket < 0) {
                return;
            }
        }
    }
}

static void log_refusal(struct connection_pool *pool, int socket, enum refusal_reason reason) {
    struct refusal_log *log = &pool->refusals.logs[reason];
    const struct net_limits *limits = &pool->shared->limits;
    uint64_t now_ms = uv_now(pool->loop);
    log->n_unlogged++;
    if (log->logged_ms != 0 && now_ms - log->logged_ms < REFUSAL_LOG_INTERVAL_MS) {
        return;
    }
    if (reason == REFUSED_FOR_ALL) {
        log_warning("clients refused: as many connections as allowed (--max-connections, or the "
                    "limit of open files)",
                    LOG_NUMBER("connections max", limits->connections_max),
                    LOG_NUMBER("refused", log->n_unlogged));
    } else {
        char address[NET_ADDRESS_SIZE];
        transport_socket_text(socket, address);
        log_warning("clients refused: as many connections from one address as allowed "
                    "(--max-connections-per-address)",
                    LOG_TEXT("address", address),
                    LOG_NUMBER("connections max", limits->client_connections_max),
                    LOG_NUMBER("refused", log->n_unlogged));
    }
    log->logged_ms = now_ms;
    log->n_unlogged = 0;
}

void refusals_add(struct connection_pool *pool, int socket, enum refusal_reason reason) {
    log_refusal(pool, socket, reason);
    struct refusal *refusal =
        pool->refusals.n_open < REFUSALS_MAX ? calloc(1, sizeof *refusal) : NULL;
    if (refusal == NULL) {
        close(socket);
        return;
    }
    if (uv_poll_init(pool->loop, &refusal->poll, socket) != 0) {
        close(socket);
        free(refusal);
        return;
    }
    refusal->pool = pool;
    refusal->socket = socket;
    refusal->reason = reason;
    refusal->poll.data = refusal;
    net_timer_init(&refusal->timer, on_timeout);
    list_append(&pool->refusals.open, &refusal->in_refusals);
    pool->refusals.n_open++;
    pool->n_handles++;
    net_timers_arm(pool->shared->timers, &refusal->timer, uv_now(pool->loop) + REFUSAL_MS_MAX);
    uv_poll_start(&refusal->poll, UV_READABLE, on_readable);
}

void refusals_close(struct connection_pool *pool) {
    while (!list_is_empty(&pool->refusals.open)) {
        refusal_close(list_entry(pool->refusals.open.next, struct refusal, in_refusals));
    }
}
