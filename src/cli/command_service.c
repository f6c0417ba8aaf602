/* `lease service ls|show|drain|undrain|deregister|set`: services and instances, for operators. */
#include "base/duration.h"
#include "cli/cli_lease.h"
#include "cli/command_list.h"
#include "cli/instance_format.h"
#include "cli/table.h"

#include <inttypes.h>
#include <string.h>

enum { NAME_SIZE = 256, PERCENT_MAX = 101, MINIMUM_MAX = 1000000 };

/* ---- ls ---------------------------------------------------------------------------------------
 */

static const struct table_column list_columns[] = {
    {"SERVICE", false}, {"LIVE", true}, {"LOST", true}, {"GUARD", false}, {"REVISION", true}};

static void add_service(const struct cli *cli, struct table *table,
                        const struct lease_service_info *service) {
    char text[CLI_TEXT_SIZE_MAX];
    if (cli->json) {
        cli_print_json(cli_service_json(service));
        return;
    }
    table_add(table, "%s", cli_plain(service->name, text));
    table_add(table, "%u", service->n_live);
    table_add(table, "%u", service->n_lost);
    table_add(table, "%s",
              service->is_guarded                              ? "on"
              : service->settings.guard_percent >= PERCENT_MAX ? "disabled"
                                                               : "-");
    table_add(table, "%" PRId64, service->revision);
}

static enum cli_exit run_ls(struct cli *cli) {
    const char *prefix = cli->arguments.n_words > 1 ? cli->arguments.words[1] : "";
    struct lease_connection *connection = NULL;
    const struct lease_service_list *list = NULL;
    struct table table;
    char after[NAME_SIZE] = "";
    bool more = true;
    enum cli_exit result = cli_open(cli, &connection);
    if (result != CLI_OK) {
        return result;
    }
    table_init(&table, list_columns, sizeof list_columns / sizeof list_columns[0]);
    while (result == CLI_OK && more) {
        if (lease_service_list(connection, prefix, after, 0, &list) != LEASE_OK) {
            result = cli_lease_failed(cli, LEASE_OK, NULL);
            break;
        }
        for (size_t i = 0; i < list->n_items; i++) {
            add_service(cli, &table, &list->items[i]);
        }
        more = list->more && list->n_items > 0;
        if (more) {
            snprintf(after, sizeof after, "%s", list->items[list->n_items - 1].name);
        }
        lease_free(list);
    }
    if (result == CLI_OK && !cli->json) {
        table_print(&table, stdout);
    }
    table_clear(&table);
    lease_close(connection);
    return result;
}

const struct cli_command cli_command_service_ls = {
    .name = "service ls",
    .group = CLI_LOOK,
    .usage = "[PREFIX]",
    .help = "list services",
    .examples = "lease service ls\nlease service ls shop-\n",
    .words_max = 1,
    .run = run_ls,
};

/* ---- show -------------------------------------------------------------------------------------
 */

static void print_settings(const struct lease_service_info *service) {
    char grace[DURATION_TEXT_SIZE_MAX];
    char window[DURATION_TEXT_SIZE_MAX];
    char hold[DURATION_TEXT_SIZE_MAX];
    const struct lease_service_settings *settings = &service->settings;
    printf("live %u, lost %u, guarded %" PRIu64 " times, revision %" PRId64 "\n", service->n_live,
           service->n_lost, service->n_guarded, service->revision);
    if (settings->guard_percent >= PERCENT_MAX) {
        printf("grace %s, no guard\n", duration_format(settings->grace_ms, grace));
        return;
    }
    printf("grace %s; guard: at least %u and %u%% lost within %s are kept for %s\n",
           duration_format(settings->grace_ms, grace), settings->guard_minimum,
           settings->guard_percent, duration_format(settings->guard_window_ms, window),
           duration_format(settings->guard_hold_ms, hold));
}

static enum cli_exit show(struct cli *cli, struct lease_connection *connection) {
    struct lease_service_options wanted = LEASE_SERVICE_OPTIONS_INIT;
    struct lease_service *service = NULL;
    const struct lease_instance_list *list = NULL;
    wanted.service = cli->arguments.words[1];
    wanted.with_unhealthy = true;
    enum cli_exit result = CLI_OK;
    if (lease_service_open(connection, &wanted, &service) != LEASE_OK ||
        lease_service_wait(service, (int64_t)cli->timeout_ms) != LEASE_OK ||
        lease_service_instances(service, &list) != LEASE_OK) {
        result = cli_lease_failed(cli, LEASE_OK, NULL);
    } else if (cli->json) {
        json_t *instances = json_array();
        for (size_t i = 0; i < list->n_items; i++) {
            json_array_append_new(instances, cli_instance_json(&list->items[i]));
        }
        json_t *json = cli_service_json(&list->service);
        json_object_set_new(json, "instances", instances);
        cli_print_json(json);
    } else {
        print_settings(&list->service);
        cli_print_instances(list);
    }
    if (result == CLI_OK && list->n_items == 0) {
        result = CLI_FAILED;
    }
    lease_free(list);
    lease_service_close(service);
    return result;
}

/* Connects, does it, disconnects. */
static enum cli_exit with_connection(struct cli *cli,
                                     enum cli_exit (*run)(struct cli *cli,
                                                          struct lease_connection *connection)) {
    struct lease_connection *connection = NULL;
    enum cli_exit result = cli_open(cli, &connection);
    if (result == CLI_OK) {
        result = run(cli, connection);
        lease_close(connection);
    }
    return result;
}

static enum cli_exit run_show(struct cli *cli) {
    return with_connection(cli, show);
}

const struct cli_command cli_command_service_show = {
    .name = "service show",
    .group = CLI_LOOK,
    .usage = "SERVICE",
    .help = "show a service: its settings, its guard, all its instances",
    .more = "The exit code is 1 when it has no instances.\n",
    .examples = "lease service show web\n",
    .words_min = 1,
    .words_max = 1,
    .run = run_show,
};

/* ---- drain and undrain ------------------------------------------------------------------------
 */

/* What was done to an instance; the JSON gets service and id. */
static enum cli_exit tell_done(const struct cli *cli, json_t *json, const char *done) {
    char service[CLI_TEXT_SIZE_MAX];
    char id[CLI_TEXT_SIZE_MAX];
    const char *const *words = cli->arguments.words;
    if (cli->json) {
        json_object_set_new(json, "service", cli_json_text(words[1]));
        json_object_set_new(json, "id", cli_json_text(words[2]));
        cli_print_json(json);
    } else {
        json_decref(json);
        printf("%s %s %s\n", cli_plain(words[1], service), cli_plain(words[2], id), done);
    }
    return CLI_OK;
}

static enum cli_exit drain(struct cli *cli, struct lease_connection *connection) {
    const char *const *words = cli->arguments.words;
    return lease_instance_override(connection, words[1], words[2], LEASE_INSTANCE_DRAINING) ==
                   LEASE_OK
               ? tell_done(cli, json_pack("{s:s}", "override", "draining"),
                           "is draining: it is given no new work until it is undrained")
               : cli_lease_failed(cli, LEASE_OK, NULL);
}

static enum cli_exit undrain(struct cli *cli, struct lease_connection *connection) {
    const char *const *words = cli->arguments.words;
    return lease_instance_override(connection, words[1], words[2], LEASE_INSTANCE_DEFAULT) ==
                   LEASE_OK
               ? tell_done(cli, json_pack("{s:n}", "override"), "has its own state again")
               : cli_lease_failed(cli, LEASE_OK, NULL);
}

static enum cli_exit run_drain(struct cli *cli) {
    return with_connection(cli, drain);
}

static enum cli_exit run_undrain(struct cli *cli) {
    return with_connection(cli, undrain);
}

const struct cli_command cli_command_service_drain = {
    .name = "service drain",
    .group = CLI_MANAGE,
    .usage = "SERVICE ID",
    .help = "give an instance no new work, whatever its own state is",
    .more = "This takes precedence over the instance's own state, until `lease service undrain`.\n",
    .examples = "lease service drain web 10.0.0.1:80\n",
    .words_min = 2,
    .words_max = 2,
    .run = run_drain,
};

const struct cli_command cli_command_service_undrain = {
    .name = "service undrain",
    .group = CLI_MANAGE,
    .usage = "SERVICE ID",
    .help = "let an instance's own state count again",
    .examples = "lease service undrain web 10.0.0.1:80\n",
    .words_min = 2,
    .words_max = 2,
    .run = run_undrain,
};

/* ---- deregister -------------------------------------------------------------------------------
 */

static const struct option_entry deregister_options[] = {
    {"--drain", 0, "TIME", "how long it is draining before (not at all)"},
    {NULL, 0, NULL, NULL},
};

static enum cli_exit deregister(struct cli *cli, struct lease_connection *connection) {
    const char *const *words = cli->arguments.words;
    int64_t drain_ms = 0;
    if (!cli_time_option(cli, "--drain", 0, 0, &drain_ms)) {
        return CLI_USAGE;
    }
    return lease_instance_deregister(connection, words[1], words[2], drain_ms) == LEASE_OK
               ? tell_done(cli, json_pack("{s:I}", "drain_ms", (json_int_t)drain_ms),
                           drain_ms > 0 ? "is draining, and goes then" : "deregistered")
               : cli_lease_failed(cli, LEASE_OK, NULL);
}

static enum cli_exit run_deregister(struct cli *cli) {
    return with_connection(cli, deregister);
}

const struct cli_command cli_command_service_deregister = {
    .name = "service deregister",
    .group = CLI_MANAGE,
    .usage = "SERVICE ID",
    .help = "take an instance out of the registry",
    .more = "A process that still renews it registers again: stop the process "
            "first,\nor drain it.\n",
    .examples = "lease service deregister web 10.0.0.1:80 --drain 30s\n",
    .options = deregister_options,
    .words_min = 2,
    .words_max = 2,
    .run = run_deregister,
};

/* ---- set --------------------------------------------------------------------------------------
 */

static const struct option_entry set_options[] = {
    {"--grace", 0, "TIME", "added to the TTL of its instances (0)"},
    {"--guard-percent", 0, "N", "share that must be lost at once (50); 101: no guard"},
    {"--guard-minimum", 0, "N", "how many must be lost (3)"},
    {"--guard-window", 0, "TIME", "the time that counts as at once (30s)"},
    {"--guard-hold", 0, "TIME", "how long lost instances stay listed (5m)"},
    {NULL, 0, NULL, NULL},
};

static enum cli_exit set(struct cli *cli, struct lease_connection *connection) {
    struct lease_service_settings settings = {0};
    int64_t percent = 0;
    int64_t minimum = 0;
    if (!cli_time_option(cli, "--grace", 0, 0, &settings.grace_ms) ||
        !cli_time_option(cli, "--guard-window", 0, 1, &settings.guard_window_ms) ||
        !cli_time_option(cli, "--guard-hold", 0, 1, &settings.guard_hold_ms)) {
        return CLI_USAGE;
    }
    if (!arguments_number(&cli->arguments, "--guard-percent", 0,
                          (struct arguments_range){.min = 1, .max = PERCENT_MAX}, &percent) ||
        !arguments_number(&cli->arguments, "--guard-minimum", 0,
                          (struct arguments_range){.min = 1, .max = MINIMUM_MAX}, &minimum)) {
        return cli_usage(cli, "%s", cli->arguments.error);
    }
    settings.guard_percent = (uint32_t)percent;
    settings.guard_minimum = (uint32_t)minimum;
    const char *service = cli->arguments.words[1];
    if (lease_service_set(connection, service, &settings) != LEASE_OK) {
        return cli_lease_failed(cli, LEASE_OK, NULL);
    }
    if (cli->json) {
        cli_print_json(json_pack("{s:o}", "service", cli_json_text(service)));
    } else {
        char text[CLI_TEXT_SIZE_MAX];
        printf("the settings of %s were changed\n", cli_plain(service, text));
    }
    return CLI_OK;
}

static enum cli_exit run_set(struct cli *cli) {
    return with_connection(cli, set);
}

const struct cli_command cli_command_service_set = {
    .name = "service set",
    .group = CLI_MANAGE,
    .usage = "SERVICE",
    .help = "set a service's grace and its mass-failure guard",
    .more = "Options that are not given get their defaults. The guard keeps lost instances listed "
            "when so\n"
            "many are lost at once that the network is more likely at fault than they are.\n",
    .examples = "lease service set web --grace 2s --guard-percent 30\n"
                "lease service set batch --guard-percent 101  # no guard\n",
    .options = set_options,
    .words_min = 1,
    .words_max = 1,
    .run = run_set,
};
