/*
 * How two members begin, as two state machines without sockets:
 *
 *     caller                                   answerer
 *     hello (with a nonce)               ->
 *                                        <-    PEER_CHALLENGE, a nonce        } only where a secret
 *     proof of the caller                ->                                   } is configured
 *                                        <-    answer, size, payload, [proof of the answerer]
 *
 * The answerer judges nothing but the form of the hello before the proof is right, and tells
 * nothing but one byte. The caller believes no answer, a refusal included, before the answerer's
 * proof is right. The payload of a welcome is the answerer's hello, or what was asked for; a
 * refusal has none.
 *
 * All input is untrusted. Neither side keeps more than the bounds below.
 */
#ifndef LEASED_PEERS_PEER_HANDSHAKE_H
#define LEASED_PEERS_PEER_HANDSHAKE_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "peers/peer_hello.h"
#include "tls/tls_stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* What an answer may carry. */
    PEER_PAYLOAD_SIZE_MAX = 256 * 1024,
    /* Bytes that the answerer keeps of a caller who is not proven. */
    PEER_UNPROVEN_SIZE_MAX = PEER_HELLO_SIZE_MAX
};

enum peer_step {
    PEER_STEP_MORE,    /* needs more bytes */
    PEER_STEP_DONE,    /* the answerer: proven, judge it now; the caller: answered */
    PEER_STEP_REFUSED, /* the other side is at fault, or refused without proof; `reason` says why */
};

/* --- The answerer. --- */

/* What a proof covers beside the words: the connection, where nothing else proves its other end. */
struct peer_binding {
    uint8_t bytes[TLS_BINDING_SIZE];
    size_t size; /* 0: none */
};

struct peer_answerer {
    struct bytes secret;         /* empty: no proof is asked for */
    struct peer_binding binding; /* to be set before the caller's proof is fed */
    uint8_t nonce[PEER_NONCE_SIZE];
    struct peer_hello hello; /* of the caller, once it is proven */
    struct buffer hello_bytes;
    bool is_challenged;
    bool is_proven;
    enum peer_answer answer; /* why it was refused */
    const char *reason;
};

/* The nonce is fresh and random. The secret outlives it. */
void peer_answerer_init(struct peer_answerer *answerer, struct bytes secret,
                        const uint8_t nonce[PEER_NONCE_SIZE]);
void peer_answerer_clear(struct peer_answerer *answerer);

/* Takes bytes of the caller; out_used says how many, the others are to be offered again with more
 * behind them. What is to be sent is appended to the reply. PEER_STEP_DONE: peer_answerer_answer()
 * is next. PEER_STEP_REFUSED: the reply is sent and the connection closed. */
enum peer_step peer_answerer_feed(struct peer_answerer *answerer, struct bytes bytes,
                                  size_t *out_used, struct buffer *reply);
/* The verdict, once. A payload only with PEER_WELCOME, at most PEER_PAYLOAD_SIZE_MAX. */
void peer_answerer_answer(const struct peer_answerer *answerer, enum peer_answer answer,
                          struct bytes payload, struct buffer *reply);

/* --- The caller. --- */

struct peer_caller {
    struct bytes secret;         /* empty: none */
    struct peer_binding binding; /* to be set before the challenge is fed */
    struct buffer hello_bytes;
    uint8_t challenge[PEER_NONCE_SIZE];
    bool is_challenged;
    enum peer_answer answer; /* for PEER_STEP_DONE: proven where there is a secret */
    struct bytes payload;    /* a view into the bytes of the last feed */
    const char *reason;      /* of a refusal or an answer that is no welcome: a constant text */
};

/* The hello's nonce is fresh and random; it is appended to the reply, to be sent first. */
void peer_caller_init(struct peer_caller *caller, struct bytes secret,
                      const struct peer_hello *hello, struct buffer *reply);
void peer_caller_clear(struct peer_caller *caller);
enum peer_step peer_caller_feed(struct peer_caller *caller, struct bytes bytes, size_t *out_used,
                                struct buffer *reply);

#endif
