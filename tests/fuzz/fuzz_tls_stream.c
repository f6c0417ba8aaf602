/*
 * Bytes of a client to a listener that speaks TLS and demands certificates. The first byte of an
 * input tells where they go: into a new stream, behind a true handshake, into what a true client
 * sends, or to a client that connects; the second how large the pieces are. A stream opens only for
 * a handshake that nobody touched, and gives nothing but what was written on the other side.
 */
#include "../unit/certificates_fixture.h"
#include "base/log.h"
#include "tls/tls_stream.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

enum { ROUNDS_MAX = 64, MESSAGE_SIZE = 3000 };

enum mode { TO_LISTENER, BEHIND_A_HANDSHAKE, INTO_A_HANDSHAKE, TO_CLIENT, MODES };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tls_files files[2];
static struct tls_context *server;
static struct tls_context *client;
static uint8_t message[MESSAGE_SIZE];

static void clean_up(void) {
    tls_context_destroy(server);
    tls_context_destroy(client);
    tls_folder_remove(files, 2);
}

static void set_up(void) {
    const struct tls_terms terms = {0};
    char error[256];
    if (server != NULL) {
        return;
    }
    log_configure(LOG_ERROR, LOG_FORMAT_TEXT);
    tls_folder_make();
    struct tls_authority authority = tls_authority_make();
    tls_files_make(&files[0], "server", &authority, &authority, &terms);
    tls_files_make(&files[1], "client", &authority, &authority, &terms);
    files[0].options.alpn = "h2,http/1.1";
    files[0].options.session_tickets = true;
    files[1].options.alpn = "h2";
    enum status status = tls_context_create(&files[0].options, &server, error, sizeof error);
    assert(status == STATUS_OK);
    status = tls_context_create(&files[1].options, &client, error, sizeof error);
    assert(status == STATUS_OK);
    tls_authority_clear(&authority);
    for (size_t i = 0; i < sizeof message; i++) {
        message[i] = (uint8_t)(i * 7);
    }
    atexit(clean_up);
}

/* What one side wants sent, to the other side, changed on its way by `noise`. */
static bool carry(struct tls_stream *from, struct tls_stream *to, struct bytes noise,
                  struct buffer *received) {
    struct buffer *output = tls_stream_output(from);
    if (output->size == 0) {
        return false;
    }
    for (size_t i = 0; i < output->size && i < noise.size; i++) {
        output->data[i] ^= noise.data[i];
    }
    tls_stream_feed(to, bytes_of(output->data, output->size), received);
    output->size = 0;
    return true;
}

static void feed_in_pieces(struct tls_stream *stream, struct bytes bytes, size_t piece,
                           struct buffer *received) {
    while (bytes.size > 0) {
        size_t n = bytes.size < piece ? bytes.size : piece;
        tls_stream_feed(stream, bytes_of(bytes.data, n), received);
        tls_stream_output(stream)->size = 0;
        bytes = bytes_of(bytes.data + n, bytes.size - n);
    }
}

/* A true client and a true listener; `noise` changes what the client sends. */
static void talk(struct bytes noise, struct bytes behind, size_t piece) {
    struct buffer at_server;
    struct buffer at_client;
    buffer_init(&at_server);
    buffer_init(&at_client);
    struct tls_stream *in = tls_stream_accept(server);
    struct tls_stream *out = tls_stream_connect(client, "127.0.0.1");
    bool is_written = false;
    for (unsigned i = 0; i < ROUNDS_MAX; i++) {
        if (!is_written && tls_stream_state(out) == TLS_OPEN) {
            tls_stream_write(out, bytes_of(message, sizeof message));
            is_written = true;
        }
        bool is_moved = carry(out, in, noise, &at_server);
        is_moved = carry(in, out, bytes_of(NULL, 0), &at_client) || is_moved;
        if (!is_moved) {
            break;
        }
    }
    bool is_touched = false;
    for (size_t i = 0; i < noise.size; i++) {
        is_touched = is_touched || noise.data[i] != 0;
    }
    assert(is_touched || tls_stream_state(in) == TLS_OPEN);
    feed_in_pieces(in, behind, piece, &at_server);
    assert(at_client.size == 0);
    assert(at_server.size <= sizeof message);
    assert(at_server.size == 0 || memcmp(at_server.data, message, at_server.size) == 0);
    tls_stream_feed_end(in);
    tls_stream_destroy(in);
    tls_stream_destroy(out);
    buffer_clear(&at_server);
    buffer_clear(&at_client);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) {
        return 0;
    }
    set_up();
    struct buffer received;
    buffer_init(&received);
    struct bytes bytes = bytes_of(data + 2, size - 2);
    size_t piece = data[1] == 0 ? SIZE_MAX : data[1];
    struct tls_stream *stream = NULL;
    switch ((enum mode)(data[0] % MODES)) {
    case TO_LISTENER:
        stream = tls_stream_accept(server);
        feed_in_pieces(stream, bytes, piece, &received);
        assert(tls_stream_state(stream) != TLS_OPEN);
        break;
    case TO_CLIENT:
        stream = tls_stream_connect(client, "127.0.0.1");
        feed_in_pieces(stream, bytes, piece, &received);
        assert(tls_stream_state(stream) != TLS_OPEN);
        break;
    case BEHIND_A_HANDSHAKE:
        talk(bytes_of(NULL, 0), bytes, piece);
        break;
    case INTO_A_HANDSHAKE:
        talk(bytes, bytes_of(NULL, 0), piece);
        break;
    case MODES:
        break;
    }
    assert(received.size == 0);
    tls_stream_destroy(stream);
    buffer_clear(&received);
    return 0;
}
