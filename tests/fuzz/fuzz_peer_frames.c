/*
 * What members say on a link: the first byte of an input is the type of a frame, the rest its body.
 * What decodes must give the same bytes when it is encoded again.
 */
#include "base/arena.h"
#include "replication/peer_frames.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    struct arena arena;
    struct peer_frame frame;
    struct bytes body = bytes_of(data + 1, size - 1);
    arena_init(&arena);
    enum status status = peer_frame_decode(data[0], body, &arena, &frame);
    assert(status == STATUS_OK || status == STATUS_MALFORMED);
    if (status == STATUS_OK) {
        /* Numbers have one encoding only. */
        struct buffer again;
        buffer_init(&again);
        peer_frame_encode(&again, &frame);
        assert(bytes_equal(body, bytes_of(again.data, again.size)));
        buffer_clear(&again);
    }
    arena_clear(&arena);
    return 0;
}
