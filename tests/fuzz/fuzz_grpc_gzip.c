/* What a client says is gzip: within the limit, or refused. */
#include "net/grpc_gzip.h"

#include <assert.h>
#include <stdint.h>

enum { SIZE_MAX_TRIED = 64 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct buffer out;
    buffer_init(&out);
    enum grpc_gzip_result result = grpc_gzip_inflate(bytes_of(data, size), SIZE_MAX_TRIED, &out);
    assert(out.size <= SIZE_MAX_TRIED);
    assert(result == GRPC_GZIP_OK || result == GRPC_GZIP_MALFORMED ||
           result == GRPC_GZIP_TOO_LARGE);
    buffer_clear(&out);
    return 0;
}
