/* `lease discover`: the instances of a service, once or with every change. */
#include "cli/command_list.h"
#include "cli/hold.h"
#include "cli/instance_format.h"

#include <string.h>

enum { TAGS_MAX = 32, LOOK_MS = 1000 };

static const struct option_entry options[] = {
    {"--watch", 'w', NULL, "print again with every change, until Ctrl-C"},
    {"--all", 0, NULL, "also those that are not serving: draining, critical, starting"},
    {"--tag", 0, "TAG", "only those with it; may be given several times"},
    {"--near", 0, "ZONE", "those of this zone first"},
    {NULL, 0, NULL, NULL},
};

struct discovering {
    struct cli *cli;
    struct lease_service *service;
    bool is_over;
    bool has_news;
};

static void print_json(const struct lease_instance_list *list) {
    json_t *instances = json_array();
    for (size_t i = 0; i < list->n_items; i++) {
        json_array_append_new(instances, cli_instance_json(&list->items[i]));
    }
    json_t *json = cli_service_json(&list->service);
    json_object_set_new(json, "instances", instances);
    json_object_set_new(json, "age_ms", json_integer(list->age_ms));
    cli_print_json(json);
}

/* The number of instances; -1: nothing could be printed. */
static int print(struct discovering *discovering) {
    const struct lease_instance_list *list = NULL;
    if (lease_service_instances(discovering->service, &list) != LEASE_OK) {
        cli_lease_failed(discovering->cli, LEASE_OK, NULL);
        return -1;
    }
    int n = (int)list->n_items;
    if (discovering->cli->json) {
        print_json(list);
    } else {
        cli_print_instances(list);
    }
    lease_free(list);
    return fflush(stdout) == 0 ? n : -1;
}

static void on_change(struct lease_service *service, enum lease_status status, const char *reason,
                      void *context) {
    struct discovering *discovering = context;
    (void)service;
    if (status == LEASE_OK) {
        discovering->has_news = true;
    } else {
        discovering->is_over = true;
        cli_lease_failed(discovering->cli, status, reason);
    }
}

static enum cli_exit watch(struct discovering *discovering, struct hold *hold) {
    bool is_first = true;
    while (!discovering->is_over && hold_wait_for_news(hold, LOOK_MS, &discovering->has_news)) {
        if (!discovering->has_news) {
            continue;
        }
        discovering->has_news = false;
        if (!is_first && !discovering->cli->json) {
            putchar('\n');
        }
        is_first = false;
        if (print(discovering) < 0) {
            return CLI_FAILED;
        }
    }
    return discovering->is_over ? CLI_FAILED : CLI_OK;
}

static enum cli_exit run_with(struct discovering *discovering, struct hold *hold,
                              const struct lease_service_options *wanted) {
    struct cli *cli = discovering->cli;
    if (lease_service_open(hold->connection, wanted, &discovering->service) != LEASE_OK) {
        return cli_lease_failed(cli, LEASE_OK, NULL);
    }
    if (lease_service_wait(discovering->service, (int64_t)cli->timeout_ms) != LEASE_OK) {
        return cli_lease_failed(cli, LEASE_OK, NULL);
    }
    if (arguments_has(&cli->arguments, "--watch")) {
        discovering->has_news = true;
        return watch(discovering, hold);
    }
    int n = print(discovering);
    return n > 0 ? CLI_OK : CLI_FAILED;
}

static enum cli_exit run(struct cli *cli) {
    struct discovering discovering = {.cli = cli};
    const struct hold_options none = {.title = cli->arguments.words[1]};
    const char *tags[TAGS_MAX];
    struct lease_service_options wanted = LEASE_SERVICE_OPTIONS_INIT;
    struct hold hold;
    for (size_t i = 0; i < cli->arguments.n_given; i++) {
        if (strcmp(cli->arguments.given[i].option->name, "--tag") == 0 &&
            wanted.n_tags < TAGS_MAX) {
            tags[wanted.n_tags++] = cli->arguments.given[i].value;
        }
    }
    wanted.service = cli->arguments.words[1];
    wanted.zone = arguments_value(&cli->arguments, "--near");
    wanted.tags = tags;
    wanted.with_unhealthy = arguments_has(&cli->arguments, "--all");
    wanted.callback = on_change;
    wanted.context = &discovering;
    enum cli_exit result = hold_open(&hold, cli, &none);
    if (result == CLI_OK) {
        result = run_with(&discovering, &hold, &wanted);
    }
    lease_service_close(discovering.service);
    hold_close(&hold);
    return result == CLI_NOT_RUN ? CLI_FAILED : result;
}

const struct cli_command cli_command_discover = {
    .name = "discover",
    .group = CLI_LOOK,
    .usage = "SERVICE",
    .help = "list the instances of a service",
    .more =
        "Those that serve: up, and no check critical. An instance that is marked `kept` has lost\n"
        "its lease together with many others, and the mass-failure guard keeps it listed; a line\n"
        "before the list says so. The exit code is 1 when there is none.\n",
    .examples = "lease discover web\n"
                "lease discover web --tag v2 --near a --json\n"
                "lease discover web --all --watch\n",
    .options = options,
    .words_min = 1,
    .words_max = 1,
    .run = run,
};
