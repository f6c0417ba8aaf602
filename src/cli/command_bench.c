/* `lease bench`: hands the command line to src/bench. */
#include "bench/bench_run.h"
#include "cli/cli.h"
#include "cli/command_list.h"

static enum cli_exit run(struct cli *cli) {
    const char *workload = cli->arguments.words[1];
    if (!bench_has_workload(workload)) {
        return cli_usage(cli, "there is no workload %s; `lease bench --help` lists them", workload);
    }
    const struct bench_settings settings = {
        .workload = workload,
        .loop = &cli->loop,
        .arguments = &cli->arguments,
        .endpoints = &cli->endpoints,
        .timeout_ms = cli->timeout_ms,
        .is_json = cli->json,
    };
    return (enum cli_exit)bench_run(&settings);
}

const struct cli_command cli_command_bench = {
    .name = "bench",
    .group = CLI_OTHER,
    .usage = "WORKLOAD [options]",
    .help = "measure a server: any that speaks etcd's v3 API",
    .print_more = bench_print_workloads,
    .options = bench_options,
    .words_min = 1,
    .words_max = 1,
    .run = run,
};
