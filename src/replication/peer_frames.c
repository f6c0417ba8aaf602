#include "replication/peer_frames.h"

#include "base/arena.h"
#include "core/cluster_version.h"

#include <assert.h>

/* The second one only with callers: an older member does not know it. */
enum { RENEW_ASK = 1, RENEW_SHOWS_KEYS = 2 };

static void encode_renewals(struct buffer *buffer, const struct peer_frame *frame) {
    bool has_callers = frame->type == PEER_RENEW_AS;
    buffer_put_varint(buffer, frame->renew.n);
    for (size_t i = 0; i < frame->renew.n; i++) {
        const struct peer_renewal *renewal = &frame->renew.renewals[i];
        bool shows_keys = has_callers && renewal->shows_keys;
        buffer_put_varint(buffer, renewal->request_id);
        buffer_put_zigzag(buffer, renewal->id);
        buffer_put_u8(buffer,
                      (renewal->only_ask ? RENEW_ASK : 0) | (shows_keys ? RENEW_SHOWS_KEYS : 0));
        if (has_callers) {
            buffer_put_u8(buffer, renewal->owner.value);
            caller_encode(buffer, &renewal->caller);
        }
    }
}

void peer_frame_encode(struct buffer *buffer, const struct peer_frame *frame) {
    switch (frame->type) {
    case PEER_PING:
    case PEER_PONG:
    case PEER_RELEASE:
        buffer_put_varint(buffer, frame->ping.term);
        buffer_put_varint(buffer, frame->ping.sent_ms);
        buffer_put_varint(buffer, frame->ping.lease_ms);
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
        buffer_put_varint(buffer, frame->read.request_id);
        return;
    case PEER_READ_RESULT:
        buffer_put_varint(buffer, frame->read_result.request_id);
        buffer_put_u8(buffer, (uint8_t)frame->read_result.status);
        buffer_put_varint(buffer, frame->read_result.index);
        return;
    case PEER_RENEW:
    case PEER_RENEW_AS:
        encode_renewals(buffer, frame);
        return;
    case PEER_RENEW_RESULT:
        buffer_put_varint(buffer, frame->renew_result.n);
        for (size_t i = 0; i < frame->renew_result.n; i++) {
            const struct peer_renewal_result *result = &frame->renew_result.results[i];
            buffer_put_varint(buffer, result->request_id);
            buffer_put_u8(buffer, (uint8_t)result->status);
            buffer_put_varint(buffer, (uint64_t)result->ttl_ms);
        }
        return;
    case PEER_CHANGE_AS:
        caller_encode(buffer, &frame->change.caller);
        /* fall through */
    case PEER_CHANGE:
        buffer_put_varint(buffer, frame->change.request_id);
        buffer_put_u8(buffer, (uint8_t)frame->change.action);
        member_facts_encode(buffer, frame->change.facts);
        return;
    case PEER_CHANGE_RESULT:
        buffer_put_varint(buffer, frame->change_result.request_id);
        buffer_put_u8(buffer, (uint8_t)frame->change_result.status);
        buffer_put_u64(buffer, frame->change_result.id);
        buffer_put_varint(buffer, frame->change_result.index);
        return;
    case PEER_MEMBERS:
        buffer_put_u64(buffer, frame->members.cluster_id);
        buffer_put_u64(buffer, frame->members.token_hash);
        buffer_put_u8(buffer, frame->members.is_removed);
        member_list_encode(buffer, frame->members.members, frame->members.n);
        /* Release 0.2 reads nothing behind the list, and cannot join a cluster of a later version.
         */
        if (frame->members.cluster_version > CLUSTER_VERSION_FIRST) {
            buffer_put_varint(buffer, frame->members.cluster_version);
        }
        return;
    case PEER_RAFT:
        break; /* has a codec of its own */
    }
    assert(!"frame type");
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
    if (n > PEER_RENEWALS_MAX || n > reader_left(reader) / size_min) {
        reader->failed = true;
        return 0;
    }
    return (size_t)n;
}

static void decode_renewals(struct reader *reader, struct arena *arena, struct peer_frame *frame) {
    bool has_callers = frame->type == PEER_RENEW_AS;
    size_t n = decode_count(reader, 3);
    struct peer_renewal *renewals = arena_calloc(arena, n, sizeof *renewals);
    for (size_t i = 0; i < n && !reader->failed; i++) {
        renewals[i].request_id = reader_get_varint(reader);
        renewals[i].id = reader_get_zigzag(reader);
        uint8_t flags = reader_get_u8(reader);
        renewals[i].only_ask = (flags & RENEW_ASK) != 0;
        renewals[i].shows_keys = (flags & RENEW_SHOWS_KEYS) != 0;
        renewals[i].owner = KEY_SPACE_ETCD;
        if (has_callers) {
            renewals[i].owner.value = reader_get_u8(reader);
            caller_decode(reader, &renewals[i].caller);
        }
        if (flags > (has_callers ? RENEW_ASK | RENEW_SHOWS_KEYS : RENEW_ASK)) {
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
        results[i].request_id = reader_get_varint(reader);
        results[i].status = decode_status(reader);
        uint64_t ttl_ms = reader_get_varint(reader);
        results[i].ttl_ms = (int64_t)ttl_ms;
        if (ttl_ms > INT64_MAX) {
            reader->failed = true;
        }
    }
    frame->renew_result.n = n;
    frame->renew_result.results = results;
}

static void decode_change(struct reader *reader, struct arena *arena, struct peer_frame *frame) {
    struct member_facts *facts = arena_calloc(arena, 1, sizeof *facts);
    if (frame->type == PEER_CHANGE_AS) {
        caller_decode(reader, &frame->change.caller);
    }
    frame->change.request_id = reader_get_varint(reader);
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
    uint64_t version = CLUSTER_VERSION_FIRST;
    if (reader_left(reader) > 0) {
        version = reader_get_varint(reader);
        reader->failed |= version <= CLUSTER_VERSION_FIRST || version > UINT32_MAX;
    }
    frame->members.cluster_version = (uint32_t)version;
}

static void decode_lease(struct reader *reader, struct peer_frame *frame) {
    uint64_t lease_ms = reader_get_varint(reader);
    if (lease_ms > UINT32_MAX) {
        reader->failed = true;
        return;
    }
    frame->ping.lease_ms = (uint32_t)lease_ms;
}

static void decode_body(struct reader *reader, struct arena *arena, struct peer_frame *frame) {
    switch (frame->type) {
    case PEER_PING:
    case PEER_PONG:
    case PEER_RELEASE:
        frame->ping.term = reader_get_varint(reader);
        frame->ping.sent_ms = reader_get_varint(reader);
        decode_lease(reader, frame);
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
        frame->read.request_id = reader_get_varint(reader);
        return;
    case PEER_READ_RESULT:
        frame->read_result.request_id = reader_get_varint(reader);
        frame->read_result.status = decode_status(reader);
        frame->read_result.index = reader_get_varint(reader);
        return;
    case PEER_RENEW:
    case PEER_RENEW_AS:
        decode_renewals(reader, arena, frame);
        return;
    case PEER_RENEW_RESULT:
        decode_results(reader, arena, frame);
        return;
    case PEER_CHANGE:
    case PEER_CHANGE_AS:
        decode_change(reader, arena, frame);
        return;
    case PEER_CHANGE_RESULT:
        frame->change_result.request_id = reader_get_varint(reader);
        frame->change_result.status = decode_status(reader);
        frame->change_result.id = reader_get_u64(reader);
        frame->change_result.index = reader_get_varint(reader);
        return;
    case PEER_MEMBERS:
        decode_members(reader, arena, frame);
        return;
    case PEER_RAFT:
        break;
    }
    reader->failed = true;
}

enum status peer_frame_decode(uint8_t type, struct bytes body, struct arena *arena,
                              struct peer_frame *out_frame) {
    struct reader reader;
    reader_init(&reader, body);
    struct peer_frame frame = {.type = (enum peer_frame_type)type};
    decode_body(&reader, arena, &frame);
    if (reader.failed || reader_left(&reader) != 0) {
        return STATUS_MALFORMED;
    }
    *out_frame = frame;
    return STATUS_OK;
}
