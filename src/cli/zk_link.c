#include "cli/zk_link.h"

#include "base/clock.h"

#include <inttypes.h>

enum { SESSION_TIMEOUT_MS = 30000, PING_AFTER_MS = 3000 };

static bool lost(struct zk_link *link, const char *reason) {
    char where[HOST_PORT_TEXT_SIZE_MAX];
    return import_fail(
        link->job, "%s: %s; what was copied until then is whole. The same command goes on",
        host_port_format(link->url->place.host, link->url->place.port, where), reason);
}

/* The next frame, as a view into the stream's input; consumed with `out_used`. */
static bool next_frame(struct zk_link *link, struct bytes *out_frame, size_t *out_used,
                       const char **out_reason) {
    for (;;) {
        switch (zk_take_frame(wire_stream_input(link->stream), out_frame, out_used)) {
        case ZK_FRAME_WHOLE:
            return true;
        case ZK_FRAME_BAD:
            *out_reason = "its answer is not of the protocol";
            return false;
        case ZK_FRAME_MORE:
            if (!wire_stream_receive(link->stream)) {
                *out_reason = wire_stream_error(link->stream);
                return false;
            }
        }
    }
}

static bool begin_session(struct zk_link *link) {
    struct bytes frame;
    struct zk_connected connected;
    size_t used;
    const char *reason = "";
    zk_put_connect(&link->out, SESSION_TIMEOUT_MS);
    if (!zk_link_send(link)) {
        return import_not_served(link->job, link->url, wire_stream_error(link->stream));
    }
    if (!next_frame(link, &frame, &used, &reason)) {
        return import_not_served(link->job, link->url, reason);
    }
    if (!zk_get_connected(frame, &connected) || connected.timeout_ms == 0) {
        return import_not_served(link->job, link->url, "it gave no session");
    }
    wire_stream_consume(link->stream, used);
    return true;
}

bool zk_link_open(struct zk_link *link, struct import_job *job, const struct import_url *url) {
    *link = (struct zk_link){.job = job, .url = url, .next_xid = 1, .answered_xid = 1};
    buffer_init(&link->out);
    link->stream = import_connect(job, url);
    return link->stream != NULL && begin_session(link);
}

void zk_link_close(struct zk_link *link) {
    if (link->stream != NULL && wire_stream_error(link->stream)[0] == '\0') {
        struct bytes frame;
        size_t used;
        const char *reason;
        zk_put_plain(&link->out, zk_link_xid(link), ZK_OP_CLOSE);
        /* Waited for, so that the session is over when this program is. */
        if (link->job->error[0] == '\0' && zk_link_send(link)) {
            (void)next_frame(link, &frame, &used, &reason);
        }
    }
    wire_stream_close(link->stream);
    link->stream = NULL;
    buffer_clear(&link->out);
}

bool zk_link_auth(struct zk_link *link, const char *scheme, const char *credentials) {
    struct bytes frame;
    struct zk_answer answer;
    size_t used;
    const char *reason = "refused";
    zk_put_auth(&link->out, scheme, credentials);
    if (!zk_link_send(link)) {
        return lost(link, wire_stream_error(link->stream));
    }
    if (!next_frame(link, &frame, &used, &reason) || !zk_get_answer(frame, &answer) ||
        answer.error != ZK_ANSWER_OK) {
        char where[HOST_PORT_TEXT_SIZE_MAX];
        return import_fail(link->job, "%s does not accept the identity of scheme %s: %s",
                           host_port_format(link->url->place.host, link->url->place.port, where),
                           scheme, reason);
    }
    wire_stream_consume(link->stream, used);
    return true;
}

int32_t zk_link_xid(struct zk_link *link) {
    int32_t xid = link->next_xid;
    link->next_xid = xid == INT32_MAX ? 1 : xid + 1;
    return xid;
}

void zk_link_ask(struct zk_link *link, enum zk_opcode opcode, struct bytes path) {
    zk_put_path(&link->out, zk_link_xid(link), opcode, path);
}

bool zk_link_send(struct zk_link *link) {
    bool is_sent = wire_stream_send(link->stream, bytes_of(link->out.data, link->out.size));
    link->out.size = 0;
    link->sent_ms = clock_boottime_ms();
    return is_sent || lost(link, wire_stream_error(link->stream));
}

bool zk_link_answer(struct zk_link *link, struct arena *arena, struct zk_answer *out) {
    for (;;) {
        struct bytes frame;
        size_t used;
        const char *reason = "";
        if (!next_frame(link, &frame, &used, &reason)) {
            return lost(link, reason);
        }
        if (!zk_get_answer(frame, out)) {
            return lost(link, "its answer is not of the protocol");
        }
        bool is_other = out->xid == ZK_XID_PING || out->xid == ZK_XID_EVENT;
        if (!is_other) {
            out->body = bytes_of(arena_copy(arena, out->body.data, out->body.size), out->body.size);
        }
        wire_stream_consume(link->stream, used);
        if (is_other) {
            continue;
        }
        if (out->xid != link->answered_xid) {
            return lost(link, "it answers in another order");
        }
        link->answered_xid = out->xid == INT32_MAX ? 1 : out->xid + 1;
        return true;
    }
}

bool zk_link_stay(struct zk_link *link) {
    if (clock_elapsed_ms(clock_boottime_ms(), link->sent_ms) < PING_AFTER_MS) {
        return true;
    }
    zk_put_plain(&link->out, ZK_XID_PING, ZK_OP_PING);
    return zk_link_send(link);
}
