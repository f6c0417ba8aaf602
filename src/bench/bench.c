#include "bench/bench.h"

#include "base/clock.h"
#include "base/duration.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONNECT_TIMEOUT_MS 10000
/* A busy rival may keep us waiting; its answer is wanted all the same. */
#define CALL_TIMEOUT_MS 60000
#define CONNECTING_AT_ONCE_MAX 256
#define INDEX_DIGITS 8

/* ---- failing ------------------------------------------------------------------------------------
 */

noreturn void bench_die(const char *format, ...) {
    va_list list;
    fputs("lease bench: ", stderr);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    /* Not exit(): another thread may be at work. */
    fflush(stdout);
    _exit(BENCH_EXIT_FAILED);
}

noreturn void bench_usage(struct bench *bench, const char *format, ...) {
    va_list list;
    fprintf(stderr, "lease bench %s: ", bench->workload->name);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputs("\n`lease bench --help` lists workloads and options\n", stderr);
    _exit(BENCH_EXIT_USAGE);
}

void bench_check_code(enum grpc_code code, const char *text, const char *what) {
    if (code != GRPC_OK) {
        bench_die("%s: %s (gRPC status %d)", what, text, (int)code);
    }
}

void bench_check(const struct lease_answer *answer, const char *what) {
    bench_check_code(answer->code, answer->text, what);
}

void *bench_allocate(size_t count, size_t size) {
    void *room = calloc(count > 0 ? count : 1, size);
    if (room == NULL) {
        bench_die("out of memory");
    }
    return room;
}

/* ---- options ------------------------------------------------------------------------------------
 */

int64_t bench_option(struct bench *bench, const char *name, int64_t fallback, int64_t min,
                     int64_t max) {
    int64_t number;
    struct arguments_range range = {.min = min, .max = max};
    if (!arguments_number(bench->arguments, name, fallback, range, &number)) {
        bench_usage(bench, "%s", bench->arguments->error);
    }
    return number;
}

uint64_t bench_option_ns(struct bench *bench, const char *name, uint64_t fallback_ns) {
    const char *text = arguments_value(bench->arguments, name);
    int64_t ms;
    if (text == NULL) {
        return fallback_ns;
    }
    if (duration_parse(text, DURATION_BARE_SECONDS, &ms) != STATUS_OK || ms > INT32_MAX) {
        bench_usage(bench, "%s %s: a time like 500ms, 5s or 1m is needed", name, text);
    }
    return (uint64_t)ms * 1000000;
}

/* ---- connections --------------------------------------------------------------------------------
 */

static void on_closed(void *context, const char *reason) {
    (void)context;
    bench_die("%s", reason);
}

static struct lease_client *start_connect(struct bench *bench, uv_loop_t *loop, size_t i) {
    const struct endpoint_list *endpoints = bench->endpoints;
    struct grpc_client_options options = endpoint_options(endpoints, i % endpoints->n_items);
    options.connect_timeout_ms = CONNECT_TIMEOUT_MS;
    options.on_closed = on_closed;
    bool is_told = arguments_has(bench->arguments, "--timeout");
    struct lease_client *client;
    enum status status =
        lease_client_create(loop, &options, is_told ? bench->timeout_ms : CALL_TIMEOUT_MS, &client);
    if (status != STATUS_OK) {
        bench_die("connection: %s", status_text(status));
    }
    return client;
}

static void wait_ready(struct lease_client *client, uv_loop_t *loop) {
    while (!grpc_client_is_ready(lease_client_connection(client))) {
        uv_run(loop, UV_RUN_ONCE);
    }
}

struct lease_client *bench_connect(struct bench *bench, uv_loop_t *loop, size_t i) {
    struct lease_client *client = start_connect(bench, loop, i);
    wait_ready(client, loop);
    return client;
}

void bench_connect_all(struct bench *bench, size_t n_connections) {
    bench->connections = bench_allocate(n_connections, sizeof *bench->connections);
    uint64_t begin_ns = clock_boottime_ns();
    for (size_t i = 0; i < n_connections; i++) {
        bench->connections[i] = start_connect(bench, bench->loop, i);
        /* Ten thousand handshakes of TLS at once would each seem slow. */
        if (i + 1 >= CONNECTING_AT_ONCE_MAX) {
            wait_ready(bench->connections[i + 1 - CONNECTING_AT_ONCE_MAX], bench->loop);
        }
    }
    for (size_t i = 0; i < n_connections; i++) {
        wait_ready(bench->connections[i], bench->loop);
    }
    bench->n_connections = n_connections;
    double seconds = (double)(clock_boottime_ns() - begin_ns) / 1e9;
    bench_fact(bench, "connect_seconds", json_real(seconds), NULL, "%s", "");
}

/* ---- keys and values ----------------------------------------------------------------------------
 */

size_t bench_key(const struct bench *bench, uint64_t index, char room[BENCH_KEY_SIZE_MAX]) {
    static const char digits[] = "0123456789abcdef";
    size_t size = strlen(bench->prefix);
    memcpy(room, bench->prefix, size);
    for (int shift = (INDEX_DIGITS - 1) * 4; shift >= 0; shift -= 4) {
        room[size++] = digits[index >> shift & 0xf];
    }
    return size;
}

bool bench_key_index(const struct bench *bench, struct bytes key, uint64_t *out_index) {
    size_t prefix_size = strlen(bench->prefix);
    uint64_t index = 0;
    if (key.size != prefix_size + INDEX_DIGITS) {
        return false;
    }
    for (size_t i = prefix_size; i < key.size; i++) {
        uint8_t c = key.data[i];
        unsigned digit = c <= '9' ? c - (unsigned)'0' : c - (unsigned)'a' + 10;
        if (digit > 0xf) {
            return false;
        }
        index = index << 4 | digit;
    }
    *out_index = index;
    return true;
}

struct bytes bench_value(struct bench *bench, size_t size_default) {
    static uint8_t value[BENCH_VALUE_SIZE_MAX];
    size_t size =
        (size_t)bench_option(bench, "--value-size", (int64_t)size_default, 0, BENCH_VALUE_SIZE_MAX);
    memset(value, 'v', size);
    bench_fact(bench, "value_size_bytes", json_integer((json_int_t)size), NULL, "%s", "");
    return bytes_of(value, size);
}

/* ---- the window ---------------------------------------------------------------------------------
 */

struct bench_tally *bench_tally_add(struct bench *bench, const char *name) {
    if (bench->n_tallies == BENCH_TALLIES_MAX) {
        bench_die("more than %d kinds of operations", BENCH_TALLIES_MAX);
    }
    struct bench_tally *tally = &bench->tallies[bench->n_tallies++];
    *tally = (struct bench_tally){.name = name};
    tally->latency_ns = bench_allocate(1, sizeof *tally->latency_ns);
    return tally;
}

void bench_record(struct bench *bench, struct bench_tally *tally, uint64_t due_ns,
                  uint64_t now_ns) {
    if (bench->begin_ns == 0) {
        return; /* warm-up */
    }
    if (bench->is_measuring) {
        tally->count++;
    }
    bool was_due_within =
        due_ns >= bench->begin_ns && (bench->end_ns == 0 || due_ns < bench->end_ns);
    if (was_due_within) {
        histogram_add(tally->latency_ns, now_ns - due_ns);
    }
}

void bench_measure_begin(struct bench *bench) {
    for (size_t i = 0; i < bench->n_pids; i++) {
        if (!process_usage_read(bench->pids[i], &bench->servers_begin[i])) {
            bench_die("--server-pid %d: no such process, or it may not be read",
                      (int)bench->pids[i]);
        }
    }
    bench->own_cpu_begin_seconds = process_usage_own_cpu_seconds();
    bench->begin_ns = clock_boottime_ns();
    bench->is_measuring = true;
}

void bench_measure_end(struct bench *bench) {
    bench->end_ns = clock_boottime_ns();
    bench->own_cpu_seconds = process_usage_own_cpu_seconds() - bench->own_cpu_begin_seconds;
    bench->is_measuring = false;
    for (size_t i = 0; i < bench->n_pids; i++) {
        struct process_usage usage;
        /* One that was killed meanwhile cannot be asked what it used. */
        if (process_usage_read(bench->pids[i], &usage)) {
            bench->server_begin.cpu_seconds += bench->servers_begin[i].cpu_seconds;
            bench->server_begin.rss_bytes += bench->servers_begin[i].rss_bytes;
            bench->server_end.cpu_seconds += usage.cpu_seconds;
            bench->server_end.rss_bytes += usage.rss_bytes;
        }
    }
}

uint64_t bench_server_rss_bytes(const struct bench *bench) {
    uint64_t sum = 0;
    for (size_t i = 0; i < bench->n_pids; i++) {
        struct process_usage usage;
        if (process_usage_read(bench->pids[i], &usage)) {
            sum += usage.rss_bytes;
        }
    }
    return sum;
}

double bench_seconds(const struct bench *bench) {
    uint64_t end_ns = bench->end_ns != 0 ? bench->end_ns : clock_boottime_ns();
    return (double)(end_ns - bench->begin_ns) / 1e9;
}

/* ---- waiting ------------------------------------------------------------------------------------
 */

struct waiting {
    uv_timer_t timer;
    bool is_over;
    bool is_closed;
};

static void on_time(uv_timer_t *timer) {
    struct waiting *waiting = timer->data;
    waiting->is_over = true;
    /* Timers come before the loop waits for sockets, and those may be silent. */
    uv_stop(timer->loop);
}

static void on_timer_closed(uv_handle_t *handle) {
    struct waiting *waiting = handle->data;
    waiting->is_closed = true;
    uv_stop(handle->loop);
}

bool bench_wait(struct bench *bench, bool (*done)(void *context), void *context,
                uint64_t timeout_ns) {
    uv_loop_t *loop = bench->loop;
    struct waiting waiting = {0};
    uv_timer_init(loop, &waiting.timer);
    waiting.timer.data = &waiting;
    uv_update_time(loop);
    uv_timer_start(&waiting.timer, on_time, (timeout_ns + 999999) / 1000000, 0);
    while (!waiting.is_over && !done(context)) {
        uv_run(loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&waiting.timer, on_timer_closed);
    while (!waiting.is_closed) {
        uv_run(loop, UV_RUN_ONCE);
    }
    return done(context);
}

static bool never(void *context) {
    (void)context;
    return false;
}

void bench_sleep(struct bench *bench, uint64_t duration_ns) {
    bench_wait(bench, never, NULL, duration_ns);
}

/* ---- what was found -----------------------------------------------------------------------------
 */

void bench_fact(struct bench *bench, const char *name, json_t *value, const char *title,
                const char *format, ...) {
    json_object_set_new(bench->facts, name, value);
    if (title == NULL || bench->n_fact_lines == BENCH_FACTS_MAX) {
        return;
    }
    struct bench_fact *fact = &bench->fact_lines[bench->n_fact_lines++];
    fact->title = title;
    va_list list;
    va_start(list, format);
    vsnprintf(fact->text, sizeof fact->text, format, list);
    va_end(list);
}
