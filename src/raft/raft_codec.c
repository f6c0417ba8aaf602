#include "raft/raft_codec.h"

#include "raft/raft_config.h"

#include <assert.h>
#include <stdlib.h>

/* Of an entry: its type, its term and its length, a byte each. */
enum { ENTRY_SIZE_MIN = 3 };
enum { VOTE_DISRUPTS = 1, VOTE_IS_PRE = 2, VOTE_FLAGS = 3 };
enum { RESULT_GRANTED = 1, RESULT_IS_PRE = 2, RESULT_FLAGS = 3 };

/* Terms, indices and sizes stay below it, so that no sum of a few of them overflows. */
static const uint64_t NUMBER_END = (uint64_t)1 << 62;
/* Entries follow a snapshot: were it at the end of the numbers, no member could say what comes
 * next. All other indices go on from what is in the log. */
static const uint64_t SNAPSHOT_INDEX_END = (uint64_t)1 << 56;

/* --- Encoding. --- */

static void put_append(struct buffer *buffer, const struct message_append *append) {
    assert(append->n_entries <= MESSAGE_ENTRIES_MAX);
    buffer_put_varint(buffer, append->term);
    buffer_put_varint(buffer, append->prev_index);
    buffer_put_varint(buffer, append->prev_term);
    buffer_put_varint(buffer, append->commit);
    buffer_put_varint(buffer, append->n_entries);
    for (uint32_t i = 0; i < append->n_entries; i++) {
        const struct log_item *item = append->items[i];
        assert(item->index == append->prev_index + 1 + i);
        buffer_put_u8(buffer, (uint8_t)item->type);
        buffer_put_varint(buffer, item->term);
        buffer_put_bytes(buffer, bytes_of(item->bytes, item->size));
    }
}

static void put_vote(struct buffer *buffer, const struct message_vote *vote) {
    buffer_put_varint(buffer, vote->term);
    buffer_put_varint(buffer, vote->last_index);
    buffer_put_varint(buffer, vote->last_term);
    buffer_put_u8(buffer, (uint8_t)((vote->disrupt_leader ? VOTE_DISRUPTS : 0) |
                                    (vote->is_pre_vote ? VOTE_IS_PRE : 0)));
}

static void put_vote_result(struct buffer *buffer, const struct message_vote_result *result) {
    buffer_put_varint(buffer, result->term);
    buffer_put_u8(buffer, (uint8_t)((result->is_granted ? RESULT_GRANTED : 0) |
                                    (result->is_pre_vote ? RESULT_IS_PRE : 0)));
}

/* Only the first chunk carries the configuration. */
static void put_snapshot(struct buffer *buffer, const struct message_snapshot *snapshot) {
    const struct snapshot_meta *meta = snapshot->meta;
    buffer_put_varint(buffer, snapshot->term);
    buffer_put_varint(buffer, meta->index);
    buffer_put_varint(buffer, meta->term);
    buffer_put_varint(buffer, meta->size);
    buffer_put_varint(buffer, snapshot->offset);
    if (snapshot->offset == 0) {
        buffer_put_varint(buffer, meta->configuration_index);
        buffer_put_bytes(buffer, bytes_of(meta->configuration, meta->configuration_size));
    }
    buffer_put_bytes(buffer, snapshot->chunk);
}

void raft_codec_encode(struct buffer *buffer, const struct raft_message_view *message) {
    size_t start = buffer->size;
    buffer_put_u8(buffer, (uint8_t)message->kind);
    switch (message->kind) {
    case MESSAGE_APPEND:
        put_append(buffer, &message->append);
        break;
    case MESSAGE_APPEND_RESULT:
        buffer_put_varint(buffer, message->append_result.term);
        buffer_put_varint(buffer, message->append_result.rejected);
        buffer_put_varint(buffer, message->append_result.last_index);
        break;
    case MESSAGE_VOTE:
        put_vote(buffer, &message->vote);
        break;
    case MESSAGE_VOTE_RESULT:
        put_vote_result(buffer, &message->vote_result);
        break;
    case MESSAGE_TIMEOUT_NOW:
        buffer_put_varint(buffer, message->timeout_now.term);
        buffer_put_varint(buffer, message->timeout_now.last_index);
        buffer_put_varint(buffer, message->timeout_now.last_term);
        break;
    case MESSAGE_SNAPSHOT:
        put_snapshot(buffer, &message->snapshot);
        break;
    case MESSAGE_SNAPSHOT_RESULT:
        buffer_put_varint(buffer, message->snapshot_result.term);
        buffer_put_varint(buffer, message->snapshot_result.index);
        buffer_put_varint(buffer, message->snapshot_result.received);
        break;
    }
    assert(buffer->size - start <= RAFT_CODEC_SIZE_MAX);
}

/* --- Decoding. --- */

/* A term, an index or a size. */
static uint64_t get_number(struct reader *reader) {
    uint64_t number = reader_get_varint(reader);
    if (number >= NUMBER_END) {
        reader->failed = true;
        return 0;
    }
    return number;
}

static uint8_t get_flags(struct reader *reader, uint8_t known) {
    uint8_t flags = reader_get_u8(reader);
    if ((flags & ~known) != 0) {
        reader->failed = true;
    }
    return flags;
}

static void require(struct reader *reader, bool condition) {
    if (!condition) {
        reader->failed = true;
    }
}

/* Index 0 is the place before the first entry; it and nothing else has term 0. */
static bool is_position(uint64_t index, uint64_t term, uint64_t term_max) {
    return (index == 0) == (term == 0) && term <= term_max;
}

static bool is_configuration(struct bytes bytes) {
    struct raft_config config;
    return raft_config_decode(bytes, &config) == STATUS_OK;
}

static bool is_payload(uint8_t type, struct bytes payload) {
    switch (type) {
    case LOG_COMMAND:
        return true;
    case LOG_BARRIER:
        return payload.size == 0;
    case LOG_CHANGE:
        return is_configuration(payload);
    default:
        return false;
    }
}

/* NULL, and the reader has failed: it cannot be an entry behind one of term `term_min`. */
static struct log_item *get_item(struct reader *reader, uint64_t index, uint64_t term_min,
                                 uint64_t term_max) {
    uint8_t type = reader_get_u8(reader);
    uint64_t term = get_number(reader);
    struct bytes payload = reader_get_bytes(reader);
    require(reader, term > 0 && term >= term_min && term <= term_max);
    require(reader, is_payload(type, payload));
    if (reader->failed) {
        return NULL;
    }
    uint8_t *bytes = NULL;
    if (payload.size > 0) {
        bytes = malloc(payload.size);
        if (bytes == NULL) {
            abort();
        }
        memcpy(bytes, payload.data, payload.size);
    }
    return log_item_create((enum log_item_type)type, index, term, bytes, payload.size);
}

static void get_items(struct reader *reader, uint64_t n, struct message_append *append) {
    require(reader, n <= MESSAGE_ENTRIES_MAX && n <= reader_left(reader) / ENTRY_SIZE_MIN);
    if (reader->failed || n == 0) {
        return;
    }
    append->items = malloc(n * sizeof *append->items);
    if (append->items == NULL) {
        abort();
    }
    uint64_t term = append->prev_term;
    while (append->n_entries < n) {
        struct log_item *item =
            get_item(reader, append->prev_index + 1 + append->n_entries, term, append->term);
        if (item == NULL) {
            return;
        }
        term = item->term;
        append->items[append->n_entries++] = item;
    }
}

static void get_append(struct reader *reader, struct message_append *append) {
    append->term = get_number(reader);
    append->prev_index = get_number(reader);
    append->prev_term = get_number(reader);
    append->commit = get_number(reader);
    uint64_t n = reader_get_varint(reader);
    require(reader, append->term > 0);
    require(reader, is_position(append->prev_index, append->prev_term, append->term));
    require(reader, append->prev_index < NUMBER_END - MESSAGE_ENTRIES_MAX);
    get_items(reader, n, append);
}

static void get_vote(struct reader *reader, struct message_vote *vote) {
    vote->term = get_number(reader);
    vote->last_index = get_number(reader);
    vote->last_term = get_number(reader);
    uint8_t flags = get_flags(reader, VOTE_FLAGS);
    vote->disrupt_leader = (flags & VOTE_DISRUPTS) != 0;
    vote->is_pre_vote = (flags & VOTE_IS_PRE) != 0;
    require(reader, vote->term > 0);
    require(reader, is_position(vote->last_index, vote->last_term, vote->term));
}

static void get_vote_result(struct reader *reader, struct message_vote_result *result) {
    result->term = get_number(reader);
    uint8_t flags = get_flags(reader, RESULT_FLAGS);
    result->is_granted = (flags & RESULT_GRANTED) != 0;
    result->is_pre_vote = (flags & RESULT_IS_PRE) != 0;
}

static void get_timeout_now(struct reader *reader, struct message_timeout_now *timeout_now) {
    timeout_now->term = get_number(reader);
    timeout_now->last_index = get_number(reader);
    timeout_now->last_term = get_number(reader);
    require(reader, timeout_now->term > 0);
    require(reader,
            is_position(timeout_now->last_index, timeout_now->last_term, timeout_now->term));
}

static void get_configuration(struct reader *reader, struct snapshot_meta *meta) {
    meta->configuration_index = get_number(reader);
    struct bytes configuration = reader_get_bytes(reader);
    require(reader, meta->configuration_index <= meta->index);
    require(reader, configuration.size <= sizeof meta->configuration);
    require(reader, is_configuration(configuration));
    if (!reader->failed) {
        memcpy(meta->configuration, configuration.data, configuration.size);
        meta->configuration_size = configuration.size;
    }
}

static void get_snapshot(struct reader *reader, struct message_snapshot *snapshot) {
    struct snapshot_meta *meta = calloc(1, sizeof *meta);
    if (meta == NULL) {
        abort();
    }
    snapshot->meta = meta;
    snapshot->term = get_number(reader);
    meta->index = get_number(reader);
    meta->term = get_number(reader);
    meta->size = get_number(reader);
    snapshot->offset = get_number(reader);
    require(reader, meta->index > 0 && meta->index < SNAPSHOT_INDEX_END);
    require(reader, is_position(meta->index, meta->term, snapshot->term));
    require(reader, snapshot->offset < meta->size);
    if (snapshot->offset == 0) {
        get_configuration(reader, meta);
    }
    snapshot->chunk = reader_get_bytes(reader);
    require(reader, snapshot->chunk.size <= SNAPSHOT_CHUNK_SIZE);
    require(reader, snapshot->chunk.size <= meta->size - snapshot->offset);
    require(reader, snapshot->chunk.size > 0 || snapshot->offset == 0);
}

static void get_body(struct reader *reader, struct raft_message_view *message) {
    switch (message->kind) {
    case MESSAGE_APPEND:
        get_append(reader, &message->append);
        break;
    case MESSAGE_APPEND_RESULT:
        message->append_result.term = get_number(reader);
        message->append_result.rejected = get_number(reader);
        message->append_result.last_index = get_number(reader);
        break;
    case MESSAGE_VOTE:
        get_vote(reader, &message->vote);
        break;
    case MESSAGE_VOTE_RESULT:
        get_vote_result(reader, &message->vote_result);
        break;
    case MESSAGE_TIMEOUT_NOW:
        get_timeout_now(reader, &message->timeout_now);
        break;
    case MESSAGE_SNAPSHOT:
        get_snapshot(reader, &message->snapshot);
        break;
    case MESSAGE_SNAPSHOT_RESULT:
        message->snapshot_result.term = get_number(reader);
        message->snapshot_result.index = get_number(reader);
        message->snapshot_result.received = get_number(reader);
        require(reader, message->snapshot_result.index > 0);
        break;
    default:
        reader->failed = true;
        break;
    }
}

enum status raft_codec_decode(struct bytes bytes, struct raft_message_view *out_message) {
    if (bytes.size > RAFT_CODEC_SIZE_MAX) {
        return STATUS_MALFORMED;
    }
    struct reader reader;
    reader_init(&reader, bytes);
    struct raft_message_view message = {.kind = (enum raft_message_kind)reader_get_u8(&reader)};
    get_body(&reader, &message);
    if (reader.failed || reader_left(&reader) > 0) {
        raft_codec_clear(&message);
        return STATUS_MALFORMED;
    }
    *out_message = message;
    return STATUS_OK;
}

void raft_codec_clear(struct raft_message_view *message) {
    if (message->kind == MESSAGE_APPEND) {
        for (uint32_t i = 0; i < message->append.n_entries; i++) {
            log_item_release(message->append.items[i]);
        }
        free(message->append.items);
    } else if (message->kind == MESSAGE_SNAPSHOT) {
        free((void *)message->snapshot.meta);
    }
    *message = (struct raft_message_view){.kind = message->kind};
}
