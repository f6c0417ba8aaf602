/*
 * `lease ls`: every lease with its granted and remaining time and how many keys it holds. The
 * protocol lists ids alone, so each lease is asked for, a bounded number at a time.
 */
#include "base/duration.h"
#include "base/progress.h"
#include "cli/cli.h"
#include "cli/lease_id.h"
#include "cli/table.h"

#include <jansson.h>
#include <stdlib.h>

#define IN_FLIGHT_MAX 256

struct row {
    int64_t id;
    int64_t granted_seconds;
    int64_t remaining_seconds; /* negative: it ended while we listed */
    size_t n_keys;
};

struct listing;

/* Asks for one lease after the other. */
struct asker {
    struct listing *listing;
    struct row *row;
};

struct listing {
    struct cli *cli;
    struct lease_client *client;
    struct progress progress;
    struct row *rows;
    size_t n_rows;
    size_t next;
    size_t answered;
    size_t in_flight;
    bool failed; /* and reported */
    struct asker askers[IN_FLIGHT_MAX];
};

static void ask_next(struct asker *asker);

static void fail(struct listing *listing, const struct lease_answer *answer) {
    if (!listing->failed) {
        listing->failed = true;
        progress_end(&listing->progress);
        cli_failed(listing->cli, answer);
    }
}

static void on_answer(void *context, const struct lease_answer *answer) {
    struct asker *asker = context;
    struct listing *listing = asker->listing;
    listing->in_flight--;
    if (listing->in_flight == 0) {
        uv_stop(&listing->cli
                     ->loop); /* a deadline may have ended it, and nothing else wakes the loop */
    }
    if (answer->code != GRPC_OK) {
        fail(listing, answer);
        return;
    }
    asker->row->granted_seconds = answer->time_to_live->grantedttl;
    asker->row->remaining_seconds = answer->time_to_live->ttl;
    asker->row->n_keys = answer->time_to_live->n_keys;
    listing->answered++;
    progress_update(&listing->progress, listing->answered, listing->n_rows);
    ask_next(asker);
}

static void ask_next(struct asker *asker) {
    struct listing *listing = asker->listing;
    if (listing->failed || listing->next == listing->n_rows) {
        return;
    }
    asker->row = &listing->rows[listing->next++];
    if (lease_client_time_to_live(listing->client, asker->row->id, true, on_answer, asker)) {
        listing->in_flight++;
    } else {
        fail(listing,
             &(struct lease_answer){.code = GRPC_UNAVAILABLE, .text = "the connection was lost"});
    }
}

static enum cli_exit fetch_ids(struct listing *listing) {
    struct lease_wait wait = {0};
    bool started = lease_client_leases(listing->client, lease_wait_done, &wait);
    const struct lease_answer *answer = lease_client_wait(listing->client, started, &wait);
    if (answer->code != GRPC_OK) {
        return cli_failed(listing->cli, answer);
    }
    size_t n_rows = answer->leases->n_leases;
    listing->rows = calloc(n_rows + 1, sizeof *listing->rows);
    if (listing->rows == NULL) {
        fprintf(stderr, "lease: %zu leases are too many for the memory here\n", n_rows);
        return CLI_FAILED;
    }
    listing->n_rows = n_rows;
    for (size_t i = 0; i < n_rows; i++) {
        listing->rows[i].id = answer->leases->leases[i]->id;
    }
    return CLI_OK;
}

static enum cli_exit fetch_rows(struct listing *listing) {
    for (size_t i = 0; i < IN_FLIGHT_MAX; i++) {
        listing->askers[i].listing = listing;
        ask_next(&listing->askers[i]);
    }
    while (listing->in_flight > 0) {
        uv_run(&listing->cli->loop, UV_RUN_ONCE);
    }
    progress_end(&listing->progress);
    return listing->failed ? CLI_FAILED : CLI_OK;
}

/* The one that ends next comes first. */
static int compare_rows(const void *left, const void *right) {
    const struct row *a = left;
    const struct row *b = right;
    if (a->remaining_seconds != b->remaining_seconds) {
        return a->remaining_seconds < b->remaining_seconds ? -1 : 1;
    }
    return (a->id > b->id) - (a->id < b->id);
}

static void print_json(const struct listing *listing) {
    /* Row by row: a million leases as one document in memory would be most of a gigabyte. */
    const char *separator = "";
    fputs("{\"leases\":[", stdout);
    for (size_t i = 0; i < listing->n_rows; i++) {
        const struct row *row = &listing->rows[i];
        if (row->remaining_seconds < 0) {
            continue;
        }
        char id[LEASE_ID_TEXT_SIZE_MAX];
        json_t *json =
            json_pack("{s:s, s:I, s:I, s:I}", "id", lease_id_format(row->id, id), "granted_ttl",
                      (json_int_t)row->granted_seconds, "remaining_ttl",
                      (json_int_t)row->remaining_seconds, "keys", (json_int_t)row->n_keys);
        fputs(separator, stdout);
        json_dumpf(json, stdout, JSON_COMPACT);
        json_decref(json);
        separator = ",";
    }
    fputs("]}\n", stdout);
}

static const struct table_column columns[] = {
    {"ID", false},
    {"TTL", true},
    {"REMAINING", true},
    {"KEYS", true},
};
#define N_COLUMNS (sizeof columns / sizeof columns[0])

static void print_table(const struct listing *listing) {
    struct table table;
    table_init(&table, columns, N_COLUMNS);
    for (size_t i = 0; i < listing->n_rows; i++) {
        const struct row *row = &listing->rows[i];
        char room[DURATION_TEXT_SIZE_MAX];
        if (row->remaining_seconds < 0) {
            continue;
        }
        table_add(&table, "%s", lease_id_format(row->id, room));
        table_add(&table, "%s", duration_format(row->granted_seconds * 1000, room));
        table_add(&table, "%s", duration_format(row->remaining_seconds * 1000, room));
        table_add(&table, "%zu", row->n_keys);
    }
    table_print(&table, stdout);
    table_clear(&table);
}

static enum cli_exit run(struct cli *cli) {
    struct listing listing = {.cli = cli};
    if (!cli_connect(cli, &listing.client)) {
        return CLI_FAILED;
    }
    progress_init(&listing.progress, "leases");
    enum cli_exit result = fetch_ids(&listing);
    if (result == CLI_OK) {
        result = fetch_rows(&listing);
    }
    if (result == CLI_OK) {
        qsort(listing.rows, listing.n_rows, sizeof listing.rows[0], compare_rows);
        if (cli->json) {
            print_json(&listing);
        } else {
            print_table(&listing);
        }
    }
    free(listing.rows);
    cli_disconnect(cli, listing.client);
    return result;
}

const struct cli_command cli_command_ls = {
    .name = "ls",
    .usage = "",
    .help = "list the leases: time granted and remaining, keys",
    .run = run,
};
