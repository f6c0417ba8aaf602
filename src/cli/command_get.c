/* `lease get`: a resource: who has it and who waits for it. */
#include "cli/cli_format.h"
#include "cli/cli_lease.h"
#include "cli/command_list.h"
#include "cli/lease_id.h"

#include <inttypes.h>

enum { WAITERS_DEFAULT = 10, WAITERS_MAX = 1000 };

static const struct option_entry options[] = {
    {"--waiters", 0, "N", "how many waiters are shown (10)"},
    {NULL, 0, NULL, NULL},
};

static void print_acquisition(const char *title, const struct lease_acquisition *each) {
    char text[CLI_TEXT_SIZE_MAX];
    char id[LEASE_ID_TEXT_SIZE_MAX];
    char when[CLI_WALL_SIZE_MAX];
    bool is_held = each->stage == LEASE_STAGE_ACQUIRED;
    printf("%-9s %s, session %s", title, cli_plain(each->owner, text),
           lease_id_format(each->session_id, id));
    if (is_held) {
        printf(", token %" PRId64, each->token);
    }
    for (size_t i = 0; i < each->n_wants; i++) {
        if (each->wants[i].mode == LEASE_SHARED) {
            fputs(", shared", stdout);
            break;
        }
    }
    printf(", since %s",
           cli_wall_time(is_held ? each->acquired_wall_ms : each->asked_wall_ms, when));
    if (each->value != NULL && each->value[0] != '\0') {
        printf(", value %s", cli_plain(each->value, text));
    }
    putchar('\n');
}

static void print_resource(const struct lease_resource *resource) {
    char text[CLI_TEXT_SIZE_MAX];
    char time[CLI_WALL_SIZE_MAX];
    printf("%-9s %s\n", "name", cli_plain(resource->name, text));
    for (size_t i = 0; i < resource->n_holders; i++) {
        print_acquisition("holder", &resource->holders[i]);
    }
    if (resource->n_holders == 0) {
        printf("%-9s nobody\n", "holder");
    } else if (resource->remaining_ms >= 0) {
        printf("%-9s %s unless renewed\n", "remaining",
               cli_remaining(resource->remaining_ms, time));
    }
    printf("%-9s %" PRIu32 "\n", "waiting", resource->n_waiting);
    for (size_t i = 0; i < resource->n_first_waiting; i++) {
        char title[32];
        snprintf(title, sizeof title, "%zu", i + 1);
        print_acquisition(title, &resource->first_waiting[i]);
    }
}

static json_t *array_of(const struct lease_acquisition *items, size_t n_items) {
    json_t *array = json_array();
    for (size_t i = 0; i < n_items; i++) {
        json_array_append_new(array, cli_acquisition_json(&items[i]));
    }
    return array;
}

static json_t *resource_json(const struct lease_resource *resource) {
    return json_pack("{s:o, s:o, s:I, s:o, s:I, s:I, s:I}", "name", cli_json_text(resource->name),
                     "holders", array_of(resource->holders, resource->n_holders), "waiting",
                     (json_int_t)resource->n_waiting, "first_waiting",
                     array_of(resource->first_waiting, resource->n_first_waiting), "remaining_ms",
                     (json_int_t)resource->remaining_ms, "last_token",
                     (json_int_t)resource->last_token, "revision", (json_int_t)resource->revision);
}

static enum cli_exit run(struct cli *cli) {
    struct lease_connection *connection;
    const struct lease_resource *resource = NULL;
    int64_t n_waiters;
    if (!arguments_number(&cli->arguments, "--waiters", WAITERS_DEFAULT,
                          (struct arguments_range){.min = 0, .max = WAITERS_MAX}, &n_waiters)) {
        return cli_usage(cli, "%s", cli->arguments.error);
    }
    enum cli_exit result = cli_open(cli, &connection);
    if (result != CLI_OK) {
        return result;
    }
    enum lease_status status =
        lease_resource_get(connection, cli->arguments.words[1], (uint32_t)n_waiters, &resource);
    if (status != LEASE_OK) {
        result = cli_lease_failed(cli, status, NULL);
    } else if (cli->json) {
        cli_print_json(resource_json(resource));
    } else {
        print_resource(resource);
    }
    lease_free(resource);
    lease_close(connection);
    return result;
}

const struct cli_command cli_command_get = {
    .name = "get",
    .group = CLI_LOOK,
    .usage = "NAME",
    .help = "show a lock or an election: the holder and the waiters",
    .examples = "lease get backup\nlease get scheduler --json\n",
    .options = options,
    .words_min = 1,
    .words_max = 1,
    .run = run,
};
