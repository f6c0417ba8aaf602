/* `lease ls`: every lease with its granted and remaining time and how many keys it holds. */
#include "cli/command_list.h"
#include "cli/etcd_leases.h"

static enum cli_exit run(struct cli *cli) {
    struct etcd_leases *leases;
    enum cli_exit result = etcd_leases_fetch(cli, &leases);
    if (result != CLI_OK) {
        return result;
    }
    if (cli->json) {
        fputs("{\"leases\":", stdout);
        etcd_leases_print_json(leases);
        puts("}");
    } else {
        etcd_leases_print_table(leases);
    }
    etcd_leases_destroy(leases);
    return CLI_OK;
}

const struct cli_command cli_command_ls = {
    .name = "ls",
    .group = CLI_LOOK,
    .usage = "",
    .help = "list the leases: time granted and remaining, keys",
    .examples = "lease ls\nlease ls --json\n",
    .run = run,
};
