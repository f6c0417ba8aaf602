/*
 * A registration and its renewals. When its lease has ended it is registered again, with the token
 * that it had: the server refuses it if a successor has registered the id since, and then it is
 * over. A request whose answer was lost is sent again with the same lease id; that tells our own
 * registration from a successor's.
 */
#include "lease/lib_register.h"

#include "base/clock.h"
#include "lease/lib_message.h"
#include "lease/lib_read.h"
#include "lease/lib_service_wire.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum {
    TTL_MS = 15 * 1000, /* when none is given: the server's */
    RENEW_PARTS = 3,    /* renewed when so much of the TTL has passed */
    RETRY_PARTS = 20,
    RETRY_MS_MIN = 50,
    RETRY_MS_MAX = 1000,
    PORT_MAX = 65535
};

struct lease_registration {
    struct list link;
    struct lease_connection *connection;
    char *service;
    char *id;
    struct buffer instance; /* encoded, but for its state */
    enum lease_instance_state state;
    int64_t token;
    int64_t lease_id; /* 0: another one is chosen for the next attempt */
    int64_t ttl_ms;
    uint64_t valid_until_ms; /* counted from when the last successful renewal was sent */
    struct lib_asking *asking;
    uint64_t at_ms;      /* when it is renewed or registered next; UINT64_MAX: not now */
    uint64_t give_up_ms; /* of the first registration */
    bool is_registered;
    bool is_ambiguous; /* an attempt with this lease id may have been carried out */
    bool is_late;
    bool is_decided; /* the first registration is done, or failed */
    bool is_over;
    enum lease_status status;
    char text[LIB_TEXT_SIZE_MAX];
    lease_registration_callback *on_event;
    void *context;
};

/* ---- what users are told ---- */

struct registration_notice {
    struct lib_notice base;
    struct lease_registration *registration;
    enum lease_registration_event event;
    char text[LIB_TEXT_SIZE_MAX];
};

static void run_notice(struct lib_notice *base) {
    struct registration_notice *notice = (struct registration_notice *)base;
    struct lease_registration *registration = notice->registration;
    registration->on_event(registration, notice->event, notice->text, registration->context);
}

static void tell(struct lease_registration *registration, enum lease_registration_event event,
                 const char *text) {
    lib_changed(registration->connection);
    if (registration->on_event == NULL) {
        return;
    }
    struct registration_notice *notice = calloc(1, sizeof *notice);
    if (notice == NULL) {
        abort();
    }
    notice->base.run = run_notice;
    notice->registration = registration;
    notice->event = event;
    snprintf(notice->text, sizeof notice->text, "%s", text);
    lib_notice_add(registration->connection, &notice->base, registration);
}

static void finish(struct lease_registration *registration, enum lease_status status,
                   const char *text) {
    bool was_decided = registration->is_decided;
    registration->is_over = true;
    registration->is_decided = true;
    registration->is_registered = false;
    registration->at_ms = UINT64_MAX;
    registration->status = status;
    snprintf(registration->text, sizeof registration->text, "%s", text);
    if (was_decided) {
        tell(registration,
             status == LEASE_STALE ? LEASE_REGISTRATION_REPLACED : LEASE_REGISTRATION_FAILED, text);
    }
    lib_changed(registration->connection);
}

/* ---- registering ---- */

static uint64_t retry_ms(const struct lease_registration *registration) {
    int64_t pause = registration->ttl_ms / RETRY_PARTS;
    pause = pause < RETRY_MS_MIN ? RETRY_MS_MIN : pause > RETRY_MS_MAX ? RETRY_MS_MAX : pause;
    return clock_boottime_ms() + (uint64_t)pause;
}

/* One attempt has a part of the TTL: the next server may answer. */
static uint64_t deadline_ms(const struct lease_registration *registration) {
    int64_t limit = registration->ttl_ms / RENEW_PARTS;
    uint64_t most = registration->connection->request_timeout_ms;
    return clock_boottime_ms() + ((uint64_t)limit < most ? (uint64_t)limit : most);
}

static int64_t choose_lease_id(void) {
    uint64_t number = 0;
    if (getrandom(&number, sizeof number, 0) != sizeof number) {
        number = clock_boottime_ms() * UINT64_C(0x9e3779b97f4a7c15);
    }
    int64_t id = (int64_t)(number >> 1);
    return id == 0 ? 1 : id;
}

static bool may_pass(enum lib_code code) {
    return code == LIB_CODE_UNAVAILABLE || code == LIB_CODE_DEADLINE_EXCEEDED ||
           code == LIB_CODE_CANCELLED || code == LIB_CODE_INTERNAL || code == LIB_CODE_UNKNOWN ||
           code == LIB_CODE_RESOURCE_EXHAUSTED || code == LIB_CODE_OK;
}

static void try_again(struct lease_registration *registration, const char *text) {
    if (!registration->is_decided && clock_boottime_ms() >= registration->give_up_ms) {
        finish(registration, LEASE_UNAVAILABLE, text);
    } else {
        registration->at_ms = retry_ms(registration);
    }
}

static void registered(struct lease_registration *registration, int64_t token, int64_t ttl_ms,
                       uint64_t sent_ms) {
    registration->token = token;
    registration->ttl_ms = ttl_ms;
    registration->is_registered = true;
    registration->is_ambiguous = false;
    registration->is_late = false;
    registration->valid_until_ms = sent_ms + (uint64_t)ttl_ms;
    registration->at_ms = sent_ms + (uint64_t)(ttl_ms / RENEW_PARTS);
    registration->connection->is_dirty = true;
    if (registration->is_decided) {
        tell(registration, LEASE_REGISTRATION_AGAIN, "its lease had ended; registered again");
    }
    registration->is_decided = true;
    lib_changed(registration->connection);
}

/* ---- was it us? ---- */

struct found {
    bool is_ours;
    bool is_newer;
    int64_t token;
};

static bool look_for(const struct lease_registration *registration, struct bytes message,
                     struct found *out) {
    struct arena arena;
    struct pb_reader reader;
    bool is_well = true;
    *out = (struct found){.token = 0};
    arena_init(&arena);
    pb_reader_init(&reader, message);
    while (is_well && pb_reader_next(&reader)) {
        struct lease_instance instance;
        if (reader.field != 3) {
            pb_reader_skip(&reader);
            continue;
        }
        is_well = lib_service_read_instance(&arena, pb_reader_bytes(&reader), &instance);
        if (is_well && strcmp(instance.id, registration->id) == 0 && !instance.is_kept) {
            out->is_ours = instance.lease_id == registration->lease_id;
            out->is_newer = !out->is_ours && instance.token > registration->token;
            out->token = instance.token;
        }
    }
    arena_clear(&arena);
    return is_well && !reader.failed;
}

static void on_looked(void *context, const struct lib_answer *answer) {
    struct lease_registration *registration = context;
    struct found found;
    registration->asking = NULL;
    if (answer->code != LIB_CODE_OK || !look_for(registration, answer->message, &found)) {
        try_again(registration,
                  answer->code != LIB_CODE_OK ? answer->text : "the server's answer is malformed");
    } else if (found.is_ours) {
        registered(registration, found.token, registration->ttl_ms, answer->sent_ms);
        registration->at_ms = 0; /* its time is not known: it is renewed at once */
    } else if (found.is_newer) {
        finish(registration, LEASE_STALE, "another process has registered the same id later");
    } else {
        registration->lease_id = 0;
        registration->is_ambiguous = false;
        try_again(registration, "the registration was not carried out");
    }
}

static void look(struct lease_registration *registration) {
    struct lib_request request = {.path = "/leased.v1.Registry/Discover", .is_repeatable = true};
    lib_put_text(&request.message, 1, registration->service);
    lib_put_int(&request.message, 6, true);
    registration->asking =
        lib_ask_start(registration->connection, &request, on_looked, registration);
}

static void on_registered(void *context, const struct lib_answer *answer) {
    struct lease_registration *registration = context;
    int64_t token = 0;
    int64_t ttl_ms = 0;
    enum lib_code code = answer->code;
    registration->asking = NULL;
    if (code == LIB_CODE_OK && lib_service_decode_registered(answer->message, &token, &ttl_ms)) {
        registered(registration, token, ttl_ms, answer->sent_ms);
    } else if ((code == LIB_CODE_FAILED_PRECONDITION || code == LIB_CODE_ALREADY_EXISTS) &&
               registration->is_ambiguous) {
        look(registration);
    } else if (code == LIB_CODE_FAILED_PRECONDITION) {
        finish(registration, LEASE_STALE, answer->text);
    } else if (code == LIB_CODE_ALREADY_EXISTS) {
        registration->lease_id = 0;
        try_again(registration, answer->text);
    } else if (may_pass(code)) {
        registration->is_ambiguous |= answer->sent_ms != 0;
        try_again(registration, answer->text);
    } else if (code == LIB_CODE_UNAUTHENTICATED &&
               lib_ready_authenticate_again(registration->connection)) {
        try_again(registration, answer->text);
    } else {
        finish(registration, lib_code_status(code), answer->text);
    }
}

static void send_registration(struct lease_registration *registration) {
    struct lib_request request = {.path = "/leased.v1.Registry/RegisterInstance"};
    if (registration->lease_id == 0) {
        registration->lease_id = choose_lease_id();
        registration->is_ambiguous = false;
    }
    const struct lib_register_wire wire = {
        .instance = bytes_of(registration->instance.data, registration->instance.size),
        .state = registration->state,
        .previous_token = registration->token,
        .lease_id = registration->lease_id,
    };
    lib_service_encode_register(&wire, &request.message);
    registration->asking = lib_ask_start_by(registration->connection, &request,
                                            deadline_ms(registration), on_registered, registration);
}

/* ---- renewing ---- */

static void on_renewal_failed(struct lease_registration *registration,
                              const struct lib_answer *answer) {
    struct lease_connection *connection = registration->connection;
    if (answer->code == LIB_CODE_UNAUTHENTICATED) {
        (void)lib_ready_authenticate_again(connection);
    }
    /* A server that does not answer: another one may. */
    if (answer->code == LIB_CODE_DEADLINE_EXCEEDED && connection->socket != NULL &&
        connection->stage == LIB_STAGE_READY) {
        lib_socket_fail(connection->socket, "a renewal was not answered in time");
    }
    if (!registration->is_late) {
        registration->is_late = true;
        tell(registration, LEASE_REGISTRATION_LATE, answer->text);
    }
    registration->at_ms = retry_ms(registration);
    connection->is_dirty = true;
}

static void on_renewed(void *context, const struct lib_answer *answer) {
    struct lease_registration *registration = context;
    bool has_ended = false;
    registration->asking = NULL;
    if (answer->code != LIB_CODE_OK || !lib_service_decode_renewed(answer->message, &has_ended)) {
        on_renewal_failed(registration, answer);
    } else if (has_ended) {
        registration->is_registered = false;
        registration->lease_id = 0;
        registration->at_ms = 0;
        registration->connection->is_dirty = true;
    } else {
        registration->is_late = false;
        registration->valid_until_ms = answer->sent_ms + (uint64_t)registration->ttl_ms;
        registration->at_ms = answer->sent_ms + (uint64_t)(registration->ttl_ms / RENEW_PARTS);
    }
}

static void renew(struct lease_registration *registration) {
    struct lib_request request = {.path = "/leased.v1.Registry/Renew"};
    lib_service_encode_renew(registration->lease_id, &request.message);
    registration->asking = lib_ask_start_by(registration->connection, &request,
                                            deadline_ms(registration), on_renewed, registration);
}

/* ---- time ---- */

void lib_registrations_poll(struct lease_connection *connection, uint64_t now_ms) {
    struct list *all = &connection->registrations;
    for (struct list *node = all->next; node != all; node = node->next) {
        struct lease_registration *registration = list_entry(node, struct lease_registration, link);
        if (registration->asking != NULL || registration->at_ms > now_ms) {
            continue;
        }
        registration->at_ms = UINT64_MAX;
        if (registration->is_registered) {
            renew(registration);
        } else {
            send_registration(registration);
        }
    }
}

uint64_t lib_registrations_wake_ms(const struct lease_connection *connection) {
    uint64_t wake_ms = UINT64_MAX;
    const struct list *all = &connection->registrations;
    for (const struct list *node = all->next; node != all; node = node->next) {
        const struct lease_registration *registration =
            list_entry(node, struct lease_registration, link);
        if (registration->asking == NULL && registration->at_ms < wake_ms) {
            wake_ms = registration->at_ms;
        }
    }
    return wake_ms;
}

/* ---- what users call ---- */

static char *copy(const char *text) {
    char *own = strdup(text);
    if (own == NULL) {
        abort();
    }
    return own;
}

static void clear(struct lease_registration *registration) {
    buffer_clear(&registration->instance);
    free(registration->service);
    free(registration->id);
    free(registration);
}

static enum lease_status create(struct lease_connection *connection,
                                const struct lease_register_options *options,
                                struct lease_registration **out_registration) {
    char host[LIB_SERVICE_NAME_SIZE_MAX + 1] = "";
    const char *id = options->id != NULL ? options->id : connection->owner;
    enum lease_status status = lib_service_check_name("the name of a service", options->service);
    if (status == LEASE_OK) {
        status = lib_service_check_name("the id of an instance", id);
    }
    if (status != LEASE_OK) {
        return status;
    }
    if (options->port > PORT_MAX || options->ttl_ms < 0 ||
        (unsigned)options->state > LEASE_INSTANCE_DOWN) {
        return lib_error(LEASE_INVALID, "a port, TTL or state is out of range");
    }
    (void)gethostname(host, sizeof host - 1);
    struct lease_registration *registration = calloc(1, sizeof *registration);
    if (registration == NULL) {
        abort();
    }
    registration->connection = connection;
    registration->service = copy(options->service);
    registration->id = copy(id);
    registration->state = options->state;
    registration->ttl_ms = options->ttl_ms != 0 ? options->ttl_ms : TTL_MS;
    registration->on_event = options->on_event;
    registration->context = options->context;
    buffer_init(&registration->instance);
    lib_service_encode_instance(options, id, options->node != NULL ? options->node : host,
                                options->owner != NULL ? options->owner : connection->owner,
                                &registration->instance);
    *out_registration = registration;
    return LEASE_OK;
}

/* With the mutex held: nothing is heard of it any more. */
static void detach(struct lease_registration *registration) {
    lib_asking_cancel(registration->asking);
    registration->asking = NULL;
    registration->at_ms = UINT64_MAX;
    registration->is_over = true;
    registration->is_registered = false;
}

enum lease_status lease_register(struct lease_connection *connection,
                                 const struct lease_register_options *options,
                                 struct lease_registration **out_registration) {
    struct lease_register_options known = {0};
    struct lease_registration *registration = NULL;
    memcpy(&known, options, options->size < sizeof known ? options->size : sizeof known);
    lib_lock(connection);
    enum lease_status status = lib_may_wait(connection);
    if (status == LEASE_OK) {
        status = create(connection, &known, &registration);
    }
    if (status == LEASE_OK) {
        registration->give_up_ms = clock_boottime_ms() + connection->request_timeout_ms;
        list_append(&connection->registrations, &registration->link);
        lib_step(connection);
        lib_wait_until(connection, &registration->is_decided, 0);
        if (registration->is_over) {
            status = lib_error(registration->status, "%s", registration->text);
            detach(registration);
            list_remove(&registration->link);
            lib_notice_forget(connection, registration);
            clear(registration);
        } else {
            *out_registration = registration;
        }
    }
    lib_unlock(connection);
    return status;
}

const char *lease_registration_id(const struct lease_registration *registration) {
    return registration->id;
}

int64_t lease_registration_token(const struct lease_registration *registration) {
    lib_lock(registration->connection);
    int64_t token = registration->token;
    lib_unlock(registration->connection);
    return token;
}

bool lease_registration_is_valid(const struct lease_registration *registration) {
    lib_lock(registration->connection);
    bool is_valid = !lib_is_inherited(registration->connection) && registration->is_registered &&
                    clock_boottime_ms() < registration->valid_until_ms;
    lib_unlock(registration->connection);
    return is_valid;
}

enum lease_status lease_registration_status(const struct lease_registration *registration) {
    lib_lock(registration->connection);
    enum lease_status status = registration->status;
    if (status != LEASE_OK) {
        (void)lib_error(status, "%s", registration->text);
    }
    lib_unlock(registration->connection);
    return status;
}

/* A request that names this registration by its token. */
static enum lease_status ask(struct lease_registration *registration, const char *path,
                             uint32_t field, int64_t number) {
    struct lib_request request = {.path = path};
    lib_put_text(&request.message, 1, registration->service);
    lib_put_text(&request.message, 2, registration->id);
    lib_put_int(&request.message, 3, lease_registration_token(registration));
    lib_put_int(&request.message, field, number);
    enum lease_status status = lib_tell(registration->connection, &request);
    /* FAILED_PRECONDITION: of these calls it is the token. */
    return status == LEASE_REFUSED ? LEASE_STALE : status;
}

enum lease_status lease_registration_set_state(struct lease_registration *registration,
                                               enum lease_instance_state state) {
    if (state == LEASE_INSTANCE_DEFAULT || (unsigned)state > LEASE_INSTANCE_DOWN) {
        return lib_error(LEASE_INVALID, "there is no such state");
    }
    enum lease_status status = ask(registration, "/leased.v1.Registry/SetState", 4, state);
    if (status == LEASE_OK) {
        lib_lock(registration->connection);
        registration->state = state;
        lib_unlock(registration->connection);
    }
    return status;
}

enum lease_status lease_registration_report(struct lease_registration *registration,
                                            const char *check, enum lease_health health,
                                            const char *output) {
    struct lib_request request = {.path = "/leased.v1.Registry/Report", .is_repeatable = true};
    struct buffer report;
    enum lease_status status = lib_service_check_name("the id of a check", check);
    if (status != LEASE_OK) {
        return status;
    }
    buffer_init(&report);
    lib_put_text(&report, 1, registration->service);
    lib_put_text(&report, 2, registration->id);
    lib_put_text(&report, 3, check);
    lib_put_int(&report, 4, lease_registration_token(registration));
    lib_put_int(&report, 5, health);
    lib_put_text(&report, 6, output);
    lib_put_int(&report, 7, output == NULL);
    lib_put_message(&request.message, 1, &report);
    buffer_clear(&report);
    return lib_tell(registration->connection, &request);
}

enum lease_status lease_deregister(struct lease_registration *registration, int64_t drain_ms) {
    enum lease_status status = lib_check_process(registration->connection);
    if (status != LEASE_OK) {
        return status;
    }
    lib_lock(registration->connection);
    bool is_there = !registration->is_over;
    status = registration->status;
    detach(registration);
    lib_unlock(registration->connection);
    if (!is_there) {
        return status != LEASE_OK ? lib_error(status, "%s", registration->text)
                                  : lib_error(LEASE_NOT_FOUND, "it was deregistered before");
    }
    return ask(registration, "/leased.v1.Registry/DeregisterInstance", 4, drain_ms);
}

void lease_registration_destroy(struct lease_registration *registration) {
    if (registration == NULL || lib_is_inherited(registration->connection)) {
        return;
    }
    struct lease_connection *connection = registration->connection;
    lib_lock(connection);
    detach(registration);
    list_remove(&registration->link);
    lib_notice_forget(connection, registration);
    lib_step(connection);
    lib_unlock(connection);
    clear(registration);
}

const char *lease_instance_state_text(enum lease_instance_state state) {
    static const char *const texts[] = {"default",  "starting",       "up",
                                        "draining", "out of service", "down"};
    return (unsigned)state < sizeof texts / sizeof texts[0] ? texts[state] : "unknown";
}

const char *lease_health_text(enum lease_health health) {
    static const char *const texts[] = {"passing", "warning", "critical"};
    return (unsigned)health < sizeof texts / sizeof texts[0] ? texts[health] : "unknown";
}
