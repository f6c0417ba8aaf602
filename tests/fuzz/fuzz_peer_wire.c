/*
 * What peers say: the first byte of an input tells whether a hello or frames follow. A hello is
 * also tried with its lengths and its checksum put right, so that what lies behind them is reached.
 * What decodes must decode to the same again after it was encoded.
 */
#include "base/arena.h"
#include "base/crc32.h"
#include "replication/peer_wire.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { CLUSTER = 0x1111, SELF = 0x2222, CHECKSUM_SIZE = 4, REST_AT = 12 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode_hello(struct bytes bytes) {
    struct peer_hello hello;
    enum peer_answer answer = peer_hello_decode(bytes, CLUSTER, SELF, &hello);
    assert(memchr(hello.address, '\0', sizeof hello.address) != NULL);
    if (answer == PEER_MALFORMED || answer == PEER_OTHER_VERSION) {
        assert(hello.from_id == 0);
        return;
    }
    assert(peer_hello_size(bytes) == bytes.size);
    struct buffer again;
    buffer_init(&again);
    peer_hello_encode(&again, &hello);
    assert(bytes_equal(bytes, bytes_of(again.data, again.size)));
    buffer_clear(&again);
}

static void try_hello(struct bytes bytes) {
    decode_hello(bytes);
    if (bytes.size < PEER_HELLO_PREFIX_SIZE + CHECKSUM_SIZE || bytes.size > PEER_HELLO_SIZE_MAX) {
        return;
    }
    struct buffer sealed;
    buffer_init(&sealed);
    buffer_append(&sealed, bytes.data, REST_AT);
    buffer_put_u32(&sealed, (uint32_t)(bytes.size - PEER_HELLO_PREFIX_SIZE));
    buffer_append(&sealed, bytes.data + PEER_HELLO_PREFIX_SIZE,
                  bytes.size - PEER_HELLO_PREFIX_SIZE - CHECKSUM_SIZE);
    buffer_put_u32(&sealed, crc32c(0, sealed.data, sealed.size));
    decode_hello(bytes_of(sealed.data, sealed.size));
    buffer_clear(&sealed);
}

/* Numbers have one encoding only, so the frame must come out as it went in. */
static void check_frame(const struct peer_frame *frame, struct bytes taken) {
    struct buffer again;
    buffer_init(&again);
    peer_frame_encode(&again, frame);
    assert(bytes_equal(taken, bytes_of(again.data, again.size)));
    buffer_clear(&again);
}

static void try_frames(struct bytes bytes) {
    struct arena arena;
    arena_init(&arena);
    for (;;) {
        struct bytes before = bytes;
        struct peer_frame frame;
        enum status status = peer_frame_decode(&bytes, &arena, &frame);
        if (status != STATUS_OK) {
            assert(status == STATUS_PENDING || status == STATUS_MALFORMED ||
                   status == STATUS_REQUEST_TOO_LARGE);
            assert(bytes.data == before.data);
            assert(bytes.size == before.size);
            break;
        }
        assert(bytes.size < before.size);
        check_frame(&frame, bytes_of(before.data, before.size - bytes.size));
        arena_reset(&arena);
    }
    arena_clear(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    struct bytes bytes = bytes_of(data + 1, size - 1);
    if (data[0] == 'h') {
        try_hello(bytes);
    } else {
        try_frames(bytes);
    }
    return 0;
}
