/*
 * `lease grant`: one lease, with a key attached if asked. When the key cannot be written the lease
 * is taken back, so that a failed command leaves nothing behind.
 */
#include "base/duration.h"
#include "cli/cli.h"
#include "cli/command_list.h"
#include "cli/lease_id.h"
#include "client/lease_client.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

struct grant {
    int64_t ttl_seconds;
    int64_t id;
    const char *key;
    const char *value;
    int64_t revision; /* of the key */
};

static const struct option_entry options[] = {
    {"--id", 0, "ID", "the id, in hex as shown by ls; without it the server chooses"},
    {"--key", 'k', "KEY", "attach this key"},
    {"--value", 'v', "VALUE", "the key's value (empty)"},
    {NULL, 0, NULL, NULL},
};

static enum cli_exit take_arguments(struct cli *cli, struct grant *grant) {
    const char *ttl = cli->arguments.words[1];
    int64_t ttl_ms;
    switch (duration_parse(ttl, DURATION_BARE_SECONDS, &ttl_ms)) {
    case STATUS_OK:
        break;
    case STATUS_INVALID:
        return cli_usage(cli, "TTL %s is too long", ttl);
    default:
        return cli_usage(cli, "TTL %s is not a time; give 10, 10s, 5m or 1h30m", ttl);
    }
    if (ttl_ms == 0) {
        return cli_usage(cli, "TTL %s: a lease lasts at least a second", ttl);
    }
    if (ttl_ms % 1000 != 0) {
        return cli_usage(cli,
                         "TTL %s: the etcd protocol counts whole seconds; "
                         "%" PRId64 "s is the next longer one",
                         ttl, ttl_ms / 1000 + 1);
    }
    grant->ttl_seconds = ttl_ms / 1000;
    const char *id = arguments_value(&cli->arguments, "--id");
    if (id != NULL && (lease_id_parse(id, &grant->id) != STATUS_OK || grant->id == 0)) {
        return cli_usage(cli, "--id %s is not an id; give one to sixteen hex digits, not zero", id);
    }
    grant->key = arguments_value(&cli->arguments, "--key");
    grant->value = arguments_value(&cli->arguments, "--value");
    if (grant->key == NULL && grant->value != NULL) {
        return cli_usage(cli, "--value needs --key");
    }
    if (grant->key != NULL && grant->key[0] == 0) {
        return cli_usage(cli, "--key is empty");
    }
    if (grant->value == NULL) {
        grant->value = "";
    }
    return CLI_OK;
}

static void print_grant(const struct cli *cli, const struct grant *grant) {
    char id[LEASE_ID_TEXT_SIZE_MAX];
    char ttl[DURATION_TEXT_SIZE_MAX];
    lease_id_format(grant->id, id);
    if (cli->json) {
        json_t *json = json_pack("{s:s, s:I}", "id", id, "ttl", (json_int_t)grant->ttl_seconds);
        if (grant->key != NULL) {
            /* Not every argument is UTF-8, and JSON knows nothing else. */
            json_t *key = json_string(grant->key);
            json_object_set_new(json, "key", key != NULL ? key : json_null());
            json_object_set_new(json, "revision", json_integer(grant->revision));
        }
        json_dumpf(json, stdout, JSON_COMPACT);
        putchar('\n');
        json_decref(json);
        return;
    }
    printf("lease %s granted, ttl %s", id, duration_format(grant->ttl_seconds * 1000, ttl));
    if (grant->key != NULL) {
        printf(", key %s at revision %" PRId64, grant->key, grant->revision);
    }
    putchar('\n');
}

static enum cli_exit attach_key(struct cli *cli, struct lease_client *client, struct grant *grant) {
    struct lease_wait wait = {0};
    bool started =
        lease_client_put(client, bytes_from_text(grant->key), bytes_from_text(grant->value),
                         grant->id, lease_wait_done, &wait);
    const struct lease_answer *answer = lease_client_wait(client, started, &wait);
    if (answer->code == GRPC_OK) {
        grant->revision = answer->put->header != NULL ? answer->put->header->revision : 0;
        return CLI_OK;
    }
    cli_failed(cli, answer);
    struct lease_wait undo = {0};
    started = lease_client_revoke(client, grant->id, lease_wait_done, &undo);
    if (lease_client_wait(client, started, &undo)->code != GRPC_OK) {
        char id[LEASE_ID_TEXT_SIZE_MAX];
        fprintf(stderr, "lease: lease %s stays until its TTL ends\n",
                lease_id_format(grant->id, id));
    }
    return CLI_FAILED;
}

static enum cli_exit run(struct cli *cli) {
    struct grant grant = {0};
    enum cli_exit result = take_arguments(cli, &grant);
    if (result != CLI_OK) {
        return result;
    }
    struct lease_client *client;
    if (!cli_connect(cli, &client)) {
        return CLI_FAILED;
    }
    struct lease_wait wait = {0};
    bool started = lease_client_grant(client, grant.ttl_seconds, grant.id, lease_wait_done, &wait);
    const struct lease_answer *answer = lease_client_wait(client, started, &wait);
    if (answer->code == GRPC_OK) {
        grant.id = answer->grant->id;
        grant.ttl_seconds = answer->grant->ttl;
        result = grant.key != NULL ? attach_key(cli, client, &grant) : CLI_OK;
    } else {
        result = cli_failed(cli, answer);
    }
    if (result == CLI_OK) {
        print_grant(cli, &grant);
    }
    cli_disconnect(cli, client);
    return result;
}

const struct cli_command cli_command_grant = {
    .name = "grant",
    .group = CLI_MANAGE,
    .usage = "TTL [--id ID] [--key KEY]",
    .help = "grant a lease, and attach a key to it",
    .more =
        "TTL is a time: 10 (seconds), 10s, 5m, 1h30m; whole seconds. The lease starts when the\n"
        "server answers, and ends unless it is renewed.\n",
    .examples = "lease grant 10s\n"
                "lease grant 5m --key /services/web/1 --value 10.0.0.1:80\n",
    .options = options,
    .words_min = 1,
    .words_max = 1,
    .run = run,
};
