/* Range over many keys, or with a large answer. */
#include "doors/etcd/etcd_range_read.h"

#include "core/snapshot.h"
#include "doors/etcd/etcd_long_read.h"

struct range_read {
    struct etcd_long_read read; /* must be first */
    struct range_request request;
    struct range_outcome outcome;
    size_t n_written;
};

static struct range_read *range_read_of(struct etcd_long_read *read) {
    return list_entry(read, struct range_read, read);
}

static enum status measure(struct etcd_long_read *read, size_t *out_size) {
    struct range_read *range = range_read_of(read);
    struct key_work work = {.left = SIZE_MAX};
    enum status status = key_view_range(snapshot_view_keys(read->scan.view), KEY_SPACE_ETCD,
                                        &range->request, &work, &read->arena, &range->outcome);
    if (status == STATUS_OK) {
        *out_size = etcd_range_size(&read->header, &range->outcome, range->request.keys_only);
    }
    return status;
}

static void write_header(struct etcd_long_read *read) {
    struct pb_writer writer;
    etcd_long_read_reserve(read, etcd_header_size(&read->header), &writer);
    etcd_header_write(&writer, &read->header);
    etcd_long_read_commit(read, &writer);
}

static void write_tail(struct etcd_long_read *read, const struct range_outcome *outcome) {
    struct pb_writer writer;
    etcd_long_read_reserve(read, etcd_range_tail_size(outcome), &writer);
    etcd_range_tail_write(&writer, outcome);
    etcd_long_read_commit(read, &writer);
}

static void write_part(struct etcd_long_read *read) {
    struct range_read *range = range_read_of(read);
    const struct range_outcome *outcome = &range->outcome;
    bool keys_only = range->request.keys_only;
    if (read->sent == 0) {
        write_header(read);
    }
    while (range->n_written < outcome->n_records && read->part.size < ETCD_LONG_READ_PART_SIZE) {
        const struct record *record = outcome->records[range->n_written++];
        struct pb_writer writer;
        etcd_long_read_reserve(read, etcd_range_record_size(record, keys_only), &writer);
        etcd_range_record_write(&writer, record, keys_only);
        etcd_long_read_commit(read, &writer);
    }
    if (range->n_written == outcome->n_records) {
        write_tail(read, outcome);
    }
}

static const struct etcd_long_read_kind range_read_kind = {
    .size = sizeof(struct range_read), .measure = measure, .write = write_part};

static struct bytes keep(struct arena *arena, struct bytes bytes) {
    uint8_t *copy = arena_alloc(arena, bytes.size + 1);
    memcpy(copy, bytes.size > 0 ? bytes.data : (const uint8_t *)"", bytes.size);
    return bytes_of(copy, bytes.size);
}

void etcd_range_read_start(struct grpc_call *call, const struct range_request *request) {
    struct etcd_long_read *read = etcd_long_read_create(call, &range_read_kind);
    if (read == NULL) {
        return;
    }
    struct range_read *range = range_read_of(read);
    range->request = *request;
    range->request.key = keep(&read->arena, request->key);
    range->request.range_end = keep(&read->arena, request->range_end);
    const struct key_range wanted = {KEY_SPACE_ETCD, request->key, request->range_end};
    etcd_long_read_start(read, &wanted, 1);
}
