/* `lease fence check|get`: the highest fencing token that a resource has seen. */
#include "cli/cli_format.h"
#include "cli/cli_lease.h"
#include "cli/command_list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static bool parse_token(const char *text, int64_t *out_token) {
    char *end;
    errno = 0;
    long long token = strtoll(text, &end, 10);
    *out_token = token;
    return errno == 0 && end != text && *end == '\0' && token > 0;
}

static void print_result(const struct cli *cli, bool is_accepted, int64_t token, int64_t highest) {
    if (cli->json) {
        cli_print_json(json_pack("{s:b, s:I, s:I}", "accepted", (int)is_accepted, "token",
                                 (json_int_t)token, "highest", (json_int_t)highest));
    } else if (is_accepted) {
        printf("accepted: token %" PRId64 "\n", token);
    } else {
        printf("refused: token %" PRId64 " is older than %" PRId64 "\n", token, highest);
    }
}

static enum cli_exit run_check(struct cli *cli) {
    const char *text = cli->arguments.n_words > 2 ? cli->arguments.words[2] : getenv("LEASE_TOKEN");
    struct lease_connection *connection;
    int64_t token;
    int64_t highest = 0;
    if (text == NULL) {
        return cli_usage(cli, "missing argument TOKEN, and LEASE_TOKEN is not set");
    }
    if (!parse_token(text, &token)) {
        return cli_usage(cli, "TOKEN %s is not a token; give a number from 1 on", text);
    }
    enum cli_exit result = cli_open(cli, &connection);
    if (result != CLI_OK) {
        return result;
    }
    enum lease_status status =
        lease_fence_check(connection, cli->arguments.words[1], token, &highest);
    if (status == LEASE_OK || status == LEASE_STALE) {
        print_result(cli, status == LEASE_OK, token, highest);
        result = status == LEASE_OK ? CLI_OK : CLI_FAILED;
    } else {
        result = cli_lease_failed(cli, status, NULL);
    }
    lease_close(connection);
    return result;
}

const struct cli_command cli_command_fence_check = {
    .name = "fence check",
    .group = CLI_MANAGE,
    .usage = "NAME [TOKEN]",
    .help = "refuse a token that is older than one that was seen",
    .more = "Remembers the highest token of NAME. Exit code 0: it is not older; 1: it is refused. "
            "Without\n"
            "TOKEN it is that of LEASE_TOKEN, which a command has that `lease` runs.\n",
    .examples = "lease lock backup -- sh -c 'lease fence check backup && ./write-backup'\n",
    .words_min = 1,
    .words_max = 2,
    .run = run_check,
};

static enum cli_exit run_get(struct cli *cli) {
    struct lease_connection *connection;
    int64_t highest = 0;
    enum cli_exit result = cli_open(cli, &connection);
    if (result != CLI_OK) {
        return result;
    }
    enum lease_status status = lease_fence_get(connection, cli->arguments.words[1], &highest);
    if (status != LEASE_OK) {
        result = cli_lease_failed(cli, status, NULL);
    } else if (cli->json) {
        cli_print_json(json_pack("{s:I}", "highest", (json_int_t)highest));
    } else {
        printf("%" PRId64 "\n", highest);
    }
    lease_close(connection);
    return result;
}

const struct cli_command cli_command_fence_get = {
    .name = "fence get",
    .group = CLI_LOOK,
    .usage = "NAME",
    .help = "print the highest token that was seen",
    .examples = "lease fence get backup\n",
    .words_min = 1,
    .words_max = 1,
    .run = run_get,
};
