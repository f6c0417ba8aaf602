#include "peers/peer_hello.h"

#include "base/crc32.h"

#include <string.h>

static const char HELLO_MAGIC[8] = {'l', 'e', 'a', 's', 'e', 'd', 'p', 'r'};

const char *peer_answer_text(enum peer_answer answer) {
    switch (answer) {
    case PEER_WELCOME:
        return "welcome";
    case PEER_OTHER_VERSION:
        return "the peer speaks another version of the peer protocol";
    case PEER_OTHER_CLUSTER:
        return "the peer belongs to another cluster";
    case PEER_OTHER_MEMBER:
        return "the peer is another member than the one wanted";
    case PEER_MALFORMED:
        return "the peer received a malformed message";
    case PEER_NOT_A_MEMBER:
        return "the caller is not a member of the cluster";
    case PEER_REMOVED:
        return "the caller was removed from the cluster";
    case PEER_DISK_REPLACED:
        return "the caller's data directory was replaced";
    case PEER_NOT_PROVEN:
        return "the caller did not prove that it knows the peer secret";
    case PEER_BUSY:
        return "this member is connected already";
    case PEER_CHALLENGE:
        return "the peer wants a proof of the peer secret";
    case PEER_SPEAKS_TLS:
        return "the peer speaks TLS, and this node does not";
    }
    return "the peer's answer is unknown";
}

/* magic · version u32 · size of the rest u32 · cluster, from, to, data directory u64 · heartbeat,
 * election u32 · purpose u8 · nonce · size of the address u32 · address · crc32c of all before */
void peer_hello_encode(struct buffer *buffer, const struct peer_hello *hello) {
    size_t start = buffer->size;
    size_t address_size = strnlen(hello->address, PEER_ADDRESS_SIZE_MAX);
    size_t rest_size = PEER_HELLO_SIZE_MAX - PEER_HELLO_PREFIX_SIZE - PEER_ADDRESS_SIZE_MAX;
    buffer_append(buffer, HELLO_MAGIC, sizeof HELLO_MAGIC);
    buffer_put_u32(buffer, PEER_VERSION);
    buffer_put_u32(buffer, (uint32_t)(rest_size + address_size));
    buffer_put_u64(buffer, hello->cluster_id);
    buffer_put_u64(buffer, hello->from_id);
    buffer_put_u64(buffer, hello->to_id);
    buffer_put_u64(buffer, hello->data_dir_id);
    buffer_put_u32(buffer, hello->heartbeat_ms);
    buffer_put_u32(buffer, hello->election_ms);
    buffer_put_u8(buffer, (uint8_t)hello->purpose);
    buffer_append(buffer, hello->nonce, PEER_NONCE_SIZE);
    buffer_put_u32(buffer, (uint32_t)address_size);
    buffer_append(buffer, hello->address, address_size);
    buffer_put_u32(buffer, crc32c(0, buffer->data + start, buffer->size - start));
}

size_t peer_hello_size(struct bytes prefix) {
    struct reader reader;
    if (prefix.size < PEER_HELLO_PREFIX_SIZE ||
        memcmp(prefix.data, HELLO_MAGIC, sizeof HELLO_MAGIC) != 0) {
        return 0;
    }
    reader_init(&reader, prefix);
    reader.position = sizeof HELLO_MAGIC;
    (void)reader_get_u32(&reader);
    size_t size = (size_t)PEER_HELLO_PREFIX_SIZE + reader_get_u32(&reader);
    return size <= PEER_HELLO_SIZE_MAX ? size : 0;
}

static void read_raw(struct reader *reader, void *out_bytes, size_t size) {
    if (reader->failed || reader_left(reader) < size) {
        reader->failed = true;
        return;
    }
    memcpy(out_bytes, reader->data + reader->position, size);
    reader->position += size;
}

enum peer_answer peer_hello_decode(struct bytes bytes, struct peer_hello *out_hello) {
    struct reader reader;
    if (bytes.size == 0 || peer_hello_size(bytes) != bytes.size) {
        return PEER_MALFORMED;
    }
    reader_init(&reader, bytes);
    reader.position = sizeof HELLO_MAGIC;
    if (reader_get_u32(&reader) != PEER_VERSION) {
        return PEER_OTHER_VERSION;
    }
    (void)reader_get_u32(&reader);
    struct peer_hello hello = {.cluster_id = reader_get_u64(&reader)};
    hello.from_id = reader_get_u64(&reader);
    hello.to_id = reader_get_u64(&reader);
    hello.data_dir_id = reader_get_u64(&reader);
    hello.heartbeat_ms = reader_get_u32(&reader);
    hello.election_ms = reader_get_u32(&reader);
    uint8_t purpose = reader_get_u8(&reader);
    read_raw(&reader, hello.nonce, sizeof hello.nonce);
    uint32_t address_size = reader_get_u32(&reader);
    if (reader.failed || address_size > PEER_ADDRESS_SIZE_MAX ||
        reader_left(&reader) != address_size + sizeof(uint32_t)) {
        return PEER_MALFORMED;
    }
    read_raw(&reader, hello.address, address_size);
    size_t checked = reader.position;
    if (reader_get_u32(&reader) != crc32c(0, bytes.data, checked) ||
        (purpose != PEER_FOR_LINK && purpose != PEER_TO_ASK) ||
        (hello.from_id == 0 && purpose != PEER_TO_ASK) ||
        memchr(hello.address, '\0', address_size) != NULL) {
        return PEER_MALFORMED;
    }
    hello.purpose = (enum peer_purpose)purpose;
    *out_hello = hello;
    return PEER_WELCOME;
}

enum peer_answer peer_hello_check(const struct peer_hello *hello, uint64_t cluster_id,
                                  uint64_t self_id) {
    if (hello->purpose == PEER_TO_ASK) {
        return PEER_WELCOME;
    }
    if (hello->cluster_id != cluster_id) {
        return PEER_OTHER_CLUSTER;
    }
    return hello->to_id == self_id ? PEER_WELCOME : PEER_OTHER_MEMBER;
}
