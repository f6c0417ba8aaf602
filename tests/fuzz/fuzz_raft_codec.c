/*
 * What members' raft engines say to each other. What decodes must keep the promises of the codec,
 * and come out as the same bytes when it is encoded again: a message has one encoding.
 */
#include "raft/raft_codec.h"
#include "raft/raft_config.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_configuration(struct bytes bytes) {
    struct raft_config config;
    assert(raft_config_decode(bytes, &config) == STATUS_OK);
    assert(config.n <= RAFT_CONFIG_SERVERS_MAX);
}

static void check_append(const struct message_append *append) {
    assert(append->term > 0);
    assert(append->prev_term <= append->term);
    assert(append->n_entries <= MESSAGE_ENTRIES_MAX);
    uint64_t term = append->prev_term;
    for (uint32_t i = 0; i < append->n_entries; i++) {
        const struct log_item *item = append->items[i];
        assert(item->index == append->prev_index + 1 + i);
        assert(item->term >= term);
        assert(item->term <= append->term);
        assert(item->n_references == 1);
        assert(item->type != LOG_BARRIER || item->size == 0);
        if (item->type == LOG_CHANGE) {
            check_configuration(bytes_of(item->bytes, item->size));
        }
        term = item->term;
    }
}

static void check_snapshot(const struct message_snapshot *snapshot) {
    const struct snapshot_meta *meta = snapshot->meta;
    assert(meta->index > 0);
    assert(meta->term > 0);
    assert(meta->term <= snapshot->term);
    assert(snapshot->chunk.size <= SNAPSHOT_CHUNK_SIZE);
    assert(snapshot->offset + snapshot->chunk.size <= meta->size);
    if (snapshot->offset == 0) {
        assert(meta->configuration_size <= sizeof meta->configuration);
        check_configuration(bytes_of(meta->configuration, meta->configuration_size));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct bytes bytes = bytes_of(data, size);
    struct raft_message_view message;
    enum status status = raft_codec_decode(bytes, &message);
    if (status != STATUS_OK) {
        assert(status == STATUS_MALFORMED);
        return 0;
    }
    if (message.kind == MESSAGE_APPEND) {
        check_append(&message.append);
    } else if (message.kind == MESSAGE_SNAPSHOT) {
        check_snapshot(&message.snapshot);
    }
    struct buffer again;
    buffer_init(&again);
    raft_codec_encode(&again, &message);
    assert(bytes_equal(bytes, bytes_of(again.data, again.size)));
    buffer_clear(&again);
    raft_codec_clear(&message);
    return 0;
}
