/* Sessions are made: what is asked for, which protocol it is asked in, and who is told. */
#include "lease/lib_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OWNER_SIZE_MAX = 128, NOTE_SIZE_MAX = 4096 };

static enum lease_status make_plan(const struct lease_connection *connection,
                                   const struct lease_session_options *options,
                                   struct lib_session_plan *out_plan) {
    enum lease_class lease_class =
        options->purpose == LEASE_CLASS_NONE ? LEASE_CLASS_LOCK : options->purpose;
    const char *owner =
        options->owner != NULL && options->owner[0] != '\0' ? options->owner : connection->owner;
    if (options->ttl_ms < 0 || (unsigned)options->strategy > LEASE_STRATEGY_NEVER ||
        (unsigned)lease_class > LEASE_CLASS_CACHE) {
        return lib_error(LEASE_INVALID, "a TTL, class or strategy is out of range");
    }
    if (strlen(owner) > OWNER_SIZE_MAX) {
        return lib_error(LEASE_INVALID, "an owner has at most %d bytes", OWNER_SIZE_MAX);
    }
    if (options->note != NULL && strlen(options->note) > NOTE_SIZE_MAX) {
        return lib_error(LEASE_INVALID, "a note has at most %d bytes", NOTE_SIZE_MAX);
    }
    *out_plan = (struct lib_session_plan){
        .ttl_ms = options->ttl_ms != 0 ? options->ttl_ms : lib_keeper_usual_ttl_ms(lease_class),
        .lease_class = lease_class,
        .strategy = options->strategy != LEASE_STRATEGY_DEFAULT
                        ? options->strategy
                        : lib_keeper_usual_strategy(lease_class),
        .owner = owner,
        .note = options->note,
        .parent_id = options->parent_id,
    };
    return LEASE_OK;
}

struct creating {
    struct lease_connection *connection;
    struct lease_session *session;
    struct lib_request request; /* while the protocol is asked for */
    struct lib_session_plan plan;
    char *owner;
    char *note;
    lease_session_created *done;
    void *done_context;
    bool is_done;
    enum lease_status status;
    char text[LIB_TEXT_SIZE_MAX];
};

static void free_creating(struct creating *creating) {
    free(creating->owner);
    free(creating->note);
    free(creating);
}

struct created_notice {
    struct lib_notice base;
    struct creating *creating;
};

static void run_created(struct lib_notice *base) {
    struct creating *creating = ((struct created_notice *)base)->creating;
    creating->done(creating->status == LEASE_OK ? creating->session : NULL, creating->status,
                   creating->text, creating->done_context);
}

static void clear_created(struct lib_notice *base) {
    free_creating(((struct created_notice *)base)->creating);
}

static void finish(struct creating *creating, enum lease_status status, const char *text) {
    creating->status = status;
    snprintf(creating->text, sizeof creating->text, "%s", text);
    creating->is_done = true;
    if (status != LEASE_OK) {
        free(creating->session);
        creating->session = NULL;
    }
    if (creating->done == NULL) {
        return; /* somebody waits, and frees it */
    }
    struct created_notice *notice = calloc(1, sizeof *notice);
    if (notice == NULL) {
        abort();
    }
    notice->base.run = run_created;
    notice->base.clear = clear_created;
    notice->creating = creating;
    lib_notice_add(creating->connection, &notice->base, creating);
}

static void on_created(void *context, const struct lib_answer *answer) {
    struct creating *creating = context;
    struct lease_connection *connection = creating->connection;
    struct lease_session *session = creating->session;
    int64_t ttl_ms = 0;
    if (answer->code != LIB_CODE_OK) {
        finish(creating, lib_code_status(answer->code), answer->text);
        return;
    }
    if (!lib_session_decode_create(connection->protocol, answer->message, &session->id, &ttl_ms)) {
        finish(creating, LEASE_PROTOCOL, "the server's answer is malformed");
        return;
    }
    lib_keeper_start(&session->keeper, creating->plan.strategy, ttl_ms, answer->sent_ms);
    list_append(&connection->sessions, &session->link);
    connection->is_dirty = true;
    finish(creating, LEASE_OK, "");
}

static void create_now(struct creating *creating) {
    struct lib_request request = {0};
    if (creating->connection->protocol == LEASE_PROTOCOL_ETCD && creating->plan.parent_id != 0) {
        finish(creating, LEASE_UNSUPPORTED, "etcd's leases have no parents");
        return;
    }
    lib_session_encode_create(creating->connection->protocol, &creating->plan, &request);
    (void)lib_ask_start(creating->connection, &request, on_created, creating);
}

static void on_protocol_known(void *context, const struct lib_answer *answer) {
    struct creating *creating = context;
    if (creating->connection->protocol != LEASE_PROTOCOL_ANY) {
        create_now(creating);
    } else {
        finish(creating, lib_code_status(answer->code), answer->text);
    }
}

static char *copy(const char *text) {
    char *own = text == NULL ? NULL : strdup(text);
    if (own == NULL && text != NULL) {
        abort();
    }
    return own;
}

static enum lease_status start_creating(struct lease_connection *connection,
                                        const struct lease_session_options *options,
                                        lease_session_created *done, void *context,
                                        struct creating **out_creating) {
    struct lease_session_options known = {0};
    if (options != NULL) {
        memcpy(&known, options, options->size < sizeof known ? options->size : sizeof known);
    }
    struct lib_session_plan plan;
    enum lease_status status = make_plan(connection, &known, &plan);
    if (status != LEASE_OK) {
        return status;
    }
    struct creating *creating = calloc(1, sizeof *creating);
    struct lease_session *session = calloc(1, sizeof *session);
    if (creating == NULL || session == NULL) {
        abort();
    }
    session->connection = connection;
    session->on_event = known.on_event;
    session->context = known.context;
    list_init(&session->link);
    creating->connection = connection;
    creating->session = session;
    creating->plan = plan;
    creating->plan.owner = creating->owner = copy(plan.owner);
    creating->plan.note = creating->note = copy(plan.note);
    creating->done = done;
    creating->done_context = context;
    if (connection->protocol == LEASE_PROTOCOL_ANY) {
        struct lib_request request = {.path = "/leased.v1.Sessions/Get", .is_repeatable = true};
        (void)lib_ask_start(connection, &request, on_protocol_known, creating);
    } else {
        create_now(creating);
    }
    *out_creating = creating;
    return LEASE_OK;
}

enum lease_status lease_session_create(struct lease_connection *connection,
                                       const struct lease_session_options *options,
                                       struct lease_session **out_session) {
    struct creating *creating = NULL;
    lib_lock(connection);
    enum lease_status status = lib_may_wait(connection);
    if (status == LEASE_OK) {
        status = start_creating(connection, options, NULL, NULL, &creating);
    }
    if (status == LEASE_OK) {
        lib_step(connection);
        lib_wait_until(connection, &creating->is_done, 0);
        status = creating->status;
        if (status == LEASE_OK) {
            *out_session = creating->session;
        } else {
            (void)lib_error(status, "%s", creating->text);
        }
        free_creating(creating);
    }
    lib_unlock(connection);
    return status;
}

enum lease_status lease_session_create_start(struct lease_connection *connection,
                                             const struct lease_session_options *options,
                                             lease_session_created *done, void *context) {
    struct creating *creating = NULL;
    if (done == NULL) {
        return lib_error(LEASE_INVALID, "a callback is missing");
    }
    lib_lock(connection);
    enum lease_status status = lib_check_process(connection);
    if (status == LEASE_OK) {
        status = start_creating(connection, options, done, context, &creating);
    }
    lib_step(connection);
    lib_unlock(connection);
    return status;
}
