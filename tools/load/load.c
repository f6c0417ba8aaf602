#include "tools/load/load.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define CONNECT_TIMEOUT_MS 10000
#define CALL_TIMEOUT_MS 60000

noreturn void load_die(const char *format, ...) {
    va_list list;
    fputs("lease-load: ", stderr);
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    /* Not exit(): another thread may be at work. */
    fflush(stdout);
    _exit(1);
}

void load_check(const struct lease_answer *answer, const char *what) {
    if (answer->code != GRPC_OK) {
        load_die("%s: %s (gRPC status %d)", what, answer->text, (int)answer->code);
    }
}

int64_t load_option(struct load *load, const char *name, int64_t fallback, int64_t min,
                    int64_t max) {
    int64_t number;
    struct arguments_range range = {.min = min, .max = max};
    if (!arguments_number(&load->arguments, name, fallback, range, &number)) {
        load_die("%s", load->arguments.error);
    }
    return number;
}

/* ---- connections ------------------------------------------------------------------------------
 */

static void on_closed(void *context, const char *reason) {
    (void)context;
    load_die("%s", reason);
}

static struct lease_client *start_connect(const struct load *load, uv_loop_t *loop) {
    const struct grpc_client_options options = {
        .host = load->endpoint.host,
        .port = load->endpoint.port,
        .connect_timeout_ms = CONNECT_TIMEOUT_MS,
        .on_closed = on_closed,
    };
    struct lease_client *client;
    enum status status = lease_client_create(loop, &options, CALL_TIMEOUT_MS, &client);
    if (status != STATUS_OK) {
        load_die("connection: %s", status_text(status));
    }
    return client;
}

static void wait_ready(struct lease_client *client, uv_loop_t *loop) {
    while (!grpc_client_is_ready(lease_client_connection(client))) {
        uv_run(loop, UV_RUN_ONCE);
    }
}

struct lease_client *load_connect(const struct load *load, uv_loop_t *loop) {
    struct lease_client *client = start_connect(load, loop);
    wait_ready(client, loop);
    return client;
}

void load_connect_many(struct load *load, size_t n_clients) {
    for (size_t i = 0; i < n_clients; i++) {
        load->clients[i] = start_connect(load, load->loop);
    }
    for (size_t i = 0; i < n_clients; i++) {
        wait_ready(load->clients[i], load->loop);
    }
    load->n_clients = n_clients;
}

/* ---- keys -------------------------------------------------------------------------------------
 */

#define INDEX_DIGITS 8

size_t load_key(const struct load *load, uint64_t index, char room[LOAD_KEY_SIZE_MAX]) {
    static const char digits[] = "0123456789abcdef";
    size_t size = strlen(load->prefix);
    memcpy(room, load->prefix, size);
    for (int shift = (INDEX_DIGITS - 1) * 4; shift >= 0; shift -= 4) {
        room[size++] = digits[index >> shift & 0xf];
    }
    return size;
}

bool load_key_index(const struct load *load, const ProtobufCBinaryData *key, uint64_t *out_index) {
    size_t prefix_size = strlen(load->prefix);
    uint64_t index = 0;
    if (key->len != prefix_size + INDEX_DIGITS) {
        return false;
    }
    for (size_t i = prefix_size; i < key->len; i++) {
        uint8_t c = key->data[i];
        unsigned digit = c <= '9' ? c - (unsigned)'0' : c - (unsigned)'a' + 10;
        if (digit > 0xf) {
            return false;
        }
        index = index << 4 | digit;
    }
    *out_index = index;
    return true;
}

/* ---- the report -------------------------------------------------------------------------------
 */

static double client_cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

void load_measure(struct load *load) {
    if (load->server_pid != 0 && !usage_read(load->server_pid, &load->server_before)) {
        load_die("--server-pid %d: no such process, or it may not be read", (int)load->server_pid);
    }
    load->client_cpu_before_seconds = client_cpu_seconds();
    load->start_us = clock_boottime_us();
}

static void on_time(uv_timer_t *timer) {
    *(bool *)timer->data = true;
    /* Timers come before the loop waits for sockets, and those may be silent. */
    uv_stop(timer->loop);
}

static void on_timer_closed(uv_handle_t *handle) {
    *(bool *)handle->data = true;
    uv_stop(handle->loop);
}

void load_run_for(struct load *load, uint64_t duration_us) {
    uint64_t gone_us = clock_boottime_us() - load->start_us;
    bool is_over = false;
    uv_timer_t timer;
    uv_timer_init(load->loop, &timer);
    timer.data = &is_over;
    uv_update_time(load->loop);
    uv_timer_start(&timer, on_time, gone_us < duration_us ? (duration_us - gone_us) / 1000 : 0, 0);
    while (!is_over) {
        uv_run(load->loop, UV_RUN_ONCE);
    }
    is_over = false;
    uv_close((uv_handle_t *)&timer, on_timer_closed);
    while (!is_over) {
        uv_run(load->loop, UV_RUN_ONCE);
    }
}

double load_elapsed_seconds(const struct load *load) {
    return (double)(clock_boottime_us() - load->start_us) / 1e6;
}

void load_report(struct load *load, json_t *result, const char *format, ...) {
    struct usage after = {0};
    bool has_server = load->server_pid != 0 && usage_read(load->server_pid, &after);
    double server_cpu = after.cpu_seconds - load->server_before.cpu_seconds;
    double client_cpu = client_cpu_seconds() - load->client_cpu_before_seconds;
    json_object_set_new(result, "client_cpu_seconds", json_real(client_cpu));
    if (has_server) {
        json_object_set_new(result, "server_cpu_seconds", json_real(server_cpu));
        json_object_set_new(result, "server_rss_before_bytes",
                            json_integer((json_int_t)load->server_before.rss_bytes));
        json_object_set_new(result, "server_rss_after_bytes",
                            json_integer((json_int_t)after.rss_bytes));
    }
    if (load->json) {
        json_dumpf(result, stdout, JSON_COMPACT | JSON_REAL_PRECISION(9));
        putchar('\n');
    } else {
        va_list list;
        va_start(list, format);
        vprintf(format, list);
        va_end(list);
        printf("; client cpu %.2f s", client_cpu);
        if (has_server) {
            printf("; server cpu %.2f s, rss %.1f -> %.1f MB", server_cpu,
                   (double)load->server_before.rss_bytes / 1e6, (double)after.rss_bytes / 1e6);
        }
        putchar('\n');
    }
    json_decref(result);
    if (fflush(stdout) != 0) {
        load_die("standard output cannot be written");
    }
}

const char *load_latency(const struct histogram *histogram_us, json_t *result, char room[128]) {
    double p50 = (double)histogram_quantile(histogram_us, 500000) / 1000.0;
    double p99 = (double)histogram_quantile(histogram_us, 990000) / 1000.0;
    double max = (double)histogram_us->max / 1000.0;
    json_object_set_new(result, "p50_ms", json_real(p50));
    json_object_set_new(result, "p99_ms", json_real(p99));
    json_object_set_new(result, "max_ms", json_real(max));
    snprintf(room, 128, "p50 %.2f ms, p99 %.2f ms, max %.2f ms", p50, p99, max);
    return room;
}
