#include "base/clock.h"
#include "base/log.h"
#include "replication/peer_tls.h"
#include "replication/peer_tls_context.h"
#include "tls_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum { WAIT_MS_MAX = 20000, TICK_MS = 2, CHUNK_SIZE = 256 * 1024 };

static uv_loop_t loop;
static uv_timer_t ticker;
static uint64_t n_turns;
static uv_prepare_t turn_counter;

/* One end as its owner sees it. */
struct side {
    struct peer_tls_context *context;
    struct peer_tls *tls;
    uv_stream_t *stream;
    unsigned n_agreed;
    uint64_t received; /* every byte tells its place */
    bool is_ended;
    uint64_t written;
    unsigned n_writing;
};

static struct tls_authority ours;
static struct tls_authority theirs;
enum { FILES_MAX = 2 };
static struct tls_files files[FILES_MAX];
static struct side dialler;
static struct side accepter;

#define WAIT_UNTIL(condition)                                                                      \
    do {                                                                                           \
        uint64_t end_ms = clock_boottime_ms() + WAIT_MS_MAX;                                       \
        while (!(condition)) {                                                                     \
            assert_true(clock_boottime_ms() < end_ms);                                             \
            uv_run(&loop, UV_RUN_ONCE);                                                            \
        }                                                                                          \
    } while (0)

static void tick(uv_timer_t *timer) {
}

static void count_turn(uv_prepare_t *prepare) {
    n_turns++;
}

/* --- The owner. --- */

static void agreed(void *data, uv_stream_t *stream, const char *reason) {
    struct side *side = data;
    assert_int_equal(stream == NULL, reason != NULL);
    side->n_agreed++;
    if (stream == NULL) {
        assert_string_equal(peer_tls_ended(side->tls), reason);
        return;
    }
    assert_null(side->stream);
    assert_null(peer_tls_ended(side->tls));
    side->stream = stream;
    stream->data = side;
}

/* Why it ended; NULL while it goes on. */
static const char *reason_of(const struct side *side) {
    return side->tls != NULL ? peer_tls_ended(side->tls) : NULL;
}

static uint8_t byte_at(uint64_t place) {
    return (uint8_t)(place * 131 + place / 251);
}

static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out_buffer) {
    static char room[CHUNK_SIZE];
    *out_buffer = uv_buf_init(room, sizeof room);
}

static void received(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer) {
    struct side *side = stream->data;
    if (size < 0) {
        side->is_ended = true;
        uv_read_stop(stream);
        return;
    }
    for (ssize_t i = 0; i < size; i++) {
        if ((uint8_t)buffer->base[i] != byte_at(side->received)) {
            fail_msg("byte %llu is another", (unsigned long long)side->received);
        }
        side->received++;
    }
}

static void read_from(struct side *side) {
    assert_int_equal(uv_read_start(side->stream, give_room, received), 0);
}

struct chunk {
    uv_write_t request;
    struct side *side;
    char bytes[CHUNK_SIZE];
};

static void chunk_written(uv_write_t *request, int status) {
    struct chunk *chunk = request->data;
    chunk->side->n_writing--;
    free(chunk);
}

static void write_chunk(struct side *side, size_t size) {
    struct chunk *chunk = malloc(sizeof *chunk);
    assert_non_null(chunk);
    chunk->side = side;
    chunk->request.data = chunk;
    for (size_t i = 0; i < size; i++) {
        chunk->bytes[i] = (char)byte_at(side->written + i);
    }
    side->written += size;
    side->n_writing++;
    uv_buf_t buffer = uv_buf_init(chunk->bytes, (unsigned)size);
    assert_int_equal(uv_write(&chunk->request, side->stream, &buffer, 1, chunk_written), 0);
}

static void free_handle(uv_handle_t *handle) {
    free(handle);
}

static void close_stream(struct side *side) {
    uv_close((uv_handle_t *)side->stream, free_handle);
    side->stream = NULL;
}

static void release(struct side *side) {
    if (side->tls != NULL) {
        peer_tls_release(side->tls);
        side->tls = NULL;
    }
}

/* --- Both ends. --- */

static void make_pair(int out_sockets[2]) {
    assert_int_equal(
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, out_sockets), 0);
}

static void make_contexts(const struct tls_terms *dialler_terms,
                          const struct tls_terms *accepter_terms) {
    char error[512] = "";
    tls_files_make(&files[0], "dialler", &ours, &ours, dialler_terms);
    tls_files_make(&files[1], "accepter", &ours, &ours, accepter_terms);
    for (size_t i = 0; i < FILES_MAX; i++) {
        struct side *side = i == 0 ? &dialler : &accepter;
        peer_tls_context_destroy(side->context);
        assert_int_equal(
            peer_tls_context_create(&files[i].options, &side->context, error, sizeof error),
            STATUS_OK);
    }
}

static void start_dialler(int socket, const char *host) {
    release(&dialler);
    dialler.tls = peer_tls_start(&loop, peer_tls_context_dial(dialler.context, host), socket,
                                 agreed, &dialler);
    assert_non_null(dialler.tls);
}

static void start_accepter(int socket) {
    release(&accepter);
    accepter.tls =
        peer_tls_start(&loop, peer_tls_context_accept(accepter.context), socket, agreed, &accepter);
    assert_non_null(accepter.tls);
}

static void start_both(const char *host) {
    int sockets[2];
    make_pair(sockets);
    dialler.n_agreed = 0;
    accepter.n_agreed = 0;
    start_dialler(sockets[0], host);
    start_accepter(sockets[1]);
    assert_int_equal(dialler.n_agreed + accepter.n_agreed, 0);
}

static void connect_both(void) {
    start_both("127.0.0.1");
    WAIT_UNTIL(dialler.stream != NULL && accepter.stream != NULL);
}

static int set_up(void **state) {
    static const struct tls_terms usual = {0};
    signal(SIGPIPE, SIG_IGN);
    log_configure(LOG_ERROR, LOG_FORMAT_TEXT);
    assert_int_equal(uv_loop_init(&loop), 0);
    uv_timer_init(&loop, &ticker);
    uv_timer_start(&ticker, tick, TICK_MS, TICK_MS);
    uv_prepare_init(&loop, &turn_counter);
    uv_prepare_start(&turn_counter, count_turn);
    tls_folder_make();
    ours = tls_authority_make();
    theirs = tls_authority_make();
    dialler = (struct side){0};
    accepter = (struct side){0};
    make_contexts(&usual, &usual);
    return 0;
}

static int tear_down(void **state) {
    struct side *sides[] = {&dialler, &accepter};
    for (size_t i = 0; i < 2; i++) {
        release(sides[i]);
        if (sides[i]->stream != NULL) {
            close_stream(sides[i]);
        }
    }
    uv_close((uv_handle_t *)&ticker, NULL);
    uv_close((uv_handle_t *)&turn_counter, NULL);
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    for (size_t i = 0; i < 2; i++) {
        peer_tls_context_destroy(sides[i]->context);
    }
    tls_folder_remove(files, FILES_MAX);
    tls_authority_clear(&ours);
    tls_authority_clear(&theirs);
    return uv_loop_close(&loop);
}

/* --- Bytes. --- */

static void bytes_go_both_ways_in_their_order(void **state) {
    enum { CHUNKS = 60, WINDOW = 3 };
    connect_both();
    read_from(&dialler);
    read_from(&accepter);
    for (unsigned i = 0; i < CHUNKS; i++) {
        write_chunk(&dialler, CHUNK_SIZE - i);
        write_chunk(&accepter, i * 7 + 1);
        WAIT_UNTIL(dialler.n_writing < WINDOW && accepter.n_writing < WINDOW);
    }
    WAIT_UNTIL(accepter.received == dialler.written && dialler.received == accepter.written);
    assert_int_equal(dialler.n_agreed, 1);
    assert_int_equal(accepter.n_agreed, 1);
}

static void it_goes_on_after_it_was_released(void **state) {
    connect_both();
    release(&dialler);
    release(&accepter);
    read_from(&accepter);
    write_chunk(&dialler, CHUNK_SIZE);
    WAIT_UNTIL(accepter.received == CHUNK_SIZE);
    close_stream(&dialler);
    WAIT_UNTIL(accepter.is_ended);
    assert_int_equal(accepter.n_agreed, 1);
}

static void who_does_not_read_is_sent_no_more_at_some_point(void **state) {
    enum { SENT_MAX = 4 * 1024 * 1024, QUIET_TURNS = 50 };
    connect_both();
    uint64_t sent = 0;
    unsigned quiet = 0;
    while (quiet < QUIET_TURNS) {
        static uint8_t bytes[CHUNK_SIZE];
        for (size_t i = 0; i < sizeof bytes; i++) {
            bytes[i] = byte_at(sent + i);
        }
        uv_buf_t buffer = uv_buf_init((char *)bytes, sizeof bytes);
        int n = uv_try_write(dialler.stream, &buffer, 1);
        quiet = n > 0 ? 0 : quiet + 1;
        sent += n > 0 ? (uint64_t)n : 0;
        assert_true(sent < SENT_MAX);
        uv_run(&loop, UV_RUN_ONCE);
    }
    /* Nothing of it is lost. */
    read_from(&accepter);
    WAIT_UNTIL(accepter.received == sent);
}

static void a_quiet_connection_costs_nothing(void **state) {
    enum { QUIET_MS = 300 };
    connect_both();
    release(&dialler);
    release(&accepter);
    uv_timer_start(&ticker, tick, 50, 50);
    uint64_t until_ms = clock_boottime_ms() + QUIET_MS;
    n_turns = 0;
    WAIT_UNTIL(clock_boottime_ms() >= until_ms);
    assert_true(n_turns < 20);
    /* Nor does one whose reader has stopped, nor one whose peer is gone. */
    write_chunk(&dialler, CHUNK_SIZE);
    write_chunk(&dialler, CHUNK_SIZE);
    write_chunk(&dialler, CHUNK_SIZE);
    write_chunk(&dialler, CHUNK_SIZE);
    WAIT_UNTIL(clock_boottime_ms() >= until_ms + 100);
    n_turns = 0;
    WAIT_UNTIL(clock_boottime_ms() >= until_ms + 100 + QUIET_MS);
    assert_true(n_turns < 20);
}

/* --- The end. --- */

static void what_was_written_before_the_end_arrives(void **state) {
    enum { CHUNKS = 8 };
    connect_both();
    for (unsigned i = 0; i < CHUNKS; i++) {
        write_chunk(&dialler, CHUNK_SIZE);
    }
    read_from(&accepter);
    WAIT_UNTIL(dialler.n_writing == 0);
    release(&dialler);
    close_stream(&dialler);
    WAIT_UNTIL(accepter.is_ended);
    assert_int_equal(accepter.received, dialler.written);
    assert_string_equal(reason_of(&accepter), "the peer hung up");
}

static void the_end_takes_only_so_long_when_nobody_reads(void **state) {
    int sockets[2];
    make_pair(sockets);
    start_dialler(sockets[0], "127.0.0.1");
    start_accepter(sockets[1]);
    WAIT_UNTIL(dialler.stream != NULL && accepter.stream != NULL);
    for (unsigned i = 0; i < 8; i++) {
        write_chunk(&dialler, CHUNK_SIZE); /* nobody reads it: it stands still */
    }
    for (unsigned i = 0; i < 50; i++) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    assert_true(dialler.n_writing > 0);
    uint64_t start_ms = clock_boottime_ms();
    close_stream(&dialler);
    WAIT_UNTIL(reason_of(&dialler) != NULL);
    assert_true(clock_boottime_ms() - start_ms >= PEER_TLS_LINGER_MS - 50);
    assert_int_equal(dialler.n_writing, 0);
}

static void a_peer_that_dies_is_noticed(void **state) {
    int sockets[2];
    make_pair(sockets);
    int grip = dup(sockets[1]);
    start_dialler(sockets[0], "127.0.0.1");
    start_accepter(sockets[1]);
    WAIT_UNTIL(dialler.stream != NULL && accepter.stream != NULL);
    /* Without a farewell. */
    assert_int_equal(shutdown(grip, SHUT_RDWR), 0);
    close(grip);
    read_from(&dialler);
    WAIT_UNTIL(dialler.is_ended && reason_of(&accepter) != NULL);
    assert_string_equal(reason_of(&dialler), "the peer hung up");
}

static void released_in_the_handshake_it_ends(void **state) {
    for (unsigned turns = 0; turns < 6; turns++) {
        start_both("127.0.0.1");
        for (unsigned i = 0; i < turns; i++) {
            uv_run(&loop, UV_RUN_NOWAIT);
        }
        release(&dialler);
        release(&accepter);
        struct side *sides[] = {&dialler, &accepter};
        for (size_t i = 0; i < 2; i++) {
            if (sides[i]->stream != NULL) {
                close_stream(sides[i]);
            }
        }
    }
}

/* --- Who is trusted. --- */

/* The dialler may believe for a moment that all is well: the other one's word comes later. */
static void assert_refused(const char *host, const char *dialler_reason,
                           const char *accepter_reason) {
    start_both(host);
    WAIT_UNTIL(reason_of(&dialler) != NULL && reason_of(&accepter) != NULL);
    assert_null(accepter.stream);
    assert_string_equal(reason_of(&dialler), dialler_reason);
    assert_string_equal(reason_of(&accepter), accepter_reason);
    if (dialler.stream != NULL) {
        close_stream(&dialler);
    }
}

static void remake(size_t which, const struct tls_authority *signer,
                   const struct tls_authority *trusted, const struct tls_terms *terms) {
    struct side *side = which == 0 ? &dialler : &accepter;
    char error[512] = "";
    tls_files_make(&files[which], which == 0 ? "dialler" : "accepter", signer, trusted, terms);
    peer_tls_context_destroy(side->context);
    assert_int_equal(
        peer_tls_context_create(&files[which].options, &side->context, error, sizeof error),
        STATUS_OK);
}

static const struct tls_terms usual_terms = {0};

static void a_certificate_of_another_authority_is_refused(void **state) {
    remake(0, &theirs, &ours, &usual_terms);
    assert_refused("127.0.0.1", "the peer refuses our certificate",
                   "the peer's certificate is signed by an unknown authority");
    remake(0, &ours, &theirs, &usual_terms);
    assert_refused("127.0.0.1", "the peer's certificate is signed by an unknown authority",
                   "the peer refuses our certificate");
}

static void a_certificate_out_of_its_time_is_refused(void **state) {
    static const struct tls_terms expired = {.has_expired = true};
    static const struct tls_terms early = {.is_not_valid_yet = true};
    remake(0, &ours, &ours, &expired);
    assert_refused("127.0.0.1", "the peer says that our certificate has expired",
                   "the peer's certificate has expired");
    remake(0, &ours, &ours, &usual_terms);
    remake(1, &ours, &ours, &expired);
    assert_refused("127.0.0.1", "the peer's certificate has expired",
                   "the peer says that our certificate has expired");
    remake(1, &ours, &ours, &early);
    assert_refused("127.0.0.1", "the peer's certificate is not valid yet",
                   "the peer refuses our certificate");
}

static void a_certificate_for_another_host_is_refused(void **state) {
    static const char mismatch[] = "the peer's certificate is not for the host that was dialled";
    static const struct tls_terms named = {.alternative_names = "DNS:n1.example,IP:::1"};
    /* The common name is no address, whatever it says. */
    static const struct tls_terms by_common_name = {.common_name = "n1.example",
                                                    .alternative_names = "email:a@n1.example"};
    assert_refused("127.0.0.2", mismatch, "the peer refuses our certificate");
    assert_refused("n1.example", mismatch, "the peer refuses our certificate");
    remake(1, &ours, &ours, &by_common_name);
    assert_refused("n1.example", mismatch, "the peer refuses our certificate");
    remake(1, &ours, &ours, &named);
    assert_refused("n2.example", mismatch, "the peer refuses our certificate");
    assert_refused("127.0.0.1", mismatch, "the peer refuses our certificate");
    for (unsigned i = 0; i < 2; i++) {
        start_both(i == 0 ? "n1.example" : "::1");
        WAIT_UNTIL(dialler.stream != NULL && accepter.stream != NULL);
        release(&dialler);
        release(&accepter);
        close_stream(&dialler);
        close_stream(&accepter);
    }
}

static void a_certificate_with_another_name_than_allowed_is_refused(void **state) {
    static const struct tls_terms other = {.common_name = "members2"};
    char error[512] = "";
    remake(0, &ours, &ours, &other);
    peer_tls_context_destroy(accepter.context);
    files[1].options.allowed_cn = "members";
    assert_int_equal(
        peer_tls_context_create(&files[1].options, &accepter.context, error, sizeof error),
        STATUS_OK);
    assert_refused("127.0.0.1", "the peer refuses our certificate",
                   "the peer's certificate bears another name than the allowed one");
    peer_tls_context_destroy(accepter.context);
    files[1].options.allowed_cn = "members2";
    files[1].options.allowed_hostname = "members.example";
    assert_int_equal(
        peer_tls_context_create(&files[1].options, &accepter.context, error, sizeof error),
        STATUS_OK);
    assert_refused("127.0.0.1", "the peer refuses our certificate",
                   "the peer's certificate bears another name than the allowed one");
    static const struct tls_terms right = {.common_name = "members2",
                                           .alternative_names = "DNS:members.example"};
    remake(0, &ours, &ours, &right);
    connect_both();
}

static void who_has_no_certificate_is_refused(void **state) {
    int sockets[2];
    make_pair(sockets);
    start_accepter(sockets[1]);
    SSL_CTX *bare = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(bare);
    SSL_set_connect_state(ssl);
    dialler.tls = peer_tls_start(&loop, ssl, sockets[0], agreed, &dialler);
    SSL_CTX_free(bare);
    WAIT_UNTIL(reason_of(&accepter) != NULL && reason_of(&dialler) != NULL);
    assert_null(accepter.stream);
    assert_string_equal(reason_of(&accepter), "the peer has no certificate");
    assert_string_equal(reason_of(&dialler), "the peer wants a certificate of ours");
}

static void what_is_older_than_tls_1_2_is_refused(void **state) {
    int sockets[2];
    make_pair(sockets);
    start_accepter(sockets[1]);
    SSL_CTX *old = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_security_level(old, 0);
    SSL_CTX_set_min_proto_version(old, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(old, TLS1_1_VERSION);
    SSL *ssl = SSL_new(old);
    SSL_set_connect_state(ssl);
    dialler.tls = peer_tls_start(&loop, ssl, sockets[0], agreed, &dialler);
    SSL_CTX_free(old);
    WAIT_UNTIL(reason_of(&accepter) != NULL && reason_of(&dialler) != NULL);
    assert_null(accepter.stream);
}

/* --- Hostile bytes. --- */

static void plain_text_is_told_from_tls(void **state) {
    static const char *const texts[] = {"leasedpr\1\0\0\0....................",
                                        "GET / HTTP/1.1\r\n\r\n"};
    for (size_t i = 0; i < 2; i++) {
        int sockets[2];
        make_pair(sockets);
        start_accepter(sockets[1]);
        assert_true(send(sockets[0], texts[i], 18, MSG_NOSIGNAL) == 18);
        WAIT_UNTIL(reason_of(&accepter) != NULL);
        assert_string_equal(reason_of(&accepter),
                            "the peer does not speak TLS, and this node does");
        close(sockets[0]);
    }
}

static void who_hangs_up_in_the_handshake_is_told_of(void **state) {
    static const char expected[] = "the peer hung up before TLS was agreed on; does it speak TLS?";
    int sockets[2];
    make_pair(sockets);
    start_dialler(sockets[0], "127.0.0.1");
    close(sockets[1]);
    WAIT_UNTIL(reason_of(&dialler) != NULL);
    make_pair(sockets);
    start_accepter(sockets[1]);
    assert_int_equal(send(sockets[0], "\x16\x03\x01\x02", 4, MSG_NOSIGNAL), 4);
    close(sockets[0]);
    WAIT_UNTIL(reason_of(&accepter) != NULL);
    assert_string_equal(reason_of(&accepter), expected);
}

/* Moves what is there from one socket to the other, at most so many bytes. */
static void carry(int from, int to, size_t most) {
    uint8_t bytes[4096];
    ssize_t n = recv(from, bytes, most < sizeof bytes ? most : sizeof bytes, MSG_DONTWAIT);
    if (n > 0) {
        assert_int_equal(send(to, bytes, (size_t)n, MSG_NOSIGNAL), n);
    }
}

static void a_handshake_may_come_byte_by_byte(void **state) {
    int left[2];
    int right[2];
    make_pair(left);
    make_pair(right);
    start_dialler(left[0], "127.0.0.1");
    start_accepter(right[0]);
    for (unsigned i = 0; accepter.stream == NULL; i++) {
        assert_true(i < 100000);
        uv_run(&loop, UV_RUN_NOWAIT);
        carry(left[1], right[1], 1);
        carry(right[1], left[1], 1);
    }
    WAIT_UNTIL(dialler.stream != NULL);
    read_from(&accepter);
    write_chunk(&dialler, 3000);
    for (unsigned i = 0; accepter.received < 3000; i++) {
        assert_true(i < 100000);
        uv_run(&loop, UV_RUN_NOWAIT);
        carry(left[1], right[1], 1);
    }
    /* A changed byte is noticed: the connection ends, and nothing of it is handed on. */
    write_chunk(&dialler, 3000);
    WAIT_UNTIL(dialler.n_writing == 0);
    for (unsigned i = 0; i < 20; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    uint8_t bytes[4096];
    ssize_t n = recv(left[1], bytes, sizeof bytes, MSG_DONTWAIT);
    assert_true(n > 3000);
    bytes[1000] ^= 1;
    assert_int_equal(send(right[1], bytes, (size_t)n, MSG_NOSIGNAL), n);
    WAIT_UNTIL(reason_of(&accepter) != NULL && accepter.is_ended);
    assert_int_equal(accepter.received, 3000);
    close(left[1]);
    close(right[1]);
}

/* --- Files. --- */

static void files_that_changed_are_read_again(void **state) {
    static const char *const unknown = "the peer's certificate is signed by an unknown authority";
    connect_both();
    release(&dialler);
    release(&accepter);
    tls_files_make(&files[0], "dialler", &theirs, &theirs, &usual_terms);
    struct side kept[] = {dialler, accepter};
    dialler.stream = NULL;
    accepter.stream = NULL;
    assert_refused("127.0.0.1", unknown, "the peer refuses our certificate");
    tls_files_make(&files[1], "accepter", &theirs, &theirs, &usual_terms);
    connect_both();
    close_stream(&kept[0]);
    close_stream(&kept[1]);
}

static void files_that_cannot_be_used_leave_the_old_ones_in_use(void **state) {
    char error[512] = "";
    struct peer_tls_context *context = NULL;
    FILE *file = fopen(files[0].cert, "w");
    fputs("-----BEGIN CERTIFICATE-----\nnonsense\n", file);
    fclose(file);
    assert_int_equal(peer_tls_context_create(&files[0].options, &context, error, sizeof error),
                     STATUS_INVALID);
    assert_non_null(strstr(error, files[0].cert));
    connect_both();
    release(&dialler);
    release(&accepter);
    close_stream(&dialler);
    close_stream(&accepter);
    unlink(files[0].cert);
    assert_int_equal(peer_tls_context_create(&files[0].options, &context, error, sizeof error),
                     STATUS_INVALID);
    assert_non_null(strstr(error, "No such file"));
    connect_both();
}

static void a_key_that_does_not_fit_is_refused(void **state) {
    char error[512] = "";
    struct peer_tls_context *context = NULL;
    struct peer_tls_options options = files[0].options;
    options.key_file = files[1].key;
    assert_int_equal(peer_tls_context_create(&options, &context, error, sizeof error),
                     STATUS_INVALID);
    assert_non_null(strstr(error, files[1].key));
    options = files[0].options;
    options.ca_file = files[0].key;
    assert_int_equal(peer_tls_context_create(&options, &context, error, sizeof error),
                     STATUS_INVALID);
    assert_non_null(strstr(error, "authority"));
}

#define TLS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TLS_TEST(bytes_go_both_ways_in_their_order),
        TLS_TEST(it_goes_on_after_it_was_released),
        TLS_TEST(who_does_not_read_is_sent_no_more_at_some_point),
        TLS_TEST(a_quiet_connection_costs_nothing),
        TLS_TEST(what_was_written_before_the_end_arrives),
        TLS_TEST(the_end_takes_only_so_long_when_nobody_reads),
        TLS_TEST(a_peer_that_dies_is_noticed),
        TLS_TEST(released_in_the_handshake_it_ends),
        TLS_TEST(a_certificate_of_another_authority_is_refused),
        TLS_TEST(a_certificate_out_of_its_time_is_refused),
        TLS_TEST(a_certificate_for_another_host_is_refused),
        TLS_TEST(a_certificate_with_another_name_than_allowed_is_refused),
        TLS_TEST(who_has_no_certificate_is_refused),
        TLS_TEST(what_is_older_than_tls_1_2_is_refused),
        TLS_TEST(plain_text_is_told_from_tls),
        TLS_TEST(who_hangs_up_in_the_handshake_is_told_of),
        TLS_TEST(a_handshake_may_come_byte_by_byte),
        TLS_TEST(files_that_changed_are_read_again),
        TLS_TEST(files_that_cannot_be_used_leave_the_old_ones_in_use),
        TLS_TEST(a_key_that_does_not_fit_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
