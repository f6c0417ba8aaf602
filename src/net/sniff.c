#include "net/sniff.h"

#include <string.h>

enum sniff_result sniff_prefix(struct bytes first, const char *text) {
    size_t wanted_size = strlen(text);
    size_t size = first.size < wanted_size ? first.size : wanted_size;
    if (size > 0 && memcmp(first.data, text, size) != 0) {
        return SNIFF_NO;
    }
    return size == wanted_size ? SNIFF_YES : SNIFF_MORE;
}

enum sniff_result sniff_http2(struct bytes first) {
    return sniff_prefix(first, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
}

enum sniff_result sniff_http1(struct bytes first) {
    static const char *const methods[] = {"GET ",     "HEAD ",  "POST ",    "PUT ",   "DELETE ",
                                          "OPTIONS ", "PATCH ", "CONNECT ", "TRACE ", "LIST "};
    enum sniff_result best = SNIFF_NO;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        enum sniff_result result = sniff_prefix(first, methods[i]);
        if (result == SNIFF_YES) {
            return SNIFF_YES;
        }
        if (result == SNIFF_MORE) {
            best = SNIFF_MORE;
        }
    }
    return best;
}
