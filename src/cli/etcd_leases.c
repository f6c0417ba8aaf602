#include "cli/etcd_leases.h"

#include "base/duration.h"
#include "base/progress.h"
#include "cli/lease_id.h"
#include "cli/table.h"
#include "client/lease_client.h"

#include <jansson.h>
#include <stdlib.h>

#define IN_FLIGHT_MAX 256

struct row {
    int64_t id;
    int64_t granted_seconds;
    int64_t remaining_seconds; /* negative: it ended while we listed */
    size_t n_keys;
};

struct etcd_leases;

/* Asks for one lease after the other. */
struct asker {
    struct etcd_leases *listing;
    struct row *row;
};

struct etcd_leases {
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

static void fail(struct etcd_leases *listing, const struct lease_answer *answer) {
    if (!listing->failed) {
        listing->failed = true;
        progress_end(&listing->progress);
        cli_failed(listing->cli, answer);
    }
}

static void on_answer(void *context, const struct lease_answer *answer) {
    struct asker *asker = context;
    struct etcd_leases *listing = asker->listing;
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
    struct etcd_leases *listing = asker->listing;
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

static enum cli_exit fetch_ids(struct etcd_leases *listing) {
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

static enum cli_exit fetch_rows(struct etcd_leases *listing) {
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

enum cli_exit etcd_leases_fetch(struct cli *cli, struct etcd_leases **out_leases) {
    struct etcd_leases *listing = calloc(1, sizeof *listing);
    if (listing == NULL) {
        fputs("lease: out of memory\n", stderr);
        return CLI_FAILED;
    }
    listing->cli = cli;
    if (!cli_connect(cli, &listing->client)) {
        free(listing);
        return CLI_FAILED;
    }
    progress_init(&listing->progress, "leases");
    enum cli_exit result = fetch_ids(listing);
    if (result == CLI_OK) {
        result = fetch_rows(listing);
    }
    cli_disconnect(cli, listing->client);
    if (result != CLI_OK) {
        etcd_leases_destroy(listing);
        return result;
    }
    qsort(listing->rows, listing->n_rows, sizeof listing->rows[0], compare_rows);
    *out_leases = listing;
    return CLI_OK;
}

void etcd_leases_destroy(struct etcd_leases *leases) {
    if (leases != NULL) {
        free(leases->rows);
        free(leases);
    }
}

size_t etcd_leases_count(const struct etcd_leases *leases) {
    return leases->n_rows;
}

void etcd_leases_print_json(const struct etcd_leases *leases) {
    /* Row by row: a million leases as one document in memory would be most of a gigabyte. */
    const char *separator = "";
    putchar('[');
    for (size_t i = 0; i < leases->n_rows; i++) {
        const struct row *row = &leases->rows[i];
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
    putchar(']');
}

static const struct table_column columns[] = {
    {"ID", false},
    {"TTL", true},
    {"REMAINING", true},
    {"KEYS", true},
};
#define N_COLUMNS (sizeof columns / sizeof columns[0])

void etcd_leases_print_table(const struct etcd_leases *leases) {
    struct table table;
    table_init(&table, columns, N_COLUMNS);
    for (size_t i = 0; i < leases->n_rows; i++) {
        const struct row *row = &leases->rows[i];
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
