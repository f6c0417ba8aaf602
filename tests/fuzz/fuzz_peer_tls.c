/*
 * What a stranger sends to a port where members speak TLS, in pieces: the first byte of an input
 * tells how large they are. Whatever it is, nobody without a certificate gets a stream, a reason is
 * given once, and nothing is left behind. The bytes go to the one who accepts, or, when the first
 * byte is odd, to one who dials.
 */
#include "../unit/tls_fixture.h"
#include "base/log.h"
#include "replication/peer_tls.h"

#include <signal.h>
#include <sys/socket.h>

enum { TURNS_MAX = 100000 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tls_files files[1];
static struct peer_tls_context *context;
static uv_loop_t loop;

static void remove_files(void) {
    peer_tls_context_destroy(context);
    uv_loop_close(&loop);
    tls_folder_remove(files, 1);
}

static void prepare(void) {
    static const struct tls_terms usual = {0};
    char error[256];
    if (context != NULL) {
        return;
    }
    signal(SIGPIPE, SIG_IGN);
    log_configure(LOG_ERROR, LOG_FORMAT_TEXT);
    tls_folder_make();
    struct tls_authority authority = tls_authority_make();
    tls_files_make(&files[0], "node", &authority, &authority, &usual);
    tls_authority_clear(&authority);
    enum status status = peer_tls_context_create(&files[0].options, &context, error, sizeof error);
    assert(status == STATUS_OK);
    int rv = uv_loop_init(&loop);
    assert(rv == 0);
    atexit(remove_files);
}

static void agreed(void *data, uv_stream_t *stream, const char *reason) {
    unsigned *n_reasons = data;
    assert(stream == NULL);
    assert(reason != NULL);
    (*n_reasons)++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int sockets[2];
    unsigned n_reasons = 0;
    if (size == 0) {
        return 0;
    }
    prepare();
    size_t piece = data[0] / 2 + 1;
    int rv = socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets);
    assert(rv == 0);
    SSL *ssl = data[0] % 2 == 1 ? peer_tls_context_dial(context, "127.0.0.1")
                                : peer_tls_context_accept(context);
    struct peer_tls *tls = peer_tls_start(&loop, ssl, sockets[0], agreed, &n_reasons);
    assert(tls != NULL);
    for (size_t at = 1; at < size && n_reasons == 0; at += piece) {
        size_t n = size - at < piece ? size - at : piece;
        if (send(sockets[1], data + at, n, MSG_NOSIGNAL) < 0) {
            break;
        }
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    close(sockets[1]);
    for (unsigned i = 0; i < TURNS_MAX && n_reasons == 0; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    assert(n_reasons == 1);
    assert(peer_tls_ended(tls) != NULL);
    peer_tls_release(tls);
    rv = uv_run(&loop, UV_RUN_DEFAULT);
    assert(rv == 0);
    return 0;
}
