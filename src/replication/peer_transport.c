#include "replication/peer_transport.h"

static int transport_init(struct raft_uv_transport *transport, raft_id id, const char *address) {
    (void)transport;
    (void)id;
    (void)address;
    return 0;
}

static int transport_listen(struct raft_uv_transport *transport, raft_uv_accept_cb accepted) {
    (void)transport;
    (void)accepted;
    return 0;
}

static int transport_connect(struct raft_uv_transport *transport, struct raft_uv_connect *connect,
                             raft_id id, const char *address, raft_uv_connect_cb done) {
    (void)transport;
    (void)connect;
    (void)id;
    (void)address;
    (void)done;
    return RAFT_NOCONNECTION;
}

static void transport_close(struct raft_uv_transport *transport, raft_uv_transport_close_cb done) {
    done(transport);
}

void peer_transport_init(struct raft_uv_transport *transport) {
    *transport = (struct raft_uv_transport){.version = 1,
                                            .init = transport_init,
                                            .listen = transport_listen,
                                            .connect = transport_connect,
                                            .close = transport_close};
}
