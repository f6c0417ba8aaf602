#include "raft/raft_config.h"

#include <string.h>

enum { FORMAT_VERSION = 1, ALIGNMENT = 8 };

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

/* libraft refuses a configuration with one address twice. */
static bool has_address(const struct raft_config *config, const char *address) {
    for (size_t i = 0; i < config->n; i++) {
        if (strcmp(config->servers[i].address, address) == 0) {
            return true;
        }
    }
    return false;
}

bool raft_config_add(struct raft_config *config, uint64_t id, const char *address,
                     enum raft_config_role role) {
    size_t size = strlen(address);
    if (id == 0 || config->n == RAFT_CONFIG_SERVERS_MAX || size > RAFT_CONFIG_ADDRESS_MAX ||
        raft_config_find(config, id) != NULL || has_address(config, address)) {
        return false;
    }
    struct raft_config_server *server = &config->servers[config->n++];
    *server = (struct raft_config_server){.id = id, .role = role};
    memcpy(server->address, address, size + 1);
    return true;
}

void raft_config_encode(struct buffer *buffer, const struct raft_config *config) {
    size_t start = buffer->size;
    buffer_put_u8(buffer, FORMAT_VERSION);
    buffer_put_u64(buffer, config->n);
    for (size_t i = 0; i < config->n; i++) {
        const struct raft_config_server *server = &config->servers[i];
        buffer_put_u64(buffer, server->id);
        buffer_append(buffer, server->address, strlen(server->address) + 1);
        buffer_put_u8(buffer, (uint8_t)server->role);
    }
    while ((buffer->size - start) % ALIGNMENT != 0) {
        buffer_put_u8(buffer, 0);
    }
}

/* False: it has no end within the bytes, or is too long. */
static bool get_address(struct reader *reader, char *out_address) {
    for (size_t i = 0; i <= RAFT_CONFIG_ADDRESS_MAX; i++) {
        out_address[i] = (char)reader_get_u8(reader);
        if (reader->failed) {
            return false;
        }
        if (out_address[i] == 0) {
            return true;
        }
    }
    return false;
}

static bool get_server(struct reader *reader, struct raft_config *config) {
    char address[RAFT_CONFIG_ADDRESS_MAX + 1];
    uint64_t id = reader_get_u64(reader);
    if (!get_address(reader, address)) {
        return false;
    }
    uint8_t role = reader_get_u8(reader);
    return !reader->failed && role <= CONFIG_SPARE && raft_config_add(config, id, address, role);
}

/* Zeros up to a multiple of eight, and nothing else. */
static bool ends_here(struct reader *reader) {
    if (reader->size % ALIGNMENT != 0 || reader_left(reader) >= ALIGNMENT) {
        return false;
    }
    while (reader_left(reader) > 0) {
        if (reader_get_u8(reader) != 0) {
            return false;
        }
    }
    return true;
}

enum status raft_config_decode(struct bytes bytes, struct raft_config *out_config) {
    struct reader reader;
    reader_init(&reader, bytes);
    uint8_t version = reader_get_u8(&reader);
    uint64_t n = reader_get_u64(&reader);
    if (reader.failed || version != FORMAT_VERSION || n == 0 || n > RAFT_CONFIG_SERVERS_MAX) {
        return STATUS_MALFORMED;
    }
    struct raft_config config;
    config.n = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (!get_server(&reader, &config)) {
            return STATUS_MALFORMED;
        }
    }
    if (!ends_here(&reader)) {
        return STATUS_MALFORMED;
    }
    out_config->n = config.n;
    memcpy(out_config->servers, config.servers, config.n * sizeof config.servers[0]);
    return STATUS_OK;
}
