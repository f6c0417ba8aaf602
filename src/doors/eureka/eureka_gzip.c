#include "doors/eureka/eureka_gzip.h"

#include <assert.h>

enum { WINDOW_BITS = 15 + 16, /* 16: gzip's header and trailer */ MEMORY_LEVEL = 8, LEVEL = 1 };

bool eureka_gzip_init(struct eureka_gzip *gzip) {
    *gzip = (struct eureka_gzip){0};
    gzip->is_open = deflateInit2(&gzip->stream, LEVEL, Z_DEFLATED, WINDOW_BITS, MEMORY_LEVEL,
                                 Z_DEFAULT_STRATEGY) == Z_OK;
    return gzip->is_open;
}

void eureka_gzip_clear(struct eureka_gzip *gzip) {
    if (gzip->is_open) {
        (void)deflateEnd(&gzip->stream);
    }
    gzip->is_open = false;
}

void eureka_gzip_append(struct eureka_gzip *gzip, struct buffer *out, struct bytes bytes,
                        bool is_last) {
    enum { ROOM = 64 * 1024 };
    z_stream *stream = &gzip->stream;
    /* zlib does not write to its input, but does not say so. */
    stream->next_in = (Bytef *)(uintptr_t)bytes.data;
    stream->avail_in = (uInt)bytes.size;
    int result;
    do {
        stream->next_out = buffer_reserve(out, ROOM);
        stream->avail_out = ROOM;
        result = deflate(stream, is_last ? Z_FINISH : Z_NO_FLUSH);
        assert(result != Z_STREAM_ERROR);
        out->size += ROOM - stream->avail_out;
    } while (stream->avail_out == 0 && result != Z_STREAM_END);
    assert(stream->avail_in == 0);
}
