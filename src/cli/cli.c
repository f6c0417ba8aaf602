#include "cli/cli.h"

#include "base/duration.h"
#include "build_info.h"
#include "cli/cli_tls.h"
#include "tls/tls_context.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS_DEFAULT 5000
#define ENDPOINT_DEFAULT "127.0.0.1:2379"

static const struct cli_command *const commands[] = {
    &cli_command_status,
    &cli_command_grant,
    &cli_command_ls,
    &cli_command_bench,
};
#define N_COMMANDS (sizeof commands / sizeof commands[0])

static const struct option_entry global_options[] = {
    {"--endpoint", 'e', "HOST:PORT", "the server; several with commas (" ENDPOINT_DEFAULT ")"},
    {"--endpoints", 0, "HOST:PORT,...", "the same, as etcdctl calls it"},
    {"--cacert", 0, "FILE", "the authority that signed the server's certificate"},
    {"--cert", 0, "FILE", "a client certificate, with --key"},
    {"--key", 0, "FILE", "its key"},
    {"--insecure-skip-tls-verify", 0, NULL, "take any certificate: encrypted, nothing proven"},
    {"--insecure-transport", 0, NULL, "=false: TLS also where the endpoint has no scheme"},
    {"--timeout", 't', "TIME", "how long to wait for one answer (5s)"},
    {"--json", 0, NULL, "print JSON"},
    {"--help", 'h', NULL, "print this text"},
    {"--version", 0, NULL, "print the version"},
    {NULL, 0, NULL, NULL},
};

/* ---- texts ------------------------------------------------------------------------------------
 */

static void print_help(FILE *out) {
    fputs("lease: look at leases and grant them, on leased or etcd\n\n"
          "usage: lease [options] COMMAND ...\n\ncommands:\n",
          out);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        char left[64];
        snprintf(left, sizeof left, "%s %s", commands[i]->name, commands[i]->usage);
        fprintf(out, "  %-34s %s\n", left, commands[i]->help);
    }
    fputs("\noptions:\n", out);
    arguments_print_options(global_options, out);
    fputs("\nAn endpoint is HOST:PORT, http://HOST:PORT, https://HOST:PORT, unix://PATH or\n"
          "unixs://PATH. Without a scheme it is TLS when a TLS option is given.\n"
          "The environment may give LEASED_ENDPOINTS, LEASED_CACERT, LEASED_CERT, LEASED_KEY, or\n"
          "etcdctl's names for them: ETCDCTL_ENDPOINTS, ETCDCTL_CACERT, ...\n"
          "A TIME is 10 (seconds), 10s, 1500ms, 5m, 1h30m.\n"
          "Exit code: 0 done, 1 failed, 2 the command line was wrong.\n",
          out);
}

static void print_command_help(const struct cli_command *command, FILE *out) {
    fprintf(out, "usage: lease %s %s\n\n%s\n", command->name, command->usage, command->help);
    if (command->more != NULL) {
        fprintf(out, "\n%s", command->more);
    }
    if (command->print_more != NULL) {
        fputc('\n', out);
        command->print_more(out);
    }
    fputs("\noptions:\n", out);
    if (command->options != NULL) {
        arguments_print_options(command->options, out);
    }
    arguments_print_options(global_options, out);
}

enum cli_exit cli_usage(struct cli *cli, const char *format, ...) {
    fputs("lease", stderr);
    if (cli->command != NULL) {
        fprintf(stderr, " %s", cli->command->name);
    }
    fputs(": ", stderr);
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    if (cli->command != NULL) {
        fprintf(stderr, "\nusage: lease %s %s\n", cli->command->name, cli->command->usage);
    } else {
        fputs("\n`lease --help` lists the commands\n", stderr);
    }
    return CLI_USAGE;
}

enum cli_exit cli_failed(struct cli *cli, const struct lease_answer *answer) {
    char where[ENDPOINT_TEXT_SIZE_MAX] = "the server";
    char time[DURATION_TEXT_SIZE_MAX];
    if (cli->endpoint != NULL) {
        endpoint_format(cli->endpoint, where);
    }
    if (answer->code == GRPC_DEADLINE_EXCEEDED) {
        fprintf(stderr, "lease: %s gave no answer within %s (--timeout)\n", where,
                duration_format(cli->timeout_ms, time));
    } else if (answer->code == GRPC_UNIMPLEMENTED) {
        fprintf(stderr, "lease: %s does not know this call; is it leased or etcd 3? (%s)\n", where,
                answer->text);
    } else {
        fprintf(stderr, "lease: %s\n", answer->text);
    }
    return CLI_FAILED;
}

/* ---- connecting -------------------------------------------------------------------------------
 */

struct connecting {
    uv_loop_t *loop;
    bool ready;
    bool closed;
};

static void on_ready(void *context) {
    struct connecting *connecting = context;
    connecting->ready = true;
    uv_stop(connecting->loop);
}

static void on_closed(void *context, const char *reason) {
    struct connecting *connecting = context;
    connecting->closed = true;
    uv_stop(
        connecting->loop); /* a timer may have closed it, and then nothing else wakes the loop */
    if (!connecting->ready) {
        fprintf(stderr, "lease: %s\n", reason);
    }
}

static bool connect_to(struct cli *cli, size_t index, struct lease_client **out_client) {
    /* Outlives this function because on_closed may come at any time; one for the process. */
    static struct connecting connecting;
    connecting = (struct connecting){.loop = &cli->loop};
    struct grpc_client_options options = endpoint_options(&cli->endpoints, index);
    options.connect_timeout_ms = cli->timeout_ms;
    options.context = &connecting;
    options.on_ready = on_ready;
    options.on_closed = on_closed;
    cli->endpoint = &cli->endpoints.items[index];
    struct lease_client *client;
    enum status status = lease_client_create(&cli->loop, &options, cli->timeout_ms, &client);
    if (status != STATUS_OK) {
        char where[ENDPOINT_TEXT_SIZE_MAX];
        fprintf(stderr, "lease: %s: %s\n", endpoint_format(cli->endpoint, where),
                status_text(status));
        return false;
    }
    while (!connecting.ready && !connecting.closed) {
        uv_run(&cli->loop, UV_RUN_ONCE);
    }
    if (connecting.closed) {
        cli_disconnect(cli, client);
        return false;
    }
    *out_client = client;
    return true;
}

bool cli_connect(struct cli *cli, struct lease_client **out_client) {
    for (size_t i = 0; i < cli->endpoints.n_items; i++) {
        if (connect_to(cli, i, out_client)) {
            return true;
        }
    }
    return false;
}

void cli_disconnect(struct cli *cli, struct lease_client *client) {
    lease_client_destroy(client);
    uv_run(&cli->loop, UV_RUN_DEFAULT);
}

/* ---- the command line -------------------------------------------------------------------------
 */

static const char *endpoints_text(const struct arguments *arguments) {
    static const char *const variables[] = {"LEASED_ENDPOINTS", "LEASED_ENDPOINT",
                                            "ETCDCTL_ENDPOINTS"};
    const char *text = arguments_value(arguments, "--endpoint");
    if (text == NULL) {
        text = arguments_value(arguments, "--endpoints");
    }
    for (size_t i = 0; text == NULL && i < sizeof variables / sizeof variables[0]; i++) {
        text = getenv(variables[i]);
        if (text != NULL && text[0] == '\0') {
            text = NULL;
        }
    }
    return text == NULL || text[0] == '\0' ? ENDPOINT_DEFAULT : text;
}

static enum cli_exit take_globals(struct cli *cli) {
    const char *endpoints = endpoints_text(&cli->arguments);
    switch (endpoint_list_parse(endpoints, &cli->endpoints)) {
    case STATUS_OK:
        break;
    case STATUS_INVALID:
        return cli_usage(cli, "more than %d endpoints", ENDPOINTS_MAX);
    default:
        return cli_usage(cli,
                         "endpoint %s: HOST:PORT is needed, or http://, https://, unix:// or "
                         "unixs:// and where it is",
                         endpoints);
    }
    const char *timeout = arguments_value(&cli->arguments, "--timeout");
    int64_t timeout_ms = TIMEOUT_MS_DEFAULT;
    if (timeout != NULL &&
        (duration_parse(timeout, DURATION_BARE_SECONDS, &timeout_ms) != STATUS_OK ||
         timeout_ms == 0 || timeout_ms > UINT32_MAX)) {
        return cli_usage(cli, "--timeout %s: a time like 500ms, 5s or 1m is needed", timeout);
    }
    cli->timeout_ms = (uint32_t)timeout_ms;
    cli->json = arguments_has(&cli->arguments, "--json");
    return cli_tls_prepare(cli);
}

static const struct cli_command *find_command(const char *name) {
    for (size_t i = 0; i < N_COMMANDS; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

/* The word of the usage that follows those given. */
static const char *missing_word(const char *usage, size_t n_words) {
    for (; n_words > 0 && *usage != '\0'; n_words--) {
        usage += strcspn(usage, " ");
        usage += strspn(usage, " ");
    }
    return usage;
}

static enum cli_exit run_command(struct cli *cli, int argc, char **argv) {
    struct arguments *arguments = &cli->arguments;
    arguments->tables[1] = cli->command->options;
    if (arguments_parse(arguments, argc, argv, false) < 0) {
        return cli_usage(cli, "%s", arguments->error);
    }
    if (arguments_has(arguments, "--help")) {
        print_command_help(cli->command, stdout);
        return CLI_OK;
    }
    size_t n_words = arguments->n_words - 1;
    if (n_words < cli->command->words_min) {
        const char *name = missing_word(cli->command->usage, n_words);
        return cli_usage(cli, "missing argument %.*s", (int)strcspn(name, " "), name);
    }
    if (n_words > cli->command->words_max) {
        return cli_usage(cli, "unexpected argument %s",
                         arguments->words[1 + cli->command->words_max]);
    }
    enum cli_exit result = take_globals(cli);
    if (result != CLI_OK) {
        return result;
    }
    if (uv_loop_init(&cli->loop) != 0) {
        fputs("lease: the event loop cannot be made\n", stderr);
        return CLI_FAILED;
    }
    result = cli->command->run(cli);
    uv_run(&cli->loop, UV_RUN_DEFAULT);
    uv_loop_close(&cli->loop);
    tls_context_destroy(cli->endpoints.tls);
    /* A full disk behind a redirection must not look like success. */
    if (fflush(stdout) != 0 && result == CLI_OK) {
        perror("lease: standard output");
        result = CLI_FAILED;
    }
    return result;
}

int cli_main(int argc, char **argv) {
    struct cli cli = {.arguments.tables = {global_options, NULL}};
    struct arguments *arguments = &cli.arguments;
    signal(SIGPIPE, SIG_IGN);
    int taken = arguments_parse(arguments, argc - 1, argv + 1, true);
    if (taken < 0) {
        return cli_usage(&cli, "%s", arguments->error);
    }
    if (arguments_has(arguments, "--version")) {
        printf("lease %s\n", LEASED_VERSION);
        return CLI_OK;
    }
    if (arguments->n_words == 0 || strcmp(arguments->words[0], "help") == 0) {
        bool asked = arguments->n_words > 0 || arguments_has(arguments, "--help");
        print_help(asked ? stdout : stderr);
        return asked ? CLI_OK : CLI_USAGE;
    }
    cli.command = find_command(arguments->words[0]);
    if (cli.command == NULL) {
        return cli_usage(&cli, "there is no command %s", arguments->words[0]);
    }
    return run_command(&cli, argc - 1 - taken, argv + 1 + taken);
}
