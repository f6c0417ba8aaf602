#include "lease/lib_session.h"

#include "base/clock.h"
#include "lease/lib_message.h"
#include "lease/lib_wait.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- events ---- */

struct event_notice {
    struct lib_notice base;
    struct lease_session *session;
    lease_event_callback *callback;
    void *context;
    enum lease_event event;
    char reason[LIB_TEXT_SIZE_MAX];
};

static void run_event(struct lib_notice *base) {
    struct event_notice *notice = (struct event_notice *)base;
    notice->callback(notice->session, notice->event, notice->reason, notice->context);
}

static void tell(struct lease_session *session, enum lease_event event) {
    if (session->on_event == NULL) {
        return;
    }
    struct event_notice *notice = calloc(1, sizeof *notice);
    if (notice == NULL) {
        abort();
    }
    notice->base.run = run_event;
    notice->session = session;
    notice->callback = session->on_event;
    notice->context = session->context;
    notice->event = event;
    memcpy(notice->reason, session->reason, sizeof notice->reason);
    lib_notice_add(session->connection, &notice->base, session);
}

bool lib_session_is_alive(const struct lease_session *session) {
    return session->keeper.state == LEASE_SESSION_VALID ||
           session->keeper.state == LEASE_SESSION_JEOPARDY;
}

struct lease_session *lib_session_find(const struct lease_connection *connection, int64_t id) {
    const struct list *sessions = &connection->sessions;
    for (struct list *node = sessions->next; node != sessions; node = node->next) {
        struct lease_session *session = list_entry(node, struct lease_session, link);
        if (session->id == id) {
            return session;
        }
    }
    return NULL;
}

void lib_session_act(struct lease_session *session, unsigned acts) {
    if ((acts & LIB_KEEPER_RESTORED) != 0) {
        tell(session, LEASE_EVENT_RESTORED);
    }
    if ((acts & LIB_KEEPER_JEOPARDY) != 0) {
        tell(session, LEASE_EVENT_JEOPARDY);
    }
    if ((acts & LIB_KEEPER_LOST) != 0) {
        tell(session, LEASE_EVENT_LOST);
        session->is_settled = true;
        session->has_renewed = false;
        lib_waits_lost(session, session->reason);
        lib_changed(session->connection);
    }
}

/* ---- time ---- */

static void poll_one(struct lease_session *session, uint64_t now_ms) {
    unsigned acts = lib_keeper_poll(&session->keeper, now_ms);
    if ((acts & LIB_KEEPER_RENEW) != 0) {
        lib_renewal_send(session, now_ms);
    }
    if ((acts & LIB_KEEPER_LATE) != 0) {
        lib_renewal_give_up(session->connection, "the server did not answer a renewal in time");
    }
    if ((acts & LIB_KEEPER_LOST) != 0 && session->keeper.has_failed) {
        char before[LIB_TEXT_SIZE_MAX];
        memcpy(before, session->reason, sizeof before);
        snprintf(session->reason, sizeof session->reason, "it could not be renewed in time; %.440s",
                 before);
    } else if ((acts & LIB_KEEPER_LOST) != 0) {
        snprintf(session->reason, sizeof session->reason, "it was not renewed in time");
    }
    lib_session_act(session, acts);
}

void lib_sessions_poll(struct lease_connection *connection, uint64_t now_ms) {
    struct list *sessions = &connection->sessions;
    for (struct list *node = sessions->next; node != sessions; node = node->next) {
        poll_one(list_entry(node, struct lease_session, link), now_ms);
    }
}

uint64_t lib_sessions_wake_ms(const struct lease_connection *connection) {
    uint64_t wake_ms = UINT64_MAX;
    const struct list *sessions = &connection->sessions;
    for (const struct list *node = sessions->next; node != sessions; node = node->next) {
        const struct lease_session *session = list_entry(node, struct lease_session, link);
        uint64_t own_ms = lib_keeper_wake_ms(&session->keeper);
        wake_ms = own_ms < wake_ms ? own_ms : wake_ms;
    }
    return wake_ms;
}

/* Whoever is told that it is not valid is told the truth for ever. */
static int64_t look(struct lease_session *session) {
    if (lib_is_inherited(session->connection)) {
        return 0; /* a child has nothing: its parent renews it */
    }
    uint64_t now_ms = clock_boottime_ms();
    int64_t left_ms = lib_keeper_valid_for_ms(&session->keeper, now_ms);
    if (left_ms == 0 && lib_session_is_alive(session)) {
        poll_one(session, now_ms);
    }
    return left_ms;
}

int64_t lease_valid_for_ms(const struct lease_session *session) {
    struct lease_session *own = (struct lease_session *)session;
    lib_lock(own->connection);
    int64_t left_ms = look(own);
    lib_unlock(own->connection);
    return left_ms;
}

uint64_t lease_valid_until_ms(const struct lease_session *session) {
    struct lease_session *own = (struct lease_session *)session;
    lib_lock(own->connection);
    uint64_t until_ms = look(own) > 0 ? lib_keeper_valid_until_ms(&session->keeper) : 0;
    lib_unlock(own->connection);
    return until_ms;
}

int64_t lease_session_id(const struct lease_session *session) {
    return session->id;
}

int64_t lease_session_ttl_ms(const struct lease_session *session) {
    lib_lock(session->connection);
    int64_t ttl_ms = session->keeper.ttl_ms;
    lib_unlock(session->connection);
    return ttl_ms;
}

enum lease_session_state lease_session_state(const struct lease_session *session) {
    struct lease_session *own = (struct lease_session *)session;
    lib_lock(own->connection);
    (void)look(own);
    enum lease_session_state state =
        lib_is_inherited(own->connection) ? LEASE_SESSION_LOST : own->keeper.state;
    lib_unlock(own->connection);
    return state;
}

/* ---- using ---- */

void lease_session_touch(struct lease_session *session) {
    lib_lock(session->connection);
    lib_keeper_touch(&session->keeper);
    lib_step(session->connection);
    lib_unlock(session->connection);
}

enum lease_status lease_session_renew(struct lease_session *session) {
    struct lease_connection *connection = session->connection;
    lib_lock(connection);
    enum lease_status status = lib_may_wait(connection);
    if (status == LEASE_OK && look(session) == 0) {
        status = lib_error(LEASE_LOST, "the session is not valid any more");
    }
    if (status == LEASE_OK) {
        session->is_settled = false;
        session->has_renewed = false;
        lib_keeper_want(&session->keeper);
        lib_step(connection);
        lib_wait_until(connection, &session->is_settled,
                       clock_boottime_ms() + connection->request_timeout_ms);
        if (!lib_session_is_alive(session)) {
            status = lib_error(LEASE_LOST, "%s", session->reason);
        } else if (!session->is_settled) {
            status = lib_error(LEASE_TIMEOUT, "the server did not answer in time");
        } else if (!session->has_renewed) {
            status = lib_error(LEASE_UNAVAILABLE, "%s", session->reason);
        }
    }
    lib_unlock(connection);
    return status;
}

enum lease_status lease_session_change(struct lease_session *session, int64_t ttl_ms) {
    struct lease_connection *connection = session->connection;
    if (connection->protocol == LEASE_PROTOCOL_ETCD) {
        return lib_error(LEASE_UNSUPPORTED, "etcd's leases cannot change their TTL");
    }
    if (ttl_ms <= 0) {
        return lib_error(LEASE_INVALID, "a TTL is above 0");
    }
    struct lib_request request = {.path = "/leased.v1.Sessions/Change"};
    lib_put_int(&request.message, 1, session->id);
    lib_put_int(&request.message, 2, ttl_ms);
    lib_lock(connection);
    uint64_t sent_ms = clock_boottime_ms();
    lib_keeper_change(&session->keeper, ttl_ms, sent_ms);
    lib_unlock(connection);
    enum lease_status status = lib_tell(connection, &request);
    if (status != LEASE_OK) {
        return status == LEASE_NOT_FOUND ? lib_error(LEASE_LOST, "the session has ended") : status;
    }
    lib_lock(connection);
    lib_session_act(session,
                    lib_keeper_changed(&session->keeper, ttl_ms, sent_ms, clock_boottime_ms()));
    lib_step(connection);
    lib_unlock(connection);
    return LEASE_OK;
}

/* From here on it is not valid. */
static bool stop(struct lease_session *session, struct lib_request *out_request) {
    struct lease_connection *connection = session->connection;
    bool was_over = session->keeper.state == LEASE_SESSION_ENDED;
    lib_keeper_stop(&session->keeper);
    lib_notice_forget(connection, session);
    lib_waits_lost(session, "the session was ended");
    lib_session_encode_end(connection->protocol, session->id, out_request);
    if (was_over) {
        buffer_clear(&out_request->message);
    }
    return !was_over;
}

enum lease_status lease_session_end(struct lease_session *session) {
    struct lease_connection *connection = session->connection;
    struct lib_request request = {0};
    lib_lock(connection);
    enum lease_status status = lib_may_wait(connection);
    bool is_wanted = status == LEASE_OK && stop(session, &request);
    lib_unlock(connection);
    if (!is_wanted) {
        return status;
    }
    status = lib_tell(connection, &request);
    return status == LEASE_NOT_FOUND ? LEASE_OK : status;
}

void lease_session_end_start(struct lease_session *session) {
    struct lib_request request = {0};
    lib_lock(session->connection);
    if (!lib_is_inherited(session->connection) && stop(session, &request)) {
        lib_farewell(session->connection, &request, 0);
        lib_step(session->connection);
    }
    lib_unlock(session->connection);
}

void lease_session_destroy(struct lease_session *session) {
    if (session == NULL || lib_is_inherited(session->connection)) {
        return;
    }
    struct lease_connection *connection = session->connection;
    lib_lock(connection);
    session->on_event = NULL;
    lib_keeper_stop(&session->keeper);
    lib_notice_forget(connection, session);
    lib_waits_lost(session, "the session was destroyed");
    list_remove(&session->link);
    lib_unlock(connection);
    free(session);
}

/* ---- sessions of others ---- */

enum lease_status lease_end_id(struct lease_connection *connection, int64_t session_id) {
    enum lease_protocol protocol;
    enum lease_status status = lib_know_protocol(connection, &protocol);
    if (status != LEASE_OK) {
        return status;
    }
    struct lib_request request = {0};
    lib_session_encode_end(protocol, session_id, &request);
    if (protocol == LEASE_PROTOCOL_NATIVE) {
        lib_put_int(&request.message, 2, 1); /* by somebody else than its holder */
    }
    return lib_tell(connection, &request);
}

enum lease_status lease_renew_id(struct lease_connection *connection, int64_t session_id,
                                 int64_t *out_ttl_ms) {
    enum lease_protocol protocol;
    enum lease_status status = lib_know_protocol(connection, &protocol);
    if (status != LEASE_OK) {
        return status;
    }
    bool is_etcd = protocol == LEASE_PROTOCOL_ETCD;
    struct lib_request request = {
        .path = is_etcd ? "/etcdserverpb.Lease/LeaseKeepAlive" : "/leased.v1.Sessions/Renew",
        .is_repeatable = true,
    };
    /* A stream with one request, which the end of the requests ends. */
    lib_session_encode_renewal(protocol, session_id, 1, &request.message);
    struct buffer answer;
    status = lib_ask(connection, &request, &answer);
    if (status != LEASE_OK) {
        return status;
    }
    struct lib_renewal renewal;
    bool is_well =
        lib_session_decode_renewal(protocol, bytes_of(answer.data, answer.size), &renewal);
    buffer_clear(&answer);
    if (!is_well) {
        return lib_error(LEASE_PROTOCOL, "the server's answer is malformed");
    }
    if (renewal.ttl_ms <= 0) {
        return lib_error(LEASE_NOT_FOUND, "there is no such session, or it has ended");
    }
    if (out_ttl_ms != NULL) {
        *out_ttl_ms = renewal.ttl_ms;
    }
    return LEASE_OK;
}
