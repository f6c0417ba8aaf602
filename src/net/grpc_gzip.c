#include "net/grpc_gzip.h"

#include <limits.h>
#include <zlib.h>

enum {
    WINDOW_BITS = 15 + 16, /* the largest window; gzip, not zlib */
    PIECE_SIZE = 16 * 1024
};

/* One piece; false: more than size_max came of it. */
static bool make_piece(z_stream *stream, size_t size_max, struct buffer *out, int *out_result) {
    uint8_t *to = buffer_reserve(out, PIECE_SIZE);
    stream->next_out = to;
    stream->avail_out = PIECE_SIZE;
    *out_result = inflate(stream, Z_NO_FLUSH);
    size_t made = PIECE_SIZE - stream->avail_out;
    if (made > size_max) {
        return false;
    }
    out->size += made;
    return true;
}

static enum grpc_gzip_result inflate_all(z_stream *stream, size_t size_max, struct buffer *out) {
    size_t before = out->size;
    int result = Z_OK;
    while (result == Z_OK) {
        if (!make_piece(stream, size_max - (out->size - before), out, &result)) {
            return GRPC_GZIP_TOO_LARGE;
        }
    }
    /* Z_BUF_ERROR: it was cut off. */
    return result == Z_STREAM_END && stream->avail_in == 0 ? GRPC_GZIP_OK : GRPC_GZIP_MALFORMED;
}

enum grpc_gzip_result grpc_gzip_inflate(struct bytes message, size_t size_max, struct buffer *out) {
    /* zlib's interface is older than const. */
    z_stream stream = {.next_in = (Bytef *)message.data, .avail_in = (uInt)message.size};
    if (message.size > UINT_MAX || inflateInit2(&stream, WINDOW_BITS) != Z_OK) {
        return GRPC_GZIP_MALFORMED;
    }
    enum grpc_gzip_result result = inflate_all(&stream, size_max, out);
    inflateEnd(&stream);
    return result;
}
