/*
 * `lease advise`: which TTL would serve each class of sessions, from what the server remembers: how
 * long things were held, how they ended, and whether an expiry hit somebody who was alive (he had
 * the same thing again soon afterwards).
 */
#include "base/clock.h"
#include "cli/cli_format.h"
#include "cli/command_list.h"
#include "cli/hold.h"
#include "cli/metrics_page.h"
#include "cli/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    CLASSES = LEASE_CLASS_CACHE + 1,
    ENDS_MAX = 100000,
    EXPIRED_KEPT = 1024,
    QUIET_MS = 500, /* no more history comes */
    TTL_MS_MIN = 1000,
    FALSE_PERCENT_MAX = 1
};

static const struct option_entry options[] = {
    {"--since", 0, "REVISION", "use the history from this revision on (all of it)"},
    {NULL, 0, NULL, NULL},
};

/* ---- gathering --------------------------------------------------------------------------------
 */

struct class_history {
    size_t n_ended;
    size_t n_expired;
    size_t n_false; /* of those expired: their owners had it again within a TTL */
    int64_t ttl_ms; /* the longest that was seen */
    int64_t *held_ms;
    size_t n_held;
};

/* An expiry whose owner may come back. */
struct expired {
    uint64_t who; /* a hash of owner and resource */
    int64_t wall_ms;
    int64_t ttl_ms;
    enum lease_class purpose;
};

struct adviser {
    struct cli *cli;
    struct class_history classes[CLASSES];
    struct expired expired[EXPIRED_KEPT];
    size_t n_expired;
    uint64_t last_change_ms;
    bool is_over;
    bool is_failed;
};

static uint64_t hash_text(uint64_t hash, const char *text) {
    for (; text != NULL && *text != '\0'; text++) {
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    }
    return hash * UINT64_C(31) + 1;
}

static uint64_t who_of(const struct lease_acquisition *acquisition) {
    char owner[CLI_TEXT_SIZE_MAX];
    char wants[CLI_TEXT_SIZE_MAX];
    return hash_text(
        hash_text(UINT64_C(14695981039346656037), cli_plain(acquisition->owner, owner)),
        cli_wants(acquisition, wants));
}

static void take_acquired(struct adviser *adviser, const struct lease_acquisition *acquisition) {
    uint64_t who = who_of(acquisition);
    for (size_t i = 0; i < adviser->n_expired && i < EXPIRED_KEPT; i++) {
        struct expired *each = &adviser->expired[i];
        if (each->who == who && acquisition->acquired_wall_ms >= each->wall_ms &&
            acquisition->acquired_wall_ms - each->wall_ms <= each->ttl_ms) {
            adviser->classes[each->purpose].n_false++;
            each->who = 0;
        }
    }
}

static void take_ended(struct adviser *adviser, const struct lease_ended *ended) {
    const struct lease_acquisition *acquisition = ended->acquisition;
    const struct lease_session_info *session = ended->session;
    if (acquisition == NULL || session == NULL || acquisition->token == 0 ||
        (unsigned)session->purpose >= CLASSES) {
        return;
    }
    struct class_history *history = &adviser->classes[session->purpose];
    history->n_ended++;
    history->ttl_ms = session->ttl_ms > history->ttl_ms ? session->ttl_ms : history->ttl_ms;
    if (history->n_held < ENDS_MAX && acquisition->acquired_wall_ms > 0 &&
        ended->wall_ms >= acquisition->acquired_wall_ms) {
        history->held_ms[history->n_held++] = ended->wall_ms - acquisition->acquired_wall_ms;
    }
    if (ended->reason == LEASE_END_EXPIRED) {
        history->n_expired++;
        adviser->expired[adviser->n_expired++ % EXPIRED_KEPT] =
            (struct expired){.who = who_of(acquisition),
                             .wall_ms = ended->wall_ms,
                             .ttl_ms = session->ttl_ms,
                             .purpose = session->purpose};
    }
}

static void on_change(const struct lease_change *change, enum lease_status status,
                      const char *reason, void *context) {
    struct adviser *adviser = context;
    adviser->last_change_ms = clock_boottime_ms();
    if (change == NULL) {
        adviser->is_over = true;
        adviser->is_failed = true;
        cli_lease_failed(adviser->cli, status, reason);
    } else if (change->type == LEASE_CHANGE_ENDED && change->ended != NULL) {
        take_ended(adviser, change->ended);
    } else if (change->type == LEASE_CHANGE_ACQUIRED && change->acquisition != NULL) {
        take_acquired(adviser, change->acquisition);
    }
}

/* ---- advice -----------------------------------------------------------------------------------
 */

struct advice {
    int64_t ttl_ms;
    const char *why;
};

static struct advice advise(const struct class_history *history) {
    if (history->n_false * 100 > history->n_ended * FALSE_PERCENT_MAX) {
        return (struct advice){history->ttl_ms * 2,
                               "expiries hit holders that were alive: give them longer"};
    }
    if (history->n_expired > history->n_false && history->ttl_ms / 2 >= TTL_MS_MIN) {
        return (struct advice){
            history->ttl_ms / 2,
            "after each crash the next one waited for the TTL, and nobody alive lost it"};
    }
    return (struct advice){history->ttl_ms, "it fits: nobody alive lost it"};
}

static int compare_times(const void *left, const void *right) {
    int64_t a = *(const int64_t *)left;
    int64_t b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

static int64_t held_at(const struct class_history *history, size_t percent) {
    return history->n_held > 0 ? history->held_ms[(history->n_held - 1) * percent / 100] : -1;
}

static const struct table_column columns[] = {
    {"CLASS", false},        {"ENDED", true},    {"EXPIRED", true},
    {"OF THEM ALIVE", true}, {"HELD P50", true}, {"HELD P99", true},
    {"TTL", true},           {"ADVISED", true},  {"WHY", false}};

static void print_advice(const struct adviser *adviser) {
    struct table table;
    table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (int i = 0; i < CLASSES; i++) {
        const struct class_history *history = &adviser->classes[i];
        char time[CLI_WALL_SIZE_MAX];
        if (history->n_ended == 0) {
            continue;
        }
        struct advice advice = advise(history);
        table_add(&table, "%s", cli_class_text((enum lease_class)i));
        table_add(&table, "%zu", history->n_ended);
        table_add(&table, "%zu", history->n_expired);
        table_add(&table, "%zu", history->n_false);
        table_add(&table, "%s", cli_remaining(held_at(history, 50), time));
        table_add(&table, "%s", cli_remaining(held_at(history, 99), time));
        table_add(&table, "%s", cli_remaining(history->ttl_ms, time));
        table_add(&table, "%s", cli_remaining(advice.ttl_ms, time));
        table_add(&table, "%s", advice.why);
    }
    table_print(&table, stdout);
    table_clear(&table);
}

static void print_json(const struct adviser *adviser) {
    json_t *array = json_array();
    for (int i = 0; i < CLASSES; i++) {
        const struct class_history *history = &adviser->classes[i];
        if (history->n_ended == 0) {
            continue;
        }
        struct advice advice = advise(history);
        json_array_append_new(array, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:s}",
                                               "class", cli_class_text((enum lease_class)i),
                                               "ended", (json_int_t)history->n_ended, "expired",
                                               (json_int_t)history->n_expired, "expired_alive",
                                               (json_int_t)history->n_false, "held_p50_ms",
                                               (json_int_t)held_at(history, 50), "held_p99_ms",
                                               (json_int_t)held_at(history, 99), "ttl_ms",
                                               (json_int_t)history->ttl_ms, "advised_ttl_ms",
                                               (json_int_t)advice.ttl_ms, "why", advice.why));
    }
    cli_print_json(json_pack("{s:o}", "classes", array));
}

/* ---- the command ------------------------------------------------------------------------------
 */

/* The first revision whose history is kept, as far as the metrics tell. */
static int64_t first_revision(struct cli *cli) {
    char *page = NULL;
    if (metrics_page_fetch(cli, &cli->endpoints.items[0], &page) != STATUS_OK) {
        return 1;
    }
    double compacted = metrics_page_value(page, "leased_compacted_revision", 0);
    free(page);
    return (int64_t)compacted + 1;
}

static enum cli_exit gather(struct adviser *adviser, int64_t revision) {
    const struct hold_options none = {.title = "advise"};
    struct lease_watch *watch = NULL;
    struct hold hold;
    enum cli_exit result = hold_open(&hold, adviser->cli, &none);
    enum lease_status status = LEASE_OK;
    if (result == CLI_OK) {
        status = lease_connect(hold.connection);
    }
    if (result == CLI_OK && status == LEASE_OK) {
        status = lease_watch_changes(hold.connection, "", revision, on_change, adviser, &watch);
    }
    if (status != LEASE_OK) {
        result = cli_lease_failed(adviser->cli, status, NULL);
    }
    adviser->last_change_ms = clock_boottime_ms();
    while (result == CLI_OK && !adviser->is_over &&
           clock_boottime_ms() - adviser->last_change_ms < QUIET_MS) {
        if (!hold_wait_until(&hold, clock_boottime_ms() + QUIET_MS / 10)) {
            result = (enum cli_exit)(CLI_SIGNAL + hold.signal_number);
        }
    }
    lease_watch_destroy(watch);
    hold_close(&hold);
    return adviser->is_failed || result == CLI_NOT_RUN ? CLI_FAILED : result;
}

static enum cli_exit run(struct cli *cli) {
    static struct adviser adviser;
    int64_t revision;
    adviser.cli = cli;
    if (!arguments_number(&cli->arguments, "--since", 0,
                          (struct arguments_range){.min = 1, .max = INT64_MAX}, &revision)) {
        return cli_usage(cli, "%s", cli->arguments.error);
    }
    for (int i = 0; i < CLASSES; i++) {
        adviser.classes[i].held_ms = calloc(ENDS_MAX, sizeof(int64_t));
        if (adviser.classes[i].held_ms == NULL) {
            abort();
        }
    }
    enum cli_exit result = gather(&adviser, revision > 0 ? revision : first_revision(cli));
    for (int i = 0; i < CLASSES; i++) {
        qsort(adviser.classes[i].held_ms, adviser.classes[i].n_held, sizeof(int64_t),
              compare_times);
    }
    if (result == CLI_OK && cli->json) {
        print_json(&adviser);
    } else if (result == CLI_OK) {
        print_advice(&adviser);
    }
    for (int i = 0; i < CLASSES; i++) {
        free(adviser.classes[i].held_ms);
    }
    return result;
}

const struct cli_command cli_command_advise = {
    .name = "advise",
    .group = CLI_LOOK,
    .usage = "",
    .help = "suggest TTLs from the history of holds and expiries",
    .more =
        "For each class of sessions: how long things were held, how many expired, and how many of "
        "those hit\n"
        "a holder that was alive, because the same owner had the same thing again within a TTL.\n",
    .examples = "lease advise\nlease advise --since 120000 --json\n",
    .options = options,
    .run = run,
};
