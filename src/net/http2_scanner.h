/*
 * The heads of frames as they come in, for rules about frames that nghttp2 drops unread. RFC 7540's
 * priorities are off, but a PRIORITY frame must still name a stream and not depend on itself (RFC
 * 9113, 5.3 and 6.3), and a client that sends nothing else must be noticed. DATA on a stream that
 * the client has ended is an error of the connection (5.1).
 */
#ifndef LEASED_NET_HTTP2_SCANNER_H
#define LEASED_NET_HTTP2_SCANNER_H

#include "base/bytes.h"
#include "net/http2_streams.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HTTP2_PREFACE_SIZE = 24,
    HTTP2_FRAME_HEAD_SIZE = 9,
    HTTP2_DEPENDENCY_SIZE = 4,
    HTTP2_SCANNED_SIZE = HTTP2_FRAME_HEAD_SIZE + HTTP2_DEPENDENCY_SIZE
};

struct http2_scanner {
    uint32_t skip; /* bytes until the next frame's head */
    uint8_t kept_size;
    uint8_t kept[HTTP2_SCANNED_SIZE]; /* what came of a head, and of a priority behind it */
};

/* At the beginning of a connection, before the preface. */
void http2_scanner_init(struct http2_scanner *scanner);

enum http2_scan_result { HTTP2_SCAN_OK, HTTP2_SCAN_PRIORITY_ERROR, HTTP2_SCAN_STREAM_CLOSED };

/* Bytes in the order of arrival, before nghttp2 gets them. Streams that the client resets are noted
 * in `streams`. `*out_n_priorities`: how many PRIORITY frames there were. */
enum http2_scan_result http2_scanner_scan(struct http2_scanner *scanner,
                                          struct http2_streams *streams, struct bytes bytes,
                                          size_t *out_n_priorities);

#endif
