/* A request with one answer, with and without waiting. */
#include "lease/lib_session.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

struct lib_asking {
    struct lib_call *call;
    struct lib_method method;
    struct lease_connection *connection;
    lib_answered *done; /* NULL: a farewell */
    void *context;
    struct buffer answer;
    bool has_answer;
};

static void on_message(struct lib_call *call, struct bytes message) {
    struct lib_asking *asking = call->context;
    asking->answer.size = 0;
    buffer_append(&asking->answer, message.data, message.size);
    asking->has_answer = true;
}

static void free_asking(struct lib_asking *asking) {
    if (asking->done == NULL) {
        asking->connection->n_farewells--;
    }
    buffer_clear(&asking->answer);
    free(asking);
}

static void on_end(struct lib_call *call, enum lib_code code, const char *text) {
    struct lib_asking *asking = call->context;
    if (code == LIB_CODE_OK && !asking->has_answer) {
        code = LIB_CODE_INTERNAL;
        text = "the server ended the call without an answer";
    }
    if (asking->done != NULL) {
        const struct lib_answer answer = {
            .code = code,
            .text = text,
            .message = bytes_of(asking->answer.data, code == LIB_CODE_OK ? asking->answer.size : 0),
            .sent_ms = call->opened_ms,
        };
        asking->done(asking->context, &answer);
    }
    call->context = NULL;
    free_asking(asking);
}

struct lib_asking *lib_ask_start(struct lease_connection *connection, struct lib_request *request,
                                 lib_answered *done, void *context) {
    return lib_ask_start_by(connection, request,
                            clock_boottime_ms() + connection->request_timeout_ms, done, context);
}

struct lib_asking *lib_ask_start_by(struct lease_connection *connection,
                                    struct lib_request *request, uint64_t deadline_ms,
                                    lib_answered *done, void *context) {
    struct lib_asking *asking = calloc(1, sizeof *asking);
    if (asking == NULL) {
        abort();
    }
    asking->connection = connection;
    asking->done = done;
    asking->context = context;
    asking->method = (struct lib_method){
        .path = request->path,
        .is_repeatable = request->is_repeatable,
        .keeps_message = true, /* for another token */
        .is_farewell = done == NULL,
        .on_message = on_message,
        .on_end = on_end,
    };
    if (done == NULL) {
        connection->n_farewells++;
    }
    asking->call =
        lib_call_start(connection, &asking->method,
                       bytes_of(request->message.data, request->message.size), asking, deadline_ms);
    buffer_clear(&request->message);
    return asking;
}

uint64_t lib_farewell_deadline_ms(const struct lease_connection *connection, int64_t session_id) {
    const struct lease_session *session = lib_session_find(connection, session_id);
    return session != NULL && lib_session_is_alive(session)
               ? 0
               : clock_boottime_ms() + connection->request_timeout_ms;
}

void lib_farewell(struct lease_connection *connection, struct lib_request *request,
                  int64_t session_id) {
    struct lib_asking *asking = lib_ask_start_by(
        connection, request, lib_farewell_deadline_ms(connection, session_id), NULL, NULL);
    asking->call->session_id = session_id;
}

void lib_asking_cancel(struct lib_asking *asking) {
    if (asking == NULL) {
        return;
    }
    lib_call_cancel(asking->call);
    free_asking(asking);
}

/* ---- waiting ---- */

struct waiter {
    bool is_done;
    enum lib_code code;
    struct buffer answer;
    char text[LIB_TEXT_SIZE_MAX];
};

static void wake(void *context, const struct lib_answer *answer) {
    struct waiter *waiter = context;
    waiter->code = answer->code;
    buffer_append(&waiter->answer, answer->message.data, answer->message.size);
    snprintf(waiter->text, sizeof waiter->text, "%s", answer->text);
    waiter->is_done = true;
}

enum lease_status lib_ask(struct lease_connection *connection, struct lib_request *request,
                          struct buffer *out_answer) {
    struct waiter waiter = {0};
    lib_lock(connection);
    enum lease_status status = lib_may_wait(connection);
    if (status == LEASE_OK) {
        (void)lib_ask_start(connection, request, wake, &waiter);
        lib_step(connection);
        lib_wait_until(connection, &waiter.is_done, 0);
        status = lib_code_status(waiter.code);
    } else {
        buffer_clear(&request->message);
    }
    lib_unlock(connection);
    if (!waiter.is_done) {
        return status;
    }
    if (status != LEASE_OK) {
        buffer_clear(&waiter.answer);
        return lib_error(status, "%s", waiter.text);
    }
    *out_answer = waiter.answer;
    return LEASE_OK;
}

enum lease_status lib_tell(struct lease_connection *connection, struct lib_request *request) {
    struct buffer answer;
    buffer_init(&answer);
    enum lease_status status = lib_ask(connection, request, &answer);
    buffer_clear(&answer);
    return status;
}

enum lease_status lib_know_protocol(struct lease_connection *connection,
                                    enum lease_protocol *out_protocol) {
    enum lease_protocol protocol = lease_protocol_used(connection);
    if (protocol == LEASE_PROTOCOL_ANY) {
        enum lease_status status = lease_connect(connection);
        protocol = lease_protocol_used(connection);
        if (protocol == LEASE_PROTOCOL_ANY) {
            return status != LEASE_OK ? status : lib_error(LEASE_UNAVAILABLE, "no server answered");
        }
    }
    *out_protocol = protocol;
    return LEASE_OK;
}
