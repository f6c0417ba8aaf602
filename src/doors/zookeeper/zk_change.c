/* Changes: from the wire to the rule's request, and from its answer to the wire. */
#include "doors/zookeeper/zk_connection.h"
#include "doors/zookeeper/zk_jute_model.h"
#include "doors/zookeeper/zk_keys.h"

enum { MULTI_END = -1 };

bool zk_change_is(int32_t type) {
    switch (type) {
    case ZK_OP_CREATE:
    case ZK_OP_CREATE2:
    case ZK_OP_CREATE_CONTAINER:
    case ZK_OP_CREATE_TTL:
    case ZK_OP_DELETE:
    case ZK_OP_SET_DATA:
    case ZK_OP_SET_ACL:
    case ZK_OP_CHECK:
    case ZK_OP_MULTI:
    case ZK_OP_CLOSE_SESSION:
        return true;
    default:
        return false;
    }
}

size_t zk_change_rewritten(struct zk_door *door, int32_t type, struct bytes body) {
    enum { NODE_SMALL = 256 };
    struct reader reader;
    if (type != ZK_OP_SET_ACL) {
        return 0;
    }
    reader_init(&reader, body);
    struct bytes path = zk_jute_get_bytes(&reader, NULL);
    const struct record *record = NULL;
    if (!reader.failed && zk_path_is_valid(path, false)) {
        record = key_store_find(state_view_keys(service_view(door->service)), KEY_SPACE_ZOOKEEPER,
                                zk_key_node(&door->arena, path));
        arena_reset(&door->arena);
    }
    size_t size = record == NULL ? 0 : record->value_size;
    if (door->n_large_changes > 0) {
        size = ZK_FRAME_SIZE_MAX; /* one of them may make this node so large */
    }
    return size < NODE_SMALL ? 0 : size;
}

/* --- One operation. --- */

/* The flags of the wire are modes: 0 to 6. */
static enum zk_error read_mode(const struct zk_door *door, struct zk_operation *operation,
                               int32_t type, int32_t mode) {
    static const uint8_t flags[] = {0,
                                    ZK_CREATE_EPHEMERAL,
                                    ZK_CREATE_SEQUENCE,
                                    ZK_CREATE_EPHEMERAL | ZK_CREATE_SEQUENCE,
                                    ZK_CREATE_CONTAINER,
                                    ZK_CREATE_TTL,
                                    ZK_CREATE_TTL | ZK_CREATE_SEQUENCE};
    if (mode < 0 || (size_t)mode >= sizeof flags) {
        return ZK_BAD_ARGUMENTS;
    }
    /* A request to create a container does, whatever else it says. */
    mode = type == ZK_OP_CREATE_CONTAINER ? 4 : mode;
    operation->create_flags = (uint8_t)(flags[mode] | (type != ZK_OP_CREATE ? ZK_CREATE_STAT : 0));
    bool is_ttl = operation->create_flags & ZK_CREATE_TTL;
    if (is_ttl != (type == ZK_OP_CREATE_TTL) ||
        (is_ttl && (operation->ttl_ms < 1 || operation->ttl_ms > ZK_TTL_MS_MAX))) {
        return ZK_BAD_ARGUMENTS;
    }
    if (operation->create_flags & ZK_CREATE_CONTAINER) {
        operation->ttl_ms = door->environment->values[ZK_FLAG_CONTAINER_CHECK].duration_ms;
    }
    return ZK_OK;
}

static enum zk_error read_create(struct zk_connection *connection, int32_t type,
                                 struct reader *reader, struct buffer *acl,
                                 struct zk_operation *operation) {
    operation->kind = ZK_OPERATION_CREATE;
    operation->path = zk_jute_get_bytes(reader, NULL);
    operation->data = zk_jute_get_bytes(reader, &operation->is_null);
    enum zk_error acl_error = zk_access_read_acl(connection, reader, acl);
    int32_t mode = zk_jute_get_int(reader);
    operation->ttl_ms = type == ZK_OP_CREATE_TTL ? zk_jute_get_long(reader) : 0;
    operation->acl = bytes_of(acl->data, acl->size);
    enum zk_error error = read_mode(connection->door, operation, type, mode);
    if (error != ZK_OK) {
        return error;
    }
    bool is_sequence = operation->create_flags & ZK_CREATE_SEQUENCE;
    return zk_path_is_valid(operation->path, is_sequence) ? acl_error : ZK_BAD_ARGUMENTS;
}

static enum zk_error read_operation(struct zk_connection *connection, int32_t type,
                                    struct reader *reader, struct buffer *acl,
                                    struct zk_operation *operation) {
    enum zk_error error = ZK_OK;
    *operation = (struct zk_operation){0};
    switch (type) {
    case ZK_OP_CREATE:
    case ZK_OP_CREATE2:
    case ZK_OP_CREATE_CONTAINER:
    case ZK_OP_CREATE_TTL:
        return read_create(connection, type, reader, acl, operation);
    case ZK_OP_DELETE:
        operation->kind = ZK_OPERATION_DELETE;
        operation->path = zk_jute_get_bytes(reader, NULL);
        break;
    case ZK_OP_SET_DATA:
        operation->kind = ZK_OPERATION_SET_DATA;
        operation->path = zk_jute_get_bytes(reader, NULL);
        operation->data = zk_jute_get_bytes(reader, &operation->is_null);
        break;
    case ZK_OP_SET_ACL:
        operation->kind = ZK_OPERATION_SET_ACL;
        operation->path = zk_jute_get_bytes(reader, NULL);
        error = zk_access_read_acl(connection, reader, acl);
        operation->acl = bytes_of(acl->data, acl->size);
        break;
    case ZK_OP_CHECK:
        operation->kind = ZK_OPERATION_CHECK;
        operation->path = zk_jute_get_bytes(reader, NULL);
        break;
    default:
        reader->failed = true;
        return ZK_MARSHALLING_ERROR;
    }
    operation->version = zk_jute_get_int(reader);
    return zk_path_is_valid(operation->path, false) ? error : ZK_BAD_ARGUMENTS;
}

/* What is refused here keeps its place: the error of an operation before it comes first. */
static bool add_operation(struct zk_connection *connection, int32_t type, struct reader *reader,
                          struct buffer *out) {
    struct zk_operation operation;
    struct buffer acl;
    buffer_init(&acl);
    enum zk_error error = read_operation(connection, type, reader, &acl, &operation);
    if (error != ZK_OK) {
        operation = (struct zk_operation){.kind = ZK_OPERATION_ERROR, .error = error};
    }
    if (!reader->failed) {
        zk_operation_encode(out, &operation);
    }
    buffer_clear(&acl);
    return !reader->failed;
}

/* --- All of them. --- */

/* The next operation of a multi; false: the end, or malformed. */
static bool next_of_multi(struct reader *reader, int32_t *out_type) {
    *out_type = zk_jute_get_int(reader);
    bool is_done = zk_jute_get_bool(reader);
    (void)zk_jute_get_int(reader); /* an error, of answers */
    return !reader->failed && !is_done;
}

static enum zk_error encode_multi(struct zk_connection *connection, struct reader *reader,
                                  struct buffer *out) {
    int32_t type;
    size_t n = 0;
    while (next_of_multi(reader, &type)) {
        if (++n > ZK_OPERATIONS_MAX) {
            return ZK_BAD_ARGUMENTS;
        }
        if (type == ZK_OP_SET_ACL || !add_operation(connection, type, reader, out)) {
            return ZK_MARSHALLING_ERROR;
        }
    }
    return reader->failed ? ZK_MARSHALLING_ERROR : ZK_OK;
}

enum zk_error zk_change_encode(struct zk_connection *connection, int32_t type, struct bytes body,
                               struct buffer *out) {
    struct reader reader;
    reader_init(&reader, body);
    if (type == ZK_OP_MULTI) {
        return encode_multi(connection, &reader, out);
    }
    struct zk_operation operation;
    struct buffer acl;
    buffer_init(&acl);
    enum zk_error error = read_operation(connection, type, &reader, &acl, &operation);
    if (reader.failed) {
        error = ZK_MARSHALLING_ERROR;
    }
    if (error == ZK_OK) {
        zk_operation_encode(out, &operation);
    }
    buffer_clear(&acl);
    return error;
}

/* --- Answers. --- */

static void put_multi_header(struct buffer *out, int32_t type, bool is_done, int32_t error) {
    zk_jute_put_int(out, type);
    zk_jute_put_bool(out, is_done);
    zk_jute_put_int(out, error);
}

/* The types of the operations, again from the request: passes over one. */
static void skip_operation(struct reader *reader, int32_t type) {
    (void)zk_jute_get_bytes(reader, NULL);
    bool is_create = type == ZK_OP_CREATE || type == ZK_OP_CREATE2 ||
                     type == ZK_OP_CREATE_CONTAINER || type == ZK_OP_CREATE_TTL;
    if (is_create || type == ZK_OP_SET_DATA) {
        (void)zk_jute_get_bytes(reader, NULL);
    }
    if (is_create) {
        for (size_t n = zk_jute_get_count(reader, 1); n > 0; n--) {
            (void)zk_jute_get_int(reader);
            (void)zk_jute_get_bytes(reader, NULL);
            (void)zk_jute_get_bytes(reader, NULL);
        }
    }
    (void)zk_jute_get_int(reader);
    if (type == ZK_OP_CREATE_TTL) {
        (void)zk_jute_get_long(reader);
    }
}

/* As the original has it: "create2" is answered like "create", the other two like "create2". */
static void put_result(struct buffer *out, int32_t type, struct bytes result) {
    bool has_stat = type == ZK_OP_CREATE_CONTAINER || type == ZK_OP_CREATE_TTL;
    if (type == ZK_OP_CREATE2) {
        type = ZK_OP_CREATE;
        result.size -= ZK_STAT_SIZE;
    }
    put_multi_header(out, has_stat ? ZK_OP_CREATE2 : type, false, ZK_OK);
    buffer_append(out, result.data, result.size);
}

static enum zk_error answer_multi(struct bytes body, struct bytes answer, struct buffer *out) {
    struct reader request;
    struct reader reader;
    int32_t type;
    bool has_failed = false;
    reader_init(&reader, answer);
    while (reader_left(&reader) > 0 && !reader.failed) {
        has_failed |= reader_get_zigzag(&reader) != ZK_OK;
        (void)reader_get_bytes(&reader);
    }
    reader_init(&request, body);
    reader_init(&reader, answer);
    while (reader_left(&reader) > 0 && next_of_multi(&request, &type)) {
        int32_t error = (int32_t)reader_get_zigzag(&reader);
        struct bytes result = reader_get_bytes(&reader);
        if (error == ZK_SESSION_EXPIRED || error == ZK_SESSION_MOVED) {
            return (enum zk_error)error;
        }
        if (has_failed) {
            put_multi_header(out, -1, false, error);
            zk_jute_put_int(out, error);
        } else {
            put_result(out, type, result);
        }
        skip_operation(&request, type);
    }
    put_multi_header(out, MULTI_END, true, -1);
    return ZK_OK;
}

enum zk_error zk_change_answer(int32_t type, struct bytes body, struct bytes answer,
                               struct buffer *out) {
    struct reader reader;
    if (type == ZK_OP_MULTI) {
        return answer_multi(body, answer, out);
    }
    reader_init(&reader, answer);
    enum zk_error error = (enum zk_error)reader_get_zigzag(&reader);
    struct bytes result = reader_get_bytes(&reader);
    buffer_append(out, result.data, result.size);
    return error;
}
