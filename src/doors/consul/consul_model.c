#include "doors/consul/consul_model.h"

static bool is_read(const struct reader *reader) {
    return !reader->failed && reader_left(reader) == 0;
}

static bool is_hexadecimal(uint8_t c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool consul_uuid_is_valid(struct bytes text) {
    if (text.size != CONSUL_UUID_SIZE) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (is_dash ? text.data[i] != '-' : !is_hexadecimal(text.data[i])) {
            return false;
        }
    }
    return true;
}

bool consul_key_is_valid(struct bytes key) {
    return key.size > 0 && key.size <= CONSUL_KEY_SIZE_MAX && memchr(key.data, 0, key.size) == NULL;
}

/* --- Values. --- */

void consul_value_encode(struct buffer *out, const struct consul_value *value) {
    buffer_put_varint(out, value->flags);
    buffer_append(out, value->value.data, value->value.size);
}

bool consul_value_decode(struct bytes bytes, struct consul_value *out_value) {
    struct reader reader;
    reader_init(&reader, bytes);
    out_value->flags = reader_get_varint(&reader);
    out_value->value = bytes_of(bytes.data + reader.position, reader_left(&reader));
    return !reader.failed;
}

/* --- Locks. --- */

void consul_lock_encode(struct buffer *out, const struct consul_lock *lock) {
    buffer_put_varint(out, lock->lock_index);
    buffer_put_bytes(out, lock->session);
    buffer_put_zigzag(out, lock->lease_id);
    buffer_put_u8(out, lock->deletes);
    buffer_put_zigzag(out, lock->delay_lease_id);
    buffer_put_bytes(out, lock->previous);
}

bool consul_lock_decode(struct bytes bytes, struct consul_lock *out_lock) {
    struct reader reader;
    reader_init(&reader, bytes);
    out_lock->lock_index = reader_get_varint(&reader);
    out_lock->session = reader_get_bytes(&reader);
    out_lock->lease_id = reader_get_zigzag(&reader);
    out_lock->deletes = reader_get_u8(&reader) != 0;
    out_lock->delay_lease_id = reader_get_zigzag(&reader);
    out_lock->previous = reader_get_bytes(&reader);
    return is_read(&reader);
}

/* --- Sessions. --- */

static void encode_texts(struct buffer *out, const struct bytes *texts, size_t n) {
    buffer_put_varint(out, n);
    for (size_t i = 0; i < n; i++) {
        buffer_put_bytes(out, texts[i]);
    }
}

static const struct bytes *decode_texts(struct reader *reader, struct arena *arena, size_t *out_n) {
    uint64_t n = reader_get_varint(reader);
    *out_n = 0;
    if (n > CONSUL_SESSION_CHECKS_MAX) {
        reader->failed = true;
        return NULL;
    }
    struct bytes *texts = arena_calloc(arena, n, sizeof *texts);
    for (size_t i = 0; i < n; i++) {
        texts[i] = reader_get_bytes(reader);
    }
    *out_n = n;
    return texts;
}

void consul_session_encode(struct buffer *out, const struct consul_session *session) {
    buffer_put_bytes(out, session->name);
    buffer_put_bytes(out, session->node);
    buffer_put_u8(out, session->deletes);
    buffer_put_zigzag(out, session->ttl_ms);
    buffer_put_zigzag(out, session->lock_delay_ms);
    encode_texts(out, session->node_checks, session->n_node_checks);
    encode_texts(out, session->service_checks, session->n_service_checks);
    buffer_put_varint(out, session->user_id);
}

bool consul_session_decode(struct bytes bytes, struct arena *arena,
                           struct consul_session *out_session) {
    struct reader reader;
    reader_init(&reader, bytes);
    *out_session = (struct consul_session){0};
    out_session->name = reader_get_bytes(&reader);
    out_session->node = reader_get_bytes(&reader);
    out_session->deletes = reader_get_u8(&reader) != 0;
    out_session->ttl_ms = reader_get_zigzag(&reader);
    out_session->lock_delay_ms = reader_get_zigzag(&reader);
    out_session->node_checks = decode_texts(&reader, arena, &out_session->n_node_checks);
    out_session->service_checks = decode_texts(&reader, arena, &out_session->n_service_checks);
    out_session->user_id = reader_get_varint(&reader);
    return is_read(&reader);
}

void consul_check_name_encode(struct buffer *out, const struct consul_check_name *name) {
    buffer_put_bytes(out, name->service);
    buffer_put_bytes(out, name->id);
    buffer_put_bytes(out, name->check);
}

bool consul_check_name_decode(struct bytes bytes, struct consul_check_name *out_name) {
    struct reader reader;
    reader_init(&reader, bytes);
    out_name->service = reader_get_bytes(&reader);
    out_name->id = reader_get_bytes(&reader);
    out_name->check = reader_get_bytes(&reader);
    return is_read(&reader) && out_name->service.size > 0 && out_name->id.size > 0 &&
           out_name->check.size > 0;
}

static bool texts_fit(const struct bytes *texts, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (texts[i].size > CONSUL_TEXT_SIZE_MAX) {
            return false;
        }
    }
    return n <= CONSUL_SESSION_CHECKS_MAX;
}

bool consul_session_is_valid(const struct consul_session *session) {
    bool ttl_fits = session->ttl_ms == 0 ||
                    (session->ttl_ms >= CONSUL_TTL_MS_MIN && session->ttl_ms <= CONSUL_TTL_MS_MAX);
    bool lifetime_fits =
        session->lifetime_ms == 0 ||
        (ttl_fits && session->ttl_ms > 0 && session->lifetime_ms >= session->ttl_ms &&
         session->lifetime_ms <= CONSUL_TTL_MULTIPLIER_MAX * session->ttl_ms);
    return ttl_fits && lifetime_fits && session->lock_delay_ms >= 0 &&
           session->lock_delay_ms <= CONSUL_LOCK_DELAY_MS_MAX &&
           session->name.size <= CONSUL_TEXT_SIZE_MAX &&
           session->node.size <= CONSUL_TEXT_SIZE_MAX &&
           texts_fit(session->node_checks, session->n_node_checks) &&
           texts_fit(session->service_checks, session->n_service_checks);
}
