#include "server/restore_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBER_ARGUMENTS_MAX = 32 };

/* Of the server; each takes a value. */
static const char *const member_flags[] = {"name", "data-dir", "initial-cluster",
                                           "initial-cluster-token", "initial-advertise-peer-urls"};

struct parsing {
    struct restore_options *options;
    int argc;
    char **argv;
    int i;
    const char *member_arguments[MEMBER_ARGUMENTS_MAX];
    size_t n_member_arguments;
    bool has_tls_url;
    char *error;
};

static enum status fail(struct parsing *parsing, const char *format, const char *what) {
    snprintf(parsing->error, OPTIONS_ERROR_SIZE, format, what);
    return STATUS_INVALID;
}

/* "--flag=value" or "--flag value"; also "-flag", as etcd takes it. */
static const char *name_of(const char *argument) {
    return argument + (argument[1] == '-' ? 2 : 1);
}

static bool is_named(const char *argument, const char *flag) {
    const char *name = name_of(argument);
    size_t size = strcspn(name, "=");
    return strlen(flag) == size && memcmp(name, flag, size) == 0;
}

/* NULL: missing. */
static const char *value_of(struct parsing *parsing) {
    const char *separator = strchr(parsing->argv[parsing->i], '=');
    if (separator != NULL) {
        return separator + 1;
    }
    return parsing->i + 1 < parsing->argc ? parsing->argv[++parsing->i] : NULL;
}

static enum status parse_switch(struct parsing *parsing, bool *out_on) {
    const char *argument = parsing->argv[parsing->i];
    const char *separator = strchr(argument, '=');
    if (separator == NULL || strcmp(separator, "=true") == 0) {
        *out_on = true;
        return STATUS_OK;
    }
    *out_on = false;
    return strcmp(separator, "=false") == 0
               ? STATUS_OK
               : fail(parsing, "%s: it is either true or false", argument);
}

static enum status parse_bump(struct parsing *parsing) {
    const char *text = value_of(parsing);
    char *end = NULL;
    errno = 0;
    if (text == NULL || *text < '0' || *text > '9') {
        return fail(parsing, "--bump-revision needs a whole number%s", "");
    }
    parsing->options->bump_revision = strtoull(text, &end, 10);
    return errno == 0 && *end == '\0' && parsing->options->bump_revision <= INT64_MAX / 2
               ? STATUS_OK
               : fail(parsing, "--bump-revision: \"%s\" is not a number that can be added", text);
}

static enum status add_member_flag(struct parsing *parsing, const char *flag) {
    const char *argument = parsing->argv[parsing->i];
    const char *value = value_of(parsing);
    if (value == NULL) {
        return fail(parsing, "--%s needs a value", flag);
    }
    if (parsing->n_member_arguments + 2 > MEMBER_ARGUMENTS_MAX) {
        return fail(parsing, "%s: too many flags", argument);
    }
    parsing->has_tls_url = parsing->has_tls_url || strstr(value, "https://") != NULL ||
                           strstr(value, "unixs://") != NULL;
    parsing->member_arguments[parsing->n_member_arguments++] = argument;
    if (strchr(argument, '=') == NULL) {
        parsing->member_arguments[parsing->n_member_arguments++] = value;
    }
    return STATUS_OK;
}

static enum status parse_flag(struct parsing *parsing) {
    const char *argument = parsing->argv[parsing->i];
    struct restore_options *options = parsing->options;
    for (size_t i = 0; i < sizeof member_flags / sizeof member_flags[0]; i++) {
        if (is_named(argument, member_flags[i])) {
            return add_member_flag(parsing, member_flags[i]);
        }
    }
    if (is_named(argument, "help") || is_named(argument, "h")) {
        options->is_help = true;
        return STATUS_OK;
    }
    if (is_named(argument, "skip-hash-check")) {
        return parse_switch(parsing, &options->is_hash_skipped);
    }
    if (is_named(argument, "mark-compacted")) {
        return parse_switch(parsing, &options->is_marked_compacted);
    }
    if (is_named(argument, "bump-revision")) {
        return parse_bump(parsing);
    }
    if (is_named(argument, "wal-dir")) {
        return fail(parsing,
                    "--wal-dir: leased keeps its log in the data directory; leave the flag out%s",
                    "");
    }
    return fail(parsing, "%s is no flag of restore; leased restore --help lists them", argument);
}

/* The server's own parser takes it from here. What is of no concern to a restore (certificates,
 * listeners) must not be in its way. */
static enum status parse_member(struct parsing *parsing, const struct door_list *doors) {
    static char *const no_environment[] = {NULL};
    const char *arguments[MEMBER_ARGUMENTS_MAX + 4];
    size_t n = 0;
    arguments[n++] = "leased";
    for (size_t i = 0; i < parsing->n_member_arguments; i++) {
        arguments[n++] = parsing->member_arguments[i];
    }
    if (parsing->has_tls_url) {
        arguments[n++] = "--peer-auto-tls";
        arguments[n++] = "--listen-peer-urls=https://127.0.0.1:2380";
    }
    arguments[n] = NULL;
    enum options_result result =
        options_parse(&parsing->options->member, doors, (int)n, (char *const *)arguments,
                      no_environment, parsing->error);
    if (result != OPTIONS_RUN) {
        return STATUS_INVALID;
    }
    if (parsing->options->member.is_named_otherwise) {
        return fail(parsing,
                    "--initial-cluster has other URLs for \"%s\" than "
                    "--initial-advertise-peer-urls",
                    parsing->options->member.name);
    }
    return STATUS_OK;
}

enum status restore_options_parse(struct restore_options *options, const struct door_list *doors,
                                  int argc, char **argv, char out_error[OPTIONS_ERROR_SIZE]) {
    struct parsing parsing = {
        .options = options, .argc = argc, .argv = argv, .i = 2, .error = out_error};
    memset(options, 0, sizeof *options);
    arena_init(&options->member.arena);
    for (; parsing.i < argc; parsing.i++) {
        const char *argument = argv[parsing.i];
        enum status status = STATUS_OK;
        if (argument[0] == '-' && argument[1] != '\0') {
            status = parse_flag(&parsing);
        } else if (options->file != NULL) {
            status = fail(&parsing, "unexpected argument \"%s\": one file is restored", argument);
        } else {
            options->file = argument;
        }
        if (status != STATUS_OK) {
            return status;
        }
    }
    if (options->is_help) {
        return STATUS_OK;
    }
    if (options->file == NULL) {
        return fail(&parsing, "missing argument FILE: leased restore FILE --data-dir DIR%s", "");
    }
    if ((options->bump_revision > 0) != options->is_marked_compacted) {
        return fail(&parsing,
                    "--bump-revision and --mark-compacted go together: clients must learn that the "
                    "revisions between are gone%s",
                    "");
    }
    return parse_member(&parsing, doors);
}

void restore_options_clear(struct restore_options *options) {
    options_clear(&options->member);
}

void restore_options_print_help(FILE *stream) {
    fputs("Usage: leased restore FILE [flags]\n\n"
          "Makes a new data directory from a backup: the file of `etcdctl snapshot save`, taken\n"
          "from leased or from etcd, or etcd's own member/snap/db. Keys with their history,\n"
          "leases, users and roles are restored. For a cluster, run it once for each member, with\n"
          "the same file and the same --initial-cluster, on the machine of that member.\n\n"
          "  --data-dir DIR  (<name>.leased)\n      Made by this command; must not exist, or be "
          "empty.\n"
          "  --name NAME  (default)\n      Of this member.\n"
          "  --initial-cluster NAME=URL,...\n      All members of the new cluster; left out: this "
          "one alone.\n"
          "  --initial-cluster-token TOKEN  (etcd-cluster)\n      Tells this cluster from others.\n"
          "  --initial-advertise-peer-urls URL,...\n      Under which the others reach this "
          "member.\n"
          "  --skip-hash-check\n      For a file without a hash at its end: a copy of "
          "member/snap/db.\n"
          "  --bump-revision N --mark-compacted\n      Go on N revisions later, and tell watches "
          "from before that they were compacted.\n",
          stream);
}
