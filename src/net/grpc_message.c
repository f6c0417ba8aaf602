#include "net/grpc_message.h"

#include <assert.h>

size_t grpc_message_encode(const char *text, char *out, size_t size) {
    assert(size > 0);
    static const char digits[] = "0123456789ABCDEF";
    size_t used = 0;
    for (const unsigned char *at = (const unsigned char *)text; *at != 0; at++) {
        if (*at >= 0x20 && *at <= 0x7e && *at != '%') {
            if (used + 1 >= size) {
                break;
            }
            out[used++] = (char)*at;
            continue;
        }
        if (used + 3 >= size) {
            break;
        }
        out[used++] = '%';
        out[used++] = digits[*at >> 4];
        out[used++] = digits[*at & 15];
    }
    out[used] = 0;
    return used;
}
