/*
 * A hello as it arrives; also with its lengths and its checksum put right, so that what lies behind
 * them is reached. What decodes must encode to the same again.
 */
#include "base/crc32.h"
#include "peers/peer_hello.h"

#include <assert.h>
#include <string.h>

enum { CHECKSUM_SIZE = 4, REST_SIZE_AT = 12 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void decode(struct bytes bytes) {
    struct peer_hello hello;
    memset(&hello, 0xa5, sizeof hello);
    enum peer_answer answer = peer_hello_decode(bytes, &hello);
    assert(answer == PEER_WELCOME || answer == PEER_MALFORMED || answer == PEER_OTHER_VERSION);
    if (answer != PEER_WELCOME) {
        assert(hello.from_id == UINT64_C(0xa5a5a5a5a5a5a5a5));
        return;
    }
    assert(memchr(hello.address, '\0', sizeof hello.address) != NULL);
    assert(hello.purpose == PEER_FOR_LINK || hello.purpose == PEER_TO_ASK);
    assert(peer_hello_size(bytes) == bytes.size);
    struct buffer again;
    buffer_init(&again);
    peer_hello_encode(&again, &hello);
    assert(bytes_equal(bytes, bytes_of(again.data, again.size)));
    buffer_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    decode(bytes_of(data, size));
    if (size < PEER_HELLO_PREFIX_SIZE + CHECKSUM_SIZE || size > PEER_HELLO_SIZE_MAX) {
        return 0;
    }
    struct buffer sealed;
    buffer_init(&sealed);
    buffer_append(&sealed, data, REST_SIZE_AT);
    buffer_put_u32(&sealed, (uint32_t)(size - PEER_HELLO_PREFIX_SIZE));
    buffer_append(&sealed, data + PEER_HELLO_PREFIX_SIZE,
                  size - PEER_HELLO_PREFIX_SIZE - CHECKSUM_SIZE);
    buffer_put_u32(&sealed, crc32c(0, sealed.data, sealed.size));
    decode(bytes_of(sealed.data, sealed.size));
    buffer_clear(&sealed);
    return 0;
}
