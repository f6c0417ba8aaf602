/*
 * The frame of `lease-load`: options common to all loads, connections, the report. It is a tool for
 * measuring: whatever fails ends the program with a message, because a figure of a run in which
 * something failed is no figure.
 */
#ifndef LEASED_LOAD_LOAD_H
#define LEASED_LOAD_LOAD_H

#include "cli/arguments.h"
#include "cli/endpoint.h"
#include "client/lease_client.h"
#include "cli/histogram.h"
#include "tools/load/usage.h"

#include <jansson.h>
#include <stdnoreturn.h>

#define LOAD_CONNECTIONS_MAX 1024
#define LOAD_KEY_SIZE_MAX 128
#define LOAD_VALUE_SIZE_MAX (1024 * 1024)
#define LOAD_LEASES_MAX 20000000

struct load_command;

struct load {
    const struct load_command *command;
    struct arguments arguments;
    struct endpoint endpoint;
    uv_loop_t *loop;
    struct lease_client *clients[LOAD_CONNECTIONS_MAX];
    size_t n_clients;
    const char *prefix;
    bool json;
    pid_t server_pid; /* 0: not told */
    uint64_t start_us;
    struct usage server_before;
    double client_cpu_before_seconds;
};

struct load_command {
    const char *name;
    const char *usage;
    const char *help;
    const struct option_entry *options;
    bool needs_count; /* the first word after the name is a number */
    void (*run)(struct load *load, uint64_t count);
};

extern const struct load_command load_grants;
extern const struct load_command load_expire_watch;
extern const struct load_command load_precision;
extern const struct load_command load_keepalive;
extern const struct load_command load_put;
extern const struct load_command load_range;
extern const struct load_command load_idle_connections;

noreturn void load_die(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Ends the program unless the answer is good. */
void load_check(const struct lease_answer *answer, const char *what);

/* An option of the command as a number; ends the program when it is none. */
int64_t load_option(struct load *load, const char *name, int64_t fallback, int64_t min,
                    int64_t max);

/* One connection on this loop, ready. */
struct lease_client *load_connect(const struct load *load, uv_loop_t *loop);
/* Fills load->clients with this many. */
void load_connect_many(struct load *load, size_t n_clients);

/* prefix + eight hex digits. Gives its size. */
size_t load_key(const struct load *load, uint64_t index, char room[LOAD_KEY_SIZE_MAX]);
/* The index of such a key; false: it is not one of ours. */
bool load_key_index(const struct load *load, const ProtobufCBinaryData *key, uint64_t *out_index);

/* From here on server and client are measured. */
void load_measure(struct load *load);
/* Runs the loop until this long after load_measure(), whether or not anything happens. */
void load_run_for(struct load *load, uint64_t duration_us);
double load_elapsed_seconds(const struct load *load);
/* Prints the one line, or `result` as JSON (taken over); both with what the server used. */
void load_report(struct load *load, json_t *result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* "p50 1.20 ms, p99 3.40 ms, max 9.00 ms", and the same into `result`. Gives `room`. */
const char *load_latency(const struct histogram *histogram_us, json_t *result, char room[128]);

#endif
