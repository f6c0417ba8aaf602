/* A client that speaks TLS to a plain listener: it gets an alert that its library shows, and the
 * log says what to do. Without this both sides see nothing but a closed connection. */
#include "base/log.h"
#include "net/protocol.h"

#include <stdlib.h>

enum { LOG_INTERVAL_MS = 10000 };

/* RFC 8446, section 5.1: a record of type handshake, then its version, 3.x. */
enum { RECORD_HANDSHAKE = 22, VERSION_MAJOR = 3 };

/* RFC 8446, section 6: a fatal unexpected_message, in a record of TLS 1.0 as before any agreement.
 */
static const uint8_t alert[] = {21, 3, 1, 0, 2, 2, 10};

struct tls_hello {
    struct protocol_host *host;
    bool is_sent;
};

static enum sniff_result tls_hello_sniff(struct bytes first) {
    if (first.size > 0 && first.data[0] != RECORD_HANDSHAKE) {
        return SNIFF_NO;
    }
    if (first.size < 2) {
        return SNIFF_MORE;
    }
    return first.data[1] == VERSION_MAJOR ? SNIFF_YES : SNIFF_NO;
}

static void *tls_hello_open(struct protocol_host *host) {
    struct tls_hello *session = calloc(1, sizeof *session);
    if (session == NULL) {
        return NULL;
    }
    session->host = host;
    struct net_shared *shared = host->shared;
    uint64_t now_ms = net_timers_now_ms(shared->timers);
    shared->stats.protocol_errors++;
    if (shared->tls_hello_logged_ms == 0 ||
        now_ms - shared->tls_hello_logged_ms >= LOG_INTERVAL_MS) {
        shared->tls_hello_logged_ms = now_ms;
        log_warning(
            "a client speaks TLS to a listener that does not: use http:// at the client, or "
            "https:// in the listener's URL with --cert-file and --key-file");
    }
    host->wake(host);
    return session;
}

static void tls_hello_on_bytes(void *session, struct bytes bytes) {
    (void)session;
    (void)bytes;
}

static void tls_hello_produce(void *opaque, size_t size_max, struct buffer *out) {
    struct tls_hello *session = opaque;
    (void)size_max;
    if (!session->is_sent) {
        session->is_sent = true;
        buffer_append(out, alert, sizeof alert);
    }
}

static void tls_hello_settle(void *session) {
    (void)session;
}

static enum session_state tls_hello_state(const void *session) {
    (void)session;
    return SESSION_ENDING;
}

static size_t tls_hello_queued_bytes(const void *session) {
    (void)session;
    return 0;
}

static bool tls_hello_is_idle(const void *opaque) {
    const struct tls_hello *session = opaque;
    return session->is_sent;
}

const struct protocol tls_hello_protocol = {
    .name = "tls hello",
    .sniff = tls_hello_sniff,
    .open = tls_hello_open,
    .on_bytes = tls_hello_on_bytes,
    .produce = tls_hello_produce,
    .settle = tls_hello_settle,
    .state = tls_hello_state,
    .queued_bytes = tls_hello_queued_bytes,
    .is_idle = tls_hello_is_idle,
    .ping = NULL,
    .drain = tls_hello_settle,
    .close = free,
};
