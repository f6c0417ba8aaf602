/*
 * The same bytes cut in two ways give the same messages. The first byte is the size of the pieces;
 * the other side takes everything at once.
 */
#include "net/grpc_framing.h"
#include "net/grpc_message.h"
#include "net/grpc_timeout.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

enum { MESSAGE_SIZE_MAX = 4000 };

/* Feeds everything in pieces; the messages are written one after the other with their sizes. */
static enum grpc_framing_result collect(struct bytes input, size_t piece_max, struct buffer *out) {
    struct grpc_framing framing;
    grpc_framing_init(&framing);
    enum grpc_framing_result result = GRPC_FRAMING_MORE;
    while (input.size > 0 && result == GRPC_FRAMING_MORE) {
        size_t size = input.size < piece_max ? input.size : piece_max;
        struct bytes piece = bytes_of(input.data, size);
        input.data += size;
        input.size -= size;
        struct bytes message;
        while ((result = grpc_framing_next(&framing, MESSAGE_SIZE_MAX, &piece, &message)) ==
               GRPC_FRAMING_MESSAGE) {
            assert(message.size <= MESSAGE_SIZE_MAX);
            buffer_put_bytes(out, message);
        }
        assert(result != GRPC_FRAMING_MORE || piece.size == 0);
        assert(grpc_framing_held_bytes(&framing) <= MESSAGE_SIZE_MAX);
    }
    buffer_put_u8(out, grpc_framing_is_between_messages(&framing));
    grpc_framing_clear(&framing);
    return result;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    struct bytes input = bytes_of(data + 1, size - 1);
    struct buffer whole;
    struct buffer pieces;
    buffer_init(&whole);
    buffer_init(&pieces);
    enum grpc_framing_result whole_result = collect(input, SIZE_MAX, &whole);
    enum grpc_framing_result pieces_result = collect(input, (size_t)data[0] + 1, &pieces);
    assert(whole_result == pieces_result);
    assert(bytes_equal(bytes_of(whole.data, whole.size), bytes_of(pieces.data, pieces.size)));
    buffer_clear(&whole);
    buffer_clear(&pieces);
    uint64_t timeout_ms = 0;
    (void)grpc_timeout_parse(input, &timeout_ms);
    char text[64] = "";
    memcpy(text, input.data, input.size < 63 ? input.size : 63);
    char encoded[100];
    assert(grpc_message_encode(text, encoded, sizeof encoded) < sizeof encoded);
    return 0;
}
