/* --user and --password, as etcdctl has them. */
#ifndef LEASED_CLI_CLI_USER_H
#define LEASED_CLI_CLI_USER_H

#include "cli/cli.h"

enum { CLI_USER_SIZE_MAX = 512 };

struct cli_user {
    char *name;     /* NULL: nobody was named */
    char *password; /* not NULL where there is a name */
    char room[2][CLI_USER_SIZE_MAX];
};

/* "NAME:PASSWORD", or the name alone with --password. CLI_USAGE: said on standard error. The texts
 * point into `out_user`, which must not move. */
enum cli_exit cli_user_take(struct cli *cli, struct cli_user *out_user);

#endif
