/* The stream of renewals, one for all sessions of a connection. */
#include "base/clock.h"
#include "lease/lib_session.h"

#include <stdio.h>

static void settle(struct lease_session *session, bool has_renewed, unsigned acts) {
    session->is_settled = true;
    session->has_renewed = has_renewed;
    lib_session_act(session, acts);
    lib_changed(session->connection);
}

static void on_message(struct lib_call *call, struct bytes message) {
    struct lease_connection *connection = call->connection;
    struct lib_renewal renewal;
    if (!lib_session_decode_renewal(connection->protocol, message, &renewal)) {
        return; /* as if it had not come: it will be late */
    }
    struct lease_session *session = lib_session_find(connection, renewal.id);
    bool is_paired =
        session != NULL && session->keeper.is_asking &&
        (connection->protocol == LEASE_PROTOCOL_ETCD || renewal.sequence == session->sequence);
    if (!is_paired) {
        return;
    }
    if (renewal.ttl_ms <= 0) {
        snprintf(session->reason, sizeof session->reason, "the server says that it has ended");
        settle(session, false, lib_keeper_ended(&session->keeper));
        return;
    }
    unsigned acts = lib_keeper_renewed(&session->keeper, renewal.ttl_ms, clock_boottime_ms());
    snprintf(session->reason, sizeof session->reason,
             (acts & LIB_KEEPER_LOST) != 0 ? "the answer to a renewal came too late"
                                           : "a renewal succeeded");
    settle(session, (acts & LIB_KEEPER_LOST) == 0, acts);
}

static void fail_all(struct lease_connection *connection, const char *reason) {
    uint64_t now_ms = clock_boottime_ms();
    struct list *sessions = &connection->sessions;
    for (struct list *node = sessions->next; node != sessions; node = node->next) {
        struct lease_session *session = list_entry(node, struct lease_session, link);
        if (session->keeper.is_asking) {
            snprintf(session->reason, sizeof session->reason, "a renewal failed: %.450s", reason);
            settle(session, false, lib_keeper_failed(&session->keeper, now_ms));
        }
    }
}

static void on_end(struct lib_call *call, enum lib_code code, const char *text) {
    struct lease_connection *connection = call->connection;
    if (connection->renewals == call) {
        connection->renewals = NULL;
    }
    if (code == LIB_CODE_UNAUTHENTICATED) {
        (void)lib_ready_authenticate_again(connection);
    }
    fail_all(connection, code == LIB_CODE_OK ? "the server ended the stream" : text);
}

static const struct lib_method native_method = {
    .path = "/leased.v1.Sessions/Renew",
    .is_stream = true,
    .on_message = on_message,
    .on_end = on_end,
};

static const struct lib_method etcd_method = {
    .path = "/etcdserverpb.Lease/LeaseKeepAlive",
    .is_stream = true,
    .on_message = on_message,
    .on_end = on_end,
};

void lib_renewal_send(struct lease_session *session, uint64_t now_ms) {
    struct lease_connection *connection = session->connection;
    bool is_etcd = connection->protocol == LEASE_PROTOCOL_ETCD;
    struct buffer message;
    buffer_init(&message);
    session->sequence = ++connection->next_number;
    lib_session_encode_renewal(connection->protocol, session->id, session->sequence, &message);
    lib_keeper_asked(&session->keeper, now_ms);
    struct bytes bytes = bytes_of(message.data, message.size);
    if (connection->renewals == NULL) {
        connection->renewals =
            lib_call_start(connection, is_etcd ? &etcd_method : &native_method, bytes, NULL, 0);
    } else {
        lib_call_send(connection->renewals, bytes);
    }
    buffer_clear(&message);
}

void lib_renewal_give_up(struct lease_connection *connection, const char *reason) {
    lib_call_cancel(connection->renewals);
    connection->renewals = NULL;
    if (connection->socket != NULL && connection->stage == LIB_STAGE_READY) {
        lib_socket_fail(connection->socket, reason);
    }
    fail_all(connection, reason);
}
