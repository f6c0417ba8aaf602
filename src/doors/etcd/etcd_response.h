/*
 * From outcomes of core to the bytes of etcd's answers. For every message a function that measures
 * and one that writes exactly as many bytes. Pure: no network, no state.
 */
#ifndef LEASED_DOORS_ETCD_ETCD_RESPONSE_H
#define LEASED_DOORS_ETCD_ETCD_RESPONSE_H

#include "base/pb_writer.h"
#include "core/key_store.h"
#include "core/operation.h"
#include "core/record.h"

/* Varint fields of 64 bits with tags of one byte: one, and the four of a header behind its head. */
enum { ETCD_HEADER_FIELD_SIZE_MAX = 11, ETCD_HEADER_SIZE_MAX = 2 + 4 * ETCD_HEADER_FIELD_SIZE_MAX };

/* What is the same in the header of every answer, encoded in advance because every answer begins
 * with it: cluster_id, member_id and term. With the revision that was asked for last it is a whole
 * header, as many answers have the same one. */
struct etcd_identity {
    size_t ids_size; /* 0: not initialised */
    size_t term_size;
    uint8_t term[ETCD_HEADER_FIELD_SIZE_MAX];
    int64_t revision; /* of the header */
    size_t header_size;
    uint8_t header[ETCD_HEADER_SIZE_MAX]; /* with the ids, whatever the revision */
};
void etcd_identity_init(struct etcd_identity *identity, uint64_t cluster_id, uint64_t member_id,
                        uint64_t term);
/* The header for this revision is made, if it is not there already. */
void etcd_identity_set_revision(struct etcd_identity *identity, int64_t revision);

struct etcd_header {
    const struct etcd_identity *identity; /* NULL in parts of a transaction's answer */
    int64_t revision;                     /* 0: left out */
};

/* A message that begins with a header in field 1, as all answers do. */
size_t etcd_header_size(const struct etcd_header *header);
void etcd_header_write(struct pb_writer *writer, const struct etcd_header *header);

size_t etcd_range_size(const struct etcd_header *header, const struct range_outcome *outcome,
                       bool keys_only);
void etcd_range_write(struct pb_writer *writer, const struct etcd_header *header,
                      const struct range_outcome *outcome, bool keys_only);
/* The same in parts: the header, then records, then what follows them. */
size_t etcd_range_record_size(const struct record *record, bool keys_only);
void etcd_range_record_write(struct pb_writer *writer, const struct record *record, bool keys_only);
size_t etcd_range_tail_size(const struct range_outcome *outcome);
void etcd_range_tail_write(struct pb_writer *writer, const struct range_outcome *outcome);

size_t etcd_put_size(const struct etcd_header *header, const struct put_outcome *outcome);
void etcd_put_write(struct pb_writer *writer, const struct etcd_header *header,
                    const struct put_outcome *outcome);

size_t etcd_delete_size(const struct etcd_header *header, const struct delete_outcome *outcome);
void etcd_delete_write(struct pb_writer *writer, const struct etcd_header *header,
                       const struct delete_outcome *outcome);

/* `shape` (may be NULL: keys_only was not asked for) is etcd_txn_shape() of the request, or the
 * request itself. */
size_t etcd_txn_size(const struct etcd_header *header, const struct txn_outcome *outcome,
                     const struct txn_request *shape);
void etcd_txn_write(struct pb_writer *writer, const struct etcd_header *header,
                    const struct txn_outcome *outcome, const struct txn_request *shape);

/* A whole WatchResponse but for its events. */
struct etcd_watch_response {
    struct etcd_header header;
    int64_t watch_id;
    bool created;
    bool canceled;
    bool fragment;
    int64_t compact_revision;
    const char *cancel_reason; /* NULL: none */
};
size_t etcd_watch_size(const struct etcd_watch_response *response);
void etcd_watch_write(struct pb_writer *writer, const struct etcd_watch_response *response);
/* One event as part of a WatchResponse. `previous` may be NULL. */
size_t etcd_event_size(const struct record *record, const struct record *previous);
void etcd_event_write(struct pb_writer *writer, const struct record *record,
                      const struct record *previous);

#endif
