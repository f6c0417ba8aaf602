/*
 * Header blocks of gRPC calls on one connection: HPACK by nghttp2's coder, remembered. A client
 * says the same headers with nearly every request and hears the same ones with nearly every answer.
 * A block that only refers to the tables (RFC 7541, 6.1) changes nothing in them, so the same bytes
 * mean the same as long as no other kind of block came between; then coding is a comparison. What
 * is not remembered is read by nghttp2's decoder.
 */
#ifndef LEASED_CLIENT_HEADER_CODEC_H
#define LEASED_CLIENT_HEADER_CODEC_H

#include "base/bytes.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

/* The status text kept of an answer, with its end; the rest is cut. */
#define HEADER_CODEC_TEXT_SIZE_MAX 256

struct header_codec;

/* What a client needs to know of one block. */
struct header_codec_answer {
    int http_status;                       /* 0: none came */
    int grpc_status;                       /* -1: none came */
    bool is_grpc;                          /* content-type: application/grpc */
    char text[HEADER_CODEC_TEXT_SIZE_MAX]; /* grpc-message, decoded */
};

/* `authority` is copied; the scheme is https with TLS. NULL: out of memory. */
struct header_codec *header_codec_create(const char *authority, bool is_tls);
void header_codec_destroy(struct header_codec *codec);

/* Who the calls are from: every block from now on says "authorization: <token>", which is copied.
 * False: out of memory. */
bool header_codec_set_token(struct header_codec *codec, const char *token);

/* The block that opens a call; `path` must be the same pointer for the same text, and outlive the
 * codec. `timeout_ms` 0: no deadline. Valid until the next call of this function. Blocks must be
 * sent in the order in which they are made. */
struct bytes header_codec_encode(struct header_codec *codec, const char *path, uint32_t timeout_ms);

/* The peer's SETTINGS_HEADER_TABLE_SIZE. */
void header_codec_limit_table(struct header_codec *codec, uint32_t size);

/* Every block that comes must pass here, in order, also those of calls that are over.
 * STATUS_MALFORMED: the connection cannot go on. */
enum status header_codec_decode(struct header_codec *codec, struct bytes block,
                                struct header_codec_answer *out_answer);

#endif
