/* Replies in RESP3, as the rule answers them: what is converted once is a fixed point of the second
 * conversion, and whatever RESP3 form is accepted has a RESP2 form that is accepted too. */
#include "doors/redis/redis_reply.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct buffer once;
    struct buffer twice;
    buffer_init(&once);
    buffer_init(&twice);
    if (redis_reply_to_resp2(bytes_of(data, size), &once) == STATUS_OK) {
        assert(redis_reply_to_resp2(bytes_of(once.data, once.size), &twice) == STATUS_OK);
        assert(bytes_equal(bytes_of(once.data, once.size), bytes_of(twice.data, twice.size)));
    }
    once.size = 0;
    twice.size = 0;
    if (redis_reply_to_resp3(bytes_of(data, size), &once) == STATUS_OK) {
        /* Pairs become one level deeper, so the result may be too deep to be read again. */
        if (redis_reply_to_resp3(bytes_of(once.data, once.size), &twice) == STATUS_OK) {
            assert(bytes_equal(bytes_of(once.data, once.size), bytes_of(twice.data, twice.size)));
        }
        twice.size = 0;
        assert(redis_reply_to_resp2(bytes_of(data, size), &twice) == STATUS_OK);
    }
    buffer_clear(&once);
    buffer_clear(&twice);
    return 0;
}
