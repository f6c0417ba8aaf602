/*
 * Which protocol does a connection speak? Each protocol looks at the first bytes and says yes, no,
 * or not enough yet; at most SNIFF_SIZE_MAX bytes are needed by any of them.
 */
#ifndef LEASED_NET_SNIFF_H
#define LEASED_NET_SNIFF_H

#include "base/bytes.h"

enum { SNIFF_SIZE_MAX = 24 };

enum sniff_result { SNIFF_NO, SNIFF_YES, SNIFF_MORE };

/* Yes once all of `text` came, no at the first byte that differs. */
enum sniff_result sniff_prefix(struct bytes first, const char *text);

/* The client connection preface (RFC 9113, section 3.4), whole. */
enum sniff_result sniff_http2(struct bytes first);
/* A request method and its space (RFC 9112, section 3.1). */
enum sniff_result sniff_http1(struct bytes first);

#endif
