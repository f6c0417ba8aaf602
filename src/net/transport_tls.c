/* TLS over TCP or a Unix socket: the filter of src/tls between libuv's stream and the owner. */
#include "net/transport.h"

#include "base/log.h"
#include "net/sniff.h"
#include "net/transport_internal.h"

#include <assert.h>
#include <stdlib.h>

/* Handshakes are the most expensive thing that an unauthenticated client can ask for. They share
 * this much of each iteration, so that a flood of them delays others by no more. */
static const uint64_t handshake_ns_max = UINT64_C(10) * 1000 * 1000;

enum {
    FAILURE_LOG_INTERVAL_MS = 1000,
    TLS_RECORD_HANDSHAKE = 22,
    /* At a time; each holds some 40 KiB. A client that means it needs a round trip, so of too many
     * the oldest are those that will never end. */
    HANDSHAKES_MAX = 2048
};

#define PLAIN_TEXT_REASON "this port speaks TLS: use https://\n"

static const char http1_answer[] =
    "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
    "Connection: close\r\nContent-Length: 35\r\n\r\n" PLAIN_TEXT_REASON;
_Static_assert(sizeof PLAIN_TEXT_REASON - 1 == 35, "Content-Length counts the reason");

/* RFC 9113: SETTINGS is the server's preface (3.4), then GOAWAY (6.8) with the last stream 0 and
 * INADEQUATE_SECURITY (7). */
static const char http2_answer[] = "\0\0\0\x04\0\0\0\0\0"
                                   "\0\0\x2b\x07\0\0\0\0\0"
                                   "\0\0\0\0\0\0\0\x0c" PLAIN_TEXT_REASON;
_Static_assert(sizeof PLAIN_TEXT_REASON - 1 + 8 == 0x2b,
               "GOAWAY's length: two numbers, the reason");

bool transport_tls_must_wait(const struct transport *transport) {
    return !transport_is_open(transport) && transport->shared->handshake_ns >= handshake_ns_max;
}

/* --- the output of the filter -------------------------------------------------------------- */

/* Streams write into one buffer for all, so that an idle one holds none. */
static void lend_output(struct transport *transport) {
    struct buffer *ciphertext = &transport->shared->ciphertext;
    ciphertext->size = 0;
    *tls_stream_output(transport->tls) = *ciphertext;
}

static enum transport_result send_output(struct transport *transport) {
    struct buffer *ciphertext = &transport->shared->ciphertext;
    struct buffer *output = tls_stream_output(transport->tls);
    *ciphertext = *output;
    buffer_init(output);
    if (ciphertext->size == 0) {
        return TRANSPORT_SENT;
    }
    return transport_stream_write(transport, bytes_of(ciphertext->data, ciphertext->size));
}

/* --- handshakes that fail ------------------------------------------------------------------ */

static void note_failure(struct transport *transport, const char *reason) {
    struct transport_shared *shared = transport->shared;
    uint64_t now_ms = uv_now(shared->loop);
    shared->net->stats.tls_failures++;
    shared->n_failures_unlogged++;
    if (shared->failure_logged_ms != 0 &&
        now_ms - shared->failure_logged_ms < FAILURE_LOG_INTERVAL_MS) {
        return;
    }
    char peer[NET_ADDRESS_SIZE];
    transport_peer_text(transport, peer);
    log_warning("rejected connection on client endpoint", LOG_TEXT("reason", reason),
                LOG_TEXT("peer", peer), LOG_NUMBER("failures", shared->n_failures_unlogged));
    shared->failure_logged_ms = now_ms;
    shared->n_failures_unlogged = 0;
}

/* Answers in the protocol of a client that does not speak TLS. False: it is none that we know. */
static bool refuse_plain_text(struct transport *transport, struct bytes wire) {
    struct bytes first =
        bytes_of(wire.data, wire.size < SNIFF_SIZE_MAX ? wire.size : SNIFF_SIZE_MAX);
    if (sniff_http2(first) == SNIFF_YES) {
        transport_stream_write(transport, bytes_of(http2_answer, sizeof http2_answer - 1));
    } else if (sniff_http1(first) == SNIFF_YES) {
        transport_stream_write(transport, bytes_of(http1_answer, sizeof http1_answer - 1));
    } else {
        return false;
    }
    note_failure(transport, "the client speaks plain HTTP, and this listener TLS");
    return true;
}

/* --- reading ------------------------------------------------------------------------------- */

static void give_up_oldest(struct transport_shared *shared) {
    struct transport *oldest = list_entry(shared->handshakes.next, struct transport, in_handshakes);
    note_failure(oldest, "too many handshakes at once, and this one is the oldest");
    transport_tls_end_handshake(oldest);
    oldest->events->on_failed(oldest);
}

void transport_tls_end_handshake(struct transport *transport) {
    if (!list_is_empty(&transport->in_handshakes)) {
        list_remove(&transport->in_handshakes);
        transport->shared->n_handshakes--;
    }
}

/* False: the other side speaks plain text and was answered. */
static bool begin(struct transport *transport, struct bytes wire) {
    struct transport_shared *shared = transport->shared;
    if (wire.data[0] != TLS_RECORD_HANDSHAKE && refuse_plain_text(transport, wire)) {
        return false;
    }
    if (shared->n_handshakes == HANDSHAKES_MAX) {
        give_up_oldest(shared);
    }
    list_append(&shared->handshakes, &transport->in_handshakes);
    shared->n_handshakes++;
    transport->tls = tls_stream_accept(transport->tls_context);
    assert(transport->tls != NULL);
    return true;
}

/* Decrypts into the shared buffer. */
static enum transport_result feed(struct transport *transport, struct bytes wire) {
    struct transport_shared *shared = transport->shared;
    bool was_open = tls_stream_state(transport->tls) != TLS_HANDSHAKE;
    uint64_t start_ns = was_open ? 0 : uv_hrtime();
    lend_output(transport);
    enum tls_state state = tls_stream_feed(transport->tls, wire, &shared->plaintext);
    enum transport_result result = send_output(transport);
    if (!was_open) {
        shared->handshake_ns += uv_hrtime() - start_ns;
        if (state != TLS_HANDSHAKE) {
            transport_tls_end_handshake(transport);
        }
        if (state == TLS_FAILED) {
            note_failure(transport, tls_stream_error(transport->tls));
        } else if (state != TLS_HANDSHAKE) {
            shared->net->stats.tls_handshakes++;
        }
    }
    return state == TLS_FAILED ? TRANSPORT_FAILED : result;
}

static void tls_received(struct transport *transport, struct bytes wire) {
    struct buffer *plaintext = &transport->shared->plaintext;
    plaintext->size = 0;
    bool is_fine = transport->tls != NULL || begin(transport, wire);
    is_fine = is_fine && feed(transport, wire) != TRANSPORT_FAILED;
    transport->events->on_bytes(transport, bytes_of(plaintext->data, plaintext->size), wire.size);
    if (!is_fine) {
        transport->events->on_failed(transport);
    } else if (tls_stream_state(transport->tls) == TLS_ENDED) {
        transport->events->on_end(transport);
    }
}

static void tls_ended(struct transport *transport) {
    /* Without the goodbye of TLS the end may be forged. */
    if (transport->tls != NULL && tls_stream_feed_end(transport->tls) == TLS_FAILED) {
        transport->events->on_failed(transport);
    } else {
        transport->events->on_end(transport);
    }
}

const struct tls_identity *transport_identity(struct transport *transport) {
    bool is_proven = transport->tls != NULL && transport_is_open(transport) &&
                     tls_stream_state(transport->tls) != TLS_FAILED;
    if (transport->identity == NULL && is_proven) {
        struct tls_identity identity;
        if (!tls_stream_peer_identity(transport->tls, &identity)) {
            return NULL;
        }
        transport->identity = malloc(sizeof identity);
        if (transport->identity != NULL) {
            *transport->identity = identity;
        }
    }
    return transport->identity;
}

/* --- writing ------------------------------------------------------------------------------- */

static enum transport_result tls_write(struct transport *transport, struct bytes bytes) {
    assert(transport_is_open(transport));
    if (tls_stream_state(transport->tls) == TLS_FAILED) {
        return TRANSPORT_FAILED;
    }
    lend_output(transport);
    tls_stream_write(transport->tls, bytes);
    enum transport_result result = send_output(transport);
    return tls_stream_state(transport->tls) == TLS_FAILED ? TRANSPORT_FAILED : result;
}

static void say_goodbye(struct transport *transport) {
    /* A goodbye behind bytes that will not be sent would only pretend. */
    if (transport->tls != NULL && !transport_is_full(transport)) {
        lend_output(transport);
        tls_stream_end(transport->tls);
        (void)send_output(transport);
    }
}

static void tls_end_output(struct transport *transport) {
    say_goodbye(transport);
    if (!transport_is_full(transport)) {
        transport_stream_end_output(transport);
    }
}

static void tls_close(struct transport *transport) {
    say_goodbye(transport);
    transport_stream_close(transport);
}

const struct transport_kind transport_tls_tcp = {
    .name = "tls over tcp",
    .open = transport_stream_open_tcp,
    .received = tls_received,
    .ended = tls_ended,
    .write = tls_write,
    .end_output = tls_end_output,
    .close = tls_close,
};

const struct transport_kind transport_tls_unix = {
    .name = "tls over unix",
    .open = transport_stream_open_unix,
    .received = tls_received,
    .ended = tls_ended,
    .write = tls_write,
    .end_output = tls_end_output,
    .close = tls_close,
};

/* The first byte tells which it is; from then on the transport is of that kind. */
static void either_received(struct transport *transport, struct bytes wire) {
    if (wire.data[0] == TLS_RECORD_HANDSHAKE) {
        transport->kind = &transport_tls_tcp;
    } else {
        transport->kind = &transport_tcp;
        transport->tls_context = NULL;
    }
    transport->kind->received(transport, wire);
}

const struct transport_kind transport_tls_or_tcp = {
    .name = "tcp, with or without tls",
    .open = transport_stream_open_tcp,
    .received = either_received,
    .ended = tls_ended,
    .write = tls_write,
    .end_output = tls_end_output,
    .close = tls_close,
};
