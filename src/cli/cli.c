#include "cli/cli.h"

#include "base/duration.h"
#include "build_info.h"
#include "cli/cli_advice.h"
#include "cli/cli_commands.h"
#include "cli/cli_help.h"
#include "cli/cli_tls.h"
#include "cli/cli_user.h"
#include "cli/etcd_unary.h"
#include "client/lease_client.h"
#include "tls/tls_context.h"

#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TIMEOUT_MS_DEFAULT 5000
#define ENDPOINT_DEFAULT "127.0.0.1:2379"

/* ---- texts ------------------------------------------------------------------------------------
 */

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
        fprintf(stderr, "\nusage: lease %s%s%s\n", cli->command->name,
                cli->command->usage[0] != '\0' ? " " : "", cli->command->usage);
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
        cli_advice_print(answer->text);
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
        cli_advice_print(reason);
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
    if (connecting.closed || !etcd_authenticate(cli, client)) {
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

static const char *endpoints_text(const struct cli *cli) {
    const char *text = arguments_value(&cli->arguments, "--endpoint");
    if (text == NULL) {
        text = cli_setting(&cli->settings, &cli->arguments, "--endpoints");
    }
    if (text == NULL) {
        text = cli_setting(&cli->settings, &cli->arguments, "--endpoint");
    }
    if (text == NULL) {
        text = getenv("LEASE_ENDPOINTS"); /* as the library calls it */
    }
    return text == NULL || text[0] == '\0' ? ENDPOINT_DEFAULT : text;
}

static bool is_colored(void) {
    const char *no_color = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    return isatty(STDOUT_FILENO) && (no_color == NULL || no_color[0] == '\0') && terminal != NULL &&
           strcmp(terminal, "dumb") != 0;
}

static enum cli_exit take_globals(struct cli *cli) {
    char error[CLI_SETTINGS_ERROR_SIZE_MAX];
    if (cli_settings_load(&cli->settings, cli_global_options, error) != STATUS_OK) {
        return cli_usage(cli, "%s", error);
    }
    cli->endpoints_text = endpoints_text(cli);
    switch (endpoint_list_parse(cli->endpoints_text, &cli->endpoints)) {
    case STATUS_OK:
        break;
    case STATUS_INVALID:
        return cli_usage(cli, "more than %d endpoints", ENDPOINTS_MAX);
    default:
        return cli_usage(
            cli,
            "endpoint %s is no address; give HOST:PORT, http://HOST:PORT, https://HOST:PORT, "
            "unix://PATH or unixs://PATH",
            cli->endpoints_text);
    }
    const char *timeout = cli_setting(&cli->settings, &cli->arguments, "--timeout");
    if (arguments_value(&cli->arguments, "--timeout") != NULL) {
        timeout = arguments_value(&cli->arguments, "--timeout"); /* a command's own */
    }
    int64_t timeout_ms = TIMEOUT_MS_DEFAULT;
    if (timeout != NULL &&
        (duration_parse(timeout, DURATION_BARE_SECONDS, &timeout_ms) != STATUS_OK ||
         timeout_ms == 0 || timeout_ms > UINT32_MAX)) {
        return cli_usage(cli, "--timeout %s is not a time; give 500ms, 5s or 1m", timeout);
    }
    cli->timeout_ms = (uint32_t)timeout_ms;
    cli->json = cli_setting_is_true(&cli->settings, &cli->arguments, "--json");
    cli->is_verbose = cli_setting_is_true(&cli->settings, &cli->arguments, "--verbose");
    cli->is_colored = is_colored();
    struct cli_user user;
    enum cli_exit result = cli_user_take(cli, &user);
    return result == CLI_OK ? cli_tls_prepare(cli) : result;
}

/* The word of the usage that follows those given. */
static const char *missing_word(const char *usage, size_t n_words) {
    for (; n_words > 0 && *usage != '\0'; n_words--) {
        usage += strcspn(usage, " ");
        usage += strspn(usage, " ");
    }
    return usage;
}

/* Another option was meant, perhaps. */
static enum cli_exit report_parse_error(struct cli *cli) {
    static const char unknown[] = "there is no option ";
    const char *error = cli->arguments.error;
    const char *nearest = NULL;
    if (strncmp(error, unknown, sizeof unknown - 1) == 0) {
        nearest = cli_nearest_option(error + sizeof unknown - 1,
                                     cli->command != NULL ? cli->command->options : NULL);
    }
    return nearest != NULL ? cli_usage(cli, "%s; did you mean %s?", error, nearest)
                           : cli_usage(cli, "%s", error);
}

static enum cli_exit check_words(struct cli *cli) {
    const struct cli_command *command = cli->command;
    size_t n_words = cli->arguments.n_words - 1;
    if (n_words < command->words_min) {
        const char *name = missing_word(command->usage, n_words);
        return cli_usage(cli, "missing argument %.*s", (int)strcspn(name, " "), name);
    }
    if (n_words > command->words_max) {
        return cli_usage(cli, "unexpected argument %s%s",
                         cli->arguments.words[1 + command->words_max],
                         command->child != CLI_CHILD_NONE && cli->child == NULL
                             ? "; the command to run comes after --"
                             : "");
    }
    if (command->child == CLI_CHILD_NEEDED && cli->child == NULL) {
        return cli_usage(cli, "missing the command to run; it comes after --");
    }
    return CLI_OK;
}

static enum cli_exit run_command(struct cli *cli, int argc, char **argv) {
    struct arguments *arguments = &cli->arguments;
    arguments->tables[1] = cli->command->options;
    arguments->stops_at_dashes = cli->command->child != CLI_CHILD_NONE;
    int taken = arguments_parse(arguments, argc, argv, false);
    if (taken < 0) {
        return report_parse_error(cli);
    }
    cli->child = taken < argc ? argv + taken : NULL;
    if (arguments_has(arguments, "--help")) {
        cli_help_print_command(cli->command, stdout);
        return CLI_OK;
    }
    enum cli_exit result = check_words(cli);
    if (result == CLI_OK) {
        result = take_globals(cli);
    }
    if (result != CLI_OK) {
        cli_settings_clear(&cli->settings);
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
    cli_settings_clear(&cli->settings);
    /* A full disk behind a redirection must not look like success. */
    if (fflush(stdout) != 0 && result == CLI_OK) {
        perror("lease: standard output");
        result = CLI_FAILED;
    }
    return result;
}

static enum cli_exit no_command(struct cli *cli, const char *name) {
    const char *nearest = cli_nearest_command(name);
    return nearest != NULL
               ? cli_usage(cli, "there is no command %s; did you mean %s?", name, nearest)
               : cli_usage(cli, "there is no command %s", name);
}

/* "pool" and the word after it: together they name a command. Gives how much of argv that took, or
 * -1 with the exit code. */
static int take_second_word(struct cli *cli, int argc, char **argv, enum cli_exit *out_exit) {
    struct arguments *arguments = &cli->arguments;
    static char name[64];
    int taken = arguments_parse(arguments, argc, argv, true);
    if (taken < 0) {
        *out_exit = report_parse_error(cli);
        return -1;
    }
    if (arguments_has(arguments, "--help") || arguments->n_words < 2) {
        bool is_asked = arguments_has(arguments, "--help");
        cli_help_print_family(arguments->words[0], is_asked ? stdout : stderr);
        *out_exit = is_asked ? CLI_OK : CLI_USAGE;
        return -1;
    }
    snprintf(name, sizeof name, "%s %s", arguments->words[0], arguments->words[1]);
    cli->command = cli_find_command(name);
    if (cli->command == NULL) {
        *out_exit = no_command(cli, name);
        return -1;
    }
    arguments->words[0] = name;
    arguments->n_words = 1;
    return taken;
}

static void print_version(void) {
    printf("lease %s\nprotocols: leased.v1, etcd v3\n", LEASED_VERSION);
}

int cli_main(int argc, char **argv) {
    struct cli cli = {.arguments.tables = {cli_global_options, NULL}};
    struct arguments *arguments = &cli.arguments;
    cli.is_sigpipe_ignored = signal(SIGPIPE, SIG_IGN) == SIG_IGN;
    int taken = arguments_parse(arguments, argc - 1, argv + 1, true);
    if (taken < 0) {
        return report_parse_error(&cli);
    }
    bool is_version = arguments->n_words == 1 && strcmp(arguments->words[0], "version") == 0;
    if (is_version || arguments_has(arguments, "--version")) {
        print_version();
        return CLI_OK;
    }
    if (arguments->n_words == 0) {
        bool is_asked = arguments_has(arguments, "--help");
        cli_help_print(is_asked ? stdout : stderr);
        return is_asked ? CLI_OK : CLI_USAGE;
    }
    const char *name = arguments->words[0];
    cli.command = cli_find_command(name);
    if (cli.command == NULL && cli_is_family(name)) {
        enum cli_exit result;
        int more = take_second_word(&cli, argc - 1 - taken, argv + 1 + taken, &result);
        if (more < 0) {
            return result;
        }
        taken += more;
    }
    if (cli.command == NULL) {
        return no_command(&cli, name);
    }
    return run_command(&cli, argc - 1 - taken, argv + 1 + taken);
}
