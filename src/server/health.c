#include "server/health.h"

#include "base/buffer.h"
#include "server/metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HTTP_OK = 200, HTTP_NOT_FOUND = 404, HTTP_UNAVAILABLE = 503 };

#define JSON "application/json"
#define TEXT "text/plain; charset=utf-8"

/* --- Asking a majority. --- */

/* A request that waits for the answer. */
struct waiting_probe {
    struct list link;
    struct http_exchange *exchange;
    void (*answer)(struct http_exchange *exchange, const char *read_error);
};

void health_question_init(struct health_question *question) {
    list_init(&question->waiting);
}

/* In etcd's words; NULL: none. */
static const char *error_of(enum status status) {
    switch (status) {
    case STATUS_OK:
        return NULL;
    case STATUS_NO_LEADER:
        return "etcdserver: no leader";
    case STATUS_LEADER_CHANGED:
        return "etcdserver: leader changed";
    case STATUS_STOPPED:
        return "etcdserver: server stopped";
    default:
        return "etcdserver: request timed out";
    }
}

static void ready(struct service_read *read, enum status status) {
    struct health_question *question = list_entry(read, struct health_question, read);
    struct list waiting;
    list_init(&waiting);
    list_append_all(&waiting, &question->waiting);
    question->is_asked = false;
    for (struct list *node; (node = list_pop_first(&waiting)) != NULL;) {
        struct waiting_probe *probe = list_entry(node, struct waiting_probe, link);
        probe->answer(probe->exchange, error_of(status));
    }
}

static bool has_leader(struct service *service) {
    struct service_info info;
    service_info(service, &info);
    /* A leader that has not applied an entry of its own term yet does not serve. */
    return info.leader_id != 0 &&
           (info.leader_id != info.member_id ||
            lease_table_is_leading(state_view_leases(service_view(service))));
}

static void wait_for_answer(struct http_exchange *exchange, struct health_question *question,
                            void (*answer)(struct http_exchange *exchange,
                                           const char *read_error)) {
    struct waiting_probe *probe = calloc(1, sizeof *probe);
    if (probe == NULL) {
        http_abort(exchange);
        return;
    }
    probe->exchange = exchange;
    probe->answer = answer;
    list_append(&question->waiting, &probe->link);
    http_set_data(exchange, probe);
}

/* answer() is called, at once or later. */
static void ask(struct http_exchange *exchange,
                void (*answer)(struct http_exchange *exchange, const char *read_error)) {
    struct metrics_sources *sources = http_context(exchange);
    struct health_question *question = &sources->question;
    if (!has_leader(sources->service)) {
        answer(exchange, error_of(STATUS_NO_LEADER));
        return;
    }
    if (!question->is_asked) {
        question->read.ready = ready;
        enum status status = service_confirm(sources->service, &question->read);
        if (status != STATUS_PENDING) {
            answer(exchange, error_of(status));
            return;
        }
        question->is_asked = true;
    }
    wait_for_answer(exchange, question, answer);
}

void health_on_close(struct http_exchange *exchange) {
    struct waiting_probe *probe = http_data(exchange);
    if (probe != NULL) {
        list_remove(&probe->link);
        free(probe);
    }
}

/* --- What is checked. --- */

/* Each says why it fails, or NULL. read_error: what the majority said. */
static const char *check_corruption(struct service *service, const char *read_error) {
    (void)read_error;
    struct alarm_entry alarms[STATE_MACHINE_ALARMS_MAX];
    size_t n = state_view_alarms(service_view(service), alarms);
    for (size_t i = 0; i < n; i++) {
        if (alarms[i].alarm == ALARM_CORRUPT) {
            return "alarm activated: CORRUPT";
        }
    }
    return NULL;
}

/* Whoever answers reads from its own state. */
static const char *check_serializable(struct service *service, const char *read_error) {
    (void)service;
    (void)read_error;
    return NULL;
}

static const char *check_linearizable(struct service *service, const char *read_error) {
    (void)service;
    return read_error;
}

static const char *check_voter(struct service *service, const char *read_error) {
    (void)read_error;
    struct service_info info;
    service_info(service, &info);
    return info.is_learner ? "the member is a learner" : NULL;
}

struct health_check {
    const char *name;
    const char *(*run)(struct service *service, const char *read_error);
};

struct health_checks {
    const struct health_check *checks;
    size_t n;
};

static const struct health_check live_checks[] = {{"serializable_read", check_serializable}};
static const struct health_check ready_checks[] = {
    {"data_corruption", check_corruption},
    {"serializable_read", check_serializable},
    {"linearizable_read", check_linearizable},
    {"non_learner", check_voter},
};
static const struct health_checks livez = {live_checks, sizeof live_checks / sizeof live_checks[0]};
static const struct health_checks readyz = {ready_checks,
                                            sizeof ready_checks / sizeof ready_checks[0]};

/* --- Answers. --- */

static bool is_text(struct bytes bytes, const char *text) {
    return bytes_equal(bytes, bytes_from_text(text));
}

/* ?exclude=… may stand there several times. */
static bool is_excluded(const struct http_exchange *exchange, const char *name) {
    size_t position = 0;
    struct http_field field;
    while (http_next_query(exchange, &position, &field)) {
        if (is_text(field.name, "exclude") && is_text(field.value, name)) {
            return true;
        }
    }
    return false;
}

/* NULL: none. */
static const char *alarm_reason(struct http_exchange *exchange, struct service *service) {
    static const char *const names[] = {[ALARM_NO_SPACE] = "NOSPACE", [ALARM_CORRUPT] = "CORRUPT"};
    static const char *const reasons[] = {
        [ALARM_NO_SPACE] = "ALARM NOSPACE", [ALARM_CORRUPT] = "ALARM CORRUPT"};
    struct alarm_entry alarms[STATE_MACHINE_ALARMS_MAX];
    size_t n = state_view_alarms(service_view(service), alarms);
    for (size_t i = 0; i < n; i++) {
        /* One of no type is in the data of releases that took it, and says nothing. */
        if (alarms[i].alarm != ALARM_NONE && !is_excluded(exchange, names[alarms[i].alarm])) {
            return reasons[alarms[i].alarm];
        }
    }
    return NULL;
}

static void answer_health(struct http_exchange *exchange, const char *reason) {
    struct metrics_sources *sources = http_context(exchange);
    char text[128];
    snprintf(text, sizeof text, "{\"health\":\"%s\",\"reason\":\"%s\"}",
             reason == NULL ? "true" : "false", reason == NULL ? "" : reason);
    *(reason == NULL ? &sources->n_healthy : &sources->n_unhealthy) += 1;
    http_reply(exchange, reason == NULL ? HTTP_OK : HTTP_UNAVAILABLE, JSON, bytes_from_text(text));
}

static void answer_health_read(struct http_exchange *exchange, const char *read_error) {
    char reason[96];
    snprintf(reason, sizeof reason, "RANGE ERROR:%s", read_error == NULL ? "" : read_error);
    answer_health(exchange, read_error == NULL ? NULL : reason);
}

void health_serve(struct http_exchange *exchange) {
    struct metrics_sources *sources = http_context(exchange);
    struct bytes serializable;
    bool is_local =
        http_query(exchange, "serializable", &serializable) && is_text(serializable, "true");
    const char *reason = alarm_reason(exchange, sources->service);
    if (reason == NULL && !is_local && !has_leader(sources->service)) {
        reason = "RAFT NO LEADER";
    }
    if (reason != NULL || is_local) {
        answer_health(exchange, reason);
    } else {
        ask(exchange, answer_health_read);
    }
}

static void append(struct buffer *buffer, const char *text) {
    buffer_append(buffer, text, strlen(text));
}

static void run_check(struct buffer *body, const struct health_check *check,
                      struct service *service, const char *read_error, bool *all_are_fine) {
    const char *reason = check->run(service, read_error);
    append(body, reason == NULL ? "[+]" : "[-]");
    append(body, check->name);
    append(body, reason == NULL ? " ok\n" : " failed: ");
    if (reason != NULL) {
        append(body, reason);
        append(body, "\n");
        *all_are_fine = false;
    }
}

static bool is_wanted(const struct http_exchange *exchange, const char *name) {
    struct bytes only;
    return http_parameter(exchange, "check", &only) ? is_text(only, name)
                                                    : !is_excluded(exchange, name);
}

/* A failure names its checks whether or not ?verbose asks for them. */
static void answer_checks(struct http_exchange *exchange, const struct health_checks *checks,
                          const char *read_error) {
    const struct metrics_sources *sources = http_context(exchange);
    struct bytes ignored;
    bool all_are_fine = true;
    struct buffer body;
    buffer_init(&body);
    for (size_t i = 0; i < checks->n; i++) {
        const struct health_check *check = &checks->checks[i];
        if (is_wanted(exchange, check->name)) {
            run_check(&body, check, sources->service, read_error, &all_are_fine);
        }
    }
    if (body.size == 0 && http_parameter(exchange, "check", &ignored)) {
        http_reply(exchange, HTTP_NOT_FOUND, TEXT, bytes_from_text("404 page not found\n"));
    } else if (!all_are_fine) {
        http_reply(exchange, HTTP_UNAVAILABLE, TEXT, bytes_of(body.data, body.size));
    } else if (http_query(exchange, "verbose", &ignored)) {
        append(&body, "ok\n");
        http_reply(exchange, HTTP_OK, TEXT, bytes_of(body.data, body.size));
    } else {
        http_reply(exchange, HTTP_OK, TEXT, bytes_from_text("ok\n"));
    }
    buffer_clear(&body);
}

void health_serve_livez(struct http_exchange *exchange) {
    answer_checks(exchange, &livez, NULL);
}

static void answer_readyz(struct http_exchange *exchange, const char *read_error) {
    answer_checks(exchange, &readyz, read_error);
}

void health_serve_readyz(struct http_exchange *exchange) {
    if (is_wanted(exchange, "linearizable_read")) {
        ask(exchange, answer_readyz);
    } else {
        answer_readyz(exchange, NULL);
    }
}
