/*
 * `lease status`: each endpoint in a row; one that does not answer is reported on standard error
 * and makes the command fail, the others are shown all the same. A node answers for itself without
 * a quorum, so a cluster that has lost its majority is shown too, and makes the command fail.
 */
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/table.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

#define HEX_SIZE_MAX 17

/* The number of leases is a linearizable read: without a quorum nobody can answer it. */
enum { LEASES_TIMEOUT_MS = 1000 };

struct endpoint_status {
    char endpoint[ENDPOINT_HOST_SIZE_MAX + 16];
    char version[64];
    char member[HEX_SIZE_MAX];
    char leader[HEX_SIZE_MAX];
    bool has_leader;
    bool has_leases; /* n_leases is known */
    uint64_t term;
    int64_t revision;
    int64_t db_size_bytes;
    size_t n_leases;
    uint64_t latency_us;
};

static void format_hex(uint64_t number, char room[HEX_SIZE_MAX]) {
    snprintf(room, HEX_SIZE_MAX, "%" PRIx64, number);
}

/* --- Asking. --- */

static void on_timeout(uv_timer_t *timer) {
    *(bool *)timer->data = true;
}

/* True when the answer came in time; the caller destroys the client otherwise, and no callback
 * comes after that. */
static bool wait_at_most(struct cli *cli, const struct lease_wait *wait, uint64_t timeout_ms) {
    bool is_over = false;
    uv_timer_t timer;
    uv_timer_init(&cli->loop, &timer);
    timer.data = &is_over;
    uv_timer_start(&timer, on_timeout, timeout_ms, 0);
    while (!wait->done && !is_over) {
        uv_run(&cli->loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(&cli->loop, UV_RUN_NOWAIT);
    return wait->done;
}

static void ask_leases(struct cli *cli, struct lease_client *client, struct lease_wait *wait,
                       struct endpoint_status *status) {
    uint64_t timeout_ms = cli->timeout_ms < LEASES_TIMEOUT_MS ? cli->timeout_ms : LEASES_TIMEOUT_MS;
    wait->loop = &cli->loop;
    if (lease_client_leases(client, lease_wait_done, wait) && wait_at_most(cli, wait, timeout_ms) &&
        wait->answer.code == GRPC_OK) {
        status->n_leases = wait->answer.leases->n_leases;
        status->has_leases = true;
    }
}

/* What the endpoint knows by itself. */
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
    status.has_leader = response->leader != 0;
    status.term = response->raftterm;
    status.db_size_bytes = response->dbsize;
    if (response->header != NULL) {
        format_hex(response->header->member_id, status.member);
        status.revision = response->header->revision;
    }
    *out_status = status;
    return true;
}

/* False: there is a problem with this endpoint, and it was reported. */
static bool ask_endpoint(struct cli *cli, const struct endpoint *endpoint,
                         struct endpoint_status *out_status, bool *out_is_up) {
    struct lease_client *client;
    struct lease_wait leases = {0};
    *out_is_up = false;
    if (!cli_connect_to(cli, endpoint, &client)) {
        return false;
    }
    *out_is_up = ask(cli, client, out_status);
    if (*out_is_up && out_status->has_leader) {
        ask_leases(cli, client, &leases, out_status);
    }
    cli_disconnect(cli, client);
    if (!*out_is_up) {
        return false;
    }
    if (!out_status->has_leader) {
        fprintf(stderr,
                "lease: %s knows no leader: a majority of the members is not running or not "
                "reachable, so writes wait; start the others, or see --force-new-cluster in "
                "docs/operations.md\n",
                out_status->endpoint);
    } else if (!out_status->has_leases) {
        fprintf(stderr,
                "lease: %s could not count the leases: its leader does not answer for a majority "
                "of the members; run this again in a moment\n",
                out_status->endpoint);
    }
    return out_status->has_leases;
}

/* --- Printing. --- */

static json_t *to_json(const struct endpoint_status *status) {
    json_t *leases = status->has_leases ? json_integer((json_int_t)status->n_leases) : json_null();
    return json_pack("{s:s, s:s, s:s, s:s?, s:I, s:I, s:I, s:o, s:f}", "endpoint", status->endpoint,
                     "version", status->version, "member_id", status->member, "leader",
                     status->has_leader ? status->leader : NULL, "raft_term",
                     (json_int_t)status->term, "revision", (json_int_t)status->revision,
                     "db_size_bytes", (json_int_t)status->db_size_bytes, "leases", leases,
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
    table_add(table, "%s",
              !status->has_leader                           ? "none"
              : strcmp(status->leader, status->member) == 0 ? "itself"
                                                            : status->leader);
    table_add(table, "%" PRIu64, status->term);
    table_add(table, "%" PRId64, status->revision);
    table_add(table, "%s", size);
    if (status->has_leases) {
        table_add(table, "%zu", status->n_leases);
    } else {
        table_add(table, "-");
    }
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
    bool is_all_well = true;
    for (size_t i = 0; i < cli->endpoints.n_items; i++) {
        bool is_up = false;
        is_all_well &= ask_endpoint(cli, &cli->endpoints.items[i], &statuses[n_statuses], &is_up);
        n_statuses += is_up ? 1 : 0;
    }
    print_statuses(cli, statuses, n_statuses);
    return is_all_well ? CLI_OK : CLI_FAILED;
}

const struct cli_command cli_command_status = {
    .name = "status",
    .usage = "",
    .help = "show each endpoint: version, leader, revision, leases",
    .run = run,
};
