#include "doors/zookeeper/zk_request_model.h"

#include "doors/zookeeper/zk_keys.h"

void zk_connect_encode(struct buffer *out, const struct zk_connect_request *request) {
    buffer_put_zigzag(out, request->session_id);
    zk_session_encode(out, &request->session);
}

bool zk_connect_decode(struct bytes bytes, struct zk_connect_request *out_request) {
    struct reader reader;
    reader_init(&reader, bytes);
    out_request->session_id = reader_get_zigzag(&reader);
    return !reader.failed &&
           zk_session_decode(bytes_of(bytes.data + reader.position, reader_left(&reader)),
                             &out_request->session);
}

void zk_asker_encode(struct buffer *out, const struct zk_asker *asker) {
    buffer_put_zigzag(out, asker->session_id);
    buffer_put_u64(out, asker->connection);
    buffer_put_varint(out, asker->n_ids);
    for (size_t i = 0; i < asker->n_ids; i++) {
        buffer_put_bytes(out, asker->ids[i].scheme);
        buffer_put_bytes(out, asker->ids[i].id);
    }
}

void zk_asker_decode(struct reader *reader, struct arena *arena, struct zk_asker *out_asker) {
    out_asker->session_id = reader_get_zigzag(reader);
    out_asker->connection = reader_get_u64(reader);
    size_t n = (size_t)reader_get_varint(reader);
    if (reader->failed || n > ZK_IDENTITIES_MAX) {
        reader->failed = true;
        n = 0;
    }
    struct zk_id *ids = arena_calloc(arena, n, sizeof *ids);
    for (size_t i = 0; i < n; i++) {
        ids[i].scheme = reader_get_bytes(reader);
        ids[i].id = reader_get_bytes(reader);
    }
    out_asker->ids = ids;
    out_asker->n_ids = n;
}

void zk_operation_encode(struct buffer *out, const struct zk_operation *operation) {
    buffer_put_u8(out, (uint8_t)operation->kind);
    if (operation->kind == ZK_OPERATION_ERROR) {
        buffer_put_zigzag(out, operation->error);
        return;
    }
    buffer_put_bytes(out, operation->path);
    if (operation->kind == ZK_OPERATION_CREATE) {
        buffer_put_u8(out, operation->create_flags);
        if (operation->create_flags & (ZK_CREATE_TTL | ZK_CREATE_CONTAINER)) {
            buffer_put_varint(out, (uint64_t)operation->ttl_ms);
        }
    } else {
        buffer_put_zigzag(out, operation->version);
    }
    if (operation->kind == ZK_OPERATION_CREATE || operation->kind == ZK_OPERATION_SET_ACL) {
        buffer_put_bytes(out, operation->acl);
    }
    if (operation->kind == ZK_OPERATION_CREATE || operation->kind == ZK_OPERATION_SET_DATA) {
        buffer_put_u8(out, operation->is_null);
        buffer_put_bytes(out, operation->data);
    }
}

static void decode_create(struct reader *reader, struct zk_operation *operation) {
    uint8_t flags = reader_get_u8(reader);
    unsigned kinds = flags & (ZK_CREATE_EPHEMERAL | ZK_CREATE_CONTAINER | ZK_CREATE_TTL);
    operation->create_flags = flags;
    if (flags & (ZK_CREATE_TTL | ZK_CREATE_CONTAINER)) {
        operation->ttl_ms = (int64_t)reader_get_varint(reader);
        reader->failed |= operation->ttl_ms < 1 || operation->ttl_ms > ZK_TTL_MS_MAX;
    }
    reader->failed |= flags > 31 || (kinds & (kinds - 1)) != 0;
}

void zk_operation_decode(struct reader *reader, struct zk_operation *out_operation) {
    uint8_t kind = reader_get_u8(reader);
    *out_operation = (struct zk_operation){.kind = (enum zk_operation_kind)kind};
    if (kind == ZK_OPERATION_ERROR) {
        out_operation->error = (int32_t)reader_get_zigzag(reader);
        reader->failed |= out_operation->error == ZK_OK;
        return;
    }
    out_operation->path = reader_get_bytes(reader);
    if (kind == ZK_OPERATION_CREATE) {
        decode_create(reader, out_operation);
    } else {
        out_operation->version = (int32_t)reader_get_zigzag(reader);
    }
    if (kind == ZK_OPERATION_CREATE || kind == ZK_OPERATION_SET_ACL) {
        out_operation->acl = reader_get_bytes(reader);
        reader->failed |= !reader->failed && !zk_acl_is_valid(out_operation->acl);
    }
    if (kind == ZK_OPERATION_CREATE || kind == ZK_OPERATION_SET_DATA) {
        out_operation->is_null = reader_get_u8(reader) != 0;
        out_operation->data = reader_get_bytes(reader);
    }
    bool is_sequence = out_operation->create_flags & ZK_CREATE_SEQUENCE;
    reader->failed |= kind > ZK_OPERATION_CHECK || reader->failed ||
                      !zk_path_is_valid(out_operation->path, is_sequence);
}
