/*
 * `lease auth|user|role …`: authentication, through etcd's API. Most of these commands send one
 * request and print one line; a table has them all.
 */
#include "cli/cli_commands.h"
#include "cli/command_list.h"
#include "cli/etcd_unary.h"
#include "client/lease_client.h"
#include "proto/etcd.pb-c.h"
#include "proto/etcd_auth.pb-c.h"

#include <jansson.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static char *word(const struct cli *cli, size_t index) {
    return (char *)(uintptr_t)cli->arguments.words[index];
}

static void print_done(const struct cli *cli, const char *sentence) {
    if (cli->json) {
        puts("{}");
    } else {
        printf("%s\n", sentence);
    }
}

/* Asks and prints the sentence. */
static enum cli_exit ask_and_print(struct cli *cli, const struct etcd_method *method,
                                   const ProtobufCMessage *request, const char *sentence) {
    ProtobufCMessage *answer = etcd_ask(cli, method, request);
    if (answer == NULL) {
        return CLI_FAILED;
    }
    print_done(cli, sentence);
    etcd_unary_free(answer);
    return CLI_OK;
}

static void print_names(const struct cli *cli, const char *title, char **names, size_t n_names) {
    json_t *array = json_array();
    for (size_t i = 0; i < n_names; i++) {
        json_t *name = json_string(names[i]);
        json_array_append_new(array, name != NULL ? name : json_null());
        if (!cli->json) {
            printf("%s\n", names[i]);
        }
    }
    json_t *json = json_pack("{s:o}", title, array);
    if (cli->json) {
        json_dumpf(json, stdout, JSON_COMPACT);
        putchar('\n');
    }
    json_decref(json);
}

static struct termios shown; /* the terminal's settings, for a signal while nothing is shown */

static void show_again(int number) {
    tcsetattr(STDIN_FILENO, TCSANOW, &shown);
    raise(number);
}

/* On a terminal it is asked for, and not shown. */
static bool read_password(char *room, size_t room_size) {
    bool is_terminal = tcgetattr(STDIN_FILENO, &shown) == 0;
    struct sigaction before;
    if (is_terminal) {
        struct sigaction action = {.sa_handler = show_again, .sa_flags = (int)SA_RESETHAND};
        struct termios hidden = shown;
        hidden.c_lflag &= ~(tcflag_t)ECHO;
        sigaction(SIGINT, &action, &before);
        fputs("password: ", stderr);
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
    }
    bool is_read = fgets(room, (int)room_size, stdin) != NULL;
    if (is_terminal) {
        tcsetattr(STDIN_FILENO, TCSAFLUSH, &shown);
        sigaction(SIGINT, &before, NULL);
        fputc('\n', stderr);
    }
    return is_read;
}

/* A password that is not on the command line: a line of standard input. */
static bool take_password(struct cli *cli, char *room, size_t room_size) {
    if (!read_password(room, room_size)) {
        cli_usage(cli, "no password: standard input is empty; run `echo PASSWORD | lease %s USER`",
                  cli->command->name);
        return false;
    }
    room[strcspn(room, "\r\n")] = '\0';
    if (room[0] == '\0') {
        cli_usage(cli, "the password is empty");
        return false;
    }
    return true;
}

/* ---- auth -------------------------------------------------------------------------------------
 */

static enum cli_exit auth_enable(struct cli *cli) {
    static const struct etcd_method method =
        ETCD_METHOD("Auth/AuthEnable", etcdserverpb__auth_enable_response__descriptor);
    Etcdserverpb__AuthEnableRequest request = ETCDSERVERPB__AUTH_ENABLE_REQUEST__INIT;
    return ask_and_print(cli, &method, &request.base, "authentication is on");
}

static enum cli_exit auth_disable(struct cli *cli) {
    static const struct etcd_method method =
        ETCD_METHOD("Auth/AuthDisable", etcdserverpb__auth_disable_response__descriptor);
    Etcdserverpb__AuthDisableRequest request = ETCDSERVERPB__AUTH_DISABLE_REQUEST__INIT;
    return ask_and_print(cli, &method, &request.base, "authentication is off");
}

static enum cli_exit auth_status(struct cli *cli) {
    static const struct etcd_method method =
        ETCD_METHOD("Auth/AuthStatus", etcdserverpb__auth_status_response__descriptor);
    Etcdserverpb__AuthStatusRequest request = ETCDSERVERPB__AUTH_STATUS_REQUEST__INIT;
    ProtobufCMessage *answer = etcd_ask(cli, &method, &request.base);
    if (answer == NULL) {
        return CLI_FAILED;
    }
    bool is_on = ((Etcdserverpb__AuthStatusResponse *)answer)->enabled;
    if (cli->json) {
        printf("{\"enabled\":%s}\n", is_on ? "true" : "false");
    } else {
        printf("authentication is %s\n", is_on ? "on" : "off");
    }
    etcd_unary_free(answer);
    return CLI_OK;
}

const struct cli_command cli_command_auth_enable = {
    .name = "auth enable",
    .group = CLI_CLUSTER,
    .usage = "",
    .help = "turn authentication on: every request needs a user",
    .more = "The user root with the role root must exist.\n",
    .examples =
        "echo secret | lease user add root\nlease user grant root root\nlease auth enable\n",
    .run = auth_enable,
};
const struct cli_command cli_command_auth_disable = {
    .name = "auth disable",
    .group = CLI_CLUSTER,
    .usage = "",
    .help = "turn authentication off: anybody may do everything",
    .examples = "lease --user root:secret auth disable\n",
    .run = auth_disable,
};
const struct cli_command cli_command_auth_status = {
    .name = "auth status",
    .group = CLI_CLUSTER,
    .usage = "",
    .help = "tell whether authentication is on",
    .examples = "lease auth status\n",
    .run = auth_status,
};

/* ---- user -------------------------------------------------------------------------------------
 */

static const struct option_entry add_options[] = {
    {"--no-password", 0, NULL, "a user that is proven by a certificate alone"},
    {NULL, 0, NULL, NULL},
};

static enum cli_exit user_add(struct cli *cli) {
    static const struct etcd_method method =
        ETCD_METHOD("Auth/UserAdd", etcdserverpb__auth_user_add_response__descriptor);
    Etcdserverpb__AuthUserAddRequest request = ETCDSERVERPB__AUTH_USER_ADD_REQUEST__INIT;
    Authpb__UserAddOptions options = AUTHPB__USER_ADD_OPTIONS__INIT;
    char password[512] = "";
    options.no_password = arguments_has(&cli->arguments, "--no-password");
    if (!options.no_password && !take_password(cli, password, sizeof password)) {
        return CLI_USAGE;
    }
    request.name = word(cli, 1);
    request.password = password;
    request.options = &options;
    return ask_and_print(cli, &method, &request.base, "user added");
}

static enum cli_exit user_passwd(struct cli *cli) {
    static const struct etcd_method method = ETCD_METHOD(
        "Auth/UserChangePassword", etcdserverpb__auth_user_change_password_response__descriptor);
    Etcdserverpb__AuthUserChangePasswordRequest request =
        ETCDSERVERPB__AUTH_USER_CHANGE_PASSWORD_REQUEST__INIT;
    char password[512] = "";
    if (!take_password(cli, password, sizeof password)) {
        return CLI_USAGE;
    }
    request.name = word(cli, 1);
    request.password = password;
    return ask_and_print(cli, &method, &request.base, "password changed");
}

static enum cli_exit user_ls(struct cli *cli) {
    static const struct etcd_method method =
        ETCD_METHOD("Auth/UserList", etcdserverpb__auth_user_list_response__descriptor);
    Etcdserverpb__AuthUserListRequest request = ETCDSERVERPB__AUTH_USER_LIST_REQUEST__INIT;
    ProtobufCMessage *answer = etcd_ask(cli, &method, &request.base);
    if (answer == NULL) {
        return CLI_FAILED;
    }
    const Etcdserverpb__AuthUserListResponse *list = (void *)answer;
    print_names(cli, "users", list->users, list->n_users);
    etcd_unary_free(answer);
    return CLI_OK;
}

static enum cli_exit user_get(struct cli *cli) {
    static const struct etcd_method method =
        ETCD_METHOD("Auth/UserGet", etcdserverpb__auth_user_get_response__descriptor);
    Etcdserverpb__AuthUserGetRequest request = ETCDSERVERPB__AUTH_USER_GET_REQUEST__INIT;
    request.name = word(cli, 1);
    ProtobufCMessage *answer = etcd_ask(cli, &method, &request.base);
    if (answer == NULL) {
        return CLI_FAILED;
    }
    const Etcdserverpb__AuthUserGetResponse *user = (void *)answer;
    print_names(cli, "roles", user->roles, user->n_roles);
    etcd_unary_free(answer);
    return CLI_OK;
}

static enum cli_exit user_rm(struct cli *cli) {
    static const struct etcd_method method =
        ETCD_METHOD("Auth/UserDelete", etcdserverpb__auth_user_delete_response__descriptor);
    Etcdserverpb__AuthUserDeleteRequest request = ETCDSERVERPB__AUTH_USER_DELETE_REQUEST__INIT;
    request.name = word(cli, 1);
    return ask_and_print(cli, &method, &request.base, "user removed");
}

static enum cli_exit user_grant(struct cli *cli) {
    static const struct etcd_method method =
        ETCD_METHOD("Auth/UserGrantRole", etcdserverpb__auth_user_grant_role_response__descriptor);
    Etcdserverpb__AuthUserGrantRoleRequest request =
        ETCDSERVERPB__AUTH_USER_GRANT_ROLE_REQUEST__INIT;
    request.user = word(cli, 1);
    request.role = word(cli, 2);
    return ask_and_print(cli, &method, &request.base, "role granted");
}

static enum cli_exit user_revoke(struct cli *cli) {
    static const struct etcd_method method = ETCD_METHOD(
        "Auth/UserRevokeRole", etcdserverpb__auth_user_revoke_role_response__descriptor);
    Etcdserverpb__AuthUserRevokeRoleRequest request =
        ETCDSERVERPB__AUTH_USER_REVOKE_ROLE_REQUEST__INIT;
    request.name = word(cli, 1);
    request.role = word(cli, 2);
    return ask_and_print(cli, &method, &request.base, "role taken away");
}

const struct cli_command cli_command_user_add = {
    .name = "user add",
    .group = CLI_CLUSTER,
    .usage = "USER",
    .help = "add a user; the password is read from standard input",
    .examples = "echo secret | lease user add ann\nlease user add web-1 --no-password\n",
    .options = add_options,
    .words_min = 1,
    .words_max = 1,
    .run = user_add,
};
const struct cli_command cli_command_user_passwd = {
    .name = "user passwd",
    .group = CLI_CLUSTER,
    .usage = "USER",
    .help = "change a password; the new one is read from standard input",
    .examples = "echo new-secret | lease user passwd ann\n",
    .words_min = 1,
    .words_max = 1,
    .run = user_passwd,
};
const struct cli_command cli_command_user_ls = {
    .name = "user ls",
    .group = CLI_CLUSTER,
    .usage = "",
    .help = "list users",
    .examples = "lease user ls\n",
    .run = user_ls,
};
const struct cli_command cli_command_user_get = {
    .name = "user get",
    .group = CLI_CLUSTER,
    .usage = "USER",
    .help = "list the roles of a user",
    .examples = "lease user get ann\n",
    .words_min = 1,
    .words_max = 1,
    .run = user_get,
};
const struct cli_command cli_command_user_rm = {
    .name = "user rm",
    .group = CLI_CLUSTER,
    .usage = "USER",
    .help = "remove a user",
    .examples = "lease user rm ann\n",
    .words_min = 1,
    .words_max = 1,
    .run = user_rm,
};
const struct cli_command cli_command_user_grant = {
    .name = "user grant",
    .group = CLI_CLUSTER,
    .usage = "USER ROLE",
    .help = "give a role to a user",
    .examples = "lease user grant ann operator\n",
    .words_min = 2,
    .words_max = 2,
    .run = user_grant,
};
const struct cli_command cli_command_user_revoke = {
    .name = "user revoke",
    .group = CLI_CLUSTER,
    .usage = "USER ROLE",
    .help = "take a role from a user",
    .examples = "lease user revoke ann operator\n",
    .words_min = 2,
    .words_max = 2,
    .run = user_revoke,
};
