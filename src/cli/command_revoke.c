/* `lease revoke`: ends sessions of others, by id, by owner, or by what they have. */
#include "cli/cli_format.h"
#include "cli/cli_lease.h"
#include "cli/command_list.h"
#include "cli/lease_id.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE_SIZE = 256, SESSIONS_MAX = 65536 };

static const struct option_entry options[] = {
    {"--prefix", 0, "NAME", "all sessions that hold a lock whose name begins so"},
    {"--owner", 0, "NAME", "all sessions of this owner; NAME* for all that begin so"},
    {"--dry-run", 0, NULL, "print what would be ended, and end nothing"},
    {NULL, 0, NULL, NULL},
};

/* ---- which ------------------------------------------------------------------------------------
 */

struct chosen {
    int64_t *ids;
    size_t n;
};

static bool choose(struct chosen *chosen, int64_t id) {
    for (size_t i = 0; i < chosen->n; i++) {
        if (chosen->ids[i] == id) {
            return true;
        }
    }
    if (chosen->n == SESSIONS_MAX) {
        return false;
    }
    chosen->ids[chosen->n++] = id;
    return true;
}

static enum lease_status choose_by_owner(struct lease_connection *connection, const char *owner,
                                         struct chosen *chosen) {
    char prefix[CLI_TEXT_SIZE_MAX];
    size_t size = strlen(owner);
    bool is_prefix = size > 0 && owner[size - 1] == '*';
    int64_t after_id = 0;
    snprintf(prefix, sizeof prefix, "%.*s", (int)(size - (is_prefix ? 1 : 0)), owner);
    for (bool is_more = true; is_more;) {
        const struct lease_session_list *page;
        enum lease_status status =
            lease_session_list(connection, prefix, after_id, PAGE_SIZE, 0, &page);
        if (status != LEASE_OK) {
            return status;
        }
        for (size_t i = 0; i < page->n_items; i++) {
            after_id = page->items[i].id;
            if (is_prefix || strcmp(page->items[i].owner, owner) == 0) {
                choose(chosen, after_id);
            }
        }
        is_more = page->more && page->n_items > 0;
        lease_free(page);
    }
    return LEASE_OK;
}

static enum lease_status choose_by_resource(struct lease_connection *connection, const char *prefix,
                                            struct chosen *chosen) {
    char after[CLI_TEXT_SIZE_MAX] = "";
    for (bool is_more = true; is_more;) {
        const struct lease_resource_list *page;
        enum lease_status status = lease_resource_list(
            connection, prefix, after[0] != '\0' ? after : NULL, PAGE_SIZE, &page);
        if (status != LEASE_OK) {
            return status;
        }
        for (size_t i = 0; i < page->n_items; i++) {
            for (size_t k = 0; k < page->items[i].n_holders; k++) {
                choose(chosen, page->items[i].holders[k].session_id);
            }
            snprintf(after, sizeof after, "%s", page->items[i].name);
        }
        is_more = page->more && page->n_items > 0;
        lease_free(page);
    }
    return LEASE_OK;
}

/* ---- the command ------------------------------------------------------------------------------
 */

static enum lease_status end_one(struct cli *cli, struct lease_connection *connection, int64_t id) {
    enum lease_status status = lease_end_id(connection, id);
    struct lease_connection *other = cli_open_for_lease(cli, connection, status);
    if (other != NULL) {
        status = lease_end_id(other, id);
        lease_close(other);
    }
    return status;
}

static enum cli_exit end_all(struct cli *cli, struct lease_connection *connection,
                             const struct chosen *chosen) {
    bool is_dry = arguments_has(&cli->arguments, "--dry-run");
    json_t *ended = json_array();
    enum cli_exit result = CLI_OK;
    for (size_t i = 0; i < chosen->n; i++) {
        char id[LEASE_ID_TEXT_SIZE_MAX];
        enum lease_status status = is_dry ? LEASE_OK : end_one(cli, connection, chosen->ids[i]);
        lease_id_format(chosen->ids[i], id);
        if (status != LEASE_OK) {
            fprintf(stderr, "lease: %s: %s\n", id, lease_error());
            result = CLI_FAILED;
            continue;
        }
        json_array_append_new(ended, json_string(id));
        if (!cli->json) {
            printf("%s %s\n", id, is_dry ? "would be revoked" : "revoked");
        }
    }
    if (cli->json) {
        cli_print_json(json_pack("{s:o}", "revoked", ended));
    } else {
        json_decref(ended);
    }
    if (chosen->n == 0) {
        fputs("lease: there is no such session\n", stderr);
        result = CLI_FAILED;
    }
    return result;
}

static enum lease_status choose_all(struct cli *cli, struct lease_connection *connection,
                                    int64_t id, struct chosen *chosen) {
    const char *owner = arguments_value(&cli->arguments, "--owner");
    const char *prefix = arguments_value(&cli->arguments, "--prefix");
    if (owner != NULL) {
        return choose_by_owner(connection, owner, chosen);
    }
    if (prefix != NULL) {
        return choose_by_resource(connection, prefix, chosen);
    }
    choose(chosen, id);
    return LEASE_OK;
}

static enum cli_exit run(struct cli *cli) {
    struct lease_connection *connection;
    int64_t id = 0;
    bool is_id = cli->arguments.n_words > 1;
    bool is_owner = arguments_value(&cli->arguments, "--owner") != NULL;
    bool is_prefix = arguments_value(&cli->arguments, "--prefix") != NULL;
    if (is_id + is_owner + is_prefix != 1) {
        return cli_usage(cli, "missing argument: give an ID, --prefix NAME or --owner NAME");
    }
    if (is_id && (lease_id_parse(cli->arguments.words[1], &id) != STATUS_OK || id == 0)) {
        return cli_usage(cli, "ID %s is not an id; `lease ls` shows sessions, leases and their ids",
                         cli->arguments.words[1]);
    }
    struct chosen chosen = {.ids = calloc(SESSIONS_MAX, sizeof chosen.ids[0])};
    if (chosen.ids == NULL) {
        abort();
    }
    enum cli_exit result = cli_open(cli, &connection);
    if (result == CLI_OK) {
        enum lease_status status = choose_all(cli, connection, id, &chosen);
        result = status == LEASE_OK ? end_all(cli, connection, &chosen)
                                    : cli_lease_failed(cli, status, NULL);
        lease_close(connection);
    }
    free(chosen.ids);
    return result;
}

const struct cli_command cli_command_revoke = {
    .name = "revoke",
    .group = CLI_MANAGE,
    .usage = "ID | --prefix NAME | --owner NAME",
    .help = "end sessions of others, with all that they have, or a lease",
    .more = "What they have is handed to the next at once, and their commands are ended. `lease "
            "why` tells\n"
            "who did it.\n",
    .examples = "lease revoke 694d7c8d2b6ab807\n"
                "lease revoke --owner 'web-1:*' --dry-run\n"
                "lease revoke --prefix jobs/\n",
    .options = options,
    .words_max = 1,
    .run = run,
};
