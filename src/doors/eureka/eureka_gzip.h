/*
 * Answers compressed piece by piece.
 */
#ifndef LEASED_DOORS_EUREKA_EUREKA_GZIP_H
#define LEASED_DOORS_EUREKA_EUREKA_GZIP_H

#include "base/buffer.h"

#include <stdbool.h>
#include <zlib.h>

struct eureka_gzip {
    z_stream stream;
    bool is_open;
};

/* False: out of memory; nothing to clear. */
bool eureka_gzip_init(struct eureka_gzip *gzip);
/* Harmless when it was zeroed and never opened. */
void eureka_gzip_clear(struct eureka_gzip *gzip);
/* Appends what comes of `bytes`; with `is_last` also what ends the stream. */
void eureka_gzip_append(struct eureka_gzip *gzip, struct buffer *out, struct bytes bytes,
                        bool is_last);

#endif
