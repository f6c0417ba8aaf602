/* Runs one check a line of standard input, and prints its health and output, so that the executors
 * can be tried without a server: "KIND TARGET KEY=VALUE…", words separated by tabs. */
#include "checks/check_probe.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_SIZE = 16384, HEADERS_MAX = 8 };

struct run {
    struct registry_check check;
    struct registry_pair headers[HEADERS_MAX];
    struct check_probe *probe;
    uv_timer_t timeout;
    uint64_t timeout_ms;
    bool is_done;
    struct check_result result;
};

static uint8_t kind_of(const char *name) {
    static const char *const names[] = {
        [REGISTRY_CHECK_HTTP] = "http",
        [REGISTRY_CHECK_TCP] = "tcp",
        [REGISTRY_CHECK_GRPC] = "grpc",
        [REGISTRY_CHECK_COMMAND] = "command",
    };
    for (uint8_t kind = REGISTRY_CHECK_HTTP; kind <= REGISTRY_CHECK_COMMAND; kind++) {
        if (strcmp(names[kind], name) == 0) {
            return kind;
        }
    }
    abort();
}

static void add_header(struct run *run, char *value) {
    char *colon = strchr(value, ':');
    assert(colon != NULL && run->check.n_headers < HEADERS_MAX);
    *colon = '\0';
    run->headers[run->check.n_headers++] =
        (struct registry_pair){bytes_from_text(value), bytes_from_text(colon + 1)};
    run->check.headers = run->headers;
}

static void set(struct run *run, const char *key, char *value) {
    struct registry_check *check = &run->check;
    if (strcmp(key, "method") == 0) {
        check->method = bytes_from_text(value);
    } else if (strcmp(key, "header") == 0) {
        add_header(run, value);
    } else if (strcmp(key, "body") == 0) {
        check->body = bytes_from_text(value);
    } else if (strcmp(key, "match") == 0) {
        check->body_match = bytes_from_text(value);
    } else if (strcmp(key, "min") == 0) {
        check->status_min = (uint16_t)atoi(value);
    } else if (strcmp(key, "max") == 0) {
        check->status_max = (uint16_t)atoi(value);
    } else if (strcmp(key, "tls") == 0) {
        check->is_tls = true;
    } else if (strcmp(key, "skip") == 0) {
        check->skips_verification = true;
    } else if (strcmp(key, "name") == 0) {
        check->server_name = bytes_from_text(value);
    } else if (strcmp(key, "timeout") == 0) {
        run->timeout_ms = (uint64_t)atoi(value);
    }
}

/* A command's arguments are given with | between them, and kept with NUL. */
static void read_line(char *line, struct run *run) {
    char *rest = NULL;
    char *word = strtok_r(line, "\t\n", &rest);
    run->timeout_ms = 20000;
    run->check.kind = kind_of(word);
    char *target = strtok_r(NULL, "\t\n", &rest);
    run->check.target = bytes_from_text(target);
    for (size_t i = 0; run->check.kind == REGISTRY_CHECK_COMMAND && i < run->check.target.size;
         i++) {
        target[i] = target[i] == '|' ? '\0' : target[i];
    }
    while ((word = strtok_r(NULL, "\t\n", &rest)) != NULL) {
        char *equals = strchr(word, '=');
        assert(equals != NULL);
        *equals = '\0';
        set(run, word, equals + 1);
    }
}

static void on_done(void *context, const struct check_result *result) {
    struct run *run = context;
    run->probe = NULL;
    run->is_done = true;
    run->result = *result;
}

static void on_timeout(uv_timer_t *timer) {
    struct run *run = timer->data;
    check_probe_cancel(run->probe);
    run->is_done = true;
    check_result_set(&run->result, REGISTRY_CRITICAL, "timed out");
}

static void run_check(struct check_network *network, struct run *run) {
    const struct check_probe_owner owner = {.done = on_done, .context = run};
    while (!check_network_is_ready(network, &run->check)) {
        (void)uv_run(network->loop, UV_RUN_ONCE);
    }
    run->probe =
        check_probe_kind_of(run->check.kind)->start(network, &run->check, &owner, &run->result);
    if (run->probe == NULL) {
        return;
    }
    (void)uv_timer_init(network->loop, &run->timeout);
    run->timeout.data = run;
    (void)uv_timer_start(&run->timeout, on_timeout, run->timeout_ms, 0);
    while (!run->is_done) {
        (void)uv_run(network->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&run->timeout, NULL);
    (void)uv_run(network->loop, UV_RUN_NOWAIT);
}

static const char *option(const char *name, const char *fallback) {
    const char *value = getenv(name);
    return value != NULL ? value : fallback;
}

int main(void) {
    static const char *const healths[] = {"passing", "warning", "critical"};
    char line[LINE_MAX_SIZE];
    uv_loop_t loop;
    struct check_network_options options = {
        .ca_file = option("CHECK_CA", ""),
        .sockets_max = 16,
        .commands = {.is_enabled = option("CHECK_ALLOW", NULL) != NULL,
                     .allowed = option("CHECK_ALLOW", ""),
                     .user = option("CHECK_USER", "nobody")},
    };
    (void)uv_loop_init(&loop);
    assert(check_network_list_parse(option("CHECK_NETWORKS", ""), &options.allowed) == STATUS_OK);
    struct check_network *network = check_network_create(&loop, &options);
    while (fgets(line, sizeof line, stdin) != NULL) {
        struct run *run = calloc(1, sizeof *run);
        read_line(line, run);
        run_check(network, run);
        for (size_t i = 0; i < run->result.output_size; i++) { /* one line for each check */
            char *letter = &run->result.output[i];
            *letter = *letter == '\n' ? '|' : *letter;
        }
        printf("%s\t%.*s\n", healths[run->result.health], (int)run->result.output_size,
               run->result.output);
        (void)fflush(stdout);
        free(run);
    }
    check_network_destroy(network);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop) == 0 ? 0 : 1;
}
