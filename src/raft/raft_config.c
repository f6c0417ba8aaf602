#include "raft/raft_config.h"

#include <string.h>

enum { CONFIG_FORMAT = 1, CONFIG_ALIGNMENT = 8 };

const struct raft_config_server *raft_config_find(const struct raft_config *config, uint64_t id) {
    for (size_t i = 0; i < config->n; i++) {
        if (config->servers[i].id == id) {
            return &config->servers[i];
        }
    }
    return NULL;
}

size_t raft_config_count_voters(const struct raft_config *config) {
    size_t n = 0;
    for (size_t i = 0; i < config->n; i++) {
        n += config->servers[i].role == CONFIG_VOTER;
    }
    return n;
}

bool raft_config_is_sole_voter(const struct raft_config *config, uint64_t id) {
    const struct raft_config_server *server = raft_config_find(config, id);
    return server != NULL && server->role == CONFIG_VOTER && raft_config_count_voters(config) == 1;
}

bool raft_config_add(struct raft_config *config, uint64_t id, const char *address,
                     enum raft_config_role role) {
    size_t length = strlen(address);
    if (config->n == RAFT_CONFIG_SERVERS_MAX || length > RAFT_CONFIG_ADDRESS_MAX ||
        raft_config_find(config, id) != NULL) {
        return false;
    }
    struct raft_config_server *server = &config->servers[config->n++];
    *server = (struct raft_config_server){.id = id, .role = role};
    memcpy(server->address, address, length);
    return true;
}

void raft_config_encode(struct buffer *buffer, const struct raft_config *config) {
    size_t start = buffer->size;
    buffer_put_u8(buffer, CONFIG_FORMAT);
    buffer_put_u64(buffer, config->n);
    for (size_t i = 0; i < config->n; i++) {
        const struct raft_config_server *server = &config->servers[i];
        buffer_put_u64(buffer, server->id);
        buffer_append(buffer, server->address, strlen(server->address) + 1);
        buffer_put_u8(buffer, (uint8_t)server->role);
    }
    while ((buffer->size - start) % CONFIG_ALIGNMENT != 0) {
        buffer_put_u8(buffer, 0);
    }
}

static bool decode_server(struct reader *reader, struct raft_config *config) {
    uint64_t id = reader_get_u64(reader);
    char address[RAFT_CONFIG_ADDRESS_MAX + 1];
    size_t length = 0;
    for (;;) {
        uint8_t byte = reader_get_u8(reader);
        if (reader->failed || length == sizeof address) {
            return false;
        }
        address[length++] = (char)byte;
        if (byte == 0) {
            break;
        }
    }
    uint8_t role = reader_get_u8(reader);
    return !reader->failed && id != 0 && role <= CONFIG_SPARE &&
           raft_config_add(config, id, address, role);
}

enum status raft_config_decode(struct bytes bytes, struct raft_config *out_config) {
    struct reader reader;
    reader_init(&reader, bytes);
    struct raft_config config = {0};
    uint8_t format = reader_get_u8(&reader);
    uint64_t n = reader_get_u64(&reader);
    if (reader.failed || format != CONFIG_FORMAT || n > RAFT_CONFIG_SERVERS_MAX) {
        return STATUS_MALFORMED;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (!decode_server(&reader, &config)) {
            return STATUS_MALFORMED;
        }
    }
    if (bytes.size % CONFIG_ALIGNMENT != 0 || reader_left(&reader) >= CONFIG_ALIGNMENT) {
        return STATUS_MALFORMED;
    }
    while (reader_left(&reader) > 0) {
        if (reader_get_u8(&reader) != 0) {
            return STATUS_MALFORMED;
        }
    }
    *out_config = config;
    return STATUS_OK;
}
