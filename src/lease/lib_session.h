/*
 * Sessions and their keepers: one stream of renewals for all sessions of a connection, at most one
 * renewal of each session under way, events told as notices.
 */
#ifndef LEASED_LEASE_LIB_SESSION_H
#define LEASED_LEASE_LIB_SESSION_H

#include "lease/lib_connection.h"
#include "lease/lib_keeper.h"

struct lease_session {
    struct list link;
    struct lease_connection *connection;
    int64_t id;
    struct lib_keeper keeper;
    lease_event_callback *on_event;
    void *context;
    uint64_t sequence; /* of the last renewal */
    bool is_settled;   /* since lease_session_renew() began: a renewal succeeded or failed */
    bool has_renewed;  /* and which */
    char reason[LIB_TEXT_SIZE_MAX];
};

/* What creates one, in the words of the protocol. */
struct lib_session_plan {
    int64_t ttl_ms;
    enum lease_class lease_class;
    enum lease_strategy strategy;
    const char *owner;
    const char *note;
    int64_t parent_id;
};

/* With the mutex held: */
void lib_sessions_poll(struct lease_connection *connection, uint64_t now_ms);
uint64_t lib_sessions_wake_ms(const struct lease_connection *connection);
/* Acts on what a keeper said. */
void lib_session_act(struct lease_session *session, unsigned acts);
bool lib_session_is_alive(const struct lease_session *session);
/* NULL: it was destroyed. */
struct lease_session *lib_session_find(const struct lease_connection *connection, int64_t id);

/* ---- lib_renewal.c ---- */

/* Sends a renewal of the session. */
void lib_renewal_send(struct lease_session *session, uint64_t now_ms);
/* The server does not answer: all that are under way have failed. */
void lib_renewal_give_up(struct lease_connection *connection, const char *reason);

/* ---- lib_session_wire.c: both protocols ---- */

void lib_session_encode_create(enum lease_protocol protocol, const struct lib_session_plan *plan,
                               struct lib_request *out_request);
/* The fields of leased.v1.CreateSessionRequest alone. */
void lib_session_encode_plan(const struct lib_session_plan *plan, struct buffer *out_message);
bool lib_session_decode_create(enum lease_protocol protocol, struct bytes message, int64_t *out_id,
                               int64_t *out_ttl_ms);
void lib_session_encode_end(enum lease_protocol protocol, int64_t id,
                            struct lib_request *out_request);
void lib_session_encode_renewal(enum lease_protocol protocol, int64_t id, uint64_t sequence,
                                struct buffer *out_message);
struct lib_renewal {
    int64_t id;
    uint64_t sequence; /* etcd: 0 */
    int64_t ttl_ms;    /* 0: it has ended */
};
bool lib_session_decode_renewal(enum lease_protocol protocol, struct bytes message,
                                struct lib_renewal *out_renewal);

#endif
