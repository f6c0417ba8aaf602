#include "cli/redis_link.h"

#include <inttypes.h>

static const char *place(const struct redis_link *link, char room[HOST_PORT_TEXT_SIZE_MAX]) {
    return host_port_format(link->url->place.host, link->url->place.port, room);
}

static bool lost(struct redis_link *link, const char *reason) {
    char where[HOST_PORT_TEXT_SIZE_MAX];
    return import_fail(link->job,
                       "%s: %s; what was copied until then is whole. The same command goes on",
                       place(link, where), reason);
}

/* ---- bytes ---- */

bool redis_link_send(struct redis_link *link) {
    bool is_sent = wire_stream_send(link->stream, bytes_of(link->out.data, link->out.size));
    link->out.size = 0;
    return is_sent || lost(link, wire_stream_error(link->stream));
}

/* False: `out_reason` says why. */
static bool next_reply(struct redis_link *link, struct arena *arena, struct resp_reply *out,
                       const char **out_reason) {
    for (;;) {
        struct bytes input = wire_stream_input(link->stream);
        enum resp_result result = resp_scan(&link->scanner, input);
        if (result == RESP_WHOLE) {
            size_t size = link->scanner.position;
            struct bytes whole = bytes_of(arena_copy(arena, input.data, size), size);
            link->scanner = (struct resp_scanner){0};
            wire_stream_consume(link->stream, size);
            *out_reason = "its reply is not of the protocol";
            return resp_read(whole, arena, out);
        }
        if (result == RESP_BAD) {
            *out_reason = "its reply is not of the protocol, or too long";
            return false;
        }
        if (!wire_stream_receive(link->stream)) {
            *out_reason = wire_stream_error(link->stream);
            return false;
        }
    }
}

bool redis_link_reply(struct redis_link *link, struct arena *arena, struct resp_reply *out) {
    const char *reason = "";
    return next_reply(link, arena, out, &reason) || lost(link, reason);
}

bool redis_link_expect(struct redis_link *link, struct arena *arena, enum resp_kind kind,
                       struct resp_reply *out) {
    char where[HOST_PORT_TEXT_SIZE_MAX];
    if (!redis_link_reply(link, arena, out)) {
        return false;
    }
    if (out->kind == kind) {
        return true;
    }
    if (out->kind == RESP_ERROR) {
        return import_fail(link->job, "%s: %.*s", place(link, where), (int)out->text.size,
                           (const char *)out->text.data);
    }
    return lost(link, "its reply is of another type than Redis gives");
}

/* ---- commands ---- */

void redis_link_begin(struct redis_link *link, const char *name, struct bytes key, size_t n_more) {
    resp_put_count(&link->out, 2 + n_more);
    resp_put_word(&link->out, bytes_from_text(name));
    resp_put_word(&link->out, key);
}

void redis_link_key(struct redis_link *link, const char *name, struct bytes key) {
    redis_link_begin(link, name, key, 0);
}

bool redis_link_select(struct redis_link *link, struct arena *arena, uint32_t database) {
    struct resp_reply reply;
    resp_put_count(&link->out, 2);
    resp_put_word(&link->out, bytes_from_text("SELECT"));
    resp_put_number(&link->out, database);
    return redis_link_send(link) && redis_link_expect(link, arena, RESP_STATUS, &reply);
}

/* ---- the connection ---- */

static bool authenticate(struct redis_link *link, struct arena *arena, const char *user,
                         const char *password) {
    struct resp_reply reply;
    if (password == NULL || password[0] == '\0') {
        return true;
    }
    if (user != NULL && user[0] != '\0') {
        resp_put_texts(&link->out, "AUTH", user, password, NULL);
    } else {
        resp_put_texts(&link->out, "AUTH", password, NULL);
    }
    return redis_link_send(link) && redis_link_expect(link, arena, RESP_STATUS, &reply);
}

/* An error is a reply too: it may want a password, or refuse the command. */
static bool greet(struct redis_link *link, struct arena *arena) {
    struct resp_reply reply;
    const char *reason = "";
    resp_put_texts(&link->out, "PING", NULL);
    if (!redis_link_send(link)) {
        return import_not_served(link->job, link->url, wire_stream_error(link->stream));
    }
    if (!next_reply(link, arena, &reply, &reason)) {
        return import_not_served(link->job, link->url, reason);
    }
    return (reply.kind == RESP_STATUS || reply.kind == RESP_ERROR) ||
           import_not_served(link->job, link->url, "another answer to PING");
}

bool redis_link_open(struct redis_link *link, struct import_job *job, const struct import_url *url,
                     const char *user, const char *password) {
    struct arena arena;
    *link = (struct redis_link){.job = job, .url = url};
    buffer_init(&link->out);
    link->stream = import_connect(job, url);
    if (link->stream == NULL) {
        return false;
    }
    arena_init(&arena);
    bool is_open = greet(link, &arena) && authenticate(link, &arena, user, password);
    arena_clear(&arena);
    return is_open;
}

void redis_link_close(struct redis_link *link) {
    wire_stream_close(link->stream);
    link->stream = NULL;
    buffer_clear(&link->out);
}
