/* `lease renew`: one session or lease, once. */
#include "base/duration.h"
#include "cli/cli_format.h"
#include "cli/cli_lease.h"
#include "cli/command_list.h"
#include "cli/lease_id.h"

static void print_renewed(const struct cli *cli, int64_t id, int64_t ttl_ms) {
    char text[LEASE_ID_TEXT_SIZE_MAX];
    char time[DURATION_TEXT_SIZE_MAX];
    if (cli->json) {
        cli_print_json(
            json_pack("{s:o, s:I}", "id", cli_json_id(id), "ttl_ms", (json_int_t)ttl_ms));
    } else {
        printf("%s renewed, ttl %s\n", lease_id_format(id, text), duration_format(ttl_ms, time));
    }
}

static enum cli_exit run(struct cli *cli) {
    struct lease_connection *connection;
    int64_t id;
    int64_t ttl_ms = 0;
    if (lease_id_parse(cli->arguments.words[1], &id) != STATUS_OK || id == 0) {
        return cli_usage(cli, "ID %s is not an id; `lease ls` shows sessions, leases and their ids",
                         cli->arguments.words[1]);
    }
    enum cli_exit result = cli_open(cli, &connection);
    if (result != CLI_OK) {
        return result;
    }
    enum lease_status status = lease_renew_id(connection, id, &ttl_ms);
    struct lease_connection *other = cli_open_for_lease(cli, connection, status);
    if (other != NULL) {
        status = lease_renew_id(other, id, &ttl_ms);
        lease_close(other);
    }
    if (status == LEASE_OK) {
        print_renewed(cli, id, ttl_ms);
    } else {
        result = cli_lease_failed(cli, status, NULL);
    }
    lease_close(connection);
    return result;
}

const struct cli_command cli_command_renew = {
    .name = "renew",
    .group = CLI_MANAGE,
    .usage = "ID",
    .help = "renew a session or a lease once",
    .examples = "lease renew 694d7c8d2b6ab807\n",
    .words_min = 1,
    .words_max = 1,
    .run = run,
};
