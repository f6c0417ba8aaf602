/*
 * `lease-load idle-connections`: opens connections that say the HTTP/2 preface and SETTINGS, answer
 * the server's SETTINGS, and then nothing more. Plain sockets: a session for each would measure us.
 */
#include "tools/load/load.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define OPENING_AT_ONCE_MAX 256

/* RFC 9113: the connection preface (3.4), an empty SETTINGS frame (6.5), and its acknowledgement.
 */
static const char hello[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                            "\0\0\0\x4\0\0\0\0\0";
static const char acknowledgement[] = "\0\0\0\x4\x1\0\0\0\0";

struct idle_run;

struct idle_connection {
    struct idle_run *run;
    uv_tcp_t tcp;
    uv_connect_t connect;
    bool acknowledged;
};

struct idle_run {
    struct load *load;
    struct idle_connection *connections;
    struct sockaddr_storage address;
    uint64_t total;
    uint64_t started;
    uint64_t opened; /* the server's SETTINGS came */
    uint64_t closed; /* by the server */
    char scratch[4096];
};

static const struct option_entry options[] = {
    {"--seconds", 's', "S", "how long they stay (10)"},
    {NULL, 0, NULL, NULL},
};

static void open_more(struct idle_run *run);

static void on_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *out_buffer) {
    struct idle_connection *connection = handle->data;
    (void)suggested;
    *out_buffer = uv_buf_init(connection->run->scratch, sizeof connection->run->scratch);
}

/* These few bytes always fit an empty socket. */
static void say(struct idle_connection *connection, const char *bytes, size_t size) {
    uv_buf_t buffer = uv_buf_init((char *)bytes, (unsigned)size);
    if (uv_try_write((uv_stream_t *)&connection->tcp, &buffer, 1) != (int)size) {
        load_die("a connection did not take its first bytes");
    }
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer) {
    struct idle_connection *connection = stream->data;
    struct idle_run *run = connection->run;
    (void)buffer;
    if (size < 0) {
        if (!connection->acknowledged) {
            load_die("connection %" PRIu64 " was refused: %s", run->opened, uv_strerror((int)size));
        }
        run->closed++;
        uv_close((uv_handle_t *)stream, NULL);
    } else if (size > 0 && !connection->acknowledged) {
        connection->acknowledged = true;
        say(connection, acknowledgement, sizeof acknowledgement - 1);
        run->opened++;
        open_more(run);
    }
}

static void on_connect(uv_connect_t *request, int result) {
    struct idle_connection *connection = request->data;
    if (result < 0) {
        load_die("connection %" PRIu64 ": %s", connection->run->opened, uv_strerror(result));
    }
    say(connection, hello, sizeof hello - 1);
    uv_read_start((uv_stream_t *)&connection->tcp, on_allocate, on_read);
}

static void open_more(struct idle_run *run) {
    while (run->started < run->total && run->started - run->opened < OPENING_AT_ONCE_MAX) {
        struct idle_connection *connection = &run->connections[run->started++];
        connection->run = run;
        uv_tcp_init(run->load->loop, &connection->tcp);
        connection->tcp.data = connection;
        connection->connect.data = connection;
        int result = uv_tcp_connect(&connection->connect, &connection->tcp,
                                    (const struct sockaddr *)&run->address, on_connect);
        if (result < 0) {
            load_die("connection %" PRIu64 ": %s", run->started, uv_strerror(result));
        }
    }
}

static void run_idle_connections(struct load *load, uint64_t count) {
    struct idle_run run = {.load = load, .total = count};
    run.connections = calloc(count, sizeof *run.connections);
    if (run.connections == NULL) {
        load_die("out of memory");
    }
    if (uv_ip4_addr(load->endpoint.host, load->endpoint.port, (struct sockaddr_in *)&run.address) !=
            0 &&
        uv_ip6_addr(load->endpoint.host, load->endpoint.port,
                    (struct sockaddr_in6 *)&run.address) != 0) {
        load_die("--endpoint %s: an address is needed here, not a name", load->endpoint.host);
    }
    load_measure(load);
    open_more(&run);
    while (run.opened < run.total) {
        uv_run(load->loop, UV_RUN_ONCE);
    }
    double open_seconds = load_elapsed_seconds(load);
    if (!load->json) {
        fprintf(stderr, "%" PRIu64 " connections open\n", run.opened);
    }
    uint64_t seconds = (uint64_t)load_option(load, "--seconds", 10, 0, 86400);
    load_run_for(load, (uint64_t)(open_seconds * 1e6) + seconds * 1000000);
    json_t *result =
        json_pack("{s:s, s:I, s:f, s:I, s:I}", "load", "idle-connections", "connections",
                  (json_int_t)run.opened, "open_seconds", open_seconds, "held_seconds",
                  (json_int_t)seconds, "closed_by_server", (json_int_t)run.closed);
    load_report(load, result,
                "idle-connections: %" PRIu64 " opened in %.2f s, held %" PRIu64 " s, %" PRIu64
                " closed by the server",
                run.opened, open_seconds, seconds, run.closed);
    free(run.connections);
}

const struct load_command load_idle_connections = {
    .name = "idle-connections",
    .usage = "N",
    .help = "open N connections that do nothing, and hold them",
    .options = options,
    .needs_count = true,
    .run = run_idle_connections,
};
