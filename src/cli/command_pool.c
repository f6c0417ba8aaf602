/* `lease pool set|ls|rm`: pools of named slots. */
#include "cli/cli_format.h"
#include "cli/cli_lease.h"
#include "cli/command_list.h"
#include "cli/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS_MAX = 1024, SHARES_MAX = 16, WEIGHT_MAX = 1000 };

/* ---- set --------------------------------------------------------------------------------------
 */

static const struct option_entry set_options[] = {
    {"--hold-limit", 0, "TIME", "slots are released after this time (no limit)"},
    {"--share", 0, "OWNER=WEIGHT", "this owner's share (1); may be given several times"},
    {NULL, 0, NULL, NULL},
};

/* Cuts `text` at its commas. 0: an empty name, or too many. */
static size_t cut_slots(char *text, const char *slots[SLOTS_MAX]) {
    size_t n = 0;
    char *slot;
    while ((slot = strsep(&text, ",")) != NULL) {
        if (slot[0] == '\0' || n == SLOTS_MAX) {
            return 0;
        }
        slots[n++] = slot;
    }
    return n;
}

static enum cli_exit take_share(struct cli *cli, char *text, struct lease_share *out_share) {
    char *equals = strrchr(text, '=');
    char *end = NULL;
    unsigned long weight = equals != NULL ? strtoul(equals + 1, &end, 10) : 0;
    if (equals == NULL || equals == text || *end != '\0' || weight == 0 || weight > WEIGHT_MAX) {
        return cli_usage(cli, "--share %s: OWNER=WEIGHT is needed, with a weight from 1 to %d",
                         text, WEIGHT_MAX);
    }
    *equals = '\0';
    *out_share = (struct lease_share){.owner = text, .weight = (uint32_t)weight};
    return CLI_OK;
}

/* `shares[i].owner` is to be freed. */
static enum cli_exit take_shares(struct cli *cli, struct lease_share shares[SHARES_MAX],
                                 size_t *n_shares) {
    for (size_t i = 0; i < cli->arguments.n_given; i++) {
        if (strcmp(cli->arguments.given[i].option->name, "--share") != 0) {
            continue;
        }
        if (*n_shares == SHARES_MAX) {
            return cli_usage(cli, "more than %d shares", SHARES_MAX);
        }
        char *text = strdup(cli->arguments.given[i].value);
        enum cli_exit result = take_share(cli, text, &shares[*n_shares]);
        if (result != CLI_OK) {
            free(text);
            return result;
        }
        (*n_shares)++;
    }
    return CLI_OK;
}

static enum cli_exit set_pool(struct cli *cli, const struct lease_pool *pool) {
    struct lease_connection *connection;
    enum cli_exit result = cli_open(cli, &connection);
    if (result != CLI_OK) {
        return result;
    }
    enum lease_status status = lease_pool_set(connection, pool);
    if (status != LEASE_OK) {
        result = cli_lease_failed(cli, status, NULL);
    } else if (cli->json) {
        cli_print_json(json_pack("{s:o, s:I}", "pool", cli_json_text(pool->name), "slots",
                                 (json_int_t)pool->n_slots));
    } else {
        printf("pool %s has %zu slot%s\n", pool->name, pool->n_slots,
               pool->n_slots == 1 ? "" : "s");
    }
    lease_close(connection);
    return result;
}

static enum cli_exit run_set(struct cli *cli) {
    const char *slots[SLOTS_MAX];
    struct lease_share shares[SHARES_MAX];
    size_t n_shares = 0;
    struct lease_pool pool = {.name = cli->arguments.words[1], .slots = slots, .shares = shares};
    char *text = strdup(cli->arguments.words[2]);
    enum cli_exit result = take_shares(cli, shares, &n_shares);
    pool.n_shares = n_shares;
    pool.n_slots = cut_slots(text, slots);
    if (result == CLI_OK && pool.n_slots == 0) {
        result = cli_usage(cli, "SLOTS %s: names with commas between are needed, as in 0,1,2,3",
                           cli->arguments.words[2]);
    }
    if (result == CLI_OK && !cli_time_option(cli, "--hold-limit", 0, 1, &pool.hold_limit_ms)) {
        result = CLI_USAGE;
    }
    if (result == CLI_OK) {
        result = set_pool(cli, &pool);
    }
    for (size_t i = 0; i < n_shares; i++) {
        free((char *)(uintptr_t)shares[i].owner);
    }
    free(text);
    return result;
}

const struct cli_command cli_command_pool_set = {
    .name = "pool set",
    .group = CLI_MANAGE,
    .usage = "POOL SLOTS",
    .help = "make a pool of named slots, or change it",
    .more = "A slot that is no longer named and is in use is removed when it is released.\n",
    .examples = "lease pool set gpus 0,1,2,3\n"
                "lease pool set licenses a,b --hold-limit 8h --share ci=3\n",
    .options = set_options,
    .words_min = 2,
    .words_max = 2,
    .run = run_set,
};

/* ---- ls ---------------------------------------------------------------------------------------
 */

static const struct table_column columns[] = {
    {"POOL", false}, {"SLOT", false}, {"STATE", false}, {"OWNER", false}, {"TOKEN", true}};

static const struct lease_slot_state *find_taken(const struct lease_pool *pool, const char *slot) {
    for (size_t i = 0; i < pool->n_taken; i++) {
        if (strcmp(pool->taken[i].slot, slot) == 0) {
            return &pool->taken[i];
        }
    }
    return NULL;
}

static void add_slot(struct table *table, const struct lease_pool *pool, const char *slot,
                     const struct lease_slot_state *taken) {
    char text[CLI_TEXT_SIZE_MAX];
    table_add(table, "%s", cli_plain(pool->name, text));
    table_add(table, "%s", cli_plain(slot, text));
    table_add(table, "%s", taken != NULL ? "taken" : "free");
    table_add(table, "%s", taken != NULL ? cli_plain(taken->owner, text) : "-");
    if (taken != NULL) {
        table_add(table, "%" PRId64, taken->token);
    } else {
        table_add(table, "-");
    }
}

static void print_pools(const struct lease_pool_list *list) {
    struct table table;
    table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < list->n_items; i++) {
        for (size_t k = 0; k < list->items[i].n_slots; k++) {
            const char *slot = list->items[i].slots[k];
            add_slot(&table, &list->items[i], slot, find_taken(&list->items[i], slot));
        }
    }
    table_print(&table, stdout);
    table_clear(&table);
    for (size_t i = 0; i < list->n_items; i++) {
        char text[CLI_TEXT_SIZE_MAX];
        if (list->items[i].n_waiting > 0) {
            printf("%s: %" PRIu32 " waiting\n", cli_plain(list->items[i].name, text),
                   list->items[i].n_waiting);
        }
    }
}

static json_t *pool_json(const struct lease_pool *pool) {
    json_t *slots = json_array();
    for (size_t i = 0; i < pool->n_slots; i++) {
        const struct lease_slot_state *taken = find_taken(pool, pool->slots[i]);
        json_array_append_new(
            slots, json_pack("{s:o, s:o, s:I}", "slot", cli_json_text(pool->slots[i]), "owner",
                             taken != NULL ? cli_json_text(taken->owner) : json_null(), "token",
                             (json_int_t)(taken != NULL ? taken->token : 0)));
    }
    return json_pack("{s:o, s:o, s:I, s:I}", "pool", cli_json_text(pool->name), "slots", slots,
                     "hold_limit_ms", (json_int_t)pool->hold_limit_ms, "waiting",
                     (json_int_t)pool->n_waiting);
}

static enum cli_exit run_ls(struct cli *cli) {
    struct lease_connection *connection;
    const struct lease_pool_list *list = NULL;
    enum cli_exit result = cli_open(cli, &connection);
    if (result != CLI_OK) {
        return result;
    }
    enum lease_status status = lease_pool_list(connection, &list);
    if (status != LEASE_OK) {
        result = cli_lease_failed(cli, status, NULL);
    } else if (cli->json) {
        json_t *array = json_array();
        for (size_t i = 0; i < list->n_items; i++) {
            json_array_append_new(array, pool_json(&list->items[i]));
        }
        cli_print_json(json_pack("{s:o}", "pools", array));
    } else {
        print_pools(list);
    }
    lease_free(list);
    lease_close(connection);
    return result;
}

const struct cli_command cli_command_pool_ls = {
    .name = "pool ls",
    .group = CLI_LOOK,
    .usage = "",
    .help = "list pools: each slot, and who has it",
    .examples = "lease pool ls\nlease pool ls --json\n",
    .run = run_ls,
};

/* ---- rm ---------------------------------------------------------------------------------------
 */

static enum cli_exit run_rm(struct cli *cli) {
    struct lease_connection *connection;
    enum cli_exit result = cli_open(cli, &connection);
    if (result != CLI_OK) {
        return result;
    }
    enum lease_status status = lease_pool_remove(connection, cli->arguments.words[1]);
    if (status != LEASE_OK) {
        result = cli_lease_failed(cli, status, NULL);
    } else if (!cli->json) {
        printf("pool %s removed\n", cli->arguments.words[1]);
    } else {
        cli_print_json(json_pack("{s:o}", "removed", cli_json_text(cli->arguments.words[1])));
    }
    lease_close(connection);
    return result;
}

const struct cli_command cli_command_pool_rm = {
    .name = "pool rm",
    .group = CLI_MANAGE,
    .usage = "POOL",
    .help = "remove a pool that nobody uses",
    .more = "Refused while a slot of it is in use or waited for.\n",
    .examples = "lease pool rm gpus\n",
    .words_min = 1,
    .words_max = 1,
    .run = run_rm,
};
