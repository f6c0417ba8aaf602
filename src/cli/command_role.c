/* `lease role …`: roles and their permissions, through etcd's API. */
#include "cli/command_list.h"
#include "cli/etcd_unary.h"
#include "client/lease_client.h"
#include "proto/etcd.pb-c.h"
#include "proto/etcd_auth.pb-c.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_SIZE_MAX = 1024 };

static char *word(const struct cli *cli, size_t index) {
    return (char *)(uintptr_t)cli->arguments.words[index];
}

static enum cli_exit ask_and_print(struct cli *cli, const struct etcd_method *method,
                                   const ProtobufCMessage *request, const char *sentence) {
    ProtobufCMessage *answer = etcd_ask(cli, method, request);
    if (answer == NULL) {
        return CLI_FAILED;
    }
    puts(cli->json ? "{}" : sentence);
    etcd_unary_free(answer);
    return CLI_OK;
}

/* ---- permissions ------------------------------------------------------------------------------
 */

static const struct option_entry range_options[] = {
    {"--prefix", 0, NULL, "all keys that begin with KEY"},
    {NULL, 0, NULL, NULL},
};

struct range {
    ProtobufCBinaryData key;
    ProtobufCBinaryData end;
    uint8_t room[KEY_SIZE_MAX];
};

static enum cli_exit take_range(struct cli *cli, const char *key, struct range *range) {
    size_t size = strlen(key);
    bool is_prefix = arguments_has(&cli->arguments, "--prefix");
    *range = (struct range){.key = {.data = (uint8_t *)(uintptr_t)key, .len = size}};
    if (size > KEY_SIZE_MAX || (size == 0 && !is_prefix)) {
        return cli_usage(cli, "KEY: 1 to %d bytes are needed", KEY_SIZE_MAX);
    }
    if (!is_prefix) {
        return CLI_OK;
    }
    if (size == 0) { /* every key */
        range->key = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t) "", .len = 1};
        range->end = range->key;
        return CLI_OK;
    }
    size_t end_size = lease_client_prefix_end(bytes_of((const uint8_t *)key, size), range->room);
    range->end = (ProtobufCBinaryData){.data = range->room, .len = end_size};
    if (end_size == 0) {
        range->end = (ProtobufCBinaryData){.data = (uint8_t *)(uintptr_t) "", .len = 1};
    }
    return CLI_OK;
}

static const char *const type_names[] = {
    [AUTHPB__PERMISSION__TYPE__READ] = "read",
    [AUTHPB__PERMISSION__TYPE__WRITE] = "write",
    [AUTHPB__PERMISSION__TYPE__READWRITE] = "readwrite",
};
enum { N_TYPES = sizeof type_names / sizeof type_names[0] };

static enum cli_exit role_grant(struct cli *cli) {
    static const struct etcd_method method = ETCD_METHOD(
        "Auth/RoleGrantPermission", etcdserverpb__auth_role_grant_permission_response__descriptor);
    Etcdserverpb__AuthRoleGrantPermissionRequest request =
        ETCDSERVERPB__AUTH_ROLE_GRANT_PERMISSION_REQUEST__INIT;
    Authpb__Permission permission = AUTHPB__PERMISSION__INIT;
    struct range range;
    enum cli_exit result = take_range(cli, cli->arguments.words[3], &range);
    int type = 0;
    while (type < N_TYPES && strcmp(type_names[type], cli->arguments.words[2]) != 0) {
        type++;
    }
    if (type == N_TYPES) {
        return cli_usage(cli, "RIGHT %s is unknown; give read, write or readwrite",
                         cli->arguments.words[2]);
    }
    if (result != CLI_OK) {
        return result;
    }
    permission.permtype = (Authpb__Permission__Type)type;
    permission.key = range.key;
    permission.range_end = range.end;
    request.name = word(cli, 1);
    request.perm = &permission;
    return ask_and_print(cli, &method, &request.base, "right granted");
}

static enum cli_exit role_revoke(struct cli *cli) {
    static const struct etcd_method method =
        ETCD_METHOD("Auth/RoleRevokePermission",
                    etcdserverpb__auth_role_revoke_permission_response__descriptor);
    Etcdserverpb__AuthRoleRevokePermissionRequest request =
        ETCDSERVERPB__AUTH_ROLE_REVOKE_PERMISSION_REQUEST__INIT;
    struct range range;
    enum cli_exit result = take_range(cli, cli->arguments.words[2], &range);
    if (result != CLI_OK) {
        return result;
    }
    request.role = word(cli, 1);
    request.key = range.key;
    request.range_end = range.end;
    return ask_and_print(cli, &method, &request.base, "right taken away");
}

/* ---- roles ------------------------------------------------------------------------------------
 */

static enum cli_exit role_add(struct cli *cli) {
    static const struct etcd_method method =
        ETCD_METHOD("Auth/RoleAdd", etcdserverpb__auth_role_add_response__descriptor);
    Etcdserverpb__AuthRoleAddRequest request = ETCDSERVERPB__AUTH_ROLE_ADD_REQUEST__INIT;
    request.name = word(cli, 1);
    return ask_and_print(cli, &method, &request.base, "role added");
}

static enum cli_exit role_rm(struct cli *cli) {
    static const struct etcd_method method =
        ETCD_METHOD("Auth/RoleDelete", etcdserverpb__auth_role_delete_response__descriptor);
    Etcdserverpb__AuthRoleDeleteRequest request = ETCDSERVERPB__AUTH_ROLE_DELETE_REQUEST__INIT;
    request.role = word(cli, 1);
    return ask_and_print(cli, &method, &request.base, "role removed");
}

static enum cli_exit role_ls(struct cli *cli) {
    static const struct etcd_method method =
        ETCD_METHOD("Auth/RoleList", etcdserverpb__auth_role_list_response__descriptor);
    Etcdserverpb__AuthRoleListRequest request = ETCDSERVERPB__AUTH_ROLE_LIST_REQUEST__INIT;
    ProtobufCMessage *answer = etcd_ask(cli, &method, &request.base);
    if (answer == NULL) {
        return CLI_FAILED;
    }
    const Etcdserverpb__AuthRoleListResponse *list = (void *)answer;
    json_t *array = json_array();
    for (size_t i = 0; i < list->n_roles; i++) {
        if (cli->json) {
            json_array_append_new(array, json_string(list->roles[i]));
        } else {
            puts(list->roles[i]);
        }
    }
    json_t *json = json_pack("{s:o}", "roles", array);
    if (cli->json) {
        json_dumpf(json, stdout, JSON_COMPACT);
        putchar('\n');
    }
    json_decref(json);
    etcd_unary_free(answer);
    return CLI_OK;
}

static void print_right(const Authpb__Permission *permission) {
    const char *type =
        (unsigned)permission->permtype < N_TYPES ? type_names[permission->permtype] : "?";
    printf("%-9s %.*s", type, (int)permission->key.len, (const char *)permission->key.data);
    if (permission->range_end.len > 0) {
        printf(" to %.*s", (int)permission->range_end.len,
               (const char *)permission->range_end.data);
    }
    putchar('\n');
}

static json_t *right_json(const Authpb__Permission *permission) {
    json_t *key = json_stringn((const char *)permission->key.data, permission->key.len);
    json_t *end = json_stringn((const char *)permission->range_end.data, permission->range_end.len);
    const char *type =
        (unsigned)permission->permtype < N_TYPES ? type_names[permission->permtype] : "?";
    return json_pack("{s:s, s:o, s:o}", "right", type, "key", key != NULL ? key : json_null(),
                     "range_end", end != NULL ? end : json_null());
}

static enum cli_exit role_get(struct cli *cli) {
    static const struct etcd_method method =
        ETCD_METHOD("Auth/RoleGet", etcdserverpb__auth_role_get_response__descriptor);
    Etcdserverpb__AuthRoleGetRequest request = ETCDSERVERPB__AUTH_ROLE_GET_REQUEST__INIT;
    request.role = word(cli, 1);
    ProtobufCMessage *answer = etcd_ask(cli, &method, &request.base);
    if (answer == NULL) {
        return CLI_FAILED;
    }
    const Etcdserverpb__AuthRoleGetResponse *role = (void *)answer;
    json_t *array = json_array();
    for (size_t i = 0; i < role->n_perm; i++) {
        if (cli->json) {
            json_array_append_new(array, right_json(role->perm[i]));
        } else {
            print_right(role->perm[i]);
        }
    }
    json_t *json = json_pack("{s:o}", "rights", array);
    if (cli->json) {
        json_dumpf(json, stdout, JSON_COMPACT);
        putchar('\n');
    }
    json_decref(json);
    etcd_unary_free(answer);
    return CLI_OK;
}

const struct cli_command cli_command_role_add = {
    .name = "role add",
    .group = CLI_CLUSTER,
    .usage = "ROLE",
    .help = "add a role",
    .examples = "lease role add operator\n",
    .words_min = 1,
    .words_max = 1,
    .run = role_add,
};
const struct cli_command cli_command_role_ls = {
    .name = "role ls",
    .group = CLI_CLUSTER,
    .usage = "",
    .help = "list roles",
    .examples = "lease role ls\n",
    .run = role_ls,
};
const struct cli_command cli_command_role_get = {
    .name = "role get",
    .group = CLI_CLUSTER,
    .usage = "ROLE",
    .help = "list the rights of a role",
    .examples = "lease role get operator\n",
    .words_min = 1,
    .words_max = 1,
    .run = role_get,
};
const struct cli_command cli_command_role_rm = {
    .name = "role rm",
    .group = CLI_CLUSTER,
    .usage = "ROLE",
    .help = "remove a role",
    .examples = "lease role rm operator\n",
    .words_min = 1,
    .words_max = 1,
    .run = role_rm,
};
const struct cli_command cli_command_role_grant = {
    .name = "role grant",
    .group = CLI_CLUSTER,
    .usage = "ROLE RIGHT KEY",
    .help = "give a role the right to read, write or readwrite a key",
    .examples = "lease role grant operator readwrite /services/ --prefix\n",
    .options = range_options,
    .words_min = 3,
    .words_max = 3,
    .run = role_grant,
};
const struct cli_command cli_command_role_revoke = {
    .name = "role revoke",
    .group = CLI_CLUSTER,
    .usage = "ROLE KEY",
    .help = "take a right from a role",
    .examples = "lease role revoke operator /services/ --prefix\n",
    .options = range_options,
    .words_min = 2,
    .words_max = 2,
    .run = role_revoke,
};
