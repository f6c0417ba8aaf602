/* The KV service. */
#include "core/txn.h"
#include "core/txn_estimate.h"
#include "doors/etcd/etcd_call.h"
#include "doors/etcd/etcd_long_read.h"
#include "doors/etcd/etcd_range_read.h"
#include "doors/etcd/etcd_request.h"
#include "doors/etcd/etcd_txn.h"
#include "doors/etcd/etcd_txn_read.h"

#include <assert.h>

/* Answers can be asked for faster than they are taken. */
static bool is_refused_for_size(struct grpc_call *call, size_t size,
                                const struct etcd_error *error) {
    if (size <= ETCD_SHORT_READ_BYTES_MAX ||
        (size <= ETCD_OUTCOME_SIZE_MAX && grpc_call_has_room(call))) {
        return false;
    }
    etcd_error_finish(call, error);
    return true;
}

/* The answer of what has happened, which is told in etcd's words if it cannot be shown: there was
 * room when it was asked for, or it was to be small (is_refused_for_room()). */
static bool outcome_begin(struct grpc_call *call, size_t size, struct pb_writer *writer) {
    return !is_refused_for_size(call, size, &etcd_error_answer_too_large) &&
           etcd_answer_begin(call, size, writer);
}

/* --- Range. --- */

static struct key_range range_of(const struct range_request *range) {
    return (struct key_range){KEY_SPACE_ETCD, range->key, range->range_end};
}

static void answer_range(struct grpc_call *call, const struct range_request *range) {
    struct etcd_door *door = etcd_door_of(call);
    struct range_outcome outcome;
    if (key_store_range_work(etcd_keys(door), KEY_SPACE_ETCD, range) >
        ETCD_SHORT_READ_RECORDS_MAX) {
        etcd_range_read_start(call, range);
        return;
    }
    struct key_work work = {.left = KEY_WORK_TXN_MAX};
    enum status status =
        key_store_range(etcd_keys(door), KEY_SPACE_ETCD, range, &work, &door->arena, &outcome);
    if (status == STATUS_REQUEST_TOO_LARGE) {
        etcd_range_read_start(call, range);
        return;
    }
    if (status != STATUS_OK) {
        etcd_error_finish(call, etcd_error_of(status));
        return;
    }
    struct etcd_header header = etcd_header_now(door);
    struct pb_writer writer;
    size_t size = etcd_range_size(&header, &outcome, range->keys_only);
    if (size > ETCD_SHORT_READ_BYTES_MAX) {
        etcd_range_read_start(call, range);
        return;
    }
    if (etcd_answer_begin(call, size, &writer)) {
        etcd_range_write(&writer, &header, &outcome, range->keys_only);
        etcd_answer_finish(call, &writer);
    }
}

static void range_ready(struct grpc_call *call, struct bytes message) {
    struct etcd_range_request request;
    const struct etcd_error *error = etcd_request_range(message, &request);
    assert(error == NULL); /* it was read once already */
    answer_range(call, &request.range);
    arena_reset(&etcd_door_of(call)->arena);
}

static void on_range(struct grpc_call *call, struct bytes message) {
    if (etcd_call_refused(call)) {
        return;
    }
    struct etcd_range_request request;
    const struct etcd_error *error = etcd_request_range(message, &request);
    if (error != NULL) {
        etcd_error_finish(call, error);
        return;
    }
    struct key_range range = range_of(&request.range);
    if (request.serializable ? etcd_call_may_read_local(call, &range, 1)
                             : etcd_call_may_read(call, message, &range, 1, range_ready)) {
        answer_range(call, &request.range);
        arena_reset(&etcd_door_of(call)->arena);
    }
}

/* --- Put, DeleteRange, Compact. --- */

static void reply_put(struct etcd_call *waiting, const struct outcome *outcome) {
    struct etcd_header header = etcd_header_at(waiting->door, outcome->revision);
    struct pb_writer writer;
    if (outcome_begin(waiting->call, etcd_put_size(&header, &outcome->put), &writer)) {
        etcd_put_write(&writer, &header, &outcome->put);
        etcd_answer_finish(waiting->call, &writer);
    }
}

static void reply_delete(struct etcd_call *waiting, const struct outcome *outcome) {
    struct etcd_header header = etcd_header_at(waiting->door, outcome->revision);
    struct pb_writer writer;
    if (outcome_begin(waiting->call, etcd_delete_size(&header, &outcome->delete), &writer)) {
        etcd_delete_write(&writer, &header, &outcome->delete);
        etcd_answer_finish(waiting->call, &writer);
    }
}

static void reply_compact(struct etcd_call *waiting, const struct outcome *outcome) {
    etcd_answer_header(waiting->call, etcd_header_at(waiting->door, outcome->revision));
}

/* --max-request-bytes. Refused unread, in etcd's words. */
static bool is_too_large(struct grpc_call *call, struct bytes message) {
    if (message.size <= etcd_door_of(call)->options.request_size_max) {
        return false;
    }
    etcd_error_finish(call, etcd_error_of(STATUS_REQUEST_TOO_LARGE));
    return true;
}

/* What a change may answer of what is there, in units of key_work.h. */
static size_t estimate_of(const struct key_store *keys, const struct command *command) {
    size_t work;
    size_t bytes;
    switch (command->type) {
    case COMMAND_PUT:
        return command->put.want_previous ? put_estimate(keys, KEY_SPACE_ETCD, &command->put) : 0;
    case COMMAND_DELETE:
        return command->delete.want_previous
                   ? delete_estimate(keys, KEY_SPACE_ETCD, &command->delete)
                   : 0;
    case COMMAND_TXN:
        txn_estimate_read(keys, KEY_SPACE_ETCD, &command->txn, &work, &bytes);
        return bytes / KEY_WORK_COPIED_BYTES;
    default:
        return 0;
    }
}

/* A client that does not take its answers gets no more large ones. Told before anything changes. */
static bool is_refused_for_room(struct grpc_call *call, const struct command *command) {
    enum { LARGE = ETCD_SHORT_READ_BYTES_MAX / KEY_WORK_COPIED_BYTES };
    if (grpc_call_has_room(call) || estimate_of(etcd_keys(etcd_door_of(call)), command) < LARGE) {
        return false;
    }
    etcd_error_finish(call, etcd_error_of(STATUS_TOO_MANY_REQUESTS));
    return true;
}

static void submit(struct grpc_call *call, struct bytes message,
                   const struct etcd_error *(*read)(struct bytes, struct command *),
                   void (*reply)(struct etcd_call *, const struct outcome *)) {
    struct command command;
    if (etcd_call_refused(call) || is_too_large(call, message)) {
        return;
    }
    const struct etcd_error *error = read(message, &command);
    if (error != NULL) {
        etcd_error_finish(call, error);
    } else if (!is_refused_for_room(call, &command)) {
        (void)etcd_call_submit(call, &command, reply);
    }
}

static void on_put(struct grpc_call *call, struct bytes message) {
    submit(call, message, etcd_request_put, reply_put);
}

static void on_delete_range(struct grpc_call *call, struct bytes message) {
    submit(call, message, etcd_request_delete, reply_delete);
}

static void on_compact(struct grpc_call *call, struct bytes message) {
    submit(call, message, etcd_request_compact, reply_compact);
}

/* --- Txn. --- */

static void answer_txn(struct grpc_call *call, const struct etcd_header *header,
                       const struct txn_outcome *outcome, const struct txn_request *shape) {
    struct pb_writer writer;
    if (outcome_begin(call, etcd_txn_size(header, outcome, shape), &writer)) {
        etcd_txn_write(&writer, header, outcome, shape);
        etcd_answer_finish(call, &writer);
    }
}

static void reply_txn(struct etcd_call *waiting, const struct outcome *outcome) {
    struct etcd_header header = etcd_header_at(waiting->door, outcome->revision);
    answer_txn(waiting->call, &header, &outcome->txn, waiting->shape);
}

/* The ranges of a transaction. */
struct txn_ranges {
    struct key_range *ranges;
    size_t n;
};

static bool operations_name_revisions(const struct operation *operations, size_t n);

static bool names_revisions(const struct txn_request *txn) {
    return operations_name_revisions(txn->success, txn->n_success) ||
           operations_name_revisions(txn->failure, txn->n_failure);
}

static bool operations_name_revisions(const struct operation *operations, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (operations[i].type == OPERATION_TXN ? names_revisions(&operations[i].txn)
                                                : operations[i].range.revision > 0) {
            return true;
        }
    }
    return false;
}

/* Of many keys, or large ones, a worker reads, unless a range names a revision: counting at an old
 * one is cheap with the store's history, which a view does not have. */
static bool is_for_worker(const struct txn_request *txn, size_t work, size_t bytes) {
    return (work > ETCD_SHORT_READ_RECORDS_MAX || bytes > ETCD_SHORT_READ_BYTES_MAX) &&
           !names_revisions(txn);
}

/* A transaction that changes nothing needs no log. */
static void run_txn(struct grpc_call *call, struct bytes message, const struct txn_request *txn,
                    struct txn_ranges reads) {
    struct etcd_door *door = etcd_door_of(call);
    struct txn_outcome outcome;
    size_t work;
    size_t bytes;
    txn_estimate_read(etcd_keys(door), KEY_SPACE_ETCD, txn, &work, &bytes);
    if (is_for_worker(txn, work, bytes)) {
        etcd_txn_read_start(call, message, reads.ranges, reads.n);
        return;
    }
    enum status status =
        service_allow_work(door->service, work)
            ? txn_read(etcd_keys(door), KEY_SPACE_ETCD, txn, &door->arena, &outcome)
            : STATUS_TOO_MANY_REQUESTS;
    if (status != STATUS_OK) {
        etcd_error_finish(call, etcd_error_of(status));
        return;
    }
    struct etcd_header header = etcd_header_now(door);
    size_t size = etcd_txn_size(&header, &outcome, txn);
    if (!service_allow_work(door->service, size / KEY_WORK_COPIED_BYTES)) {
        etcd_error_finish(call, etcd_error_of(STATUS_TOO_MANY_REQUESTS));
    } else if (!is_refused_for_size(call, size, etcd_error_of(STATUS_TOO_MANY_REQUESTS))) {
        answer_txn(call, &header, &outcome, txn);
    }
}

static size_t count_reads(const struct txn_request *txn) {
    size_t n = txn->n_compares;
    const struct operation *branches[] = {txn->success, txn->failure};
    const size_t sizes[] = {txn->n_success, txn->n_failure};
    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; j < sizes[i]; j++) {
            n += branches[i][j].type == OPERATION_TXN ? count_reads(&branches[i][j].txn) : 1;
        }
    }
    return n;
}

/* The ranges of a transaction without writes, compares and both branches alike. Returns the next
 * free place. */
static struct key_range *list_reads(const struct txn_request *txn, struct key_range *at) {
    for (size_t i = 0; i < txn->n_compares; i++) {
        *at++ =
            (struct key_range){KEY_SPACE_ETCD, txn->compares[i].key, txn->compares[i].range_end};
    }
    const struct operation *branches[] = {txn->success, txn->failure};
    const size_t sizes[] = {txn->n_success, txn->n_failure};
    for (size_t i = 0; i < 2; i++) {
        for (size_t j = 0; j < sizes[i]; j++) {
            const struct operation *operation = &branches[i][j];
            if (operation->type == OPERATION_TXN) {
                at = list_reads(&operation->txn, at);
            } else {
                *at++ = range_of(&operation->range);
            }
        }
    }
    return at;
}

static struct txn_ranges reads_of(const struct txn_request *txn, struct arena *arena) {
    struct txn_ranges reads = {.n = count_reads(txn)};
    reads.ranges = arena_alloc(arena, reads.n * sizeof *reads.ranges);
    (void)list_reads(txn, reads.ranges);
    return reads;
}

static void txn_ready(struct grpc_call *call, struct bytes message) {
    struct etcd_door *door = etcd_door_of(call);
    struct command command;
    bool serializable;
    const struct etcd_error *error =
        etcd_txn_request(message, &door->arena, &command, &serializable);
    assert(error == NULL); /* it was read once already */
    run_txn(call, message, &command.txn, reads_of(&command.txn, &door->arena));
    arena_reset(&door->arena);
}

/* It goes without the log, and so without the checks of service_submit(). */
static void read_txn(struct grpc_call *call, struct bytes message, const struct command *command,
                     bool serializable) {
    struct arena *arena = &etcd_door_of(call)->arena;
    const struct etcd_error *error = etcd_error_of(command_check(command));
    if (error != NULL) {
        etcd_error_finish(call, error);
        return;
    }
    struct txn_ranges reads = reads_of(&command->txn, arena);
    if (serializable ? etcd_call_may_read_local(call, reads.ranges, reads.n)
                     : etcd_call_may_read(call, message, reads.ranges, reads.n, txn_ready)) {
        run_txn(call, message, &command->txn, reads);
    }
}

static void on_txn(struct grpc_call *call, struct bytes message) {
    struct etcd_door *door = etcd_door_of(call);
    struct command command;
    bool serializable;
    if (etcd_call_refused(call) || is_too_large(call, message)) {
        return;
    }
    const struct etcd_error *error =
        etcd_txn_request(message, &door->arena, &command, &serializable);
    if (error != NULL) {
        etcd_error_finish(call, error);
    } else if (txn_is_read_only(&command.txn)) {
        read_txn(call, message, &command, serializable);
    } else if (!is_refused_for_room(call, &command)) {
        struct etcd_call *waiting = etcd_call_submit(call, &command, reply_txn);
        if (waiting != NULL && etcd_txn_needs_shape(&command.txn)) {
            waiting->shape = etcd_txn_shape(&command.txn, &waiting->shape_arena);
        }
    }
    arena_reset(&door->arena);
}

static const struct grpc_method methods[] = {
    {.path = "/etcdserverpb.KV/Range",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_range,
     .on_writable = etcd_call_writable,
     .on_close = etcd_call_closed},
    {.path = "/etcdserverpb.KV/Put",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_put,
     .on_close = etcd_call_closed},
    {.path = "/etcdserverpb.KV/DeleteRange",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_delete_range,
     .on_close = etcd_call_closed},
    {.path = "/etcdserverpb.KV/Txn",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_txn,
     .on_writable = etcd_call_writable,
     .on_close = etcd_call_closed},
    {.path = "/etcdserverpb.KV/Compact",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_compact,
     .on_close = etcd_call_closed},
};
const struct etcd_methods etcd_kv_methods = {methods, sizeof methods / sizeof methods[0]};
