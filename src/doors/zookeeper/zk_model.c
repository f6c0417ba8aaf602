#include "doors/zookeeper/zk_model.h"

#include "doors/zookeeper/zk_jute_model.h"
#include "doors/zookeeper/zk_keys.h"

/* --- Znodes. --- */

void zk_node_encode(struct buffer *out, const struct zk_node *node) {
    buffer_put_u8(out, node->flags);
    buffer_put_varint(out, (uint64_t)node->mzxid);
    buffer_put_zigzag(out, node->ctime_ms);
    buffer_put_zigzag(out, node->mtime_ms - node->ctime_ms);
    buffer_put_zigzag(out, node->version);
    buffer_put_zigzag(out, node->aversion);
    if (node->flags & (ZK_NODE_TTL | ZK_NODE_CONTAINER)) {
        buffer_put_varint(out, (uint64_t)node->ttl_ms);
        buffer_put_zigzag(out, node->ttl_lease);
    }
    buffer_put_bytes(out, node->acl);
    buffer_append(out, node->data.data, node->data.size);
}

bool zk_node_decode(const struct record *record, struct zk_node *out_node) {
    struct reader reader;
    reader_init(&reader, record_value(record));
    *out_node = (struct zk_node){.flags = reader_get_u8(&reader),
                                 .czxid = record->create_revision,
                                 .owner = record->lease_id};
    out_node->mzxid = (int64_t)reader_get_varint(&reader);
    out_node->ctime_ms = reader_get_zigzag(&reader);
    out_node->mtime_ms =
        (int64_t)((uint64_t)reader_get_zigzag(&reader) + (uint64_t)out_node->ctime_ms);
    out_node->version = (int32_t)reader_get_zigzag(&reader);
    out_node->aversion = (int32_t)reader_get_zigzag(&reader);
    if (out_node->flags & (ZK_NODE_TTL | ZK_NODE_CONTAINER)) {
        out_node->ttl_ms = (int64_t)reader_get_varint(&reader);
        out_node->ttl_lease = reader_get_zigzag(&reader);
    }
    out_node->acl = reader_get_bytes(&reader);
    out_node->data = bytes_of(reader.data + reader.position, reader_left(&reader));
    return !reader.failed;
}

void zk_children_encode(struct buffer *out, const struct zk_children *children) {
    buffer_put_varint(out, (uint64_t)children->creates);
    buffer_put_varint(out, (uint64_t)children->pzxid);
    buffer_put_zigzag(out, children->sweep_lease);
}

bool zk_children_decode(struct bytes value, struct zk_children *out_children) {
    struct reader reader;
    reader_init(&reader, value);
    out_children->creates = (int64_t)reader_get_varint(&reader);
    out_children->pzxid = (int64_t)reader_get_varint(&reader);
    out_children->sweep_lease = reader_get_zigzag(&reader);
    return !reader.failed && reader_left(&reader) == 0;
}

void zk_stat_write(struct buffer *out, const struct zk_node *node,
                   const struct zk_children *children, int64_t n_children) {
    bool is_built_in = node->flags & ZK_NODE_BUILT_IN;
    int64_t czxid = is_built_in ? 0 : node->czxid;
    zk_jute_put_long(out, czxid);
    zk_jute_put_long(out, is_built_in && node->version == 0 ? 0 : node->mzxid);
    zk_jute_put_long(out, node->ctime_ms);
    zk_jute_put_long(out, node->mtime_ms);
    zk_jute_put_int(out, node->version);
    /* ZooKeeper keeps the count of creations and shows that of changes. */
    zk_jute_put_int(out, (int32_t)(uint32_t)(uint64_t)(children->creates * 2 - n_children));
    zk_jute_put_int(out, node->aversion);
    zk_jute_put_long(out, node->owner);
    zk_jute_put_int(out, (int32_t)node->data.size);
    zk_jute_put_int(out, (int32_t)n_children);
    zk_jute_put_long(out, children->pzxid != 0 ? children->pzxid : czxid);
}

/* --- Sessions. --- */

void zk_session_encode(struct buffer *out, const struct zk_session *session) {
    buffer_put_varint(out, (uint64_t)session->timeout_ms);
    buffer_put_u64(out, session->connection);
    buffer_put_u64(out, session->member_id);
    buffer_append(out, session->password_hash, ZK_PASSWORD_HASH_SIZE);
}

bool zk_session_decode(struct bytes value, struct zk_session *out_session) {
    struct reader reader;
    reader_init(&reader, value);
    out_session->timeout_ms = (int64_t)reader_get_varint(&reader);
    out_session->connection = reader_get_u64(&reader);
    out_session->member_id = reader_get_u64(&reader);
    if (reader.failed || reader_left(&reader) != ZK_PASSWORD_HASH_SIZE) {
        return false;
    }
    memcpy(out_session->password_hash, reader.data + reader.position, ZK_PASSWORD_HASH_SIZE);
    return true;
}

/* --- Access lists. --- */

void zk_acl_append(struct buffer *out, const struct zk_acl_entry *entry) {
    buffer_put_varint(out, (uint32_t)entry->permissions);
    buffer_put_bytes(out, entry->id.scheme);
    buffer_put_bytes(out, entry->id.id);
}

bool zk_acl_next(struct reader *reader, struct zk_acl_entry *out_entry) {
    if (reader->failed || reader_left(reader) == 0) {
        return false;
    }
    out_entry->permissions = (int32_t)(uint32_t)reader_get_varint(reader);
    out_entry->id.scheme = reader_get_bytes(reader);
    out_entry->id.id = reader_get_bytes(reader);
    return !reader->failed;
}

bool zk_acl_is_valid(struct bytes acl) {
    struct reader reader;
    struct zk_acl_entry entry;
    size_t n = 0;
    reader_init(&reader, acl);
    while (zk_acl_next(&reader, &entry)) {
        n++;
    }
    return !reader.failed && n <= ZK_ACL_MAX;
}

/* "10.1.2.3" or "10.0.0.0/8" to an address and how many of its bits count. */
static bool parse_ipv4(struct bytes text, uint32_t *out_address, unsigned *out_bits) {
    uint32_t numbers[5] = {0};
    size_t n = 0;
    size_t digits = 0;
    for (size_t i = 0; i < text.size; i++) {
        uint8_t c = text.data[i];
        if (c >= '0' && c <= '9' && digits < 3) {
            numbers[n] = numbers[n] * 10 + (uint32_t)(c - '0');
            digits++;
        } else if (digits > 0 && ((c == '.' && n < 3) || (c == '/' && n == 3))) {
            n++;
            digits = 0;
        } else {
            return false;
        }
    }
    if (n < 3 || digits == 0) {
        return false;
    }
    *out_bits = n == 4 ? numbers[4] : 32;
    *out_address = numbers[0] << 24 | numbers[1] << 16 | numbers[2] << 8 | numbers[3];
    return numbers[0] < 256 && numbers[1] < 256 && numbers[2] < 256 && numbers[3] < 256 &&
           *out_bits <= 32;
}

bool zk_ip_is_pattern(struct bytes pattern) {
    uint32_t address;
    unsigned bits;
    if (parse_ipv4(pattern, &address, &bits)) {
        return true;
    }
    bool has_colon = false;
    for (size_t i = 0; i < pattern.size; i++) {
        uint8_t c = pattern.data[i];
        has_colon |= c == ':';
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') ||
              c == ':' || c == '.')) {
            return false;
        }
    }
    return has_colon;
}

static bool ip_matches(struct bytes pattern, struct bytes text) {
    uint32_t wanted;
    uint32_t address;
    unsigned bits;
    unsigned all;
    if (!parse_ipv4(pattern, &wanted, &bits) || !parse_ipv4(text, &address, &all)) {
        return bytes_equal(pattern, text);
    }
    return bits == 0 || (wanted ^ address) >> (32 - bits) == 0;
}

static bool is_text(struct bytes bytes, const char *text) {
    return bytes_equal(bytes, bytes_from_text(text));
}

/* Lists and connections may have hundreds of digests, of the same scheme and the same size: their
 * ends differ. */
static bool has_same_end(struct bytes a, struct bytes b) {
    uint64_t end_of_a;
    uint64_t end_of_b;
    if (a.size != b.size || a.size < sizeof end_of_a) {
        return a.size == b.size;
    }
    memcpy(&end_of_a, a.data + a.size - sizeof end_of_a, sizeof end_of_a);
    memcpy(&end_of_b, b.data + b.size - sizeof end_of_b, sizeof end_of_b);
    return end_of_a == end_of_b;
}

static bool matches_one(const struct zk_id *wanted, const struct zk_id *ids, size_t n_ids) {
    bool is_ip = is_text(wanted->scheme, "ip");
    for (size_t i = 0; i < n_ids; i++) {
        if ((is_ip || has_same_end(wanted->id, ids[i].id)) &&
            bytes_equal(wanted->scheme, ids[i].scheme) &&
            (is_ip ? ip_matches(wanted->id, ids[i].id) : bytes_equal(wanted->id, ids[i].id))) {
            return true;
        }
    }
    return false;
}

bool zk_acl_allows(struct bytes acl, int permissions, const struct zk_id *ids, size_t n_ids) {
    struct reader reader;
    struct zk_acl_entry entry;
    if (acl.size == 0) {
        return true;
    }
    for (size_t i = 0; i < n_ids; i++) {
        if (is_text(ids[i].scheme, "super")) {
            return true;
        }
    }
    reader_init(&reader, acl);
    while (zk_acl_next(&reader, &entry)) {
        if ((entry.permissions & permissions) == 0) {
            continue;
        }
        if (is_text(entry.id.scheme, "world") && is_text(entry.id.id, "anyone")) {
            return true;
        }
        if (matches_one(&entry.id, ids, n_ids)) {
            return true;
        }
    }
    return false;
}
