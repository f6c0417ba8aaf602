/* `lease-load`: puts a known load on leased or etcd and prints figures. */
#include "tools/load/load.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const struct load_command *const commands[] = {
    &load_grants, &load_expire_watch, &load_precision,        &load_keepalive,
    &load_put,    &load_range,        &load_idle_connections,
};
#define N_COMMANDS (sizeof commands / sizeof commands[0])

static const struct option_entry global_options[] = {
    {"--endpoint", 'e', "HOST:PORT", "the server (127.0.0.1:2379)"},
    {"--connections", 'c', "C", "connections, where the load has many"},
    {"--prefix", 0, "P", "of the keys (/load/)"},
    {"--server-pid", 0, "PID", "report this process's CPU seconds and memory"},
    {"--json", 0, NULL, "print a JSON object"},
    {"--help", 'h', NULL, "print this text"},
    {NULL, 0, NULL, NULL},
};

static void print_help(FILE *out) {
    fputs("usage: lease-load COMMAND ... [options]\n\n", out);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        fprintf(out, "%s %s\n    %s\n", commands[i]->name, commands[i]->usage, commands[i]->help);
        arguments_print_options(commands[i]->options, out);
        fputc('\n', out);
    }
    fputs("options of all:\n", out);
    arguments_print_options(global_options, out);
}

static const struct load_command *find_command(const char *name) {
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

static uint64_t take_count(struct load *load) {
    size_t n_words = load->command->needs_count ? 2 : 1;
    if (load->arguments.n_words != n_words) {
        load_die("usage: lease-load %s %s", load->command->name, load->command->usage);
    }
    if (n_words == 1) {
        return 0;
    }
    char *end;
    errno = 0;
    unsigned long long count = strtoull(load->arguments.words[1], &end, 10);
    if (errno != 0 || *end != 0 || count == 0 || count > LOAD_LEASES_MAX) {
        load_die("%s: a number from 1 to %d is needed", load->arguments.words[1], LOAD_LEASES_MAX);
    }
    return count;
}

static void take_globals(struct load *load) {
    struct endpoint_list endpoints;
    const char *endpoint = arguments_value(&load->arguments, "--endpoint");
    if (endpoint_list_parse(endpoint != NULL ? endpoint : "127.0.0.1:2379", &endpoints) !=
            STATUS_OK ||
        endpoints.n_items != 1) {
        load_die("--endpoint %s: one HOST:PORT is needed", endpoint);
    }
    load->endpoint = endpoints.items[0];
    load->prefix = arguments_value(&load->arguments, "--prefix");
    if (load->prefix == NULL) {
        load->prefix = "/load/";
    }
    if (load->prefix[0] == 0 || strlen(load->prefix) > LOAD_KEY_SIZE_MAX / 2) {
        load_die("--prefix: 1 to %d characters", LOAD_KEY_SIZE_MAX / 2);
    }
    load->json = arguments_has(&load->arguments, "--json");
    load->server_pid = (pid_t)load_option(load, "--server-pid", 0, 1, INT32_MAX);
}

/* Thousands of connections are ordinary here. */
static void raise_file_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv) {
    static struct load load;
    struct arguments *arguments = &load.arguments;
    arguments->tables[0] = global_options;
    signal(SIGPIPE, SIG_IGN);
    int taken = arguments_parse(arguments, argc - 1, argv + 1, true);
    if (taken >= 0 && (arguments->n_words == 0 || arguments_has(arguments, "--help"))) {
        bool asked = arguments_has(arguments, "--help");
        print_help(asked ? stdout : stderr);
        return asked ? 0 : 2;
    }
    load.command = taken >= 0 ? find_command(arguments->words[0]) : NULL;
    if (taken >= 0 && load.command == NULL) {
        load_die("there is no command %s; --help lists them", arguments->words[0]);
    }
    if (taken >= 0) {
        arguments->tables[1] = load.command->options;
        taken = arguments_parse(arguments, argc - 1 - taken, argv + 1 + taken, false);
    }
    if (taken < 0) {
        load_die("%s", arguments->error);
    }
    if (arguments_has(arguments, "--help")) {
        print_help(stdout);
        return 0;
    }
    uint64_t count = take_count(&load);
    take_globals(&load);
    raise_file_limit();
    load.loop = uv_default_loop();
    load.command->run(&load, count);
    return 0;
}
