/*
 * Messages that a client has compressed with gzip, the one encoding that gRPC clients have in
 * common. A few bytes may become a thousand times as many, so the size is bounded while it is made.
 */
#ifndef LEASED_NET_GRPC_GZIP_H
#define LEASED_NET_GRPC_GZIP_H

#include "base/buffer.h"
#include "base/bytes.h"

enum grpc_gzip_result {
    GRPC_GZIP_OK,
    GRPC_GZIP_MALFORMED, /* no gzip, cut off, a wrong checksum, or something follows it */
    GRPC_GZIP_TOO_LARGE  /* more than size_max comes of it */
};

/* Appends the message to `out`. After a failure what is in `out` means nothing; it never has more
 * than `size_max` bytes more, and takes no more memory than twice that. */
enum grpc_gzip_result grpc_gzip_inflate(struct bytes message, size_t size_max, struct buffer *out);

#endif
