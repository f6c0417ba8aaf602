#include "raft/entry_stream.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* At most, as the codec writes them: type, term and length of an entry; all else of the message. */
enum { ENTRY_OVERHEAD = 20, APPEND_OVERHEAD = 64 };

struct batch {
    struct log_item *items[MESSAGE_ENTRIES_MAX]; /* borrowed */
    uint32_t n;
    size_t bytes;
};

enum gathered { GATHERED, GATHERED_NO_ROOM, GATHERED_NOT_IN_MEMORY };

void entry_stream_init(struct entry_stream *stream, const struct raft_sender_calls *calls,
                       void *data, uint64_t to_id) {
    memset(stream, 0, sizeof *stream);
    stream->calls = calls;
    stream->data = data;
    stream->to_id = to_id;
}

static void drop_items(struct entry_stream *stream) {
    for (size_t i = stream->n_items_sent; i < stream->n_items; i++) {
        log_item_release(stream->items[i]);
    }
    free(stream->items);
    stream->items = NULL;
    stream->n_items = 0;
    stream->n_items_sent = 0;
}

void entry_stream_clear(struct entry_stream *stream) {
    drop_items(stream);
}

void entry_stream_stop(struct entry_stream *stream) {
    drop_items(stream);
    stream->is_open = false;
    stream->is_read_stale = stream->is_reading;
    stream->first_flight = 0;
    stream->n_flights = 0;
    stream->flight_bytes = 0;
}

static void begin(struct entry_stream *stream, const struct message_append *append,
                  uint64_t now_ms) {
    entry_stream_stop(stream);
    stream->is_open = true;
    stream->term = append->term;
    stream->start = append->prev_index;
    stream->next = append->prev_index + 1;
    stream->prev_term = append->prev_term;
    stream->last = append->prev_index + append->n_entries;
    stream->commit = append->commit;
    stream->acknowledged = append->prev_index;
    stream->progress_ms = now_ms;
}

static bool is_in_flight(const struct entry_stream *stream) {
    return stream->acknowledged + 1 < stream->next;
}

/* What was sent was lost on the way, or the member does not answer. */
static bool is_stalled(const struct entry_stream *stream, uint64_t now_ms) {
    return is_in_flight(stream) && now_ms - stream->progress_ms >= STREAM_STALL_MS;
}

/* --- Sending. --- */

static struct log_item *item_at(const struct entry_stream *stream, uint64_t index) {
    size_t place = stream->n_items_sent + (size_t)(index - stream->next);
    if (place < stream->n_items) {
        return stream->items[place];
    }
    return stream->calls->item(stream->data, index);
}

/* An entry that is larger than any message goes alone, when the link has as much room as a link of
 * any size has at some time. */
static bool has_room_for(const struct batch *batch, const struct log_item *item, size_t bytes_max,
                         size_t room) {
    size_t bytes = batch->bytes + item->size + ENTRY_OVERHEAD;
    if (batch->n == 0) {
        return bytes <= room || room >= MESSAGE_APPEND_BYTES_MAX;
    }
    return bytes <= room && bytes <= bytes_max;
}

static bool is_confirmed(const struct entry_stream *stream) {
    return stream->acknowledged > stream->start;
}

static enum gathered gather(const struct entry_stream *stream, size_t room, struct batch *batch) {
    size_t bytes_max = is_confirmed(stream) ? MESSAGE_APPEND_BYTES_MAX : STREAM_FIRST_BYTES;
    batch->n = 0;
    batch->bytes = APPEND_OVERHEAD;
    while (batch->n < MESSAGE_ENTRIES_MAX && stream->next + batch->n <= stream->last) {
        struct log_item *item = item_at(stream, stream->next + batch->n);
        if (item == NULL) {
            return batch->n > 0 ? GATHERED : GATHERED_NOT_IN_MEMORY;
        }
        assert(item->index == stream->next + batch->n);
        if (!has_room_for(batch, item, bytes_max, room)) {
            return batch->n > 0 ? GATHERED : GATHERED_NO_ROOM;
        }
        batch->items[batch->n++] = item;
        batch->bytes += item->size + ENTRY_OVERHEAD;
    }
    return GATHERED;
}

static bool send_append(struct entry_stream *stream, struct log_item **items, uint32_t n,
                        uint64_t now_ms) {
    struct raft_message_view message = {.kind = MESSAGE_APPEND,
                                        .append = {.term = stream->term,
                                                   .prev_index = stream->next - 1,
                                                   .prev_term = stream->prev_term,
                                                   .commit = stream->commit,
                                                   .n_entries = n,
                                                   .items = items}};
    if (!stream->calls->send(stream->data, stream->to_id, &message)) {
        return false;
    }
    stream->sent_ms = now_ms;
    return true;
}

static void advance(struct entry_stream *stream, const struct batch *batch, uint64_t now_ms) {
    if (!is_in_flight(stream)) {
        stream->progress_ms = now_ms;
    }
    stream->prev_term = batch->items[batch->n - 1]->term;
    stream->next += batch->n;
    for (uint32_t i = 0; i < batch->n && stream->n_items_sent < stream->n_items; i++) {
        log_item_release(stream->items[stream->n_items_sent++]);
    }
    if (stream->n_items_sent == stream->n_items) {
        drop_items(stream);
    }
    size_t place = (stream->first_flight + stream->n_flights++) % STREAM_MESSAGES_MAX;
    stream->flights[place] =
        (struct stream_flight){.last = stream->next - 1, .bytes = batch->bytes};
    stream->flight_bytes += batch->bytes;
}

static void request_read(struct entry_stream *stream) {
    if (stream->is_reading) {
        return;
    }
    stream->is_reading = true;
    stream->is_read_stale = false;
    stream->calls->read_log(stream->data, stream->to_id, stream->next, stream->last,
                            is_confirmed(stream) ? STREAM_READ_BYTES : STREAM_FIRST_BYTES);
}

static bool must_wait(const struct entry_stream *stream) {
    return (!is_confirmed(stream) && is_in_flight(stream)) ||
           stream->n_flights == STREAM_MESSAGES_MAX || stream->flight_bytes >= STREAM_WINDOW_BYTES;
}

void entry_stream_pump(struct entry_stream *stream, uint64_t now_ms) {
    struct batch batch;
    while (stream->is_open && stream->next <= stream->last && !must_wait(stream)) {
        size_t room = stream->calls->room(stream->data, stream->to_id);
        enum gathered gathered = gather(stream, room, &batch);
        if (gathered == GATHERED_NOT_IN_MEMORY) {
            request_read(stream);
            return;
        }
        if (gathered == GATHERED_NO_ROOM) {
            /* What was sent is still waiting in the link: it is slow, not lost. */
            stream->progress_ms = now_ms;
            return;
        }
        if (!send_append(stream, batch.items, batch.n, now_ms)) {
            return;
        }
        advance(stream, &batch, now_ms);
    }
}

/* --- Events. --- */

static bool continues(const struct entry_stream *stream, const struct message_append *append,
                      uint64_t now_ms) {
    return stream->is_open && append->term == stream->term && append->prev_index >= stream->start &&
           append->prev_index <= stream->last && !is_stalled(stream, now_ms);
}

void entry_stream_post(struct entry_stream *stream, const struct message_append *append,
                       uint64_t now_ms) {
    assert(append->n_entries > 0);
    uint64_t last = append->prev_index + append->n_entries;
    bool is_repeat = false;
    if (!continues(stream, append, now_ms)) {
        begin(stream, append, now_ms);
    } else {
        is_repeat = last <= stream->last;
        stream->last = is_repeat ? stream->last : last;
        stream->commit = append->commit > stream->commit ? append->commit : stream->commit;
    }
    uint64_t next = stream->next;
    entry_stream_pump(stream, now_ms);
    /* It follows what was sent before it on the same link, so a member that gets all of it accepts
     * it too. */
    if (stream->next == next && (is_repeat || now_ms - stream->sent_ms >= STREAM_QUIET_MS)) {
        (void)send_append(stream, NULL, 0, now_ms);
    }
}

void entry_stream_note(struct entry_stream *stream, const struct message_append *append,
                       uint64_t now_ms) {
    stream->sent_ms = now_ms;
    if (!stream->is_open) {
        return;
    }
    if (append->term != stream->term) {
        entry_stream_stop(stream);
    } else if (append->commit > stream->commit) {
        stream->commit = append->commit;
    }
}

static void keep_items(struct entry_stream *stream, struct log_item **items, size_t n) {
    assert(stream->n_items == 0);
    stream->items = malloc(n * sizeof *items);
    if (stream->items == NULL) {
        abort();
    }
    memcpy(stream->items, items, n * sizeof *items);
    stream->n_items = n;
}

void entry_stream_read_done(struct entry_stream *stream, struct log_item **items, size_t n,
                            uint64_t now_ms) {
    assert(stream->is_reading);
    stream->is_reading = false;
    bool is_wanted = stream->is_open && !stream->is_read_stale;
    if (is_wanted && n == 0) {
        /* Raft finds by itself that they were trimmed, and sends a snapshot. */
        entry_stream_stop(stream);
        return;
    }
    if (is_wanted && items[0]->index == stream->next) {
        keep_items(stream, items, n);
    } else {
        for (size_t i = 0; i < n; i++) {
            log_item_release(items[i]);
        }
    }
    entry_stream_pump(stream, now_ms);
}

static void acknowledge(struct entry_stream *stream, uint64_t index, uint64_t now_ms) {
    if (index >= stream->next) {
        index = stream->next - 1;
    }
    if (index <= stream->acknowledged) {
        return;
    }
    stream->acknowledged = index;
    stream->progress_ms = now_ms;
    while (stream->n_flights > 0 && stream->flights[stream->first_flight].last <= index) {
        stream->flight_bytes -= stream->flights[stream->first_flight].bytes;
        stream->first_flight = (stream->first_flight + 1) % STREAM_MESSAGES_MAX;
        stream->n_flights--;
    }
}

bool entry_stream_admit(struct entry_stream *stream, const struct message_append_result *result,
                        uint64_t now_ms) {
    if (!stream->is_open || result->term != stream->term) {
        return true;
    }
    if (result->rejected == 0) {
        acknowledge(stream, result->last_index, now_ms);
        entry_stream_pump(stream, now_ms);
        return true;
    }
    /* Something overtook the stream, or followed a first message that was rejected, of which its
     * own rejection tells. */
    bool is_on_its_way = result->rejected > stream->start && result->rejected <= stream->last &&
                         stream->acknowledged < stream->last;
    return !is_on_its_way || is_stalled(stream, now_ms);
}

bool entry_stream_is_live(const struct entry_stream *stream) {
    /* A link that is full has no room either, but something is on it. */
    return stream->is_open &&
           (is_in_flight(stream) || stream->calls->room(stream->data, stream->to_id) > 0);
}
