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

/* Lists have up to hundreds of entries, and connections dozens of digests, of the same scheme and
 * the same size: their ends differ. In their order, so that each entry is looked for and not
 * compared with each of them. */
struct id_end {
    uint64_t end;
    const struct zk_id *id;
};

struct known_ids {
    size_t n_ends;
    size_t n_others; /* addresses, which are compared as such, and what is short */
    struct id_end ends[ZK_IDENTITIES_MAX];
    const struct zk_id *others[ZK_IDENTITIES_MAX];
};

static bool has_end(const struct zk_id *id, uint64_t *out_end) {
    if (is_text(id->scheme, "ip") || id->id.size < sizeof *out_end) {
        return false;
    }
    memcpy(out_end, id->id.data + id->id.size - sizeof *out_end, sizeof *out_end);
    return true;
}

static void know(struct known_ids *known, const struct zk_id *id) {
    struct id_end one = {.id = id};
    if (!has_end(id, &one.end)) {
        known->others[known->n_others++] = id;
        return;
    }
    size_t i = known->n_ends++;
    for (; i > 0 && known->ends[i - 1].end > one.end; i--) {
        known->ends[i] = known->ends[i - 1];
    }
    known->ends[i] = one;
}

/* The first with this end, or where it would be. */
static size_t find_end(const struct known_ids *known, uint64_t end) {
    size_t begin = 0;
    size_t n = known->n_ends;
    while (n > 0) {
        size_t half = n / 2;
        if (known->ends[begin + half].end < end) {
            begin += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return begin;
}

static bool matches_one(const struct zk_id *wanted, const struct known_ids *known) {
    bool is_ip = is_text(wanted->scheme, "ip");
    uint64_t end;
    if (has_end(wanted, &end)) {
        for (size_t i = find_end(known, end); i < known->n_ends && known->ends[i].end == end; i++) {
            const struct zk_id *id = known->ends[i].id;
            if (bytes_equal(wanted->scheme, id->scheme) && bytes_equal(wanted->id, id->id)) {
                return true;
            }
        }
        return false;
    }
    for (size_t i = 0; i < known->n_others; i++) {
        const struct zk_id *id = known->others[i];
        if (bytes_equal(wanted->scheme, id->scheme) &&
            (is_ip ? ip_matches(wanted->id, id->id) : bytes_equal(wanted->id, id->id))) {
            return true;
        }
    }
    return false;
}

static bool allows_some(struct bytes acl, int permissions, const struct zk_id *ids, size_t n_ids) {
    struct known_ids known;
    struct reader reader;
    struct zk_acl_entry entry;
    known.n_ends = 0;
    known.n_others = 0;
    for (size_t i = 0; i < n_ids; i++) {
        know(&known, &ids[i]);
    }
    reader_init(&reader, acl);
    while (zk_acl_next(&reader, &entry)) {
        if ((entry.permissions & permissions) == 0) {
            continue;
        }
        if (is_text(entry.id.scheme, "world") && is_text(entry.id.id, "anyone")) {
            return true;
        }
        if (matches_one(&entry.id, &known)) {
            return true;
        }
    }
    return false;
}

bool zk_acl_allows(struct bytes acl, int permissions, const struct zk_id *ids, size_t n_ids) {
    if (acl.size == 0) {
        return true;
    }
    for (size_t i = 0; i < n_ids; i++) {
        if (is_text(ids[i].scheme, "super")) {
            return true;
        }
    }
    /* A connection has no more at once. */
    size_t begin = 0;
    do {
        size_t n = n_ids - begin < ZK_IDENTITIES_MAX ? n_ids - begin : ZK_IDENTITIES_MAX;
        if (allows_some(acl, permissions, ids + begin, n)) {
            return true;
        }
        begin += n;
    } while (begin < n_ids);
    return false;
}
