#include "doors/etcd/etcd_txn.h"

#include "base/pb_reader.h"
#include "doors/etcd/etcd_request.h"

#include <stddef.h>

/* What a request may still make us allocate, and what is known of it so far. */
struct txn_reading {
    struct arena *arena;
    size_t total; /* operations and compares so far, nested ones included */
    unsigned depth;
    bool serializable;
};

static const struct etcd_error *read_txn(struct txn_reading *reading, struct bytes message,
                                         struct txn_request *out_txn);

static bool read_compare_result(int32_t number, enum compare_result *out_result) {
    static const enum compare_result results[] = {COMPARE_EQUAL, COMPARE_GREATER, COMPARE_LESS,
                                                  COMPARE_NOT_EQUAL};
    if (number < 0 || (size_t)number >= sizeof results / sizeof results[0]) {
        return false;
    }
    *out_result = results[number];
    return true;
}

static bool read_compare_target(int32_t number, enum compare_target *out_target) {
    static const enum compare_target targets[] = {COMPARE_VERSION, COMPARE_CREATE, COMPARE_MOD,
                                                  COMPARE_VALUE, COMPARE_LEASE};
    if (number < 0 || (size_t)number >= sizeof targets / sizeof targets[0]) {
        return false;
    }
    *out_target = targets[number];
    return true;
}

/* Which field of the message holds what is compared, by target. */
static uint32_t operand_field(enum compare_target target) {
    switch (target) {
    case COMPARE_VERSION:
        return 4;
    case COMPARE_CREATE:
        return 5;
    case COMPARE_MOD:
        return 6;
    case COMPARE_VALUE:
        return 7;
    case COMPARE_LEASE:
        return 8;
    }
    return 0;
}

static const struct etcd_error *read_compare(struct bytes message, struct compare *out_compare) {
    struct compare compare = {0};
    int32_t result = 0;
    int32_t target = 0;
    uint32_t operand = 0; /* the field of the operand that came last: it is a oneof */
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            result = pb_reader_enum(&reader);
            break;
        case 2:
            target = pb_reader_enum(&reader);
            break;
        case 3:
            compare.key = pb_reader_bytes(&reader);
            break;
        case 4:
        case 5:
        case 6:
        case 8:
            operand = reader.field;
            compare.number = pb_reader_int64(&reader);
            break;
        case 7:
            operand = reader.field;
            compare.value = pb_reader_bytes(&reader);
            break;
        case 64:
            compare.range_end = pb_reader_bytes(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed) {
        return &etcd_error_malformed;
    }
    if (!read_compare_result(result, &compare.result) ||
        !read_compare_target(target, &compare.target)) {
        return &etcd_error_compare;
    }
    /* An operand of another target counts as none: 0, or no bytes. */
    if (operand != operand_field(compare.target)) {
        compare.number = 0;
        compare.value = (struct bytes){0};
    }
    *out_compare = compare;
    return NULL;
}

static const struct etcd_error *read_operation(struct txn_reading *reading, struct bytes message,
                                               struct operation *out_operation) {
    uint32_t kind = 0;
    struct bytes body = {0};
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field >= 1 && reader.field <= 4) {
            kind = reader.field;
            body = pb_reader_bytes(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed) {
        return &etcd_error_malformed;
    }
    struct etcd_range_request range;
    const struct etcd_error *error;
    switch (kind) {
    case 1:
        out_operation->type = OPERATION_RANGE;
        error = etcd_request_range(body, &range);
        if (error == NULL) {
            out_operation->range = range.range;
            reading->serializable &= range.serializable;
        }
        return error;
    case 2:
        out_operation->type = OPERATION_PUT;
        return etcd_request_put_body(body, &out_operation->put);
    case 3:
        out_operation->type = OPERATION_DELETE;
        return etcd_request_delete_body(body, &out_operation->delete);
    case 4:
        out_operation->type = OPERATION_TXN;
        return read_txn(reading, body, &out_operation->txn);
    default:
        return etcd_error_of(STATUS_KEY_NOT_FOUND); /* what etcd says to an empty operation */
    }
}

struct txn_counts {
    size_t compares;
    size_t success;
    size_t failure;
};

/* Counts before anything is allocated, so that a message of tiny parts cannot cost more memory than
 * the largest transaction that would be carried out. */
static const struct etcd_error *count_parts(struct bytes message, struct txn_counts *out_counts) {
    struct txn_counts counts = {0};
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        counts.compares += reader.field == 1;
        counts.success += reader.field == 2;
        counts.failure += reader.field == 3;
        pb_reader_skip(&reader);
    }
    *out_counts = counts;
    return reader.failed ? &etcd_error_malformed : NULL;
}

static bool fits(struct txn_reading *reading, const struct txn_counts *counts) {
    if (counts->compares > COMMAND_TXN_OPERATIONS_MAX ||
        counts->success > COMMAND_TXN_OPERATIONS_MAX ||
        counts->failure > COMMAND_TXN_OPERATIONS_MAX) {
        return false;
    }
    reading->total += counts->compares + counts->success + counts->failure;
    return reading->total <= COMMAND_TXN_TOTAL_MAX && reading->depth < COMMAND_TXN_DEPTH_MAX;
}

static const struct etcd_error *read_parts(struct txn_reading *reading, struct bytes message,
                                           struct txn_request *txn) {
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field < 1 || reader.field > 3) {
            pb_reader_skip(&reader);
            continue;
        }
        struct bytes part = pb_reader_bytes(&reader);
        if (reader.failed) {
            break; /* counted with any wire type, but only bytes are a message */
        }
        const struct etcd_error *error;
        if (reader.field == 1) {
            error = read_compare(part, &txn->compares[txn->n_compares++]);
        } else if (reader.field == 2) {
            error = read_operation(reading, part, &txn->success[txn->n_success++]);
        } else {
            error = read_operation(reading, part, &txn->failure[txn->n_failure++]);
        }
        if (error != NULL) {
            return error;
        }
    }
    return reader.failed ? &etcd_error_malformed : NULL;
}

static const struct etcd_error *read_txn(struct txn_reading *reading, struct bytes message,
                                         struct txn_request *out_txn) {
    struct txn_counts counts;
    const struct etcd_error *error = count_parts(message, &counts);
    if (error != NULL) {
        return error;
    }
    if (!fits(reading, &counts)) {
        return etcd_error_of(STATUS_TOO_MANY_OPERATIONS);
    }
    struct txn_request txn = {
        .compares = arena_calloc(reading->arena, counts.compares, sizeof *txn.compares),
        .success = arena_calloc(reading->arena, counts.success, sizeof *txn.success),
        .failure = arena_calloc(reading->arena, counts.failure, sizeof *txn.failure),
    };
    reading->depth++;
    error = read_parts(reading, message, &txn);
    reading->depth--;
    if (error == NULL) {
        *out_txn = txn;
    }
    return error;
}

const struct etcd_error *etcd_txn_request(struct bytes message, struct arena *arena,
                                          struct command *out_command, bool *out_serializable) {
    struct txn_reading reading = {.arena = arena, .serializable = true};
    struct command command = {.type = COMMAND_TXN};
    const struct etcd_error *error = read_txn(&reading, message, &command.txn);
    if (error == NULL) {
        *out_command = command;
        *out_serializable = reading.serializable;
    }
    return error;
}

static bool branch_needs_shape(const struct operation *operations, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (operations[i].type == OPERATION_RANGE && operations[i].range.keys_only) {
            return true;
        }
        if (operations[i].type == OPERATION_TXN && etcd_txn_needs_shape(&operations[i].txn)) {
            return true;
        }
    }
    return false;
}

bool etcd_txn_needs_shape(const struct txn_request *txn) {
    return branch_needs_shape(txn->success, txn->n_success) ||
           branch_needs_shape(txn->failure, txn->n_failure);
}

static struct operation *branch_shape(const struct operation *operations, size_t n,
                                      struct arena *arena) {
    struct operation *shape = arena_calloc(arena, n, sizeof *shape);
    for (size_t i = 0; i < n; i++) {
        shape[i].type = operations[i].type;
        if (operations[i].type == OPERATION_RANGE) {
            shape[i].range.keys_only = operations[i].range.keys_only;
        } else if (operations[i].type == OPERATION_TXN) {
            shape[i].txn = *etcd_txn_shape(&operations[i].txn, arena);
        }
    }
    return shape;
}

const struct txn_request *etcd_txn_shape(const struct txn_request *txn, struct arena *arena) {
    struct txn_request *shape = arena_calloc(arena, 1, sizeof *shape);
    shape->n_success = txn->n_success;
    shape->success = branch_shape(txn->success, txn->n_success, arena);
    shape->n_failure = txn->n_failure;
    shape->failure = branch_shape(txn->failure, txn->n_failure, arena);
    return shape;
}
