/* The TLS options of `lease`, under etcdctl's names, and the settings made from them. */
#ifndef LEASED_CLI_CLI_TLS_H
#define LEASED_CLI_CLI_TLS_H

#include "cli/cli.h"

/* Decides which endpoints speak TLS and loads the files. CLI_USAGE, CLI_FAILED: it was printed on
 * standard error. */
enum cli_exit cli_tls_prepare(struct cli *cli);

#endif
