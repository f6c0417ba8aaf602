/*
 * `lease status`: each endpoint in a row; one that does not answer is reported on standard error
 * and makes the command fail, the others are shown all the same. So is a node without a leader.
 */
#include "cli/command_list.h"
#include "cli/status_probe.h"
#include "cli/table.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

static json_t *to_json(const struct endpoint_status *status) {
    json_t *leases = status->has_leases ? json_integer((json_int_t)status->n_leases) : json_null();
    return json_pack("{s:s, s:s, s:s, s:s, s:s?, s:I, s:I, s:I, s:o, s:f}", "endpoint",
                     status->endpoint, "version", status->version, "cluster_version",
                     status->cluster_version, "member_id", status->member, "leader",
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
    struct cli_user user;
    bool is_all_well = false;
    enum cli_exit result = cli_user_take(cli, &user);
    if (result != CLI_OK) {
        return result;
    }
    size_t n_statuses = status_probe_all(cli, &user, statuses, &is_all_well);
    print_statuses(cli, statuses, n_statuses);
    return is_all_well ? CLI_OK : CLI_FAILED;
}

const struct cli_command cli_command_status = {
    .name = "status",
    .group = CLI_LOOK,
    .usage = "",
    .help = "show each endpoint: version, leader, revision, leases",
    .examples = "lease status\n"
                "lease --endpoints 10.0.0.1:2379,10.0.0.2:2379 status --json\n",
    .run = run,
};
