#include "replication/peer_transport.h"

#include "base/list.h"
#include "replication/peer_dial.h"
#include "replication/peers.h"

#include <stdlib.h>

struct peer_transport_dial {
    struct peer_transport_dial *next;
    struct peer_transport *transport;
    struct raft_uv_connect *request;
    raft_uv_connect_cb done;
    struct peer_dial *dial;
};

static struct peer_transport *transport_of(struct raft_uv_transport *raft) {
    return list_entry(raft, struct peer_transport, raft);
}

static int transport_init(struct raft_uv_transport *raft, raft_id id, const char *address) {
    (void)raft;
    (void)id;
    (void)address;
    return 0;
}

static int transport_listen(struct raft_uv_transport *raft, raft_uv_accept_cb accepted) {
    transport_of(raft)->accepted = accepted;
    return 0;
}

static void dialled(void *data, uv_stream_t *stream, const char *reason) {
    struct peer_transport_dial *dial = data;
    struct peer_transport_dial **place = &dial->transport->dials;
    (void)reason;
    while (*place != dial) {
        place = &(*place)->next;
    }
    *place = dial->next;
    dial->done(dial->request, stream, stream != NULL ? 0 : RAFT_NOCONNECTION);
    free(dial);
}

static int transport_connect(struct raft_uv_transport *raft, struct raft_uv_connect *request,
                             raft_id id, const char *address, raft_uv_connect_cb done) {
    struct peer_transport *transport = transport_of(raft);
    if (transport->peers == NULL) {
        return RAFT_NOCONNECTION;
    }
    struct peer_transport_dial *dial = calloc(1, sizeof *dial);
    if (dial == NULL) {
        return RAFT_NOMEM;
    }
    *dial = (struct peer_transport_dial){
        .next = transport->dials, .transport = transport, .request = request, .done = done};
    transport->dials = dial;
    dial->dial = peers_dial_raft(transport->peers, id, address, dialled, dial);
    return 0;
}

static void transport_close(struct raft_uv_transport *raft, raft_uv_transport_close_cb done) {
    struct peer_transport *transport = transport_of(raft);
    transport->accepted = NULL;
    while (transport->dials != NULL) {
        peer_dial_cancel(transport->dials->dial);
    }
    done(raft);
}

void peer_transport_init(struct peer_transport *transport, struct peers *peers) {
    *transport = (struct peer_transport){.raft = {.version = 1,
                                                  .init = transport_init,
                                                  .listen = transport_listen,
                                                  .connect = transport_connect,
                                                  .close = transport_close},
                                         .peers = peers};
}

static void free_stream(uv_handle_t *handle) {
    free(handle);
}

void peer_transport_accept(struct peer_transport *transport, uint64_t id, const char *address,
                           uv_stream_t *stream) {
    if (transport->accepted == NULL) {
        uv_close((uv_handle_t *)stream, free_stream);
        return;
    }
    transport->accepted(&transport->raft, id, address, stream);
}
