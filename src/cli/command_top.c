/* `lease top`: a view of a cluster that is drawn anew every second: what the members do, and the
 * locks most waited for. */
#include "base/clock.h"
#include "base/duration.h"
#include "cli/cli_format.h"
#include "cli/command_list.h"
#include "cli/hold.h"
#include "cli/metrics_page.h"
#include "cli/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    INTERVAL_MS_MIN = 100,
    INTERVAL_MS = 1000,
    RESOURCES_MAX = 10,
    PAGE_SIZE = 256,
    ROUNDS_MAX = 1000000
};

static const struct option_entry options[] = {
    {"--interval", 'i', "TIME", "how often it is drawn (1s)"},
    {"--rounds", 0, "N", "end after so many views (none); 1 where the output is no terminal"},
    {NULL, 0, NULL, NULL},
};

/* ---- what the members do ----------------------------------------------------------------------
 */

enum counter { COUNT_RENEWALS, COUNT_ACQUIRED, COUNT_HANDED_OVER, COUNT_EXPIRIES, N_COUNTERS };

struct member_view {
    bool is_up;
    const char *problem;
    bool is_leader;
    double sessions;
    double waiting;
    double leases;
    double lateness_seconds; /* -1: none ended */
    double counters[N_COUNTERS];
    double rates[N_COUNTERS]; /* a second */
    uint64_t taken_at_us;     /* 0: never */
};

struct top {
    struct cli *cli;
    struct hold hold;
    struct member_view members[ENDPOINTS_MAX];
};

static void take_counters(struct member_view *member, const char *page) {
    uint64_t now_us = clock_boottime_us();
    double seconds = (double)(now_us - member->taken_at_us) / 1e6;
    const double counters[N_COUNTERS] = {
        [COUNT_RENEWALS] = metrics_page_value(page, "leased_lease_renewals_total", 0),
        [COUNT_ACQUIRED] = metrics_page_value(page, "leased_native_acquired_total", 0),
        [COUNT_HANDED_OVER] = metrics_page_value(page, "leased_native_handed_over_total", 0),
        [COUNT_EXPIRIES] = metrics_page_value(page, "leased_lease_expiries_total", 0),
    };
    for (int i = 0; i < N_COUNTERS; i++) {
        /* Less than before: it was started anew. */
        bool is_known = member->taken_at_us != 0 && counters[i] >= member->counters[i];
        member->rates[i] =
            is_known && seconds > 0 ? (counters[i] - member->counters[i]) / seconds : 0;
        member->counters[i] = counters[i];
    }
    member->taken_at_us = now_us;
}

static void look_at_member(struct top *top, size_t index) {
    struct member_view *member = &top->members[index];
    const struct endpoint *endpoint = &top->cli->endpoints.items[index];
    char *page = NULL;
    enum status status = metrics_page_fetch(top->cli, endpoint, &page);
    member->is_up = status == STATUS_OK;
    member->problem = status == STATUS_UNSUPPORTED ? "not shown over unixs://"
                      : status == STATUS_IO        ? "down"
                                                   : "no metrics, or refused";
    if (!member->is_up) {
        return;
    }
    take_counters(member, page);
    member->is_leader = metrics_page_value(page, "leased_raft_is_leader", 0) > 0;
    member->sessions = metrics_page_value(page, "leased_native_sessions", 0);
    member->waiting = metrics_page_value(page, "leased_native_waiting_calls", 0);
    member->leases = metrics_page_value(page, "leased_leases", 0);
    member->lateness_seconds =
        metrics_page_quantile(page, "leased_lease_expiry_lateness_seconds", 0.99);
    free(page);
}

static const struct table_column member_columns[] = {
    {"MEMBER", false},   {"STATE", false},      {"LEASES", true},     {"SESSIONS", true},
    {"WAITING", true},   {"RENEWALS/S", true},  {"ACQUIRED/S", true}, {"HANDED OVER/S", true},
    {"EXPIRED/S", true}, {"LATENESS P99", true}};
enum { N_MEMBER_COLUMNS = sizeof member_columns / sizeof member_columns[0] };

static void add_member(struct table *table, const struct top *top, size_t index) {
    const struct member_view *member = &top->members[index];
    char where[ENDPOINT_TEXT_SIZE_MAX];
    table_add(table, "%s", endpoint_format(&top->cli->endpoints.items[index], where));
    if (!member->is_up) {
        table_add(table, "%s", member->problem);
        for (int i = 2; i < N_MEMBER_COLUMNS; i++) {
            table_add(table, "-");
        }
        return;
    }
    table_add(table, "%s", member->is_leader ? "leader" : "follower");
    table_add(table, "%.0f", member->leases);
    table_add(table, "%.0f", member->sessions);
    table_add(table, "%.0f", member->waiting);
    for (int i = 0; i < N_COUNTERS; i++) {
        table_add(table, "%.0f", member->rates[i]);
    }
    if (member->lateness_seconds < 0) {
        table_add(table, "-");
    } else {
        table_add(table, "%.0f ms", member->lateness_seconds * 1000);
    }
}

static void print_members(const struct top *top) {
    struct table table;
    table_init(&table, member_columns, N_MEMBER_COLUMNS);
    for (size_t i = 0; i < top->cli->endpoints.n_items; i++) {
        add_member(&table, top, i);
    }
    table_print(&table, stdout);
    table_clear(&table);
}

/* ---- the locks most waited for ----------------------------------------------------------------
 */

static const struct table_column resource_columns[] = {{"RESOURCE", false}, {"HOLDER", false},
                                                       {"TOKEN", true},     {"HELD FOR", true},
                                                       {"WAITING", true},   {"LONGEST WAIT", true}};

static int compare_resources(const void *left, const void *right) {
    const struct lease_resource *a = *(const struct lease_resource *const *)left;
    const struct lease_resource *b = *(const struct lease_resource *const *)right;
    return a->n_waiting != b->n_waiting ? (a->n_waiting < b->n_waiting ? 1 : -1)
                                        : strcmp(a->name, b->name);
}

static const char *since(int64_t wall_ms, char room[CLI_WALL_SIZE_MAX]) {
    int64_t now_ms = clock_wall_ms();
    return cli_remaining(wall_ms > 0 && wall_ms <= now_ms ? now_ms - wall_ms : -1, room);
}

static void add_resource(struct table *table, struct lease_connection *connection,
                         const struct lease_resource *resource) {
    char text[CLI_TEXT_SIZE_MAX];
    char time[CLI_WALL_SIZE_MAX];
    const struct lease_resource *more = NULL;
    const struct lease_acquisition *holder = resource->n_holders > 0 ? &resource->holders[0] : NULL;
    table_add(table, "%s", cli_plain(resource->name, text));
    table_add(table, "%s", holder != NULL ? cli_plain(holder->owner, text) : "-");
    table_add(table, "%" PRId64, holder != NULL ? holder->token : 0);
    table_add(table, "%s", since(holder != NULL ? holder->acquired_wall_ms : 0, time));
    table_add(table, "%" PRIu32, resource->n_waiting);
    int64_t asked_ms = 0;
    if (resource->n_waiting > 0 &&
        lease_resource_get(connection, resource->name, 1, &more) == LEASE_OK) {
        asked_ms = more->n_first_waiting > 0 ? more->first_waiting[0].asked_wall_ms : 0;
    }
    table_add(table, "%s", since(asked_ms, time));
    lease_free(more);
}

static void print_resources(const struct top *top) {
    const struct lease_resource_list *list = NULL;
    if (lease_resource_list(top->hold.connection, "", NULL, PAGE_SIZE, &list) != LEASE_OK) {
        printf("\n%s\n", lease_error());
        return;
    }
    const struct lease_resource **sorted = calloc(list->n_items + 1, sizeof sorted[0]);
    struct table table;
    if (sorted == NULL) {
        abort();
    }
    for (size_t i = 0; i < list->n_items; i++) {
        sorted[i] = &list->items[i];
    }
    qsort(sorted, list->n_items, sizeof sorted[0], compare_resources);
    table_init(&table, resource_columns, sizeof resource_columns / sizeof resource_columns[0]);
    for (size_t i = 0; i < list->n_items && i < RESOURCES_MAX; i++) {
        add_resource(&table, top->hold.connection, sorted[i]);
    }
    putchar('\n');
    table_print(&table, stdout);
    table_clear(&table);
    free(sorted);
    lease_free(list);
}

/* ---- the command ------------------------------------------------------------------------------
 */

static json_t *member_json(const struct top *top, size_t index) {
    const struct member_view *member = &top->members[index];
    char where[ENDPOINT_TEXT_SIZE_MAX];
    endpoint_format(&top->cli->endpoints.items[index], where);
    if (!member->is_up) {
        return json_pack("{s:s, s:b, s:s}", "endpoint", where, "up", 0, "problem", member->problem);
    }
    return json_pack(
        "{s:s, s:b, s:b, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "endpoint", where, "up", 1,
        "leader", (int)member->is_leader, "leases", member->leases, "sessions", member->sessions,
        "waiting", member->waiting, "renewals_per_second", member->rates[COUNT_RENEWALS],
        "acquired_per_second", member->rates[COUNT_ACQUIRED], "handed_over_per_second",
        member->rates[COUNT_HANDED_OVER], "expired_per_second", member->rates[COUNT_EXPIRIES],
        "lateness_p99_seconds", member->lateness_seconds);
}

static void draw(struct top *top, bool is_screen) {
    for (size_t i = 0; i < top->cli->endpoints.n_items; i++) {
        look_at_member(top, i);
    }
    if (top->cli->json) {
        json_t *array = json_array();
        for (size_t i = 0; i < top->cli->endpoints.n_items; i++) {
            json_array_append_new(array, member_json(top, i));
        }
        cli_print_json(json_pack("{s:o}", "members", array));
    } else {
        fputs(is_screen ? "\033[H\033[J" : "", stdout);
        print_members(top);
        print_resources(top);
    }
    fflush(stdout);
}

static enum cli_exit run(struct cli *cli) {
    const struct hold_options none = {.title = "top"};
    struct top top = {.cli = cli};
    bool is_screen = isatty(STDOUT_FILENO) && !cli->json;
    int64_t interval_ms;
    int64_t rounds;
    if (!cli_time_option(cli, "--interval", INTERVAL_MS, INTERVAL_MS_MIN, &interval_ms)) {
        return CLI_USAGE;
    }
    if (!arguments_number(&cli->arguments, "--rounds", is_screen ? ROUNDS_MAX : 1,
                          (struct arguments_range){.min = 1, .max = ROUNDS_MAX}, &rounds)) {
        return cli_usage(cli, "%s", cli->arguments.error);
    }
    enum cli_exit result = hold_open(&top.hold, cli, &none);
    for (int64_t i = 0; result == CLI_OK && i < rounds; i++) {
        /* Rates need two looks. */
        if (i == 0) {
            for (size_t k = 0; k < cli->endpoints.n_items; k++) {
                look_at_member(&top, k);
            }
        }
        if (!hold_wait_until(&top.hold, clock_boottime_ms() + (uint64_t)interval_ms)) {
            break;
        }
        draw(&top, is_screen);
    }
    hold_close(&top.hold);
    return result == CLI_NOT_RUN ? CLI_FAILED : result;
}

const struct cli_command cli_command_top = {
    .name = "top",
    .group = CLI_LOOK,
    .usage = "",
    .help = "show every second what the members do and which locks are waited for",
    .more = "Renewals, acquisitions, hand-overs and expiries a second of each endpoint, how late "
            "expiries are,\n"
            "and the ten locks with the longest queues. Ctrl-C ends it.\n",
    .examples = "lease top\n"
                "lease --endpoints 10.0.0.1:2379,10.0.0.2:2379,10.0.0.3:2379 top --interval 5s\n"
                "lease top --rounds 1 --json\n",
    .options = options,
    .run = run,
};
