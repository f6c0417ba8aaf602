#include "core/command.h"

#include <assert.h>

/* Every command starts with its type in one byte; numbers are varints, so that a grant is a dozen
 * bytes and not sixty. The order of the fields is the format: see docs/decisions. */

enum { PUT_WANT_PREVIOUS = 1, PUT_IGNORE_VALUE = 2, PUT_IGNORE_LEASE = 4 };
enum { RANGE_KEYS_ONLY = 1, RANGE_COUNT_ONLY = 2 };
enum { PUT_FLAGS = PUT_WANT_PREVIOUS | PUT_IGNORE_VALUE | PUT_IGNORE_LEASE };
enum { RANGE_FLAGS = RANGE_KEYS_ONLY | RANGE_COUNT_ONLY };

/* One command has one encoding: a bit that we do not know is not guessed at, because a replica
 * that drops it would differ from one that does not. */
static uint8_t decode_flags(struct reader *reader, uint8_t known) {
    uint8_t flags = reader_get_u8(reader);
    if ((flags & ~known) != 0) {
        reader->failed = true;
    }
    return flags;
}

static void encode_range(struct buffer *buffer, const struct range_request *range) {
    buffer_put_bytes(buffer, range->key);
    buffer_put_bytes(buffer, range->range_end);
    buffer_put_zigzag(buffer, range->limit);
    buffer_put_zigzag(buffer, range->revision);
    buffer_put_u8(buffer, (uint8_t)range->order);
    buffer_put_u8(buffer, (uint8_t)range->target);
    buffer_put_u8(buffer, (range->keys_only ? RANGE_KEYS_ONLY : 0) |
                              (range->count_only ? RANGE_COUNT_ONLY : 0));
    buffer_put_zigzag(buffer, range->mod_revision_min);
    buffer_put_zigzag(buffer, range->mod_revision_max);
    buffer_put_zigzag(buffer, range->create_revision_min);
    buffer_put_zigzag(buffer, range->create_revision_max);
}

static void decode_range(struct reader *reader, struct range_request *range) {
    range->key = reader_get_bytes(reader);
    range->range_end = reader_get_bytes(reader);
    range->limit = reader_get_zigzag(reader);
    range->revision = reader_get_zigzag(reader);
    range->order = (enum sort_order)reader_get_u8(reader);
    range->target = (enum sort_target)reader_get_u8(reader);
    uint8_t flags = decode_flags(reader, RANGE_FLAGS);
    range->keys_only = (flags & RANGE_KEYS_ONLY) != 0;
    range->count_only = (flags & RANGE_COUNT_ONLY) != 0;
    range->mod_revision_min = reader_get_zigzag(reader);
    range->mod_revision_max = reader_get_zigzag(reader);
    range->create_revision_min = reader_get_zigzag(reader);
    range->create_revision_max = reader_get_zigzag(reader);
    if (range->order > SORT_DESCENDING || range->target > SORT_BY_VALUE) {
        reader->failed = true;
    }
}

static void encode_put(struct buffer *buffer, const struct put_request *put) {
    buffer_put_u8(buffer, (put->want_previous ? PUT_WANT_PREVIOUS : 0) |
                              (put->ignore_value ? PUT_IGNORE_VALUE : 0) |
                              (put->ignore_lease ? PUT_IGNORE_LEASE : 0));
    buffer_put_bytes(buffer, put->key);
    buffer_put_bytes(buffer, put->value);
    buffer_put_zigzag(buffer, put->lease_id);
}

static void decode_put(struct reader *reader, struct put_request *put) {
    uint8_t flags = decode_flags(reader, PUT_FLAGS);
    put->want_previous = (flags & PUT_WANT_PREVIOUS) != 0;
    put->ignore_value = (flags & PUT_IGNORE_VALUE) != 0;
    put->ignore_lease = (flags & PUT_IGNORE_LEASE) != 0;
    put->key = reader_get_bytes(reader);
    put->value = reader_get_bytes(reader);
    put->lease_id = reader_get_zigzag(reader);
    if (put->key.size == 0) {
        reader->failed = true;
    }
}

static void encode_delete(struct buffer *buffer, const struct delete_request *delete) {
    buffer_put_u8(buffer, delete->want_previous);
    buffer_put_bytes(buffer, delete->key);
    buffer_put_bytes(buffer, delete->range_end);
}

static void decode_delete(struct reader *reader, struct delete_request *delete) {
    delete->want_previous = decode_flags(reader, 1) != 0;
    delete->key = reader_get_bytes(reader);
    delete->range_end = reader_get_bytes(reader);
}

static void encode_compare(struct buffer *buffer, const struct compare *compare) {
    buffer_put_u8(buffer, (uint8_t)compare->result);
    buffer_put_u8(buffer, (uint8_t)compare->target);
    buffer_put_bytes(buffer, compare->key);
    buffer_put_bytes(buffer, compare->range_end);
    if (compare->target == COMPARE_VALUE) {
        buffer_put_bytes(buffer, compare->value);
    } else {
        buffer_put_zigzag(buffer, compare->number);
    }
}

static void decode_compare(struct reader *reader, struct compare *compare) {
    *compare = (struct compare){.result = (enum compare_result)reader_get_u8(reader)};
    compare->target = (enum compare_target)reader_get_u8(reader);
    compare->key = reader_get_bytes(reader);
    compare->range_end = reader_get_bytes(reader);
    if (compare->target == COMPARE_VALUE) {
        compare->value = reader_get_bytes(reader);
    } else {
        compare->number = reader_get_zigzag(reader);
    }
    if (compare->result > COMPARE_NOT_EQUAL || compare->target > COMPARE_LEASE) {
        reader->failed = true;
    }
}

static void encode_txn(struct buffer *buffer, const struct txn_request *txn);

static void encode_operations(struct buffer *buffer, const struct operation *operations, size_t n) {
    buffer_put_varint(buffer, n);
    for (size_t i = 0; i < n; i++) {
        const struct operation *operation = &operations[i];
        buffer_put_u8(buffer, (uint8_t)operation->type);
        switch (operation->type) {
        case OPERATION_RANGE:
            encode_range(buffer, &operation->range);
            break;
        case OPERATION_PUT:
            encode_put(buffer, &operation->put);
            break;
        case OPERATION_DELETE:
            encode_delete(buffer, &operation->delete);
            break;
        case OPERATION_TXN:
            encode_txn(buffer, &operation->txn);
            break;
        }
    }
}

static void encode_txn(struct buffer *buffer, const struct txn_request *txn) {
    buffer_put_varint(buffer, txn->n_compares);
    for (size_t i = 0; i < txn->n_compares; i++) {
        encode_compare(buffer, &txn->compares[i]);
    }
    encode_operations(buffer, txn->success, txn->n_success);
    encode_operations(buffer, txn->failure, txn->n_failure);
}

/* A count of things that take at least one byte each, so that a lying count cannot make us
 * allocate more than the input could hold. */
static size_t decode_count(struct reader *reader) {
    uint64_t n = reader_get_varint(reader);
    if (n > reader_left(reader)) {
        reader->failed = true;
        return 0;
    }
    return (size_t)n;
}

static void decode_txn(struct reader *reader, struct arena *arena, unsigned depth,
                       struct txn_request *txn);

static struct operation *decode_operations(struct reader *reader, struct arena *arena,
                                           unsigned depth, size_t *out_n) {
    size_t n = decode_count(reader);
    if (n > COMMAND_TXN_OPERATIONS_MAX) {
        reader->failed = true;
        n = 0;
    }
    struct operation *operations = arena_calloc(arena, n, sizeof *operations);
    for (size_t i = 0; i < n && !reader->failed; i++) {
        struct operation *operation = &operations[i];
        operation->type = (enum operation_type)reader_get_u8(reader);
        switch (operation->type) {
        case OPERATION_RANGE:
            decode_range(reader, &operation->range);
            break;
        case OPERATION_PUT:
            decode_put(reader, &operation->put);
            break;
        case OPERATION_DELETE:
            decode_delete(reader, &operation->delete);
            break;
        case OPERATION_TXN:
            decode_txn(reader, arena, depth + 1, &operation->txn);
            break;
        default:
            reader->failed = true;
        }
    }
    *out_n = n;
    return operations;
}

static void decode_txn(struct reader *reader, struct arena *arena, unsigned depth,
                       struct txn_request *txn) {
    *txn = (struct txn_request){0};
    if (depth > COMMAND_TXN_DEPTH_MAX) {
        reader->failed = true;
        return;
    }
    size_t n = decode_count(reader);
    if (n > COMMAND_TXN_OPERATIONS_MAX) {
        reader->failed = true;
        return;
    }
    txn->compares = arena_calloc(arena, n, sizeof *txn->compares);
    txn->n_compares = n;
    for (size_t i = 0; i < n && !reader->failed; i++) {
        decode_compare(reader, &txn->compares[i]);
    }
    txn->success = decode_operations(reader, arena, depth, &txn->n_success);
    txn->failure = decode_operations(reader, arena, depth, &txn->n_failure);
}

static void encode_grant(struct buffer *buffer, const struct lease_facts *facts) {
    buffer_put_zigzag(buffer, facts->id);
    buffer_put_varint(buffer, (uint64_t)facts->ttl_ms);
    buffer_put_zigzag(buffer, facts->parent_id);
    buffer_put_u8(buffer, facts->class);
}

static void decode_grant(struct reader *reader, struct lease_facts *facts) {
    *facts = (struct lease_facts){.id = reader_get_zigzag(reader)};
    facts->ttl_ms = (int64_t)reader_get_varint(reader);
    facts->parent_id = reader_get_zigzag(reader);
    facts->class = reader_get_u8(reader);
}

/* Ids ascend, so differences are short. They are taken modulo 2^64, which any pair of ids
 * survives. */
static void encode_ids(struct buffer *buffer, const int64_t *ids, size_t n) {
    uint64_t before = 0;
    buffer_put_varint(buffer, n);
    for (size_t i = 0; i < n; i++) {
        buffer_put_varint(buffer, (uint64_t)ids[i] - before);
        before = (uint64_t)ids[i];
    }
}

static const int64_t *decode_ids(struct reader *reader, struct arena *arena, size_t *out_n) {
    size_t n = decode_count(reader);
    int64_t *ids = arena_calloc(arena, n, sizeof *ids);
    uint64_t before = 0;
    for (size_t i = 0; i < n && !reader->failed; i++) {
        before += reader_get_varint(reader);
        ids[i] = (int64_t)before;
    }
    *out_n = n;
    return ids;
}

/* Leases granted one after the other have epochs one after the other. */
static void encode_epochs(struct buffer *buffer, const uint32_t *epochs, size_t n) {
    uint32_t before = 0;
    for (size_t i = 0; i < n; i++) {
        buffer_put_varint(buffer, (uint32_t)(epochs[i] - before));
        before = epochs[i];
    }
}

static const uint32_t *decode_epochs(struct reader *reader, struct arena *arena, size_t n) {
    uint32_t *epochs = arena_calloc(arena, n, sizeof *epochs);
    uint32_t before = 0;
    for (size_t i = 0; i < n && !reader->failed; i++) {
        uint64_t step = reader_get_varint(reader);
        if (step > UINT32_MAX) {
            reader->failed = true;
        }
        before += (uint32_t)step;
        epochs[i] = before;
    }
    return epochs;
}

void command_encode(struct buffer *buffer, const struct command *command) {
    buffer_put_u8(buffer, (uint8_t)command->type);
    switch (command->type) {
    case COMMAND_PUT:
        encode_put(buffer, &command->put);
        return;
    case COMMAND_DELETE:
        encode_delete(buffer, &command->delete);
        return;
    case COMMAND_TXN:
        encode_txn(buffer, &command->txn);
        return;
    case COMMAND_COMPACT:
        buffer_put_zigzag(buffer, command->compact.revision);
        return;
    case COMMAND_LEASE_GRANT:
        encode_grant(buffer, &command->grant);
        return;
    case COMMAND_LEASE_REVOKE:
        buffer_put_zigzag(buffer, command->revoke.id);
        return;
    case COMMAND_LEASE_EXPIRE:
        buffer_put_varint(buffer, command->expire.term);
        encode_ids(buffer, command->expire.ids, command->expire.n);
        encode_epochs(buffer, command->expire.epochs, command->expire.n);
        return;
    case COMMAND_LEASE_CHECKPOINT:
        buffer_put_varint(buffer, command->checkpoint.term);
        encode_ids(buffer, command->checkpoint.ids, command->checkpoint.n);
        encode_epochs(buffer, command->checkpoint.epochs, command->checkpoint.n);
        for (size_t i = 0; i < command->checkpoint.n; i++) {
            buffer_put_varint(buffer, (uint64_t)command->checkpoint.remaining_ms[i]);
        }
        return;
    case COMMAND_LEASE_SET_TTL:
        buffer_put_zigzag(buffer, command->set_ttl.id);
        buffer_put_varint(buffer, (uint64_t)command->set_ttl.ttl_ms);
        return;
    case COMMAND_ALARM:
        buffer_put_u8(buffer, command->alarm.activate);
        buffer_put_varint(buffer, command->alarm.member_id);
        buffer_put_u8(buffer, (uint8_t)command->alarm.alarm);
        return;
    case COMMAND_BARRIER:
        buffer_put_varint(buffer, command->barrier.term);
        buffer_put_varint(buffer, command->barrier.committed);
        return;
    case COMMAND_MEMBERS_BEGIN:
        buffer_put_u64(buffer, command->members_begin.token_hash);
        member_list_encode(buffer, command->members_begin.members, command->members_begin.n);
        return;
    case COMMAND_MEMBER:
        buffer_put_u8(buffer, (uint8_t)command->member.action);
        member_facts_encode(buffer, command->member.facts);
        return;
    case COMMAND_RULE:
        buffer_put_varint(buffer, command->rule.number);
        buffer_put_bytes(buffer, command->rule.request);
        return;
    case COMMAND_CLUSTER_VERSION:
        buffer_put_varint(buffer, command->cluster_version.version);
        buffer_put_varint(buffer, command->cluster_version.n);
        for (size_t i = 0; i < command->cluster_version.n; i++) {
            buffer_put_u64(buffer, command->cluster_version.member_ids[i]);
        }
        return;
    case COMMAND_AS:
        assert(command->as.command->type != COMMAND_AS);
        caller_encode(buffer, &command->as.caller);
        command_encode(buffer, command->as.command);
        return;
    case COMMAND_AUTH:
        auth_change_encode(buffer, &command->auth);
        return;
    }
    assert(!"command type");
}

static void decode_checkpoint(struct reader *reader, struct arena *arena, struct command *command) {
    command->checkpoint.term = reader_get_varint(reader);
    command->checkpoint.ids = decode_ids(reader, arena, &command->checkpoint.n);
    command->checkpoint.epochs = decode_epochs(reader, arena, command->checkpoint.n);
    int64_t *remaining_ms = arena_calloc(arena, command->checkpoint.n, sizeof *remaining_ms);
    for (size_t i = 0; i < command->checkpoint.n; i++) {
        remaining_ms[i] = (int64_t)reader_get_varint(reader);
    }
    command->checkpoint.remaining_ms = remaining_ms;
}

static void decode_member(struct reader *reader, struct arena *arena, struct command *command) {
    struct member_facts *facts = arena_calloc(arena, 1, sizeof *facts);
    command->member.action = (enum member_action)reader_get_u8(reader);
    if (command->member.action < MEMBER_ADD || command->member.action > MEMBER_PUBLISH) {
        reader->failed = true;
    }
    member_facts_decode(reader, facts);
    command->member.facts = facts;
}

static void decode_rule(struct reader *reader, struct command *command) {
    uint64_t number = reader_get_varint(reader);
    if (number > UINT32_MAX) {
        reader->failed = true;
    }
    command->rule.number = (uint32_t)number;
    command->rule.request = reader_get_bytes(reader);
}

static void decode_cluster_version(struct reader *reader, struct arena *arena,
                                   struct command *command) {
    uint64_t version = reader_get_varint(reader);
    uint64_t n = reader_get_varint(reader);
    if (version > UINT32_MAX || n > MEMBERS_MAX) {
        reader->failed = true;
        return;
    }
    uint64_t *member_ids = arena_calloc(arena, (size_t)n, sizeof *member_ids);
    for (size_t i = 0; i < n; i++) {
        member_ids[i] = reader_get_u64(reader);
    }
    command->cluster_version.version = (uint32_t)version;
    command->cluster_version.n = (size_t)n;
    command->cluster_version.member_ids = member_ids;
}

static void decode_as(struct reader *reader, struct arena *arena, struct command *command) {
    struct command *inner = arena_calloc(arena, 1, sizeof *inner);
    caller_decode(reader, &command->as.caller);
    command->as.command = inner;
    /* No deeper than this, whatever the bytes say. */
    if (reader_left(reader) == 0 || reader->data[reader->position] == COMMAND_AS) {
        reader->failed = true;
        return;
    }
    (void)command_decode(reader, arena, inner);
}

enum status command_decode(struct reader *reader, struct arena *arena,
                           struct command *out_command) {
    struct command command = {.type = (enum command_type)reader_get_u8(reader)};
    switch (command.type) {
    case COMMAND_PUT:
        decode_put(reader, &command.put);
        break;
    case COMMAND_DELETE:
        decode_delete(reader, &command.delete);
        break;
    case COMMAND_TXN:
        decode_txn(reader, arena, 1, &command.txn);
        break;
    case COMMAND_COMPACT:
        command.compact.revision = reader_get_zigzag(reader);
        break;
    case COMMAND_LEASE_GRANT:
        decode_grant(reader, &command.grant);
        break;
    case COMMAND_LEASE_REVOKE:
        command.revoke.id = reader_get_zigzag(reader);
        break;
    case COMMAND_LEASE_EXPIRE:
        command.expire.term = reader_get_varint(reader);
        command.expire.ids = decode_ids(reader, arena, &command.expire.n);
        command.expire.epochs = decode_epochs(reader, arena, command.expire.n);
        break;
    case COMMAND_LEASE_CHECKPOINT:
        decode_checkpoint(reader, arena, &command);
        break;
    case COMMAND_LEASE_SET_TTL:
        command.set_ttl.id = reader_get_zigzag(reader);
        command.set_ttl.ttl_ms = (int64_t)reader_get_varint(reader);
        break;
    case COMMAND_ALARM:
        command.alarm.activate = decode_flags(reader, 1) != 0;
        command.alarm.member_id = reader_get_varint(reader);
        command.alarm.alarm = (enum alarm_type)reader_get_u8(reader);
        if (command.alarm.alarm > ALARM_CORRUPT) {
            reader->failed = true;
        }
        break;
    case COMMAND_BARRIER:
        command.barrier.term = reader_get_varint(reader);
        command.barrier.committed = reader_get_varint(reader);
        break;
    case COMMAND_MEMBERS_BEGIN:
        command.members_begin.token_hash = reader_get_u64(reader);
        command.members_begin.members = member_list_decode(reader, arena, &command.members_begin.n);
        break;
    case COMMAND_MEMBER:
        decode_member(reader, arena, &command);
        break;
    case COMMAND_RULE:
        decode_rule(reader, &command);
        break;
    case COMMAND_CLUSTER_VERSION:
        decode_cluster_version(reader, arena, &command);
        break;
    case COMMAND_AS:
        decode_as(reader, arena, &command);
        break;
    case COMMAND_AUTH:
        auth_change_decode(reader, &command.auth);
        break;
    default:
        reader->failed = true;
    }
    if (reader->failed) {
        return STATUS_MALFORMED;
    }
    *out_command = command;
    return STATUS_OK;
}
