#include "doors/etcd/etcd_response.h"

#include <assert.h>
#include <stddef.h>

/* --- The header. --- */

static void encode_header(struct etcd_identity *identity, int64_t revision) {
    uint8_t *at = identity->header + 2 + identity->ids_size;
    if (revision != 0) {
        *at++ = 3 << 3 | PB_VARINT;
        at = pb_put_varint(at, (uint64_t)revision);
    }
    memcpy(at, identity->term, identity->term_size);
    at += identity->term_size;
    identity->header_size = (size_t)(at - identity->header);
    identity->header[1] = (uint8_t)(identity->header_size - 2);
    identity->revision = revision;
}

void etcd_identity_init(struct etcd_identity *identity, uint64_t cluster_id, uint64_t member_id,
                        uint64_t term) {
    struct pb_writer writer;
    pb_writer_init(&writer, identity->term, sizeof identity->term);
    pb_write_uint64(&writer, 4, term);
    identity->term_size = (size_t)(writer.at - identity->term);
    pb_writer_init(&writer, identity->header + 2, 2 * (size_t)ETCD_HEADER_FIELD_SIZE_MAX);
    pb_write_uint64(&writer, 1, cluster_id);
    pb_write_uint64(&writer, 2, member_id);
    identity->ids_size = (size_t)(writer.at - identity->header - 2);
    /* A message of less than 128 bytes, in field 1. */
    identity->header[0] = 1 << 3 | PB_BYTES;
    encode_header(identity, 0);
}

void etcd_identity_set_revision(struct etcd_identity *identity, int64_t revision) {
    if (revision != identity->revision) {
        encode_header(identity, revision);
    }
}

/* What the identity has ready is of this revision, or none is. */
static bool is_encoded(const struct etcd_header *header) {
    return header->identity != NULL && header->identity->revision == header->revision;
}

static size_t header_body_size(const struct etcd_header *header) {
    size_t size = pb_int64_size(3, header->revision);
    if (header->identity != NULL) {
        size += header->identity->ids_size + header->identity->term_size;
    }
    return size;
}

size_t etcd_header_size(const struct etcd_header *header) {
    return is_encoded(header) ? header->identity->header_size
                              : pb_message_size(1, header_body_size(header));
}

void etcd_header_write(struct pb_writer *writer, const struct etcd_header *header) {
    const struct etcd_identity *identity = header->identity;
    if (is_encoded(header)) {
        pb_write_raw(writer, bytes_of(identity->header, identity->header_size));
        return;
    }
    pb_write_message(writer, 1, header_body_size(header));
    if (identity != NULL) {
        pb_write_raw(writer, bytes_of(identity->header + 2, identity->ids_size));
    }
    pb_write_int64(writer, 3, header->revision);
    if (identity != NULL) {
        pb_write_raw(writer, bytes_of(identity->term, identity->term_size));
    }
}

/* --- Keys. --- */

static size_t record_body_size(const struct record *record, bool keys_only) {
    return pb_bytes_size(1, record_key(record)) + pb_int64_size(2, record->create_revision) +
           pb_int64_size(3, record->mod_revision) + pb_int64_size(4, record->version) +
           (keys_only ? 0 : pb_bytes_size(5, record_value(record))) +
           pb_int64_size(6, record->lease_id);
}

static size_t record_size(uint32_t field, const struct record *record, bool keys_only) {
    return pb_message_size(field, record_body_size(record, keys_only));
}

static void record_write(struct pb_writer *writer, uint32_t field, const struct record *record,
                         bool keys_only) {
    pb_write_message(writer, field, record_body_size(record, keys_only));
    pb_write_bytes(writer, 1, record_key(record));
    pb_write_int64(writer, 2, record->create_revision);
    pb_write_int64(writer, 3, record->mod_revision);
    pb_write_int64(writer, 4, record->version);
    if (!keys_only) {
        pb_write_bytes(writer, 5, record_value(record));
    }
    pb_write_int64(writer, 6, record->lease_id);
}

/* --- KV. --- */

size_t etcd_range_record_size(const struct record *record, bool keys_only) {
    return record_size(2, record, keys_only);
}

void etcd_range_record_write(struct pb_writer *writer, const struct record *record,
                             bool keys_only) {
    record_write(writer, 2, record, keys_only);
}

size_t etcd_range_tail_size(const struct range_outcome *outcome) {
    return pb_bool_size(3, outcome->more) + pb_int64_size(4, outcome->count);
}

void etcd_range_tail_write(struct pb_writer *writer, const struct range_outcome *outcome) {
    pb_write_bool(writer, 3, outcome->more);
    pb_write_int64(writer, 4, outcome->count);
}

size_t etcd_range_size(const struct etcd_header *header, const struct range_outcome *outcome,
                       bool keys_only) {
    size_t size = etcd_header_size(header);
    for (size_t i = 0; i < outcome->n_records; i++) {
        size += record_size(2, outcome->records[i], keys_only);
    }
    return size + etcd_range_tail_size(outcome);
}

void etcd_range_write(struct pb_writer *writer, const struct etcd_header *header,
                      const struct range_outcome *outcome, bool keys_only) {
    etcd_header_write(writer, header);
    for (size_t i = 0; i < outcome->n_records; i++) {
        record_write(writer, 2, outcome->records[i], keys_only);
    }
    etcd_range_tail_write(writer, outcome);
}

size_t etcd_put_size(const struct etcd_header *header, const struct put_outcome *outcome) {
    size_t size = etcd_header_size(header);
    return outcome->previous == NULL ? size : size + record_size(2, outcome->previous, false);
}

void etcd_put_write(struct pb_writer *writer, const struct etcd_header *header,
                    const struct put_outcome *outcome) {
    etcd_header_write(writer, header);
    if (outcome->previous != NULL) {
        record_write(writer, 2, outcome->previous, false);
    }
}

size_t etcd_delete_size(const struct etcd_header *header, const struct delete_outcome *outcome) {
    size_t size = etcd_header_size(header) + pb_int64_size(2, outcome->deleted);
    for (size_t i = 0; i < outcome->n_previous; i++) {
        size += record_size(3, outcome->previous[i], false);
    }
    return size;
}

void etcd_delete_write(struct pb_writer *writer, const struct etcd_header *header,
                       const struct delete_outcome *outcome) {
    etcd_header_write(writer, header);
    pb_write_int64(writer, 2, outcome->deleted);
    for (size_t i = 0; i < outcome->n_previous; i++) {
        record_write(writer, 3, outcome->previous[i], false);
    }
}

/* --- Transactions. --- */

static const struct operation *branch_of(const struct txn_request *shape,
                                         const struct txn_outcome *outcome) {
    if (shape == NULL) {
        return NULL;
    }
    assert(outcome->n_outcomes == (outcome->succeeded ? shape->n_success : shape->n_failure));
    return outcome->succeeded ? shape->success : shape->failure;
}

/* The field of ResponseOp that answers an operation. */
static uint32_t answer_field(enum operation_type type) {
    switch (type) {
    case OPERATION_RANGE:
        return 1;
    case OPERATION_PUT:
        return 2;
    case OPERATION_DELETE:
        return 3;
    case OPERATION_TXN:
        return 4;
    }
    return 0;
}

/* Parts of an answer carry the revision alone, nested transactions an empty header: etcd's way. */
static struct etcd_header part_header(const struct operation_outcome *outcome) {
    return (struct etcd_header){.revision = outcome->type == OPERATION_TXN ? 0 : outcome->revision};
}

static size_t answer_size(const struct operation_outcome *outcome, const struct operation *shape) {
    struct etcd_header header = part_header(outcome);
    switch (outcome->type) {
    case OPERATION_RANGE:
        return etcd_range_size(&header, &outcome->range, shape != NULL && shape->range.keys_only);
    case OPERATION_PUT:
        return etcd_put_size(&header, &outcome->put);
    case OPERATION_DELETE:
        return etcd_delete_size(&header, &outcome->delete);
    case OPERATION_TXN:
        return etcd_txn_size(&header, &outcome->txn, shape != NULL ? &shape->txn : NULL);
    }
    return 0;
}

static void answer_write(struct pb_writer *writer, const struct operation_outcome *outcome,
                         const struct operation *shape) {
    struct etcd_header header = part_header(outcome);
    switch (outcome->type) {
    case OPERATION_RANGE:
        etcd_range_write(writer, &header, &outcome->range, shape != NULL && shape->range.keys_only);
        break;
    case OPERATION_PUT:
        etcd_put_write(writer, &header, &outcome->put);
        break;
    case OPERATION_DELETE:
        etcd_delete_write(writer, &header, &outcome->delete);
        break;
    case OPERATION_TXN:
        etcd_txn_write(writer, &header, &outcome->txn, shape != NULL ? &shape->txn : NULL);
        break;
    }
}

size_t etcd_txn_size(const struct etcd_header *header, const struct txn_outcome *outcome,
                     const struct txn_request *shape) {
    const struct operation *branch = branch_of(shape, outcome);
    size_t size = etcd_header_size(header) + pb_bool_size(2, outcome->succeeded);
    for (size_t i = 0; i < outcome->n_outcomes; i++) {
        const struct operation_outcome *one = &outcome->outcomes[i];
        size_t answer = answer_size(one, branch != NULL ? &branch[i] : NULL);
        size += pb_message_size(3, pb_message_size(answer_field(one->type), answer));
    }
    return size;
}

void etcd_txn_write(struct pb_writer *writer, const struct etcd_header *header,
                    const struct txn_outcome *outcome, const struct txn_request *shape) {
    const struct operation *branch = branch_of(shape, outcome);
    etcd_header_write(writer, header);
    pb_write_bool(writer, 2, outcome->succeeded);
    for (size_t i = 0; i < outcome->n_outcomes; i++) {
        const struct operation_outcome *one = &outcome->outcomes[i];
        const struct operation *one_shape = branch != NULL ? &branch[i] : NULL;
        uint32_t field = answer_field(one->type);
        size_t answer = answer_size(one, one_shape);
        pb_write_message(writer, 3, pb_message_size(field, answer));
        pb_write_message(writer, field, answer);
        answer_write(writer, one, one_shape);
    }
}

/* --- Watch. --- */

static struct bytes text_bytes(const char *text) {
    return text == NULL ? (struct bytes){0} : bytes_from_text(text);
}

size_t etcd_watch_size(const struct etcd_watch_response *response) {
    return etcd_header_size(&response->header) + pb_int64_size(2, response->watch_id) +
           pb_bool_size(3, response->created) + pb_bool_size(4, response->canceled) +
           pb_int64_size(5, response->compact_revision) +
           pb_bytes_size(6, text_bytes(response->cancel_reason)) +
           pb_bool_size(7, response->fragment);
}

void etcd_watch_write(struct pb_writer *writer, const struct etcd_watch_response *response) {
    etcd_header_write(writer, &response->header);
    pb_write_int64(writer, 2, response->watch_id);
    pb_write_bool(writer, 3, response->created);
    pb_write_bool(writer, 4, response->canceled);
    pb_write_int64(writer, 5, response->compact_revision);
    pb_write_bytes(writer, 6, text_bytes(response->cancel_reason));
    pb_write_bool(writer, 7, response->fragment);
}

static size_t event_body_size(const struct record *record, const struct record *previous) {
    return pb_bool_size(1, record_is_tombstone(record)) + record_size(2, record, false) +
           (previous == NULL ? 0 : record_size(3, previous, false));
}

size_t etcd_event_size(const struct record *record, const struct record *previous) {
    return pb_message_size(11, event_body_size(record, previous));
}

void etcd_event_write(struct pb_writer *writer, const struct record *record,
                      const struct record *previous) {
    pb_write_message(writer, 11, event_body_size(record, previous));
    pb_write_bool(writer, 1, record_is_tombstone(record)); /* PUT is 0, DELETE is 1 */
    record_write(writer, 2, record, false);
    if (previous != NULL) {
        record_write(writer, 3, previous, false);
    }
}
