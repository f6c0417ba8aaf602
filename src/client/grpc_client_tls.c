/* TLS between the frames and the socket, and what its failures mean to a person with a client. */
#include "client/grpc_client_internal.h"

#include <stdio.h>

bool grpc_client_tls_begin(struct grpc_client *client) {
    client->tls = tls_stream_connect(client->options.tls, client->host);
    return client->tls != NULL;
}

bool grpc_client_tls_is_open(const struct grpc_client *client) {
    return tls_stream_state(client->tls) == TLS_OPEN;
}

static void take_output(struct grpc_client *client, struct buffer *out) {
    struct buffer *output = tls_stream_output(client->tls);
    struct buffer empty = *out;
    empty.size = 0;
    *out = *output;
    *output = empty;
}

void grpc_client_tls_fill(struct grpc_client *client, struct buffer *out) {
    if (grpc_client_tls_is_open(client)) {
        grpc_client_session_fill(client, &client->frames);
        tls_stream_write(client->tls, bytes_of(client->frames.data, client->frames.size));
        client->frames.size = 0;
    }
    take_output(client, out);
}

/* ---- failures ---- */

static void describe(const struct grpc_client *client, char *room, size_t size) {
    const char *place = grpc_client_place(client);
    const char *ca_file = tls_context_ca_file(client->options.tls);
    enum tls_failure failure = tls_stream_failure(client->tls);
    switch (failure) {
    case TLS_FAILURE_UNKNOWN_AUTHORITY:
        if (ca_file != NULL) {
            snprintf(room, size, "the certificate of %s is not signed by the authority in %s",
                     place, ca_file);
        } else {
            snprintf(room, size,
                     "the certificate of %s is not signed by an authority that this system "
                     "trusts; name the file with its authority (--cacert)",
                     place);
        }
        return;
    case TLS_FAILURE_WRONG_HOST:
        snprintf(room, size, "the certificate of %s is for another host, not for %s", place,
                 client->host);
        return;
    case TLS_FAILURE_EXPIRED:
        snprintf(room, size, "the certificate of %s has expired", place);
        return;
    case TLS_FAILURE_NOT_VALID_YET:
        snprintf(room, size, "the certificate of %s is not valid yet", place);
        return;
    case TLS_FAILURE_PLAIN_TEXT:
        snprintf(room, size, "%s does not speak TLS: use http://", place);
        return;
    case TLS_FAILURE_CLOSED_EARLY:
        snprintf(room, size,
                 "%s closed the connection before TLS was agreed on; if it does not speak TLS, use "
                 "http://",
                 place);
        return;
    case TLS_FAILURE_OURS_MISSING:
        snprintf(room, size, "%s wants a client certificate (--cert and --key)", place);
        return;
    case TLS_FAILURE_OURS_UNKNOWN_AUTHORITY:
        snprintf(room, size, "%s does not know the authority that signed the client certificate",
                 place);
        return;
    case TLS_FAILURE_OURS_EXPIRED:
        snprintf(room, size, "%s says that the client certificate has expired", place);
        return;
    case TLS_FAILURE_OURS_REVOKED:
        snprintf(room, size, "%s says that the client certificate was revoked", place);
        return;
    case TLS_FAILURE_OURS_REFUSED:
        snprintf(room, size, "%s refuses the client certificate, or wants one", place);
        return;
    case TLS_FAILURE_CLOSED:
        snprintf(room, size, "%s closed the connection", place);
        return;
    default:
        snprintf(room, size, "%s: TLS failed: %s", place, tls_stream_error(client->tls));
        return;
    }
}

static void fail(struct grpc_client *client) {
    char reason[GRPC_CLIENT_REASON_SIZE_MAX];
    describe(client, reason, sizeof reason);
    grpc_client_fail_with_text(client, reason);
}

/* ---- bytes ---- */

/* What fits the socket now; whatever does not is lost with the connection. */
static void send_last(struct grpc_client *client) {
    struct buffer *output = tls_stream_output(client->tls);
    if (output->size > 0 && client->socket_live && !client->write_pending &&
        client->out.size == 0) {
        uv_buf_t last = uv_buf_init((char *)output->data, (unsigned)output->size);
        (void)uv_try_write(&client->socket.stream, &last, 1);
        output->size = 0;
    }
}

void grpc_client_tls_receive(struct grpc_client *client, struct bytes ciphertext,
                             struct buffer *out_plaintext) {
    (void)tls_stream_feed(client->tls, ciphertext, out_plaintext);
}

void grpc_client_tls_settle(struct grpc_client *client) {
    enum tls_state state = tls_stream_state(client->tls);
    if (!client->destroyed && (state == TLS_ENDED || state == TLS_FAILED)) {
        send_last(client); /* the alert gives the server the reason */
        fail(client);
    }
}

void grpc_client_tls_receive_end(struct grpc_client *client) {
    (void)tls_stream_feed_end(client->tls);
    fail(client);
}

void grpc_client_tls_end(struct grpc_client *client) {
    if (client->state == GRPC_CLIENT_CONNECTED) {
        tls_stream_end(client->tls);
        send_last(client);
    }
}
