/*
 * Memory for nghttp2. It takes half a dozen small blocks for each request and gives all of them
 * back when the request is over; a busy iteration of the loop does that for hundreds at once, more
 * than the C library keeps ready. Here blocks of a size wait for the next request of any
 * connection. One thread only.
 */
#ifndef LEASED_NET_HTTP2_MEMORY_H
#define LEASED_NET_HTTP2_MEMORY_H

#include <nghttp2/nghttp2.h>
#include <stddef.h>

struct http2_memory;

struct http2_memory *http2_memory_create(void);
/* Every session that used it is gone. Accepts NULL. */
void http2_memory_destroy(struct http2_memory *memory);

/* What sessions are made with. */
nghttp2_mem *http2_memory_functions(struct http2_memory *memory);

/* Bytes that wait for the next request. */
size_t http2_memory_kept_bytes(const struct http2_memory *memory);

#endif
