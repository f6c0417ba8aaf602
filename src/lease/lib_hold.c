/* What was acquired, and the usual ways to acquire. */
#include "base/clock.h"
#include "lease/lib_etcd_late.h"
#include "lease/lib_etcd_wire.h"
#include "lease/lib_message.h"
#include "lease/lib_wait.h"

#include <stdlib.h>
#include <string.h>

/* ---- acquiring and waiting in one ---- */

enum lease_status lease_acquire(struct lease_session *session,
                                const struct lease_acquire_options *options,
                                struct lease_hold **out_hold) {
    struct lease_wait *wait = NULL;
    lib_lock(session->connection);
    enum lease_status status = lib_may_wait(session->connection);
    lib_unlock(session->connection);
    if (status == LEASE_OK) {
        status = lease_acquire_start(session, options, NULL, NULL, &wait);
    }
    if (status == LEASE_OK) {
        status = lease_wait_finish(wait, LEASE_WAIT_FOREVER, out_hold);
        lease_wait_destroy(wait);
    }
    return status;
}

static enum lease_status acquire_one(struct lease_session *session, const struct lease_want *want,
                                     const char *value, int64_t wait_ms,
                                     struct lease_hold **out_hold) {
    struct lease_acquire_options options = LEASE_ACQUIRE_OPTIONS_INIT;
    options.wants = want;
    options.n_wants = 1;
    options.wait_ms = wait_ms;
    options.value = value;
    return lease_acquire(session, &options, out_hold);
}

enum lease_status lease_lock(struct lease_session *session, const char *resource, int64_t wait_ms,
                             struct lease_hold **out_hold) {
    const struct lease_want want = {.resource = resource};
    return acquire_one(session, &want, NULL, wait_ms, out_hold);
}

enum lease_status lease_try(struct lease_session *session, const char *resource,
                            struct lease_hold **out_hold) {
    return lease_lock(session, resource, LEASE_NO_WAIT, out_hold);
}

enum lease_status lease_lock_shared(struct lease_session *session, const char *resource,
                                    int64_t wait_ms, struct lease_hold **out_hold) {
    const struct lease_want want = {.resource = resource, .mode = LEASE_SHARED};
    return acquire_one(session, &want, NULL, wait_ms, out_hold);
}

/* This call's limit is over, not the wait's; it may have been decided since. */
static bool goes_on(struct lease_wait *wait, enum lease_status status) {
    lib_lock(wait->connection);
    bool has_timed_out = wait->is_over && wait->status == LEASE_TIMEOUT;
    lib_unlock(wait->connection);
    return status == LEASE_TIMEOUT && !has_timed_out;
}

enum lease_status lease_lock_within(struct lease_session *session, const char *resource,
                                    enum lease_mode mode, int64_t wait_ms, int64_t limit_ms,
                                    struct lease_hold **out_hold, struct lease_wait **out_wait) {
    const struct lease_want want = {.resource = resource, .mode = mode};
    struct lease_acquire_options options = LEASE_ACQUIRE_OPTIONS_INIT;
    struct lease_wait *wait = NULL;
    options.wants = &want;
    options.n_wants = 1;
    options.wait_ms = wait_ms;
    *out_wait = NULL;
    if (limit_ms <= 0) {
        return lib_error(LEASE_INVALID, "a limit is above 0");
    }
    lib_lock(session->connection);
    enum lease_status status = lib_may_wait(session->connection);
    lib_unlock(session->connection);
    if (status == LEASE_OK) {
        status = lease_acquire_start(session, &options, NULL, NULL, &wait);
    }
    if (status != LEASE_OK) {
        return status;
    }
    status = lease_wait_finish(wait, limit_ms, out_hold);
    if (goes_on(wait, status)) {
        *out_wait = wait;
    } else {
        lease_wait_destroy(wait);
    }
    return status;
}

enum lease_status lease_reserve(struct lease_session *session, const char *pool, uint32_t slots,
                                int64_t wait_ms, struct lease_hold **out_hold) {
    const struct lease_want want = {.pool = pool, .slots = slots};
    return acquire_one(session, &want, NULL, wait_ms, out_hold);
}

enum lease_status lease_campaign(struct lease_session *session, const char *resource,
                                 const char *value, int64_t wait_ms, struct lease_hold **out_hold) {
    const struct lease_want want = {.resource = resource};
    return acquire_one(session, &want, value, wait_ms, out_hold);
}

/* ---- holds ---- */

int64_t lease_hold_token(const struct lease_hold *hold) {
    return hold->acquisition.token;
}

const struct lease_acquisition *lease_hold_acquisition(const struct lease_hold *hold) {
    return &hold->acquisition;
}

struct lease_session *lease_hold_session(const struct lease_hold *hold) {
    return hold->session;
}

int64_t lease_hold_valid_for_ms(const struct lease_hold *hold) {
    lib_lock(hold->connection);
    bool may_be_over = hold->n_ends > 0;
    lib_unlock(hold->connection);
    if (may_be_over) {
        return 0;
    }
    int64_t left_ms = lease_valid_for_ms(hold->session);
    uint64_t now_ms = clock_boottime_ms();
    if (hold->limit_ms != UINT64_MAX) {
        int64_t limit_ms = hold->limit_ms > now_ms ? (int64_t)(hold->limit_ms - now_ms) : 0;
        left_ms = limit_ms < left_ms ? limit_ms : left_ms;
    }
    return left_ms;
}

static bool is_etcd(const struct lease_hold *hold) {
    return hold->place.key != NULL;
}

static void encode_release(const struct lease_hold *hold, struct lib_request *out_request) {
    if (is_etcd(hold)) {
        lib_etcd_encode_release(hold, out_request);
    } else {
        lib_native_encode_release(hold, out_request);
    }
}

/* ReleaseResponse: was it there? */
static bool decode_release(struct bytes message, bool *out_released) {
    struct pb_reader reader;
    *out_released = false;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 2) {
            *out_released = pb_reader_bool(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed;
}

/* From here on it may be somebody else's. */
static void begin_end(struct lease_hold *hold) {
    lib_lock(hold->connection);
    hold->n_ends++;
    if (hold->place.is_in_doubt) {
        hold->place.is_in_doubt = false;
        lib_etcd_late_add(hold->connection, hold->acquisition.session_id, hold->place.key);
    }
    lib_unlock(hold->connection);
}

/* The server did nothing, and says nothing of whether it is held. */
static bool is_refused(enum lease_status status) {
    return status == LEASE_INVALID || status == LEASE_REFUSED || status == LEASE_DENIED ||
           status == LEASE_QUEUE_FULL || status == LEASE_UNSUPPORTED;
}

/* The server refused, and this was the only one that was begun: it is held as before. */
static void undo_end(struct lease_hold *hold) {
    lib_lock(hold->connection);
    if (hold->n_ends == 1) {
        hold->n_ends = 0;
    }
    lib_unlock(hold->connection);
}

/* Its session may be renewed for ever, and then nothing else would end it. */
static void go_on_releasing(struct lease_hold *hold) {
    struct lib_request request;
    encode_release(hold, &request);
    lib_lock(hold->connection);
    if (hold->has_farewell) {
        buffer_clear(&request.message);
    } else {
        hold->has_farewell = true;
        lib_farewell(hold->connection, &request, hold->acquisition.session_id);
        lib_step(hold->connection);
    }
    lib_unlock(hold->connection);
}

enum lease_status lease_release(struct lease_hold *hold) {
    lib_lock(hold->connection);
    enum lease_status status = lib_may_wait(hold->connection);
    lib_unlock(hold->connection);
    if (status != LEASE_OK) {
        return status;
    }
    begin_end(hold); /* a second call asks again: the first may not have reached the server */
    struct lib_request request;
    struct buffer answer;
    encode_release(hold, &request);
    status = lib_ask(hold->connection, &request, &answer);
    if (status == LEASE_UNAVAILABLE || status == LEASE_TIMEOUT || status == LEASE_QUEUE_FULL) {
        go_on_releasing(hold);
    }
    if (status != LEASE_OK) {
        return status;
    }
    bool was_there = false;
    struct bytes message = bytes_of(answer.data, answer.size);
    bool is_well = is_etcd(hold) ? lib_etcd_decode_release(message, &was_there)
                                 : decode_release(message, &was_there);
    buffer_clear(&answer);
    if (!is_well) {
        return lib_error(LEASE_PROTOCOL, "the server's answer is malformed");
    }
    return was_there ? LEASE_OK : lib_error(LEASE_NOT_FOUND, "it had ended already");
}

void lease_release_start(struct lease_hold *hold) {
    if (lib_is_inherited(hold->connection)) {
        return;
    }
    begin_end(hold);
    go_on_releasing(hold);
}

void lease_hold_destroy(struct lease_hold *hold) {
    if (hold != NULL) {
        arena_clear(&hold->arena);
        free(hold);
    }
}

/* ---- leaders and successors ---- */

static enum lease_status proclaim_etcd(struct lease_hold *hold, const char *value) {
    struct lib_etcd_txn txn = {0};
    struct lib_request request;
    struct buffer answer;
    struct bytes key = bytes_from_text(hold->place.key);
    lib_etcd_txn_if_created(&txn, key, hold->acquisition.token);
    lib_etcd_txn_put(&txn, LIB_ETCD_THEN, key, bytes_from_text(value),
                     hold->acquisition.session_id);
    lib_etcd_txn_finish(&txn, true, &request);
    enum lease_status status = lib_ask(hold->connection, &request, &answer);
    if (status != LEASE_OK) {
        return status;
    }
    bool was_there = false;
    bool is_well = lib_etcd_decode_release(bytes_of(answer.data, answer.size), &was_there);
    buffer_clear(&answer);
    if (!is_well) {
        return lib_error(LEASE_PROTOCOL, "the server's answer is malformed");
    }
    return was_there ? LEASE_OK : lib_error(LEASE_NOT_FOUND, "it had ended already");
}

static enum lease_status proclaim_native(struct lease_hold *hold, const char *value) {
    struct lib_request request = {.path = "/leased.v1.Resources/Proclaim", .is_repeatable = true};
    lib_put_int(&request.message, 1, hold->acquisition.id);
    lib_put_int(&request.message, 2, hold->acquisition.session_id);
    lib_put_text(&request.message, 3, value);
    return lib_tell(hold->connection, &request);
}

enum lease_status lease_proclaim(struct lease_hold *hold, const char *value) {
    if (value == NULL) {
        return lib_error(LEASE_INVALID, "a value is missing");
    }
    enum lease_status status =
        is_etcd(hold) ? proclaim_etcd(hold, value) : proclaim_native(hold, value);
    if (status == LEASE_NOT_FOUND) {
        begin_end(hold);
    }
    return status;
}

enum lease_status lease_transfer(struct lease_hold *hold, int64_t to_session_id,
                                 const char *to_owner) {
    if (is_etcd(hold)) {
        return lib_error(LEASE_UNSUPPORTED, "etcd cannot hand a lock to a named successor");
    }
    if (to_session_id == 0 && (to_owner == NULL || to_owner[0] == '\0')) {
        return lib_error(LEASE_INVALID, "a successor is a session or an owner");
    }
    struct lib_request request = {.path = "/leased.v1.Resources/Transfer"};
    lib_put_int(&request.message, 1, hold->acquisition.id);
    lib_put_int(&request.message, 2, hold->acquisition.session_id);
    lib_put_int(&request.message, 3, to_session_id);
    lib_put_text(&request.message, 4, to_session_id == 0 ? to_owner : NULL);
    /* It may be somebody else's before the answer comes, or without one. */
    begin_end(hold);
    enum lease_status status = lib_tell(hold->connection, &request);
    if (is_refused(status)) {
        undo_end(hold);
    }
    return status;
}
