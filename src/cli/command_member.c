/* `lease member …`: the members of the cluster, through etcd's API. */
#include "cli/command_list.h"
#include "cli/etcd_unary.h"
#include "cli/lease_id.h"
#include "cli/table.h"
#include "proto/etcd.pb-c.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { URLS_MAX = 16, TEXT_SIZE_MAX = 2048 };

/* ---- what is shown ----------------------------------------------------------------------------
 */

static const struct table_column columns[] = {
    {"ID", false}, {"NAME", false}, {"STATE", false}, {"PEER URLS", false}, {"CLIENT URLS", false}};

static const char *join(char **texts, size_t n_texts, char room[TEXT_SIZE_MAX]) {
    size_t size = 0;
    room[0] = '\0';
    for (size_t i = 0; i < n_texts && size < TEXT_SIZE_MAX; i++) {
        size +=
            (size_t)snprintf(room + size, TEXT_SIZE_MAX - size, "%s%s", i > 0 ? "," : "", texts[i]);
    }
    return room;
}

static const char *state_of(const Etcdserverpb__Member *member) {
    return member->name[0] == '\0' ? "not started" : member->islearner ? "learner" : "voter";
}

static void print_table(Etcdserverpb__Member **members, size_t n_members) {
    struct table table;
    table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < n_members; i++) {
        const Etcdserverpb__Member *member = members[i];
        char id[LEASE_ID_TEXT_SIZE_MAX];
        char text[TEXT_SIZE_MAX];
        table_add(&table, "%s", lease_id_format((int64_t)member->id, id));
        table_add(&table, "%s", member->name[0] != '\0' ? member->name : "-");
        table_add(&table, "%s", state_of(member));
        table_add(&table, "%s", join(member->peerurls, member->n_peerurls, text));
        table_add(&table, "%s", join(member->clienturls, member->n_clienturls, text));
    }
    table_print(&table, stdout);
    table_clear(&table);
}

static json_t *texts_json(char **texts, size_t n_texts) {
    json_t *array = json_array();
    for (size_t i = 0; i < n_texts; i++) {
        json_t *text = json_string(texts[i]);
        json_array_append_new(array, text != NULL ? text : json_null());
    }
    return array;
}

static void print_json(Etcdserverpb__Member **members, size_t n_members) {
    json_t *array = json_array();
    for (size_t i = 0; i < n_members; i++) {
        const Etcdserverpb__Member *member = members[i];
        char id[LEASE_ID_TEXT_SIZE_MAX];
        json_array_append_new(
            array,
            json_pack("{s:s, s:s, s:s, s:o, s:o}", "id", lease_id_format((int64_t)member->id, id),
                      "name", member->name, "state", state_of(member), "peer_urls",
                      texts_json(member->peerurls, member->n_peerurls), "client_urls",
                      texts_json(member->clienturls, member->n_clienturls)));
    }
    json_t *json = json_pack("{s:o}", "members", array);
    json_dumpf(json, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(json);
}

/* Every answer lists the members as they are then, at the same place. */
static enum cli_exit ask_and_print(struct cli *cli, const struct etcd_method *method,
                                   const ProtobufCMessage *request) {
    ProtobufCMessage *answer = etcd_ask(cli, method, request);
    if (answer == NULL) {
        return CLI_FAILED;
    }
    Etcdserverpb__Member **members = ((Etcdserverpb__MemberListResponse *)answer)->members;
    size_t n_members = ((Etcdserverpb__MemberListResponse *)answer)->n_members;
    if (answer->descriptor == &etcdserverpb__member_add_response__descriptor) {
        members = ((Etcdserverpb__MemberAddResponse *)answer)->members;
        n_members = ((Etcdserverpb__MemberAddResponse *)answer)->n_members;
    }
    if (cli->json) {
        print_json(members, n_members);
    } else {
        print_table(members, n_members);
    }
    etcd_unary_free(answer);
    return CLI_OK;
}

/* ---- what is asked ----------------------------------------------------------------------------
 */

static enum cli_exit take_id(struct cli *cli, uint64_t *out_id) {
    int64_t id;
    if (lease_id_parse(cli->arguments.words[1], &id) != STATUS_OK || id == 0) {
        return cli_usage(cli,
                         "ID %s is not an id; `lease member ls` shows the members and their ids",
                         cli->arguments.words[1]);
    }
    *out_id = (uint64_t)id;
    return CLI_OK;
}

/* Cuts `text` at its commas; 0: more than there may be. */
static size_t cut_urls(char *text, char *urls[URLS_MAX]) {
    size_t n = 0;
    char *url;
    while ((url = strsep(&text, ",")) != NULL) {
        if (url[0] == '\0' || n == URLS_MAX) {
            return 0;
        }
        urls[n++] = url;
    }
    return n;
}

static enum cli_exit member_ls(struct cli *cli) {
    static const struct etcd_method method =
        ETCD_METHOD("Cluster/MemberList", etcdserverpb__member_list_response__descriptor);
    Etcdserverpb__MemberListRequest request = ETCDSERVERPB__MEMBER_LIST_REQUEST__INIT;
    request.linearizable = true;
    return ask_and_print(cli, &method, &request.base);
}

static const struct option_entry add_options[] = {
    {"--learner", 0, NULL, "it does not vote until it is promoted"},
    {NULL, 0, NULL, NULL},
};

static enum cli_exit member_add(struct cli *cli) {
    static const struct etcd_method method =
        ETCD_METHOD("Cluster/MemberAdd", etcdserverpb__member_add_response__descriptor);
    Etcdserverpb__MemberAddRequest request = ETCDSERVERPB__MEMBER_ADD_REQUEST__INIT;
    char *urls[URLS_MAX];
    char *text = strdup(cli->arguments.words[1]);
    request.peerurls = urls;
    request.n_peerurls = cut_urls(text, urls);
    request.islearner = arguments_has(&cli->arguments, "--learner");
    enum cli_exit result = request.n_peerurls == 0
                               ? cli_usage(cli, "PEER-URLS: URLs with commas between are needed")
                               : ask_and_print(cli, &method, &request.base);
    free(text);
    return result;
}

static enum cli_exit member_update(struct cli *cli) {
    static const struct etcd_method method =
        ETCD_METHOD("Cluster/MemberUpdate", etcdserverpb__member_update_response__descriptor);
    Etcdserverpb__MemberUpdateRequest request = ETCDSERVERPB__MEMBER_UPDATE_REQUEST__INIT;
    char *urls[URLS_MAX];
    enum cli_exit result = take_id(cli, &request.id);
    if (result != CLI_OK) {
        return result;
    }
    char *text = strdup(cli->arguments.words[2]);
    request.peerurls = urls;
    request.n_peerurls = cut_urls(text, urls);
    result = request.n_peerurls == 0
                 ? cli_usage(cli, "PEER-URLS: URLs with commas between are needed")
                 : ask_and_print(cli, &method, &request.base);
    free(text);
    return result;
}

static enum cli_exit member_rm(struct cli *cli) {
    static const struct etcd_method method =
        ETCD_METHOD("Cluster/MemberRemove", etcdserverpb__member_remove_response__descriptor);
    Etcdserverpb__MemberRemoveRequest request = ETCDSERVERPB__MEMBER_REMOVE_REQUEST__INIT;
    enum cli_exit result = take_id(cli, &request.id);
    return result == CLI_OK ? ask_and_print(cli, &method, &request.base) : result;
}

static enum cli_exit member_promote(struct cli *cli) {
    static const struct etcd_method method =
        ETCD_METHOD("Cluster/MemberPromote", etcdserverpb__member_promote_response__descriptor);
    Etcdserverpb__MemberPromoteRequest request = ETCDSERVERPB__MEMBER_PROMOTE_REQUEST__INIT;
    enum cli_exit result = take_id(cli, &request.id);
    return result == CLI_OK ? ask_and_print(cli, &method, &request.base) : result;
}

/* ---- the commands -----------------------------------------------------------------------------
 */

const struct cli_command cli_command_member_ls = {
    .name = "member ls",
    .group = CLI_CLUSTER,
    .usage = "",
    .help = "list the members",
    .examples = "lease member ls\n",
    .run = member_ls,
};
const struct cli_command cli_command_member_add = {
    .name = "member add",
    .group = CLI_CLUSTER,
    .usage = "PEER-URLS",
    .help = "add a member; then start it with --initial-cluster-state existing",
    .examples = "lease member add http://10.0.0.4:2380 --learner\n",
    .options = add_options,
    .words_min = 1,
    .words_max = 1,
    .run = member_add,
};
const struct cli_command cli_command_member_update = {
    .name = "member update",
    .group = CLI_CLUSTER,
    .usage = "ID PEER-URLS",
    .help = "change where the others reach a member",
    .examples = "lease member update 4798ca909f8e8f3e http://10.0.0.5:2380\n",
    .words_min = 2,
    .words_max = 2,
    .run = member_update,
};
const struct cli_command cli_command_member_rm = {
    .name = "member rm",
    .group = CLI_CLUSTER,
    .usage = "ID",
    .help = "remove a member",
    .examples = "lease member rm 4798ca909f8e8f3e\n",
    .words_min = 1,
    .words_max = 1,
    .run = member_rm,
};
const struct cli_command cli_command_member_promote = {
    .name = "member promote",
    .group = CLI_CLUSTER,
    .usage = "ID",
    .help = "let a learner that has caught up vote",
    .examples = "lease member promote 4798ca909f8e8f3e\n",
    .words_min = 1,
    .words_max = 1,
    .run = member_promote,
};
