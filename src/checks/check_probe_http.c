/* One HTTP/1.1 request. Passing when the status is within the range and the body has the text that
 * it must have; 429 (Too Many Requests) is a warning; redirects are answers like any other. */
#include "checks/check_answer.h"
#include "checks/check_probe.h"
#include "checks/check_request.h"
#include "checks/check_stream.h"
#include "checks/check_target.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { STATUS_MIN = 200, STATUS_MAX = 299, STATUS_BUSY = 429, BODY_SHOWN_MAX = 256 };

struct http_probe {
    struct check_probe base;
    struct check_network *network;
    struct check_stream *stream;
    bool is_reused; /* the connection: it may have ended before the request came */
    bool is_of_head;
    uint16_t status_min;
    uint16_t status_max;
    struct buffer request;
    struct buffer match;
    struct check_answer answer;
    struct check_stream_options options;
    struct host_port address;
    char server_name[REGISTRY_NAME_SIZE_MAX + 1];
};

static void free_probe(struct http_probe *probe) {
    buffer_clear(&probe->request);
    buffer_clear(&probe->match);
    check_answer_clear(&probe->answer);
    free(probe);
}

static void finish(struct http_probe *probe, const struct check_result *result) {
    struct check_probe_owner owner = probe->base.owner;
    if (probe->answer.state == CHECK_ANSWER_DONE && probe->answer.keeps_alive) {
        check_network_put_idle(probe->network, probe->stream);
    } else {
        check_stream_close(probe->stream);
    }
    free_probe(probe);
    owner.done(owner.context, result);
}

static void finish_with(struct http_probe *probe, const char *reason) {
    struct check_result result;
    check_result_set(&result, REGISTRY_CRITICAL, "HTTP: ");
    check_result_add_text(&result, reason);
    probe->answer.keeps_alive = false;
    finish(probe, &result);
}

/* ---- the answer ---- */

static bool has_match(const struct http_probe *probe) {
    const struct buffer *body = &probe->answer.body;
    return probe->match.size == 0 ||
           (body->size > 0 &&
            memmem(body->data, body->size, probe->match.data, probe->match.size) != NULL);
}

static void judge(struct http_probe *probe) {
    const struct check_answer *answer = &probe->answer;
    struct check_result result;
    bool is_within = answer->status >= probe->status_min && answer->status <= probe->status_max;
    check_result_set(&result,
                     is_within                       ? REGISTRY_PASSING
                     : answer->status == STATUS_BUSY ? REGISTRY_WARNING
                                                     : REGISTRY_CRITICAL,
                     "HTTP ");
    check_result_add_number(&result, answer->status);
    check_result_add_text(&result, answer->reason[0] != '\0' ? " " : "");
    check_result_add_text(&result, answer->reason);
    if (is_within && !has_match(probe)) {
        result.health = REGISTRY_CRITICAL;
        check_result_add_text(&result, ": the body does not contain the expected text");
    }
    size_t shown = answer->body.size < BODY_SHOWN_MAX ? answer->body.size : BODY_SHOWN_MAX;
    if (shown > 0) {
        check_result_add_text(&result, ": ");
        check_result_add(&result, bytes_of(answer->body.data, shown));
    }
    finish(probe, &result);
}

static void conclude(struct http_probe *probe, enum check_answer_state state) {
    if (state == CHECK_ANSWER_DONE) {
        judge(probe);
    } else if (state == CHECK_ANSWER_FAILED) {
        finish_with(probe, probe->answer.error);
    }
}

static void on_bytes(struct check_stream *stream, struct bytes bytes) {
    struct http_probe *probe = check_stream_context(stream);
    conclude(probe, check_answer_feed(&probe->answer, bytes));
}

/* ---- the connection ---- */

static void on_open(struct check_stream *stream) {
    struct http_probe *probe = check_stream_context(stream);
    check_stream_send(stream, bytes_of(probe->request.data, probe->request.size));
}

static void open_stream(struct http_probe *probe);

static void on_end(struct check_stream *stream, const char *reason) {
    struct http_probe *probe = check_stream_context(stream);
    if (probe->is_reused && !probe->answer.has_begun) {
        /* The server closed it while the request was on its way (RFC 9112, section 9.3.1). */
        check_stream_close(stream);
        open_stream(probe);
    } else if (reason != NULL) {
        finish_with(probe, reason);
    } else {
        conclude(probe, check_answer_end(&probe->answer));
    }
}

static const struct check_stream_events events = {
    .on_open = on_open,
    .on_bytes = on_bytes,
    .on_end = on_end,
};

static void open_stream(struct http_probe *probe) {
    probe->is_reused = false;
    probe->stream = check_stream_open(probe->network, &probe->options, &events, probe);
}

static void reuse_or_open(struct http_probe *probe) {
    probe->stream = check_network_take_idle(probe->network, &probe->options, &events, probe);
    if (probe->stream == NULL) {
        open_stream(probe);
    } else {
        probe->is_reused = true;
        on_open(probe->stream);
    }
}

/* ---- the beginning ---- */

static struct http_probe *create(struct check_network *network, const struct registry_check *check,
                                 const struct check_target *target) {
    struct http_probe *probe = calloc(1, sizeof *probe);
    if (probe == NULL) {
        abort();
    }
    probe->network = network;
    probe->address = target->address;
    probe->status_min = check->status_min != 0 ? check->status_min : STATUS_MIN;
    probe->status_max = check->status_max != 0 ? check->status_max : STATUS_MAX;
    probe->is_of_head = check->method.size == 4 && memcmp(check->method.data, "HEAD", 4) == 0;
    buffer_init(&probe->request);
    buffer_init(&probe->match);
    buffer_append(&probe->match, check->body_match.data, check->body_match.size);
    check_answer_init(&probe->answer, probe->is_of_head);
    probe->options = (struct check_stream_options){
        .host = probe->address.host,
        .port = probe->address.port,
        .is_tls = target->is_tls,
        .skips_verification = check->skips_verification,
        .server_name = probe->server_name,
    };
    return probe;
}

static struct check_probe *start(struct check_network *network, const struct registry_check *check,
                                 const struct check_probe_owner *owner,
                                 struct check_result *out_result) {
    struct check_target target;
    const char *reason = NULL;
    if (!check_target_parse(check, &target, &reason)) {
        check_result_set(out_result, REGISTRY_CRITICAL, reason);
        return NULL;
    }
    struct http_probe *probe = create(network, check, &target);
    probe->base = (struct check_probe){.kind = &check_probe_http, .owner = *owner};
    if (!check_stream_server_name(check->server_name, probe->server_name, &reason) ||
        !check_request_write(&probe->request, check, &target, &reason)) {
        check_result_set(out_result, REGISTRY_CRITICAL, reason);
        free_probe(probe);
        return NULL;
    }
    reuse_or_open(probe);
    return &probe->base;
}

static void cancel(struct check_probe *base) {
    struct http_probe *probe = (struct http_probe *)base;
    check_stream_close(probe->stream);
    free_probe(probe);
}

const struct check_probe_kind check_probe_http = {.start = start, .cancel = cancel};
