#include "client/zk_codec.h"

#include <stdio.h>

/* Extended types, as ZooKeeper keeps them (EphemeralType). Its answers show 0 instead as of 3.8;
 * this is for a server that shows them. The highest bit alone is a container, the highest byte 0xff
 * with two zero bytes behind it a TTL in 40 bits. */
#define OWNER_CONTAINER INT64_MIN
#define OWNER_EXTENDED_MASK UINT64_C(0xffffff0000000000)
#define OWNER_TTL UINT64_C(0xff00000000000000)
#define OWNER_TTL_MASK UINT64_C(0x000000ffffffffff)

enum { PERMISSIONS_ALL = 31, PASSWORD_SIZE = 16, VERSION_ANY = -1, HEADER_SIZE = 16 };

/* ---- jute ---- */

static void put_int(struct buffer *out, int32_t value) {
    uint8_t *bytes = buffer_reserve(out, 4);
    for (int i = 0; i < 4; i++) {
        bytes[i] = (uint8_t)((uint32_t)value >> (24 - 8 * i));
    }
    out->size += 4;
}

static void put_long(struct buffer *out, int64_t value) {
    put_int(out, (int32_t)(value >> 32));
    put_int(out, (int32_t)value);
}

static void put_bytes(struct buffer *out, struct bytes bytes) {
    put_int(out, (int32_t)bytes.size);
    buffer_append(out, bytes.data, bytes.size);
}

static void put_data(struct buffer *out, struct bytes data, bool is_null) {
    if (is_null) {
        put_int(out, -1);
    } else {
        put_bytes(out, data);
    }
}

static int32_t get_int(struct reader *reader) {
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        value = value << 8 | reader_get_u8(reader);
    }
    return (int32_t)value;
}

static int64_t get_long(struct reader *reader) {
    uint64_t high = (uint32_t)get_int(reader);
    return (int64_t)(high << 32 | (uint32_t)get_int(reader));
}

static struct bytes get_bytes(struct reader *reader, bool *out_is_null) {
    int32_t size = get_int(reader);
    *out_is_null = size == -1;
    if (size == -1 || reader->failed) {
        return bytes_of(NULL, 0);
    }
    if (size < 0 || (size_t)size > reader_left(reader)) {
        reader->failed = true;
        return bytes_of(NULL, 0);
    }
    struct bytes bytes = bytes_of(reader->data + reader->position, (size_t)size);
    reader->position += (size_t)size;
    return bytes;
}

/* ---- stat ---- */

enum zk_node_kind zk_stat_kind(const struct zk_node_stat *stat) {
    if (stat->ephemeral_owner == 0) {
        return ZK_KIND_PERSISTENT;
    }
    if (stat->ephemeral_owner == OWNER_CONTAINER) {
        return ZK_KIND_CONTAINER;
    }
    return ((uint64_t)stat->ephemeral_owner & OWNER_EXTENDED_MASK) == OWNER_TTL ? ZK_KIND_TTL
                                                                                : ZK_KIND_EPHEMERAL;
}

int64_t zk_stat_ttl_ms(const struct zk_node_stat *stat) {
    return (int64_t)((uint64_t)stat->ephemeral_owner & OWNER_TTL_MASK);
}

/* A server shows creates * 2 - children, that is creates and deletes. */
int64_t zk_stat_creates(const struct zk_node_stat *stat) {
    int64_t creates = ((int64_t)stat->cversion + stat->n_children) / 2;
    return creates > 0 ? creates : 0; /* a fresh root begins below 0 */
}

static void get_stat(struct reader *reader, struct zk_node_stat *out) {
    out->czxid = get_long(reader);
    for (int i = 0; i < 3; i++) {
        (void)get_long(reader); /* mzxid, ctime, mtime */
    }
    (void)get_int(reader); /* version */
    out->cversion = get_int(reader);
    (void)get_int(reader); /* aversion */
    out->ephemeral_owner = get_long(reader);
    (void)get_int(reader); /* dataLength */
    out->n_children = get_int(reader);
    (void)get_long(reader); /* pzxid */
    reader->failed = reader->failed || out->n_children < 0;
}

/* ---- requests ---- */

static size_t begin(struct buffer *out) {
    size_t start = out->size;
    put_int(out, 0);
    return start;
}

static size_t begin_request(struct buffer *out, int32_t xid, enum zk_opcode opcode) {
    size_t start = begin(out);
    put_int(out, xid);
    put_int(out, opcode);
    return start;
}

static void end(struct buffer *out, size_t start) {
    uint32_t size = (uint32_t)(out->size - start - 4);
    for (int i = 0; i < 4; i++) {
        out->data[start + (size_t)i] = (uint8_t)(size >> (24 - 8 * i));
    }
}

void zk_put_connect(struct buffer *out, int32_t timeout_ms) {
    static const uint8_t no_password[PASSWORD_SIZE];
    size_t start = begin(out);
    put_int(out, 0);  /* version of the protocol */
    put_long(out, 0); /* last zxid seen */
    put_int(out, timeout_ms);
    put_long(out, 0); /* a new session */
    put_bytes(out, bytes_of(no_password, sizeof no_password));
    buffer_put_u8(out, 0); /* not read-only */
    end(out, start);
}

void zk_put_auth(struct buffer *out, const char *scheme, const char *credentials) {
    size_t start = begin_request(out, ZK_XID_AUTH, ZK_OP_AUTH);
    put_int(out, 0);
    put_bytes(out, bytes_from_text(scheme));
    put_bytes(out, bytes_from_text(credentials));
    end(out, start);
}

void zk_put_plain(struct buffer *out, int32_t xid, enum zk_opcode opcode) {
    end(out, begin_request(out, xid, opcode));
}

void zk_put_path(struct buffer *out, int32_t xid, enum zk_opcode opcode, struct bytes path) {
    size_t start = begin_request(out, xid, opcode);
    put_bytes(out, path);
    if (opcode == ZK_OP_DELETE) {
        put_int(out, VERSION_ANY);
    } else if (opcode == ZK_OP_EXISTS || opcode == ZK_OP_GET_DATA ||
               opcode == ZK_OP_GET_CHILDREN2) {
        buffer_put_u8(out, 0); /* no watch */
    }
    end(out, start);
}

void zk_put_create(struct buffer *out, int32_t xid, const struct zk_new_node *node) {
    enum zk_opcode opcode = ZK_OP_CREATE;
    int32_t mode = ZK_CREATE_MODE_PERSISTENT;
    if (node->kind == ZK_KIND_CONTAINER) {
        opcode = ZK_OP_CREATE_CONTAINER;
        mode = ZK_CREATE_MODE_CONTAINER;
    } else if (node->kind == ZK_KIND_TTL) {
        opcode = ZK_OP_CREATE_TTL;
        mode = ZK_CREATE_MODE_TTL;
    } else if (node->kind == ZK_KIND_EPHEMERAL) {
        mode = ZK_CREATE_MODE_EPHEMERAL;
    }
    size_t start = begin_request(out, xid, opcode);
    put_bytes(out, node->path);
    put_data(out, node->data, node->is_null);
    buffer_append(out, node->acl.data, node->acl.size);
    put_int(out, mode);
    if (node->kind == ZK_KIND_TTL) {
        put_long(out, node->ttl_ms);
    }
    end(out, start);
}

void zk_put_set_data(struct buffer *out, int32_t xid, struct bytes path, struct bytes data,
                     bool is_null) {
    size_t start = begin_request(out, xid, ZK_OP_SET_DATA);
    put_bytes(out, path);
    put_data(out, data, is_null);
    put_int(out, VERSION_ANY);
    end(out, start);
}

void zk_put_set_acl(struct buffer *out, int32_t xid, struct bytes path, struct bytes acl) {
    size_t start = begin_request(out, xid, ZK_OP_SET_ACL);
    put_bytes(out, path);
    buffer_append(out, acl.data, acl.size);
    put_int(out, VERSION_ANY);
    end(out, start);
}

static void put_multi_header(struct buffer *out, enum zk_opcode opcode, bool is_done) {
    put_int(out, is_done ? -1 : (int32_t)opcode);
    buffer_put_u8(out, is_done);
    put_int(out, -1);
}

void zk_put_create_delete_pairs(struct buffer *out, int32_t xid, struct bytes path,
                                size_t n_pairs) {
    struct bytes acl = zk_acl_open();
    size_t start = begin_request(out, xid, ZK_OP_MULTI);
    for (size_t i = 0; i < n_pairs; i++) {
        put_multi_header(out, ZK_OP_CREATE, false);
        put_bytes(out, path);
        put_data(out, bytes_of(NULL, 0), false);
        buffer_append(out, acl.data, acl.size);
        put_int(out, ZK_CREATE_MODE_PERSISTENT);
        put_multi_header(out, ZK_OP_DELETE, false);
        put_bytes(out, path);
        put_int(out, VERSION_ANY);
    }
    put_multi_header(out, ZK_OP_CLOSE, true);
    end(out, start);
}

/* ---- access lists ---- */

struct bytes zk_acl_open(void) {
    static const uint8_t list[] = "\0\0\0\1\0\0\0\37\0\0\0\5world\0\0\0\6anyone";
    return bytes_of(list, sizeof list - 1);
}

void zk_acl_with(struct buffer *out, struct bytes acl, const char *scheme, const char *id) {
    struct reader reader;
    reader_init(&reader, acl);
    int32_t count = get_int(&reader);
    put_int(out, (count < 0 ? 0 : count) + 1);
    if (acl.size > 4) {
        buffer_append(out, acl.data + 4, acl.size - 4);
    }
    put_int(out, PERMISSIONS_ALL);
    put_bytes(out, bytes_from_text(scheme));
    put_bytes(out, bytes_from_text(id));
}

static bool get_entry(struct reader *reader, struct bytes *out_scheme, struct bytes *out_id) {
    bool is_null;
    (void)get_int(reader);
    *out_scheme = get_bytes(reader, &is_null);
    *out_id = get_bytes(reader, &is_null);
    return !reader->failed;
}

bool zk_acl_is_masked(struct bytes acl) {
    struct reader reader;
    struct bytes scheme;
    struct bytes id;
    reader_init(&reader, acl);
    int32_t count = get_int(&reader);
    for (int32_t i = 0; i < count && get_entry(&reader, &scheme, &id); i++) {
        if (bytes_equal(scheme, bytes_from_text("digest")) && id.size >= 2 &&
            memcmp(id.data + id.size - 2, ":x", 2) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- answers ---- */

enum zk_frame_result zk_take_frame(struct bytes input, struct bytes *out_body, size_t *out_used) {
    struct reader reader;
    if (input.size < 4) {
        return ZK_FRAME_MORE;
    }
    reader_init(&reader, input);
    int32_t size = get_int(&reader);
    if (size < 0 || size > ZK_FRAME_SIZE_MAX) {
        return ZK_FRAME_BAD;
    }
    if (reader_left(&reader) < (size_t)size) {
        return ZK_FRAME_MORE;
    }
    *out_body = bytes_of(input.data + 4, (size_t)size);
    *out_used = 4 + (size_t)size;
    return ZK_FRAME_WHOLE;
}

/* An old server leaves the read-only flag out. */
bool zk_get_connected(struct bytes body, struct zk_connected *out) {
    struct reader reader;
    bool is_null;
    reader_init(&reader, body);
    int32_t version = get_int(&reader);
    out->timeout_ms = get_int(&reader);
    out->session_id = get_long(&reader);
    struct bytes password = get_bytes(&reader, &is_null);
    return !reader.failed && version == 0 && password.size == PASSWORD_SIZE &&
           reader_left(&reader) <= 1 && out->timeout_ms >= 0;
}

bool zk_get_answer(struct bytes frame, struct zk_answer *out) {
    struct reader reader;
    reader_init(&reader, frame);
    out->xid = get_int(&reader);
    (void)get_long(&reader); /* zxid */
    out->error = get_int(&reader);
    if (reader.failed) {
        return false;
    }
    out->body = bytes_of(frame.data + HEADER_SIZE, frame.size - HEADER_SIZE);
    return true;
}

bool zk_get_data(struct bytes body, struct bytes *out_data, bool *out_is_null,
                 struct zk_node_stat *out_stat) {
    struct reader reader;
    reader_init(&reader, body);
    *out_data = get_bytes(&reader, out_is_null);
    get_stat(&reader, out_stat);
    return !reader.failed;
}

bool zk_get_stat(struct bytes body, struct zk_node_stat *out_stat) {
    struct reader reader;
    reader_init(&reader, body);
    get_stat(&reader, out_stat);
    return !reader.failed;
}

bool zk_get_acl(struct bytes body, struct bytes *out_acl) {
    struct reader reader;
    struct bytes scheme;
    struct bytes id;
    reader_init(&reader, body);
    int32_t count = get_int(&reader);
    for (int32_t i = 0; i < count; i++) {
        if (!get_entry(&reader, &scheme, &id)) {
            return false;
        }
    }
    *out_acl = bytes_of(body.data, reader.position);
    return !reader.failed && count >= 0;
}

bool zk_get_number(struct bytes body, int32_t *out_number) {
    struct reader reader;
    reader_init(&reader, body);
    *out_number = get_int(&reader);
    return !reader.failed && *out_number >= 0;
}

bool zk_children_begin(struct bytes body, struct zk_children_reader *out_reader) {
    reader_init(&out_reader->reader, body);
    int32_t count = get_int(&out_reader->reader);
    if (out_reader->reader.failed || count < -1 ||
        (count > 0 && (size_t)count > reader_left(&out_reader->reader) / 4)) {
        return false;
    }
    out_reader->left = count > 0 ? (size_t)count : 0;
    return true;
}

bool zk_children_next(struct zk_children_reader *reader, struct bytes *out_name) {
    bool is_null;
    if (reader->left == 0) {
        return false;
    }
    *out_name = get_bytes(&reader->reader, &is_null);
    if (reader->reader.failed || out_name->size == 0 ||
        memchr(out_name->data, '/', out_name->size) != NULL) {
        reader->reader.failed = true;
        reader->left = 0;
        return false;
    }
    reader->left--;
    return true;
}
