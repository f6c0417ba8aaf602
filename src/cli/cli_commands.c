#include "cli/cli_commands.h"

#include "cli/command_list.h"

#include <string.h>

const struct option_entry cli_global_options[] = {
    {"--endpoint", 'e', "HOST:PORT", "the server; several with commas (127.0.0.1:2379)"},
    {"--endpoints", 0, "HOST:PORT,...", "the same, as etcdctl calls it"},
    {"--cacert", 0, "FILE", "the authority that signed the server's certificate"},
    {"--cert", 0, "FILE", "a client certificate, with --key"},
    {"--key", 0, "FILE", "its key"},
    {"--insecure-skip-tls-verify", 0, NULL, "accept any certificate: encrypted, nothing proven"},
    {"--insecure-transport", 0, NULL, "=false: TLS also where the endpoint has no scheme"},
    {"--user", 0, "NAME[:PASSWORD]", "the user, while authentication is on"},
    {"--password", 0, "PASSWORD", "the user's, when --user does not have it"},
    {"--timeout", 't', "TIME", "how long to wait for one answer (5s)"},
    {"--json", 0, NULL, "print JSON"},
    {"--verbose", 0, NULL, "show what lease waits for, also without a terminal"},
    {"--help", 'h', NULL, "print this text"},
    {"--version", 0, NULL, "print the version"},
    {NULL, 0, NULL, NULL},
};

const char *const cli_group_titles[CLI_GROUPS] = {
    [CLI_RUN] = "Run a command while something is held",
    [CLI_LOOK] = "Look",
    [CLI_MANAGE] = "Change",
    [CLI_CLUSTER] = "The cluster",
    [CLI_OTHER] = "Other",
};

const struct cli_command *cli_find_command(const char *name) {
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        if (strcmp(cli_commands[i]->name, name) == 0) {
            return cli_commands[i];
        }
    }
    return NULL;
}

bool cli_is_family(const char *word) {
    size_t size = strlen(word);
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        const char *name = cli_commands[i]->name;
        if (size > 0 && strncmp(name, word, size) == 0 && name[size] == ' ') {
            return true;
        }
    }
    return false;
}

/* ---- the nearest ------------------------------------------------------------------------------
 */

enum { WORD_SIZE_MAX = 32, DISTANCE_MAX = 2 };

static size_t least(size_t one, size_t other) {
    return one < other ? one : other;
}

/* How many letters must be put in, left out, changed or swapped with their neighbour. */
static size_t distance(const char *one, const char *other) {
    size_t rows[3][WORD_SIZE_MAX + 1];
    size_t n_one = strlen(one);
    size_t n_other = strlen(other);
    if (n_one > WORD_SIZE_MAX || n_other > WORD_SIZE_MAX) {
        return SIZE_MAX;
    }
    for (size_t k = 0; k <= n_other; k++) {
        rows[0][k] = k;
    }
    for (size_t i = 1; i <= n_one; i++) {
        size_t *row = rows[i % 3];
        const size_t *above = rows[(i - 1) % 3];
        row[0] = i;
        for (size_t k = 1; k <= n_other; k++) {
            size_t changed = above[k - 1] + (one[i - 1] == other[k - 1] ? 0 : 1);
            row[k] = least(changed, least(above[k], row[k - 1]) + 1);
            if (i > 1 && k > 1 && one[i - 1] == other[k - 2] && one[i - 2] == other[k - 1]) {
                row[k] = least(row[k], rows[(i - 2) % 3][k - 2] + 1);
            }
        }
    }
    return rows[n_one % 3][n_other];
}

/* Keeps the nearer of the two. */
static void consider(const char *typed, const char *name, size_t *least_distance,
                     const char **nearest) {
    size_t far = distance(typed, name);
    bool is_start = strlen(typed) >= 2 && strncmp(typed, name, strlen(typed)) == 0;
    far = is_start ? 1 : far;
    /* A word of two letters is two changes away from any other. */
    if (far < *least_distance && far <= DISTANCE_MAX && far < strlen(typed)) {
        *least_distance = far;
        *nearest = name;
    }
}

const char *cli_nearest_command(const char *typed) {
    const char *nearest = NULL;
    size_t least_distance = SIZE_MAX;
    for (size_t i = 0; cli_commands[i] != NULL; i++) {
        consider(typed, cli_commands[i]->name, &least_distance, &nearest);
        /* One word for the first of a family: "pol" is near "pool". */
        static char families[CLI_GROUPS * 8][WORD_SIZE_MAX];
        static size_t n_families;
        size_t size = strcspn(cli_commands[i]->name, " ");
        if (cli_commands[i]->name[size] == ' ' && size < WORD_SIZE_MAX &&
            n_families < sizeof families / sizeof families[0]) {
            char *family = families[n_families++];
            memcpy(family, cli_commands[i]->name, size);
            family[size] = '\0';
            consider(typed, family, &least_distance, &nearest);
        }
    }
    return nearest;
}

const char *cli_nearest_option(const char *typed, const struct option_entry *own) {
    const char *nearest = NULL;
    size_t least_distance = SIZE_MAX;
    const struct option_entry *const tables[] = {own, cli_global_options};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        for (const struct option_entry *each = tables[i]; each != NULL && each->name != NULL;
             each++) {
            consider(typed, each->name, &least_distance, &nearest);
        }
    }
    return nearest;
}
