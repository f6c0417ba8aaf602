/* Who a client is, and what an access list may say. */
#include "base/log.h"
#include "doors/zookeeper/zk_connection.h"
#include "doors/zookeeper/zk_jute_model.h"
#include "net/net_server.h"

#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdlib.h>

enum {
    SHA1_TEXT_SIZE = 28,      /* of 20 bytes as base64 */
    ID_SIZE_MAX = 1024,       /* user, colon and digest; a name in a certificate */
    AUTH_SIZE_MAX = 64 * 1024 /* of a packet */
};

/* A password on its way through leased's own authentication. */
struct zk_login {
    struct authenticator_login login;
    struct zk_connection *connection;
    int32_t xid;
    size_t id_size;
    uint8_t id[];
};

static bool is_text(struct bytes bytes, const char *text) {
    return bytes_equal(bytes, bytes_from_text(text));
}

/* --- Ids. --- */

static bool next_id(struct reader *reader, struct zk_id *out_id) {
    if (reader->failed || reader_left(reader) == 0) {
        return false;
    }
    out_id->scheme = reader_get_bytes(reader);
    out_id->id = reader_get_bytes(reader);
    return !reader->failed;
}

size_t zk_access_ids(const struct zk_connection *connection, struct arena *arena,
                     const struct zk_id **out_ids) {
    struct reader reader;
    struct zk_id *ids = arena_calloc(arena, connection->n_ids, sizeof *ids);
    size_t n = 0;
    reader_init(&reader, bytes_of(connection->ids.data, connection->ids.size));
    (void)reader_get_varint(&reader);
    while (n < connection->n_ids && next_id(&reader, &ids[n])) {
        n++;
    }
    *out_ids = ids;
    return n;
}

static bool add_id(struct zk_connection *connection, const char *scheme, struct bytes id) {
    struct reader reader;
    struct zk_id other;
    struct buffer ids;
    reader_init(&reader, bytes_of(connection->ids.data, connection->ids.size));
    (void)reader_get_varint(&reader);
    size_t begin = reader.position;
    while (next_id(&reader, &other)) {
        if (is_text(other.scheme, scheme) && bytes_equal(other.id, id)) {
            return true;
        }
    }
    if (connection->n_ids >= ZK_IDENTITIES_MAX) {
        return false;
    }
    buffer_init(&ids);
    buffer_put_varint(&ids, ++connection->n_ids);
    if (connection->ids.size > begin) {
        buffer_append(&ids, connection->ids.data + begin, connection->ids.size - begin);
    }
    buffer_put_bytes(&ids, bytes_from_text(scheme));
    buffer_put_bytes(&ids, id);
    buffer_clear(&connection->ids);
    connection->ids = ids;
    return true;
}

void zk_access_begin(struct zk_connection *connection) {
    char text[NET_ADDRESS_SIZE];
    raw_connection_address(connection->raw, text);
    struct bytes address = bytes_from_text(text);
    buffer_put_varint(&connection->ids, 0);
    /* "127.0.0.1:52100", "[::1]:52100" or "unix". */
    const char *colon = strrchr(text, ':');
    if (colon != NULL) {
        address.size = (size_t)(colon - text);
    }
    if (address.size > 2 && text[0] == '[') {
        address = bytes_of(text + 1, address.size - 2);
    }
    (void)add_id(connection, "ip", address);
    /* ZooKeeper has the whole subject here; the common name is what a connection keeps of it. */
    char name[ID_SIZE_MAX] = "CN=";
    if (raw_connection_certificate_name(connection->raw, name + 3, sizeof name - 3)) {
        (void)add_id(connection, "x509", bytes_from_text(name));
    }
}

/* --- Digests. --- */

/* "user:password" to "user:base64(sha1(user:password))". */
static bool digest_id(struct bytes auth, char out_text[ID_SIZE_MAX], size_t *out_size) {
    const uint8_t *colon = auth.size > 0 ? memchr(auth.data, ':', auth.size) : NULL;
    size_t user_size = colon == NULL ? auth.size : (size_t)(colon - auth.data);
    unsigned char digest[SHA_DIGEST_LENGTH];
    if (user_size + 1 + SHA1_TEXT_SIZE + 1 > ID_SIZE_MAX) {
        return false;
    }
    SHA1(auth.data, auth.size, digest);
    if (user_size > 0) {
        memcpy(out_text, auth.data, user_size);
    }
    out_text[user_size] = ':';
    EVP_EncodeBlock((unsigned char *)out_text + user_size + 1, digest, sizeof digest);
    *out_size = user_size + 1 + SHA1_TEXT_SIZE;
    return true;
}

static void answer_auth(struct zk_connection *connection, int32_t xid, bool is_right) {
    zk_connection_reply(connection, xid, zk_connection_zxid(connection),
                        is_right ? ZK_OK : ZK_AUTH_FAILED, bytes_of(NULL, 0));
    if (!is_right) {
        connection->door->counters.auth_failures++;
        raw_connection_close(connection->raw);
    }
}

static void take_digest(struct zk_connection *connection, int32_t xid, struct bytes id) {
    const char *super = connection->door->environment->values[ZK_FLAG_SUPER_DIGEST].text;
    bool is_super = super[0] != '\0' && is_text(id, super);
    answer_auth(connection, xid,
                add_id(connection, "digest", id) &&
                    (!is_super || add_id(connection, "super", bytes_of(NULL, 0))));
}

/* --- leased's own users. --- */

static void logged_in(struct authenticator_login *opaque, enum status status,
                      const struct caller *caller) {
    struct zk_login *login = list_entry(opaque, struct zk_login, login);
    struct zk_connection *connection = login->connection;
    connection->login = NULL;
    if (status == STATUS_OK) {
        raw_connection_set_caller(connection->raw, caller, sizeof *caller);
        take_digest(connection, login->xid, bytes_of(login->id, login->id_size));
    } else {
        answer_auth(connection, login->xid, false);
    }
    raw_connection_end_request(connection->raw);
    zk_connection_flow(connection);
    free(login);
}

static void log_in(struct zk_connection *connection, int32_t xid, struct bytes auth,
                   struct bytes id) {
    const uint8_t *colon = auth.size > 0 ? memchr(auth.data, ':', auth.size) : NULL;
    char address[NET_ADDRESS_SIZE];
    enum status status = STATUS_AUTH_FAILED;
    struct zk_login *login = malloc(sizeof *login + id.size);
    if (login == NULL || colon == NULL) {
        free(login);
        answer_auth(connection, xid, false);
        return;
    }
    *login = (struct zk_login){
        .login = {.done = logged_in}, .connection = connection, .xid = xid, .id_size = id.size};
    memcpy(login->id, id.data, id.size);
    raw_connection_address(connection->raw, address);
    size_t user_size = (size_t)(colon - auth.data);
    connection->login = login;
    raw_connection_begin_request(connection->raw);
    if (!authenticator_log_in(connection->door->environment->authenticator, &login->login,
                              bytes_of(auth.data, user_size),
                              bytes_of(colon + 1, auth.size - user_size - 1), address, &status)) {
        connection->login = NULL;
        raw_connection_end_request(connection->raw);
        answer_auth(connection, xid, status == STATUS_AUTH_NOT_ENABLED);
        free(login);
    }
}

void zk_access_cancel(struct zk_connection *connection) {
    if (connection->login != NULL) {
        authenticator_cancel(&connection->login->login);
        free(connection->login);
        connection->login = NULL;
    }
}

void zk_access_auth(struct zk_connection *connection, int32_t xid, struct bytes body) {
    struct reader reader;
    char id[ID_SIZE_MAX];
    size_t id_size;
    reader_init(&reader, body);
    (void)zk_jute_get_int(&reader);
    struct bytes scheme = zk_jute_get_bytes(&reader, NULL);
    bool is_null;
    struct bytes auth = zk_jute_get_bytes(&reader, &is_null);
    if (reader.failed || is_null || auth.size > AUTH_SIZE_MAX) {
        answer_auth(connection, xid, false);
        return;
    }
    if (is_text(scheme, "ip") || (is_text(scheme, "x509") && connection->n_ids > 1)) {
        answer_auth(connection, xid, true); /* known already */
        return;
    }
    if (!is_text(scheme, "digest") || !digest_id(auth, id, &id_size)) {
        answer_auth(connection, xid, false);
        return;
    }
    const struct auth *users = state_view_auth(service_view(connection->door->service));
    if (auth_is_enabled(users)) {
        log_in(connection, xid, auth, bytes_of(id, id_size));
    } else {
        take_digest(connection, xid, bytes_of(id, id_size));
    }
}

/* --- Access lists. --- */

static bool is_digest(struct bytes id) {
    const uint8_t *colon = id.size > 0 ? memchr(id.data, ':', id.size) : NULL;
    return colon != NULL && memchr(colon + 1, ':', id.size - (size_t)(colon - id.data) - 1) == NULL;
}

/* An entry that is there already is not repeated. */
static enum zk_error append_once(const struct zk_acl_entry *entry, struct buffer *out) {
    struct reader reader;
    struct zk_acl_entry other;
    size_t n = 0;
    reader_init(&reader, bytes_of(out->data, out->size));
    while (zk_acl_next(&reader, &other)) {
        if (other.permissions == entry->permissions &&
            bytes_equal(other.id.scheme, entry->id.scheme) &&
            bytes_equal(other.id.id, entry->id.id)) {
            return ZK_OK;
        }
        n++;
    }
    if (n == ZK_ACL_MAX) {
        return ZK_INVALID_ACL; /* "auth" stands for as many as the connection has ids */
    }
    zk_acl_append(out, entry);
    return ZK_OK;
}

static enum zk_error append_auth_ids(const struct zk_connection *connection, int32_t permissions,
                                     struct buffer *out) {
    const struct zk_id *ids;
    size_t n = zk_access_ids(connection, &connection->door->arena, &ids);
    enum zk_error error = ZK_OK;
    bool has_one = false;
    for (size_t i = 0; i < n && error == ZK_OK; i++) {
        if (is_text(ids[i].scheme, "digest") || is_text(ids[i].scheme, "x509")) {
            const struct zk_acl_entry entry = {.permissions = permissions, .id = ids[i]};
            error = append_once(&entry, out);
            has_one = true;
        }
    }
    return has_one ? error : ZK_INVALID_ACL;
}

static enum zk_error append_entry(const struct zk_connection *connection,
                                  const struct zk_acl_entry *entry, struct buffer *out) {
    struct bytes scheme = entry->id.scheme;
    bool is_valid = (is_text(scheme, "world") && is_text(entry->id.id, "anyone")) ||
                    (is_text(scheme, "digest") && is_digest(entry->id.id)) ||
                    (is_text(scheme, "ip") && zk_ip_is_pattern(entry->id.id)) ||
                    (is_text(scheme, "x509") && entry->id.id.size > 0);
    if (is_text(scheme, "auth")) {
        return append_auth_ids(connection, entry->permissions, out);
    }
    if (!is_valid) {
        return ZK_INVALID_ACL;
    }
    return append_once(entry, out);
}

/* The permissions of "auth" in one list: each stands for all ids of the connection. */
struct auth_entries {
    size_t n;
    int32_t permissions[ZK_ACL_MAX];
};

static bool is_repeated_auth(struct auth_entries *done, const struct zk_acl_entry *entry) {
    if (!is_text(entry->id.scheme, "auth")) {
        return false;
    }
    for (size_t i = 0; i < done->n; i++) {
        if (done->permissions[i] == entry->permissions) {
            return true;
        }
    }
    done->permissions[done->n++] = entry->permissions;
    return false;
}

static bool is_open(const struct zk_acl_entry *entry) {
    return entry->permissions == ZK_PERMISSION_ALL && is_text(entry->id.scheme, "world") &&
           is_text(entry->id.id, "anyone");
}

enum zk_error zk_access_read_acl(const struct zk_connection *connection, struct reader *reader,
                                 struct buffer *out) {
    size_t n = zk_jute_get_count(reader, 12);
    enum zk_error error = n == 0 || n > ZK_ACL_MAX ? ZK_INVALID_ACL : ZK_OK;
    bool is_all_open = n == 1;
    struct auth_entries done = {0};
    for (size_t i = 0; i < n; i++) {
        struct zk_acl_entry entry;
        entry.permissions = zk_jute_get_int(reader);
        entry.id.scheme = zk_jute_get_bytes(reader, NULL);
        entry.id.id = zk_jute_get_bytes(reader, NULL);
        if (reader->failed) {
            return ZK_MARSHALLING_ERROR;
        }
        is_all_open = is_all_open && is_open(&entry);
        if (error == ZK_OK && !is_repeated_auth(&done, &entry)) {
            error = append_entry(connection, &entry, out);
        }
    }
    if (is_all_open) {
        out->size = 0; /* what most nodes have is kept as nothing */
    }
    return error;
}
