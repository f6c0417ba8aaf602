#include "replication/peer_wire.h"

#include "base/arena.h"
#include "base/crc32.h"

#include <assert.h>
#include <string.h>

static const char HELLO_MAGIC[8] = {'l', 'e', 'a', 's', 'e', 'd', 'p', 'r'};
enum { FRAME_PREFIX_SIZE = 4, RENEW_ASK = 1 };

const char *peer_answer_text(enum peer_answer answer) {
    switch (answer) {
    case PEER_WELCOME:
        return "welcome";
    case PEER_OTHER_VERSION:
        return "the peer speaks another version";
    case PEER_OTHER_CLUSTER:
        return "the peer belongs to another cluster";
    case PEER_OTHER_MEMBER:
        return "the peer is another member than the one wanted";
    case PEER_MALFORMED:
        return "the peer did not understand";
    case PEER_NOT_A_MEMBER:
        return "the caller is no member of the cluster";
    case PEER_SPEAKS_TLS:
        return "the peer speaks TLS, and this node does not";
    case PEER_REMOVED:
        return "the caller was removed from the cluster";
    case PEER_FORGETFUL:
        return "the caller has lost what it knew";
    }
    return "the peer's answer makes no sense";
}

/* magic · version u32 · size of the rest u32 · cluster, from, to, birth u64 · purpose u8 · address
 * · crc32c of all before */
void peer_hello_encode(struct buffer *buffer, const struct peer_hello *hello) {
    size_t start = buffer->size;
    struct bytes address = bytes_from_text(hello->address);
    buffer_append(buffer, HELLO_MAGIC, sizeof HELLO_MAGIC);
    buffer_put_u32(buffer, PEER_VERSION);
    buffer_put_u32(buffer, (uint32_t)(4 * 8 + 1 + 4 + address.size + 4));
    buffer_put_u64(buffer, hello->cluster_id);
    buffer_put_u64(buffer, hello->from_id);
    buffer_put_u64(buffer, hello->to_id);
    buffer_put_u64(buffer, hello->birth);
    buffer_put_u8(buffer, (uint8_t)hello->purpose);
    buffer_put_u32(buffer, (uint32_t)address.size);
    buffer_append(buffer, address.data, address.size);
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
    uint32_t rest = reader_get_u32(&reader);
    size_t size = (size_t)PEER_HELLO_PREFIX_SIZE + rest;
    return size <= PEER_HELLO_SIZE_MAX ? size : 0;
}

enum peer_answer peer_hello_decode(struct bytes bytes, uint64_t cluster_id, uint64_t self_id,
                                   struct peer_hello *out_hello) {
    struct reader reader;
    *out_hello = (struct peer_hello){0};
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
    hello.birth = reader_get_u64(&reader);
    hello.purpose = (enum peer_purpose)reader_get_u8(&reader);
    uint32_t address_size = reader_get_u32(&reader);
    if (reader.failed || address_size > PEER_ADDRESS_SIZE_MAX ||
        reader_left(&reader) != address_size + sizeof(uint32_t) || hello.purpose < PEER_FOR_RAFT ||
        hello.purpose > PEER_TO_ASK) {
        return PEER_MALFORMED;
    }
    memcpy(hello.address, reader.data + reader.position, address_size);
    reader.position += address_size;
    size_t checked = reader.position;
    if (reader_get_u32(&reader) != crc32c(0, bytes.data, checked) ||
        (hello.from_id == 0 && hello.purpose != PEER_TO_ASK) ||
        memchr(hello.address, '\0', address_size) != NULL) {
        return PEER_MALFORMED;
    }
    *out_hello = hello;
    if (hello.purpose == PEER_TO_ASK) {
        return PEER_WELCOME;
    }
    if (hello.cluster_id != cluster_id) {
        return PEER_OTHER_CLUSTER;
    }
    return hello.to_id == self_id ? PEER_WELCOME : PEER_OTHER_MEMBER;
}

/* --- Frames. --- */

static void encode_body(struct buffer *buffer, const struct peer_frame *frame) {
    switch (frame->type) {
    case PEER_PING:
    case PEER_PONG:
    case PEER_RELEASE:
        buffer_put_varint(buffer, frame->ping.term);
        buffer_put_varint(buffer, frame->ping.sent_ms);
        return;
    case PEER_PROPOSE:
        buffer_put_u64(buffer, frame->propose.incarnation);
        buffer_put_varint(buffer, frame->propose.sequence);
        buffer_put_varint(buffer, frame->propose.acknowledged);
        buffer_put_varint(buffer, frame->propose.n_commands);
        buffer_put_bytes(buffer, frame->propose.commands);
        return;
    case PEER_PROPOSE_REFUSED:
        buffer_put_varint(buffer, frame->propose_refused.sequence);
        buffer_put_u8(buffer, (uint8_t)frame->propose_refused.status);
        return;
    case PEER_READ:
        buffer_put_varint(buffer, frame->read.token);
        return;
    case PEER_READ_RESULT:
        buffer_put_varint(buffer, frame->read_result.token);
        buffer_put_u8(buffer, (uint8_t)frame->read_result.status);
        buffer_put_varint(buffer, frame->read_result.index);
        return;
    case PEER_RENEW:
        buffer_put_varint(buffer, frame->renew.n);
        for (size_t i = 0; i < frame->renew.n; i++) {
            buffer_put_varint(buffer, frame->renew.renewals[i].token);
            buffer_put_zigzag(buffer, frame->renew.renewals[i].id);
            buffer_put_u8(buffer, frame->renew.renewals[i].only_ask ? RENEW_ASK : 0);
        }
        return;
    case PEER_RENEW_RESULT:
        buffer_put_varint(buffer, frame->renew_result.n);
        for (size_t i = 0; i < frame->renew_result.n; i++) {
            const struct peer_renewal_result *result = &frame->renew_result.results[i];
            buffer_put_varint(buffer, result->token);
            buffer_put_u8(buffer, (uint8_t)result->status);
            buffer_put_varint(buffer, (uint64_t)result->ttl_ms);
        }
        return;
    case PEER_CHANGE:
        buffer_put_varint(buffer, frame->change.token);
        buffer_put_u8(buffer, (uint8_t)frame->change.action);
        member_facts_encode(buffer, frame->change.facts);
        return;
    case PEER_CHANGE_RESULT:
        buffer_put_varint(buffer, frame->change_result.token);
        buffer_put_u8(buffer, (uint8_t)frame->change_result.status);
        buffer_put_u64(buffer, frame->change_result.id);
        buffer_put_varint(buffer, frame->change_result.index);
        return;
    case PEER_MEMBERS:
        buffer_put_u64(buffer, frame->members.cluster_id);
        buffer_put_u64(buffer, frame->members.token_hash);
        buffer_put_u8(buffer, frame->members.is_removed);
        member_list_encode(buffer, frame->members.members, frame->members.n);
        return;
    }
    assert(!"frame type");
}

void peer_frame_encode(struct buffer *buffer, const struct peer_frame *frame) {
    size_t start = buffer->size;
    buffer_put_u32(buffer, 0);
    buffer_put_u8(buffer, (uint8_t)frame->type);
    encode_body(buffer, frame);
    uint32_t size = (uint32_t)(buffer->size - start - FRAME_PREFIX_SIZE);
    for (unsigned i = 0; i < FRAME_PREFIX_SIZE; i++) {
        buffer->data[start + i] = (uint8_t)(size >> (8 * i));
    }
}

static enum status decode_status(struct reader *reader) {
    uint8_t status = reader_get_u8(reader);
    if (status >= STATUS_COUNT) {
        reader->failed = true;
        return STATUS_MALFORMED;
    }
    return (enum status)status;
}

/* Each element takes `size_min` bytes at least, so a lying count allocates no more than the frame
 * could hold. */
static size_t decode_count(struct reader *reader, size_t size_min) {
    uint64_t n = reader_get_varint(reader);
    if (n > reader_left(reader) / size_min) {
        reader->failed = true;
        return 0;
    }
    return (size_t)n;
}

static void decode_renewals(struct reader *reader, struct arena *arena, struct peer_frame *frame) {
    size_t n = decode_count(reader, 3);
    struct peer_renewal *renewals = arena_calloc(arena, n, sizeof *renewals);
    for (size_t i = 0; i < n && !reader->failed; i++) {
        renewals[i].token = reader_get_varint(reader);
        renewals[i].id = reader_get_zigzag(reader);
        uint8_t flags = reader_get_u8(reader);
        renewals[i].only_ask = flags == RENEW_ASK;
        if (flags > RENEW_ASK) {
            reader->failed = true;
        }
    }
    frame->renew.n = n;
    frame->renew.renewals = renewals;
}

static void decode_results(struct reader *reader, struct arena *arena, struct peer_frame *frame) {
    size_t n = decode_count(reader, 3);
    struct peer_renewal_result *results = arena_calloc(arena, n, sizeof *results);
    for (size_t i = 0; i < n && !reader->failed; i++) {
        results[i].token = reader_get_varint(reader);
        results[i].status = decode_status(reader);
        results[i].ttl_ms = (int64_t)reader_get_varint(reader);
    }
    frame->renew_result.n = n;
    frame->renew_result.results = results;
}

static void decode_change(struct reader *reader, struct arena *arena, struct peer_frame *frame) {
    struct member_facts *facts = arena_calloc(arena, 1, sizeof *facts);
    frame->change.token = reader_get_varint(reader);
    frame->change.action = (enum member_action)reader_get_u8(reader);
    /* What a member says of itself goes the way of all proposals. */
    if (frame->change.action < MEMBER_ADD || frame->change.action >= MEMBER_PUBLISH) {
        reader->failed = true;
    }
    member_facts_decode(reader, facts);
    frame->change.facts = facts;
}

static void decode_members(struct reader *reader, struct arena *arena, struct peer_frame *frame) {
    frame->members.cluster_id = reader_get_u64(reader);
    frame->members.token_hash = reader_get_u64(reader);
    uint8_t is_removed = reader_get_u8(reader);
    frame->members.is_removed = is_removed == 1;
    if (is_removed > 1) {
        reader->failed = true;
    }
    frame->members.members = member_list_decode(reader, arena, &frame->members.n);
}

static void decode_body(struct reader *reader, struct arena *arena, struct peer_frame *frame) {
    switch (frame->type) {
    case PEER_PING:
    case PEER_PONG:
    case PEER_RELEASE:
        frame->ping.term = reader_get_varint(reader);
        frame->ping.sent_ms = reader_get_varint(reader);
        return;
    case PEER_PROPOSE:
        frame->propose.incarnation = reader_get_u64(reader);
        frame->propose.sequence = reader_get_varint(reader);
        frame->propose.acknowledged = reader_get_varint(reader);
        frame->propose.n_commands = reader_get_varint(reader);
        frame->propose.commands = reader_get_bytes(reader);
        return;
    case PEER_PROPOSE_REFUSED:
        frame->propose_refused.sequence = reader_get_varint(reader);
        frame->propose_refused.status = decode_status(reader);
        return;
    case PEER_READ:
        frame->read.token = reader_get_varint(reader);
        return;
    case PEER_READ_RESULT:
        frame->read_result.token = reader_get_varint(reader);
        frame->read_result.status = decode_status(reader);
        frame->read_result.index = reader_get_varint(reader);
        return;
    case PEER_RENEW:
        decode_renewals(reader, arena, frame);
        return;
    case PEER_RENEW_RESULT:
        decode_results(reader, arena, frame);
        return;
    case PEER_CHANGE:
        decode_change(reader, arena, frame);
        return;
    case PEER_CHANGE_RESULT:
        frame->change_result.token = reader_get_varint(reader);
        frame->change_result.status = decode_status(reader);
        frame->change_result.id = reader_get_u64(reader);
        frame->change_result.index = reader_get_varint(reader);
        return;
    case PEER_MEMBERS:
        decode_members(reader, arena, frame);
        return;
    }
    reader->failed = true;
}

enum status peer_frame_decode(struct bytes *bytes, struct arena *arena,
                              struct peer_frame *out_frame) {
    struct reader prefix;
    if (bytes->size < FRAME_PREFIX_SIZE) {
        return STATUS_PENDING;
    }
    reader_init(&prefix, *bytes);
    uint32_t size = reader_get_u32(&prefix);
    if (size > PEER_FRAME_SIZE_MAX) {
        return STATUS_REQUEST_TOO_LARGE;
    }
    if (bytes->size - FRAME_PREFIX_SIZE < size) {
        return STATUS_PENDING;
    }
    struct reader reader;
    reader_init(&reader, bytes_of(bytes->data + FRAME_PREFIX_SIZE, size));
    struct peer_frame frame = {.type = (enum peer_frame_type)reader_get_u8(&reader)};
    decode_body(&reader, arena, &frame);
    if (reader.failed || reader_left(&reader) != 0) {
        return STATUS_MALFORMED;
    }
    bytes->data += FRAME_PREFIX_SIZE + size;
    bytes->size -= FRAME_PREFIX_SIZE + size;
    *out_frame = frame;
    return STATUS_OK;
}
