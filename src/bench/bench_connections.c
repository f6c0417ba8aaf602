/*
 * `lease bench connections`: opens connections that say the HTTP/2 preface and SETTINGS, answer the
 * server's SETTINGS, and then nothing more, and measures the memory of one. Plain sockets: a
 * session for each would measure us.
 */
#include "bench/bench.h"

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
    bool closing;
};

struct idle_run {
    struct bench *bench;
    struct idle_connection *connections;
    struct sockaddr_storage address;
    size_t total;
    size_t started;
    size_t opened; /* the server's SETTINGS came */
    size_t closed; /* by the server */
    char scratch[4096];
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
        bench_die("a connection did not take its first bytes");
    }
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer) {
    struct idle_connection *connection = stream->data;
    struct idle_run *run = connection->run;
    (void)buffer;
    if (size < 0) {
        if (!connection->acknowledged) {
            bench_die("connection %zu was refused: %s", run->opened, uv_strerror((int)size));
        }
        run->closed++;
        connection->closing = true;
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
        bench_die("connection %zu: %s", connection->run->opened, uv_strerror(result));
    }
    say(connection, hello, sizeof hello - 1);
    uv_read_start((uv_stream_t *)&connection->tcp, on_allocate, on_read);
}

static void open_more(struct idle_run *run) {
    while (run->started < run->total && run->started - run->opened < OPENING_AT_ONCE_MAX) {
        struct idle_connection *connection = &run->connections[run->started++];
        connection->run = run;
        uv_tcp_init(run->bench->loop, &connection->tcp);
        connection->tcp.data = connection;
        connection->connect.data = connection;
        int result = uv_tcp_connect(&connection->connect, &connection->tcp,
                                    (const struct sockaddr *)&run->address, on_connect);
        if (result < 0) {
            bench_die("connection %zu: %s", run->started, uv_strerror(result));
        }
    }
}

static void find_address(struct idle_run *run) {
    const struct endpoint_list *endpoints = run->bench->endpoints;
    const struct endpoint *endpoint = &endpoints->items[0];
    bool is_tls = endpoint_options(endpoints, 0).tls != NULL;
    if (is_tls || endpoint->path[0] != '\0') {
        bench_usage(run->bench,
                    "these connections are plain TCP; measure TLS and Unix sockets with "
                    "`lease bench keepalive --connections N`");
    }
    if (uv_ip4_addr(endpoint->host, endpoint->port, (struct sockaddr_in *)&run->address) != 0 &&
        uv_ip6_addr(endpoint->host, endpoint->port, (struct sockaddr_in6 *)&run->address) != 0) {
        bench_usage(run->bench, "--endpoint %s: an address is needed here, not a name",
                    endpoint->host);
    }
}

static void report(struct idle_run *run, double open_seconds) {
    struct bench *bench = run->bench;
    bench->n_connections = run->opened;
    bench_fact(bench, "open_seconds", json_real(open_seconds), "opened", "%zu in %.2f s",
               run->opened, open_seconds);
    bench_fact(bench, "closed_by_server", json_integer((json_int_t)run->closed), "closed",
               "%zu by the server", run->closed);
    if (bench->n_pids > 0) {
        double bytes =
            ((double)bench->server_end.rss_bytes - (double)bench->server_begin.rss_bytes) /
            (double)run->opened;
        bench_fact(bench, "bytes_per_connection", json_real(bytes), "a connection", "%.0f bytes",
                   bytes);
    }
}

static void run_connections(struct bench *bench) {
    struct idle_run run = {.bench = bench};
    run.total = (size_t)bench_option(bench, "--connections", bench->workload->connections_default,
                                     1, BENCH_CLIENTS_MAX);
    run.connections = bench_allocate(run.total, sizeof *run.connections);
    find_address(&run);
    bench_measure_begin(bench);
    open_more(&run);
    while (run.opened < run.total) {
        uv_run(bench->loop, UV_RUN_ONCE);
    }
    double open_seconds = bench_seconds(bench);
    bench_sleep(bench, bench->duration_ns);
    bench_measure_end(bench);
    report(&run, open_seconds);
    for (size_t i = 0; i < run.total; i++) {
        if (!run.connections[i].closing) {
            uv_close((uv_handle_t *)&run.connections[i].tcp, NULL);
        }
    }
    uv_run(bench->loop, UV_RUN_DEFAULT);
    free(run.connections);
}

const struct bench_workload bench_connections = {
    .name = "connections",
    .help = "open connections that do nothing, and hold them",
    .takes = {"--duration"},
    .clients_default = 1,
    .connections_default = 1000,
    .connects_itself = true,
    .run = run_connections,
};
