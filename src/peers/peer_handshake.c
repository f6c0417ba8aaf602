#include "peers/peer_handshake.h"

#include "peers/peer_proof.h"

#include <assert.h>
#include <string.h>

enum {
    CHALLENGE_SIZE = 1 + PEER_NONCE_SIZE,
    /* The answer and the size of its payload. */
    ANSWER_PREFIX_SIZE = 1 + 4,
    /* So begins a connection of one who wants TLS. */
    TLS_RECORD = 0x16
};

/* --- The answerer. --- */

void peer_answerer_init(struct peer_answerer *answerer, struct bytes secret,
                        const uint8_t nonce[PEER_NONCE_SIZE]) {
    *answerer = (struct peer_answerer){.secret = secret};
    memcpy(answerer->nonce, nonce, PEER_NONCE_SIZE);
    buffer_init(&answerer->hello_bytes);
}

void peer_answerer_clear(struct peer_answerer *answerer) {
    buffer_clear(&answerer->hello_bytes);
}

static enum peer_step answerer_refuse(struct peer_answerer *answerer, enum peer_answer answer,
                                      const char *reason, struct buffer *reply) {
    answerer->answer = answer;
    answerer->reason = reason;
    buffer_put_u8(reply, (uint8_t)answer);
    return PEER_STEP_REFUSED;
}

static enum peer_step answerer_take_hello(struct peer_answerer *answerer, struct bytes bytes,
                                          size_t *out_used, struct buffer *reply) {
    if (bytes.size < PEER_HELLO_PREFIX_SIZE) {
        return PEER_STEP_MORE;
    }
    size_t size = peer_hello_size(bytes);
    if (size == 0) {
        return answerer_refuse(answerer, PEER_MALFORMED,
                               bytes.data[0] == TLS_RECORD ? "it speaks TLS, and this node does not"
                                                           : "what it says is not a hello",
                               reply);
    }
    if (bytes.size < size) {
        return PEER_STEP_MORE;
    }
    enum peer_answer answer = peer_hello_decode(bytes_of(bytes.data, size), &answerer->hello);
    if (answer != PEER_WELCOME) {
        return answerer_refuse(answerer, answer,
                               answer == PEER_OTHER_VERSION
                                   ? "it speaks another version of the peer protocol"
                                   : "its hello is malformed",
                               reply);
    }
    /* Nothing may follow before it was answered. */
    if (bytes.size > size) {
        return answerer_refuse(answerer, PEER_MALFORMED, "it spoke before it was answered", reply);
    }
    buffer_append(&answerer->hello_bytes, bytes.data, size);
    *out_used = size;
    if (answerer->secret.size == 0) {
        answerer->is_proven = true;
        return PEER_STEP_DONE;
    }
    answerer->is_challenged = true;
    buffer_put_u8(reply, PEER_CHALLENGE);
    buffer_append(reply, answerer->nonce, PEER_NONCE_SIZE);
    return PEER_STEP_MORE;
}

enum peer_step peer_answerer_feed(struct peer_answerer *answerer, struct bytes bytes,
                                  size_t *out_used, struct buffer *reply) {
    assert(!answerer->is_proven);
    *out_used = 0;
    if (!answerer->is_challenged) {
        return answerer_take_hello(answerer, bytes, out_used, reply);
    }
    if (bytes.size < PEER_PROOF_SIZE) {
        return PEER_STEP_MORE;
    }
    const struct peer_transcript transcript = {
        .hello = bytes_of(answerer->hello_bytes.data, answerer->hello_bytes.size),
        .challenge = bytes_of(answerer->nonce, PEER_NONCE_SIZE),
        .binding = bytes_of(answerer->binding.bytes, answerer->binding.size)};
    if (bytes.size > PEER_PROOF_SIZE ||
        !peer_proof_check(answerer->secret, PEER_PROOF_OF_CALLER, &transcript, bytes.data)) {
        return answerer_refuse(answerer, PEER_NOT_PROVEN, "it does not know the peer secret",
                               reply);
    }
    *out_used = PEER_PROOF_SIZE;
    answerer->is_proven = true;
    return PEER_STEP_DONE;
}

void peer_answerer_answer(const struct peer_answerer *answerer, enum peer_answer answer,
                          struct bytes payload, struct buffer *reply) {
    assert(answerer->is_proven);
    assert(payload.size <= PEER_PAYLOAD_SIZE_MAX);
    assert(payload.size == 0 || answer == PEER_WELCOME);
    size_t start = reply->size;
    buffer_put_u8(reply, (uint8_t)answer);
    buffer_put_u32(reply, (uint32_t)payload.size);
    buffer_append(reply, payload.data, payload.size);
    if (answerer->secret.size == 0) {
        return;
    }
    const struct peer_transcript transcript = {
        .hello = bytes_of(answerer->hello_bytes.data, answerer->hello_bytes.size),
        .challenge = bytes_of(answerer->nonce, PEER_NONCE_SIZE),
        .answer = bytes_of(reply->data + start, reply->size - start),
        .binding = bytes_of(answerer->binding.bytes, answerer->binding.size)};
    uint8_t proof[PEER_PROOF_SIZE];
    peer_proof_make(answerer->secret, PEER_PROOF_OF_ANSWERER, &transcript, proof);
    buffer_append(reply, proof, sizeof proof);
}

/* --- The caller. --- */

void peer_caller_init(struct peer_caller *caller, struct bytes secret,
                      const struct peer_hello *hello, struct buffer *reply) {
    *caller = (struct peer_caller){.secret = secret};
    buffer_init(&caller->hello_bytes);
    peer_hello_encode(&caller->hello_bytes, hello);
    buffer_append(reply, caller->hello_bytes.data, caller->hello_bytes.size);
}

void peer_caller_clear(struct peer_caller *caller) {
    buffer_clear(&caller->hello_bytes);
}

static enum peer_step caller_fail(struct peer_caller *caller, enum peer_answer answer,
                                  const char *reason) {
    caller->answer = answer;
    caller->reason = reason;
    return PEER_STEP_REFUSED;
}

static enum peer_step caller_take_challenge(struct peer_caller *caller, struct bytes bytes,
                                            size_t *out_used, struct buffer *reply) {
    if (caller->secret.size == 0) {
        return caller_fail(caller, PEER_NOT_PROVEN,
                           "the peer wants a proof of the peer secret, and this node has none");
    }
    if (bytes.size < CHALLENGE_SIZE) {
        return PEER_STEP_MORE;
    }
    memcpy(caller->challenge, bytes.data + 1, PEER_NONCE_SIZE);
    caller->is_challenged = true;
    const struct peer_transcript transcript = {
        .hello = bytes_of(caller->hello_bytes.data, caller->hello_bytes.size),
        .challenge = bytes_of(caller->challenge, PEER_NONCE_SIZE),
        .binding = bytes_of(caller->binding.bytes, caller->binding.size)};
    uint8_t proof[PEER_PROOF_SIZE];
    peer_proof_make(caller->secret, PEER_PROOF_OF_CALLER, &transcript, proof);
    buffer_append(reply, proof, sizeof proof);
    *out_used = CHALLENGE_SIZE;
    return PEER_STEP_MORE;
}

/* Answers of one byte: the caller was not proven, so nothing else was said, nor believed. */
static bool is_short(enum peer_answer answer) {
    return answer == PEER_OTHER_VERSION || answer == PEER_MALFORMED || answer == PEER_NOT_PROVEN ||
           answer == PEER_SPEAKS_TLS || answer > PEER_CHALLENGE;
}

static enum peer_step caller_take_answer(struct peer_caller *caller, struct bytes bytes,
                                         size_t *out_used) {
    enum peer_answer answer = (enum peer_answer)bytes.data[0];
    size_t proof_size = caller->secret.size > 0 ? PEER_PROOF_SIZE : 0;
    struct reader reader;
    if (bytes.size < ANSWER_PREFIX_SIZE) {
        return PEER_STEP_MORE;
    }
    reader_init(&reader, bytes);
    reader.position = 1;
    size_t payload_size = reader_get_u32(&reader);
    if (payload_size > PEER_PAYLOAD_SIZE_MAX || (payload_size > 0 && answer != PEER_WELCOME)) {
        return caller_fail(caller, PEER_MALFORMED, "the peer's answer is malformed");
    }
    size_t size = ANSWER_PREFIX_SIZE + payload_size;
    if (bytes.size < size + proof_size) {
        return PEER_STEP_MORE;
    }
    const struct peer_transcript transcript = {
        .hello = bytes_of(caller->hello_bytes.data, caller->hello_bytes.size),
        .challenge = bytes_of(caller->challenge, PEER_NONCE_SIZE),
        .answer = bytes_of(bytes.data, size),
        .binding = bytes_of(caller->binding.bytes, caller->binding.size)};
    if (proof_size > 0 &&
        !peer_proof_check(caller->secret, PEER_PROOF_OF_ANSWERER, &transcript, bytes.data + size)) {
        return caller_fail(caller, PEER_NOT_PROVEN,
                           "the peer did not prove that it knows the peer secret");
    }
    caller->answer = answer;
    caller->reason = answer == PEER_WELCOME ? NULL : peer_answer_text(answer);
    caller->payload = bytes_of(bytes.data + ANSWER_PREFIX_SIZE, payload_size);
    *out_used = size + proof_size;
    return PEER_STEP_DONE;
}

enum peer_step peer_caller_feed(struct peer_caller *caller, struct bytes bytes, size_t *out_used,
                                struct buffer *reply) {
    *out_used = 0;
    if (bytes.size == 0) {
        return PEER_STEP_MORE;
    }
    enum peer_answer answer = (enum peer_answer)bytes.data[0];
    if (is_short(answer)) {
        return caller_fail(caller, answer, peer_answer_text(answer));
    }
    if (answer == PEER_CHALLENGE && !caller->is_challenged) {
        enum peer_step step = caller_take_challenge(caller, bytes, out_used, reply);
        /* The peer waits for the proof: whatever came with the challenge cannot be the answer. */
        return step == PEER_STEP_MORE && *out_used > 0 && bytes.size > *out_used
                   ? caller_fail(caller, PEER_MALFORMED, "the peer's answer is malformed")
                   : step;
    }
    if (answer == PEER_CHALLENGE) {
        return caller_fail(caller, PEER_MALFORMED, "the peer's answer is malformed");
    }
    if (caller->secret.size > 0 && !caller->is_challenged) {
        return caller_fail(caller, PEER_NOT_PROVEN,
                           "the peer has no peer secret, and this node demands one");
    }
    return caller_take_answer(caller, bytes, out_used);
}
