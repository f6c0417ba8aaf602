#include "cli/cli_user.h"

#include <string.h>

enum cli_exit cli_user_take(struct cli *cli, struct cli_user *out_user) {
    const char *user = cli_setting(&cli->settings, &cli->arguments, "--user");
    const char *password = cli_setting(&cli->settings, &cli->arguments, "--password");
    out_user->name = NULL;
    out_user->password = NULL;
    if (user == NULL) {
        return CLI_OK;
    }
    size_t size = strlen(user);
    if (password == NULL) {
        size = strcspn(user, ":");
        password = user[size] == ':' ? user + size + 1 : NULL;
    }
    if (password == NULL) {
        return cli_usage(cli, "--user %s has no password: write NAME:PASSWORD, or give --password",
                         user);
    }
    if (size == 0 || size >= CLI_USER_SIZE_MAX || strlen(password) >= CLI_USER_SIZE_MAX) {
        return cli_usage(cli, "--user: names and passwords have 1 to %d bytes",
                         CLI_USER_SIZE_MAX - 1);
    }
    memcpy(out_user->room[0], user, size);
    out_user->room[0][size] = '\0';
    strcpy(out_user->room[1], password);
    out_user->name = out_user->room[0];
    out_user->password = out_user->room[1];
    return CLI_OK;
}
