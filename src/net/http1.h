/*
 * HTTP/1.1 for pages: GET and HEAD, keep-alive, a few pipelined requests. Sans I/O; the parser is
 * llhttp where it is packaged, else http-parser. `http1_protocol` (protocol.h) is its table.
 */
#ifndef LEASED_NET_HTTP1_H
#define LEASED_NET_HTTP1_H

enum {
    /* A request's body is read and thrown away up to this size; no page takes one. */
    HTTP1_BODY_SIZE_MAX = 64 * 1024,
    /* Answers that may wait for the socket before the peer has to read some. */
    HTTP1_PIPELINED_MAX = 16
};

#endif
