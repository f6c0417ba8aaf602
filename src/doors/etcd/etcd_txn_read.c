#include "doors/etcd/etcd_txn_read.h"

#include "core/snapshot.h"
#include "core/txn.h"
#include "doors/etcd/etcd_long_read.h"
#include "doors/etcd/etcd_txn.h"

#include <assert.h>

enum { KEPT_UNCOUNTED_MAX = 16 * 1024 /* larger messages count as held by the connection */ };

struct txn_read {
    struct etcd_long_read read; /* must be first */
    struct command command;
    struct txn_outcome outcome;
};

static struct txn_read *txn_read_of(struct etcd_long_read *read) {
    return list_entry(read, struct txn_read, read);
}

static enum status measure(struct etcd_long_read *read, size_t *out_size) {
    struct txn_read *txn = txn_read_of(read);
    enum status status = txn_read_view(snapshot_view_keys(read->scan.view), KEY_SPACE_ETCD,
                                       &txn->command.txn, &read->arena, &txn->outcome);
    if (status == STATUS_OK) {
        *out_size = etcd_txn_size(&read->header, &txn->outcome, &txn->command.txn);
    }
    return status;
}

/* All of it: the work of a transaction is bounded. */
static void write_all(struct etcd_long_read *read) {
    const struct txn_read *txn = txn_read_of(read);
    struct pb_writer writer;
    etcd_long_read_reserve(read, read->size, &writer);
    etcd_txn_write(&writer, &read->header, &txn->outcome, &txn->command.txn);
    etcd_long_read_commit(read, &writer);
}

static const struct etcd_long_read_kind txn_read_kind = {
    .size = sizeof(struct txn_read), .measure = measure, .write = write_all, .is_whole = true};

void etcd_txn_read_start(struct grpc_call *call, struct bytes message,
                         const struct key_range *ranges, size_t n_ranges) {
    struct etcd_long_read *read = etcd_long_read_create(call, &txn_read_kind);
    if (read == NULL) {
        return;
    }
    if (message.size > KEPT_UNCOUNTED_MAX && !grpc_call_hold(call, message.size)) {
        etcd_long_read_cancel(read, STATUS_TOO_MANY_REQUESTS);
        return;
    }
    /* The worker's: it may still read when the client has left. */
    struct bytes kept =
        bytes_of(arena_copy(&read->arena, message.data, message.size), message.size);
    bool ignored;
    const struct etcd_error *error =
        etcd_txn_request(kept, &read->arena, &txn_read_of(read)->command, &ignored);
    assert(error == NULL); /* it was read once already */
    etcd_long_read_start(read, ranges, n_ranges);
}
