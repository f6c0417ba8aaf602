#include "net/sniff.h"

#include <string.h>

/* Yes once all of `wanted` came, no at the first byte that differs. */
static enum sniff_result match(struct bytes first, const char *wanted) {
    size_t wanted_size = strlen(wanted);
    size_t size = first.size < wanted_size ? first.size : wanted_size;
    if (size > 0 && memcmp(first.data, wanted, size) != 0) {
        return SNIFF_NO;
    }
    return size == wanted_size ? SNIFF_YES : SNIFF_MORE;
}

enum sniff_result sniff_http2(struct bytes first) {
    return match(first, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
}

enum sniff_result sniff_http1(struct bytes first) {
    static const char *const methods[] = {"GET ",     "HEAD ",  "POST ",    "PUT ",  "DELETE ",
                                          "OPTIONS ", "PATCH ", "CONNECT ", "TRACE "};
    enum sniff_result best = SNIFF_NO;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        enum sniff_result result = match(first, methods[i]);
        if (result == SNIFF_YES) {
            return SNIFF_YES;
        }
        if (result == SNIFF_MORE) {
            best = SNIFF_MORE;
        }
    }
    return best;
}
