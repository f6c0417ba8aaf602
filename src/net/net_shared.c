#include "net/net_shared.h"

#include "net/grpc_call.h"
#include "net/http2_request.h"
#include "net/http2_session.h"

#include <assert.h>

/* A request of 1.5 MiB and its frame around it; one client may keep thousands of lock calls open,
 * as etcd sets no limit at all. */
const struct net_limits net_limits_default = {
    .connections_max = 65536,
    .streams_max = 16384,
    .message_size_max = 2 * 1024 * 1024,
    .header_size_max = 16 * 1024,
    .stream_queue_high = 256 * 1024,
    .connection_queue_max = 4 * 1024 * 1024,
    .connection_queue_abort = 64 * 1024 * 1024,
    .queue_total_soft = 128 * 1024 * 1024,
    .queue_total_max = 192 * 1024 * 1024,
    .hoard_size = 1024 * 1024,
    .hoard_timeout_ms = 10 * 1000,
    .evict_after_ms = 1000,
    .handshake_timeout_ms = 10 * 1000,
    .keepalive_interval_ms = 60 * 1000,
    .keepalive_timeout_ms = 20 * 1000,
    .write_timeout_ms = 30 * 1000,
};

void net_shared_init(struct net_shared *shared, const struct net_limits *limits, uint64_t now_ms) {
    assert(limits->streams_max > 0);
    assert(limits->stream_queue_high <= limits->connection_queue_max);
    assert(limits->connection_queue_max <= limits->connection_queue_abort);
    assert(limits->queue_total_soft <= limits->queue_total_max);
    *shared = (struct net_shared){.limits = *limits};
    route_table_init(&shared->routes);
    shared->timers = net_timers_create(now_ms);
    shared->http2 = http2_library_create();
    list_init(&shared->free_calls);
    list_init(&shared->waiting_bridges);
    list_init(&shared->partials);
    list_init(&shared->crowded);
    buffer_init(&shared->discarded);
}

void net_shared_clear(struct net_shared *shared) {
    assert(shared->stats.calls == 0);
    assert(shared->held_bytes == 0);
    grpc_call_drop_free(shared);
    http2_request_drop_free(shared);
    http2_library_destroy(shared->http2);
    net_timers_destroy(shared->timers);
    route_table_clear(&shared->routes);
    buffer_clear(&shared->discarded);
}
