#include "server/health.h"

#include "base/buffer.h"
#include "server/metrics.h"

#include <stdio.h>
#include <string.h>

enum { HTTP_OK = 200, HTTP_NOT_FOUND = 404, HTTP_UNAVAILABLE = 503 };

#define JSON "application/json"
#define TEXT "text/plain; charset=utf-8"

/* --- What is checked. --- */

/* Each says why it fails, or NULL. */
static const char *check_leader(struct service *service) {
    struct service_info info;
    service_info(service, &info);
    /* A leader that has not applied an entry of its own term yet does not serve. */
    bool is_served =
        info.leader_id != 0 && (info.leader_id != info.member_id ||
                                lease_table_is_leading(state_view_leases(service_view(service))));
    return is_served ? NULL : "RAFT NO LEADER";
}

static const char *check_corruption(struct service *service) {
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
static const char *check_serializable(struct service *service) {
    (void)service;
    return NULL;
}

static const char *check_voter(struct service *service) {
    struct service_info info;
    service_info(service, &info);
    return info.is_learner ? "the member is a learner" : NULL;
}

struct health_check {
    const char *name;
    const char *(*run)(struct service *service);
};

struct health_checks {
    const struct health_check *checks;
    size_t n;
};

static const struct health_check live_checks[] = {{"serializable_read", check_serializable}};
static const struct health_check ready_checks[] = {
    {"data_corruption", check_corruption},
    {"serializable_read", check_serializable},
    {"linearizable_read", check_leader},
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

static const char *unhealthy_reason(struct http_exchange *exchange, struct service *service) {
    static const char *const names[] = {[ALARM_NO_SPACE] = "NOSPACE", [ALARM_CORRUPT] = "CORRUPT"};
    static const char *const reasons[] = {
        [ALARM_NO_SPACE] = "ALARM NOSPACE", [ALARM_CORRUPT] = "ALARM CORRUPT"};
    struct bytes serializable;
    struct alarm_entry alarms[STATE_MACHINE_ALARMS_MAX];
    size_t n = state_view_alarms(service_view(service), alarms);
    for (size_t i = 0; i < n; i++) {
        if (!is_excluded(exchange, names[alarms[i].alarm])) {
            return reasons[alarms[i].alarm];
        }
    }
    if (http_query(exchange, "serializable", &serializable) && is_text(serializable, "true")) {
        return NULL;
    }
    return check_leader(service);
}

void health_serve(struct http_exchange *exchange) {
    struct metrics_sources *sources = http_context(exchange);
    const char *reason = unhealthy_reason(exchange, sources->service);
    char text[128];
    snprintf(text, sizeof text, "{\"health\":\"%s\",\"reason\":\"%s\"}",
             reason == NULL ? "true" : "false", reason == NULL ? "" : reason);
    *(reason == NULL ? &sources->n_healthy : &sources->n_unhealthy) += 1;
    http_reply(exchange, reason == NULL ? HTTP_OK : HTTP_UNAVAILABLE, JSON, bytes_from_text(text));
}

static void append(struct buffer *buffer, const char *text) {
    buffer_append(buffer, text, strlen(text));
}

static void run_check(struct buffer *body, const struct health_check *check,
                      struct service *service, bool *all_are_fine) {
    const char *reason = check->run(service);
    append(body, reason == NULL ? "[+]" : "[-]");
    append(body, check->name);
    append(body, reason == NULL ? " ok\n" : " failed: ");
    if (reason != NULL) {
        append(body, reason);
        append(body, "\n");
        *all_are_fine = false;
    }
}

/* A failure names its checks whether or not ?verbose asks for them. */
static void serve_checks(struct http_exchange *exchange, const struct health_checks *checks) {
    const struct metrics_sources *sources = http_context(exchange);
    struct bytes only = bytes_of(NULL, 0);
    struct bytes ignored;
    bool has_only = http_parameter(exchange, "check", &only);
    bool all_are_fine = true;
    struct buffer body;
    buffer_init(&body);
    for (size_t i = 0; i < checks->n; i++) {
        const struct health_check *check = &checks->checks[i];
        bool is_run = has_only ? is_text(only, check->name) : !is_excluded(exchange, check->name);
        if (is_run) {
            run_check(&body, check, sources->service, &all_are_fine);
        }
    }
    if (has_only && body.size == 0) {
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
    serve_checks(exchange, &livez);
}

void health_serve_readyz(struct http_exchange *exchange) {
    serve_checks(exchange, &readyz);
}
