/*
 * `lease status`: each endpoint in a row; one that does not answer is told on standard error and
 * makes the command fail, the others are shown all the same.
 */
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/table.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#define HEX_SIZE_MAX 17

struct endpoint_status {
    char endpoint[ENDPOINT_HOST_SIZE_MAX + 16];
    char version[64];
    char member[HEX_SIZE_MAX];
    char leader[HEX_SIZE_MAX];
    uint64_t term;
    int64_t revision;
    int64_t db_size_bytes;
    size_t n_leases;
    uint64_t latency_us;
};

static void format_hex(uint64_t number, char room[HEX_SIZE_MAX]) {
    snprintf(room, HEX_SIZE_MAX, "%" PRIx64, number);
}

static bool ask(struct cli *cli, struct lease_client *client, struct endpoint_status *out_status) {
    struct endpoint_status status = {0};
    struct lease_wait wait = {0};
    uint64_t start_us = clock_boottime_us();
    const struct lease_answer *answer =
        lease_client_wait(client, lease_client_status(client, lease_wait_done, &wait), &wait);
    if (answer->code != GRPC_OK) {
        cli_failed(cli, answer);
        return false;
    }
    status.latency_us = clock_boottime_us() - start_us;
    const Etcdserverpb__StatusResponse *response = answer->status;
    endpoint_format(cli->endpoint, status.endpoint, sizeof status.endpoint);
    snprintf(status.version, sizeof status.version, "%s", response->version);
    format_hex(response->leader, status.leader);
    status.term = response->raftterm;
    status.db_size_bytes = response->dbsize;
    if (response->header != NULL) {
        format_hex(response->header->member_id, status.member);
        status.revision = response->header->revision;
    }
    struct lease_wait leases = {0};
    answer =
        lease_client_wait(client, lease_client_leases(client, lease_wait_done, &leases), &leases);
    if (answer->code != GRPC_OK) {
        cli_failed(cli, answer);
        return false;
    }
    status.n_leases = answer->leases->n_leases;
    *out_status = status;
    return true;
}

static json_t *to_json(const struct endpoint_status *status) {
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:f}", "endpoint", status->endpoint,
                     "version", status->version, "member_id", status->member, "leader",
                     status->leader, "raft_term", (json_int_t)status->term, "revision",
                     (json_int_t)status->revision, "db_size_bytes",
                     (json_int_t)status->db_size_bytes, "leases", (json_int_t)status->n_leases,
                     "latency_ms", (double)status->latency_us / 1000.0);
}

static void format_size(int64_t size_bytes, char *room, size_t room_size) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)size_bytes;
    size_t unit = 0;
    while (size >= 1024 && unit + 1 < sizeof units / sizeof units[0]) {
        size /= 1024;
        unit++;
    }
    snprintf(room, room_size, unit == 0 ? "%.0f %s" : "%.1f %s", size, units[unit]);
}

static const struct table_column columns[] = {
    {"ENDPOINT", false}, {"VERSION", false}, {"MEMBER", false}, {"LEADER", false}, {"TERM", true},
    {"REVISION", true},  {"DB SIZE", true},  {"LEASES", true},  {"LATENCY", true},
};
#define N_COLUMNS (sizeof columns / sizeof columns[0])

static void add_row(struct table *table, const struct endpoint_status *status) {
    char size[32];
    format_size(status->db_size_bytes, size, sizeof size);
    table_add(table, "%s", status->endpoint);
    table_add(table, "%s", status->version);
    table_add(table, "%s", status->member);
    table_add(table, "%s", strcmp(status->leader, status->member) == 0 ? "itself" : status->leader);
    table_add(table, "%" PRIu64, status->term);
    table_add(table, "%" PRId64, status->revision);
    table_add(table, "%s", size);
    table_add(table, "%zu", status->n_leases);
    table_add(table, "%.2f ms", (double)status->latency_us / 1000.0);
}

static void print_statuses(const struct cli *cli, const struct endpoint_status *statuses,
                           size_t n_statuses) {
    if (cli->json) {
        json_t *array = json_array();
        for (size_t i = 0; i < n_statuses; i++) {
            json_array_append_new(array, to_json(&statuses[i]));
        }
        json_t *json = json_pack("{s:o}", "endpoints", array);
        json_dumpf(json, stdout, JSON_COMPACT | JSON_REAL_PRECISION(6));
        putchar('\n');
        json_decref(json);
    } else if (n_statuses > 0) {
        struct table table;
        table_init(&table, columns, N_COLUMNS);
        for (size_t i = 0; i < n_statuses; i++) {
            add_row(&table, &statuses[i]);
        }
        table_print(&table, stdout);
        table_clear(&table);
    }
}

static enum cli_exit run(struct cli *cli) {
    struct endpoint_status statuses[ENDPOINTS_MAX];
    size_t n_statuses = 0;
    for (size_t i = 0; i < cli->endpoints.n_items; i++) {
        struct lease_client *client;
        if (cli_connect_to(cli, &cli->endpoints.items[i], &client)) {
            n_statuses += ask(cli, client, &statuses[n_statuses]) ? 1 : 0;
            cli_disconnect(cli, client);
        }
    }
    print_statuses(cli, statuses, n_statuses);
    return n_statuses == cli->endpoints.n_items ? CLI_OK : CLI_FAILED;
}

const struct cli_command cli_command_status = {
    .name = "status",
    .usage = "",
    .help = "show each endpoint: version, leader, revision, leases",
    .run = run,
};
