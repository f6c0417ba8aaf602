/*
 * `lease ls`: who has what. A tree of owners, their sessions and what these have or wait for; then
 * the leases of the etcd API. A server that knows etcd's API alone has only the latter.
 */
#include "base/duration.h"
#include "cli/cli_format.h"
#include "cli/cli_lease.h"
#include "cli/command_list.h"
#include "cli/etcd_leases.h"
#include "cli/lease_id.h"
#include "cli/table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PAGE_SIZE = 256 };

static const struct option_entry options[] = {
    {"--owner", 0, "PREFIX", "only sessions whose owner begins with this, and no leases"},
    {NULL, 0, NULL, NULL},
};

/* ---- the sessions -----------------------------------------------------------------------------
 */

/* Pages as they came. */
struct sessions {
    const struct lease_session_list **pages;
    size_t n_pages;
    size_t n_sessions;
};

static void clear_sessions(struct sessions *sessions) {
    for (size_t i = 0; i < sessions->n_pages; i++) {
        lease_free(sessions->pages[i]);
    }
    free(sessions->pages);
}

static enum lease_status fetch_sessions(struct lease_connection *connection, const char *prefix,
                                        struct sessions *sessions) {
    int64_t after_id = INT64_MIN;
    for (bool is_more = true; is_more;) {
        const struct lease_session_list *page;
        enum lease_status status =
            lease_session_list(connection, prefix, sessions->n_pages == 0 ? 0 : after_id, PAGE_SIZE,
                               LEASE_WITH_ACQUISITIONS | LEASE_WITH_REMAINING, &page);
        if (status != LEASE_OK) {
            return status;
        }
        const struct lease_session_list **pages =
            realloc(sessions->pages, (sessions->n_pages + 1) * sizeof pages[0]);
        if (pages == NULL) {
            abort();
        }
        sessions->pages = pages;
        sessions->pages[sessions->n_pages++] = page;
        sessions->n_sessions += page->n_items;
        is_more = page->more && page->n_items > 0;
        after_id = page->n_items > 0 ? page->items[page->n_items - 1].id : after_id;
    }
    return LEASE_OK;
}

/* ---- as a tree --------------------------------------------------------------------------------
 */

struct row {
    const struct lease_session_info *session;
    const struct lease_session_list *page;
};

static int compare_rows(const void *left, const void *right) {
    const struct row *a = left;
    const struct row *b = right;
    int order = strcmp(a->session->owner, b->session->owner);
    return order != 0 ? order
                      : (a->session->id > b->session->id) - (a->session->id < b->session->id);
}

static const struct table_column columns[] = {{"OWNER, SESSION, RESOURCE", false},
                                              {"STATE", false},
                                              {"TOKEN", true},
                                              {"TTL", true},
                                              {"REMAINING", true}};

static void add_acquisitions(struct table *table, const struct row *row) {
    char text[CLI_TEXT_SIZE_MAX];
    for (size_t i = 0; i < row->page->n_acquisitions; i++) {
        const struct lease_acquisition *each = &row->page->acquisitions[i];
        if (each->session_id != row->session->id) {
            continue;
        }
        bool is_held = each->stage == LEASE_STAGE_ACQUIRED;
        table_add(table, "    %s", cli_wants(each, text));
        table_add(table, "%s", is_held ? "held" : "queued");
        if (is_held) {
            table_add(table, "%" PRId64, each->token);
        } else {
            table_add(table, "-");
        }
        table_add(table, "%s", "");
        table_add(table, "%s", "");
    }
}

static void add_session(struct table *table, const struct row *row) {
    char text[CLI_WALL_SIZE_MAX];
    table_add(table, "  %s", lease_id_format(row->session->id, text));
    table_add(table, "%s", cli_class_text(row->session->purpose));
    table_add(table, "%s", "");
    table_add(table, "%s", cli_remaining(row->session->ttl_ms, text));
    table_add(table, "%s", cli_remaining(row->session->remaining_ms, text));
    add_acquisitions(table, row);
}

static void print_tree(const struct sessions *sessions) {
    struct row *rows = calloc(sessions->n_sessions + 1, sizeof rows[0]);
    struct table table;
    size_t n = 0;
    if (rows == NULL) {
        abort();
    }
    for (size_t i = 0; i < sessions->n_pages; i++) {
        for (size_t k = 0; k < sessions->pages[i]->n_items; k++) {
            rows[n++] = (struct row){&sessions->pages[i]->items[k], sessions->pages[i]};
        }
    }
    qsort(rows, n, sizeof rows[0], compare_rows);
    table_init(&table, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || strcmp(rows[i].session->owner, rows[i - 1].session->owner) != 0) {
            char text[CLI_TEXT_SIZE_MAX];
            table_add(&table, "%s", cli_plain(rows[i].session->owner, text));
            for (int k = 0; k < 4; k++) {
                table_add(&table, "%s", "");
            }
        }
        add_session(&table, &rows[i]);
    }
    table_print(&table, stdout);
    table_clear(&table);
    free(rows);
}

/* ---- as JSON ----------------------------------------------------------------------------------
 */

static void print_sessions_json(const struct sessions *sessions) {
    const char *separator = "";
    putchar('[');
    for (size_t i = 0; i < sessions->n_pages; i++) {
        const struct lease_session_list *page = sessions->pages[i];
        for (size_t k = 0; k < page->n_items; k++) {
            json_t *json = cli_session_json(&page->items[k]);
            json_t *array = json_array();
            for (size_t j = 0; j < page->n_acquisitions; j++) {
                if (page->acquisitions[j].session_id == page->items[k].id) {
                    json_array_append_new(array, cli_acquisition_json(&page->acquisitions[j]));
                }
            }
            json_object_set_new(json, "acquisitions", array);
            fputs(separator, stdout);
            json_dumpf(json, stdout, JSON_COMPACT);
            json_decref(json);
            separator = ",";
        }
    }
    putchar(']');
}

/* ---- the command ------------------------------------------------------------------------------
 */

static void print_all(const struct cli *cli, const struct sessions *sessions,
                      const struct etcd_leases *leases) {
    if (cli->json) {
        fputs("{\"sessions\":", stdout);
        print_sessions_json(sessions);
        if (leases != NULL) {
            fputs(",\"leases\":", stdout);
            etcd_leases_print_json(leases);
        }
        puts("}");
        return;
    }
    if (sessions->n_sessions > 0 || leases == NULL) {
        print_tree(sessions);
    }
    if (leases != NULL && (etcd_leases_count(leases) > 0 || sessions->n_sessions == 0)) {
        fputs(sessions->n_sessions > 0 ? "\n" : "", stdout);
        etcd_leases_print_table(leases);
    }
}

static enum cli_exit run(struct cli *cli) {
    const char *prefix = arguments_value(&cli->arguments, "--owner");
    struct etcd_leases *leases = NULL;
    struct sessions sessions = {0};
    struct lease_connection *connection;
    enum cli_exit result = prefix == NULL ? etcd_leases_fetch(cli, &leases) : CLI_OK;
    if (result != CLI_OK) {
        return result;
    }
    result = cli_open(cli, &connection);
    if (result == CLI_OK) {
        enum lease_status status = fetch_sessions(connection, prefix, &sessions);
        if (status != LEASE_OK && (status != LEASE_UNSUPPORTED || prefix != NULL)) {
            result = cli_lease_failed(cli, status, NULL);
        }
        if (result == CLI_OK) {
            print_all(cli, &sessions, leases);
        }
        clear_sessions(&sessions);
        lease_close(connection);
    }
    etcd_leases_destroy(leases);
    return result;
}

const struct cli_command cli_command_ls = {
    .name = "ls",
    .group = CLI_LOOK,
    .usage = "[--owner PREFIX]",
    .help = "list who holds what: owners, sessions, locks, slots; and leases",
    .examples = "lease ls\nlease ls --owner web-\nlease ls --json\n",
    .options = options,
    .run = run,
};
