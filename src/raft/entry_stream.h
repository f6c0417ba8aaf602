/*
 * The entries on their way to one member: a cursor that follows what raft wants sent. Entries are
 * taken from the log in memory, or read from disk where they have left it, and cut into messages of
 * bounded size that continue each other. What was sent is not sent again while it may still arrive:
 * raft repeats its request with every heartbeat until the member answers.
 *
 * The first message of a stream is small, and nothing follows before it is accepted: raft may have
 * to step back many times, entry by entry, until it finds where the logs part.
 *
 * Two bounds hold the stream back: the room of the link, and a window of bytes that the member has
 * not acknowledged, so that neither side gathers more than that for a slow disk.
 */
#ifndef LEASED_RAFT_ENTRY_STREAM_H
#define LEASED_RAFT_ENTRY_STREAM_H

#include "raft/raft_sender.h"

enum {
    STREAM_MESSAGES_MAX = 512,              /* not acknowledged */
    STREAM_WINDOW_BYTES = 16 * 1024 * 1024, /* not acknowledged */
    STREAM_READ_BYTES = 1024 * 1024,        /* of one read from disk */
    STREAM_FIRST_BYTES = 16 * 1024,         /* of the first message, or one entry */
    STREAM_STALL_MS = 2000, /* without an acknowledgement: what was sent may be sent again */
    STREAM_QUIET_MS = 20    /* without a message, though raft wants one: an empty one goes */
};

struct stream_flight {
    uint64_t last;
    size_t bytes;
};

struct entry_stream {
    const struct raft_sender_calls *calls;
    void *data;
    uint64_t to_id;
    bool is_open;
    uint64_t term;
    uint64_t start;     /* prev_index of the first message; acknowledged or not */
    uint64_t next;      /* the entry to send next */
    uint64_t prev_term; /* of the entry before it */
    uint64_t last;      /* as far as raft wants it */
    uint64_t commit;
    uint64_t acknowledged;
    uint64_t progress_ms; /* something was acknowledged, or what is in flight began to be */
    uint64_t sent_ms;
    struct stream_flight flights[STREAM_MESSAGES_MAX]; /* a ring */
    size_t first_flight;
    size_t n_flights;
    size_t flight_bytes;
    bool is_reading;
    bool is_read_stale;      /* the stream began anew since */
    struct log_item **items; /* read from disk and not yet sent */
    size_t n_items;
    size_t n_items_sent;
};

void entry_stream_init(struct entry_stream *stream, const struct raft_sender_calls *calls,
                       void *data, uint64_t to_id);
void entry_stream_clear(struct entry_stream *stream);

/* Raft wants these entries sent (n_entries > 0). Something leaves for the member in any case unless
 * something just did: raft counts this as its heartbeat. */
void entry_stream_post(struct entry_stream *stream, const struct message_append *append,
                       uint64_t now_ms);
/* A heartbeat of raft's own leaves: its commit and its term count for the stream too. */
void entry_stream_note(struct entry_stream *stream, const struct message_append *append,
                       uint64_t now_ms);
void entry_stream_pump(struct entry_stream *stream, uint64_t now_ms);
/* Takes over the items and the array's elements; n 0: they are gone. */
void entry_stream_read_done(struct entry_stream *stream, struct log_item **items, size_t n,
                            uint64_t now_ms);
/* May raft see this result? */
bool entry_stream_admit(struct entry_stream *stream, const struct message_append_result *result,
                        uint64_t now_ms);
void entry_stream_stop(struct entry_stream *stream);
/* The link is up, and the member gets what raft wants it to have. */
bool entry_stream_is_live(const struct entry_stream *stream);

#endif
