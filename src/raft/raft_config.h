/*
 * Who takes part in raft, without a type of libraft: the configuration as a plain array, and its
 * bytes as libraft encodes them.
 */
#ifndef LEASED_RAFT_RAFT_CONFIG_H
#define LEASED_RAFT_RAFT_CONFIG_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Servers: as many as a cluster may have members, and no room for more that others may claim. */
enum { RAFT_CONFIG_SERVERS_MAX = 16, RAFT_CONFIG_ADDRESS_MAX = 288 };

enum raft_config_role { CONFIG_STANDBY = 0, CONFIG_VOTER = 1, CONFIG_SPARE = 2 };

struct raft_config_server {
    uint64_t id;
    enum raft_config_role role;
    char address[RAFT_CONFIG_ADDRESS_MAX + 1];
};

struct raft_config {
    size_t n;
    struct raft_config_server servers[RAFT_CONFIG_SERVERS_MAX];
};

/* NULL: not in it. */
const struct raft_config_server *raft_config_find(const struct raft_config *config, uint64_t id);
size_t raft_config_count_voters(const struct raft_config *config);
/* Is this the only voter? */
bool raft_config_is_sole_voter(const struct raft_config *config, uint64_t id);
/* False: no room, or there already. */
bool raft_config_add(struct raft_config *config, uint64_t id, const char *address,
                     enum raft_config_role role);

/* libraft's format, version 1: a byte 1, a u64 count, and for each server a u64 id, its address
 * with a zero byte, a byte for its role; little-endian; padded with zeros to a multiple of eight.
 */
void raft_config_encode(struct buffer *buffer, const struct raft_config *config);
/* Bounds-checked. STATUS_MALFORMED: also for ids of 0, duplicates, unknown roles, bytes left over,
 * more servers than there may be. */
enum status raft_config_decode(struct bytes bytes, struct raft_config *out_config);

#endif
