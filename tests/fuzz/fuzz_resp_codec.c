/* Replies of a Redis server as `lease import` reads them: found at the same place whole and byte by
 * byte, and read without a byte left. */
#include "client/resp_codec.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void visit(const struct resp_reply *reply, size_t *n_bytes) {
    for (size_t i = 0; i < reply->text.size; i++) {
        *n_bytes += reply->text.data[i] != 0;
    }
    for (size_t i = 0; i < reply->n_items; i++) {
        visit(&reply->items[i], n_bytes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct resp_scanner scanner = {0};
    struct resp_scanner slow = {0};
    enum resp_result result = resp_scan(&scanner, bytes_of(data, size));
    enum resp_result slowly = RESP_MORE;
    for (size_t i = 0; i <= size && slowly == RESP_MORE; i++) {
        slowly = resp_scan(&slow, bytes_of(data, i));
    }
    assert(slowly == result);
    if (result == RESP_WHOLE) {
        struct arena arena;
        struct resp_reply reply;
        size_t n_bytes = 0;
        assert(scanner.position == slow.position && scanner.position <= size);
        arena_init(&arena);
        if (resp_read(bytes_of(data, scanner.position), &arena, &reply)) {
            visit(&reply, &n_bytes);
        }
        arena_clear(&arena);
    }
    return 0;
}
