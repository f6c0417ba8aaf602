/* `lease import`: copies what a Redis or a ZooKeeper has, and verifies the copy. */
#include "cli/command_list.h"
#include "cli/import.h"
#include "tls/tls_context.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS_DEFAULT = 5, ROUNDS_MAX = 1000, ERROR_SIZE_MAX = 512 };

static const struct option_entry options[] = {
    {"--to", 0, "HOST:PORT[/DB|/PATH]",
     "where to; a database or path other than the source's may follow"},
    {"--replace", 0, NULL,
     "overwrite what differs at the destination, remove what the source does not have"},
    {"--dry-run", 0, NULL, "compare and count, write nothing"},
    {"--skip-unsupported", 0, NULL, "count what cannot be copied, instead of failing"},
    {"--rounds", 0, "N", "how often to compare and copy again (5)"},
    {"--match", 0, "PATTERN", "Redis: only these keys, as SCAN has it"},
    {"--prefix", 0, "TEXT", "Redis: only keys that begin with it"},
    {"--all-dbs", 0, NULL, "Redis: all databases, not one"},
    {"--auth", 0, "SCHEME:ID", "ZooKeeper: an identity for both sides, as digest:user:password"},
    {NULL, 0, NULL, NULL},
};

/* Each character of the prefix stands for itself. */
static bool take_prefix(struct import_job *job, const char *prefix) {
    size_t n = 0;
    for (; *prefix != '\0'; prefix++) {
        if (n + 3 >= sizeof job->pattern) {
            return false;
        }
        if (strchr("*?[]\\^-", *prefix) != NULL) {
            job->pattern[n++] = '\\';
        }
        job->pattern[n++] = *prefix;
    }
    job->pattern[n++] = '*';
    job->pattern[n] = '\0';
    return true;
}

static enum cli_exit take_pattern(struct cli *cli, struct import_job *job) {
    const char *match = arguments_value(&cli->arguments, "--match");
    const char *prefix = arguments_value(&cli->arguments, "--prefix");
    bool is_redis = job->source.protocol == IMPORT_REDIS;
    if (!is_redis && (match != NULL || prefix != NULL || job->is_all_databases)) {
        return cli_usage(cli, "--match, --prefix and --all-dbs are for redis://; a part of "
                              "ZooKeeper's tree is zk://HOST:PORT/PATH");
    }
    if (match != NULL && prefix != NULL) {
        return cli_usage(cli, "--match and --prefix exclude each other");
    }
    if (match != NULL) {
        size_t size = strlen(match);
        if (size >= sizeof job->pattern) {
            return cli_usage(cli, "--match is too long");
        }
        memcpy(job->pattern, match, size + 1);
    }
    if (prefix != NULL && !take_prefix(job, prefix)) {
        return cli_usage(cli, "--prefix is too long");
    }
    return CLI_OK;
}

static enum cli_exit take_auths(struct cli *cli, struct import_job *job) {
    const struct arguments *arguments = &cli->arguments;
    for (size_t i = 0; i < arguments->n_given; i++) {
        if (strcmp(arguments->given[i].option->name, "--auth") != 0) {
            continue;
        }
        if (job->source.protocol != IMPORT_ZOOKEEPER) {
            return cli_usage(cli, "--auth is for zk://; a user of Redis is in the URL, "
                                  "redis://USER:PASSWORD@HOST:PORT");
        }
        if (job->n_auths == IMPORT_AUTHS_MAX) {
            return cli_usage(cli, "more than %d times --auth", IMPORT_AUTHS_MAX);
        }
        job->auths[job->n_auths++] = arguments->given[i].value;
    }
    return CLI_OK;
}

/* By default the server that `lease` talks to, and there the same database or path. */
static enum cli_exit take_destination(struct cli *cli, struct import_job *job) {
    const char *to = arguments_value(&cli->arguments, "--to");
    const char *reason;
    if (to != NULL) {
        if (import_url_parse_as(job->source.protocol, to, &job->destination, &reason) !=
            STATUS_OK) {
            return cli_usage(cli, "--to %s: %s", to, reason);
        }
    } else {
        const struct endpoint *endpoint = &cli->endpoints.items[0];
        if (endpoint->path[0] != '\0') {
            return cli_usage(cli, "the endpoint is a Unix socket; --to HOST:PORT is needed");
        }
        job->destination = (struct import_url){.protocol = job->source.protocol};
        strcpy(job->destination.place.host, endpoint->host);
        job->destination.place.port = endpoint->port;
        job->destination.is_tls =
            endpoint->security == ENDPOINT_TLS ||
            (endpoint->security == ENDPOINT_EITHER && cli->endpoints.tls != NULL);
    }
    if (!job->destination.has_path) {
        job->destination.database = job->source.database;
        strcpy(job->destination.path, job->source.path);
    }
    if (job->is_all_databases && (job->source.has_path || job->destination.has_path)) {
        return cli_usage(cli, "--all-dbs and the number of a database exclude each other");
    }
    return CLI_OK;
}

static enum cli_exit take_all(struct cli *cli, struct import_job *job) {
    const char *reason;
    int64_t rounds;
    const struct arguments_range range = {.min = 1, .max = ROUNDS_MAX};
    const char *from = cli->arguments.words[1];
    if (import_url_parse(from, &job->source, &reason) != STATUS_OK) {
        return cli_usage(cli, "%s: %s", from, reason);
    }
    if (!arguments_number(&cli->arguments, "--rounds", ROUNDS_DEFAULT, range, &rounds)) {
        return cli_usage(cli, "%s", cli->arguments.error);
    }
    job->rounds_max = (uint32_t)rounds;
    job->replaces = arguments_has(&cli->arguments, "--replace");
    job->is_dry_run = arguments_has(&cli->arguments, "--dry-run");
    job->skips_unsupported = arguments_has(&cli->arguments, "--skip-unsupported");
    job->is_all_databases = arguments_has(&cli->arguments, "--all-dbs");
    const char *password = getenv("LEASE_SOURCE_PASSWORD");
    if (password != NULL && job->source.password[0] == '\0') {
        snprintf(job->source.password, sizeof job->source.password, "%s", password);
    }
    enum cli_exit result = take_pattern(cli, job);
    result = result == CLI_OK ? take_auths(cli, job) : result;
    result = result == CLI_OK ? take_destination(cli, job) : result;
    return result == CLI_OK ? cli_user_take(cli, &job->user) : result;
}

/* The same files as for everything else, but no protocol is named in the handshake. */
static enum cli_exit take_tls(struct cli *cli, struct import_job *job) {
    char error[ERROR_SIZE_MAX] = "";
    bool is_unverified =
        cli_setting_is_true(&cli->settings, &cli->arguments, "--insecure-skip-tls-verify");
    const struct tls_options tls = {
        .is_client = true,
        .ca_file = cli_setting(&cli->settings, &cli->arguments, "--cacert"),
        .cert_file = cli_setting(&cli->settings, &cli->arguments, "--cert"),
        .key_file = cli_setting(&cli->settings, &cli->arguments, "--key"),
        .verify = is_unverified ? TLS_VERIFY_NONE : TLS_VERIFY_REQUIRED,
    };
    if (!job->source.is_tls && !job->destination.is_tls) {
        return CLI_OK;
    }
    if (tls_context_create(&tls, &job->tls, error, sizeof error) != STATUS_OK) {
        fprintf(stderr, "lease: %s\n", error);
        return CLI_FAILED;
    }
    return CLI_OK;
}

static enum cli_exit run(struct cli *cli) {
    struct import_job *job = calloc(1, sizeof *job);
    if (job == NULL) {
        abort();
    }
    job->cli = cli;
    enum cli_exit result = take_all(cli, job);
    result = result == CLI_OK ? take_tls(cli, job) : result;
    if (result == CLI_OK) {
        result = import_run(job, job->source.protocol == IMPORT_REDIS ? &import_redis : &import_zk);
    }
    tls_context_destroy(job->tls);
    free(job);
    return result;
}

const struct cli_command cli_command_import = {
    .name = "import",
    .group = CLI_CLUSTER,
    .usage = "URL [--to HOST:PORT]",
    .help = "copy live data of a Redis or a ZooKeeper to leased, and verify it",
    .more = "URL is redis://[USER:PASSWORD@]HOST:PORT[/DB], rediss:// with TLS, or\n"
            "zk://HOST:PORT[/PATH]. The destination serves the same protocol: leased\n"
            "--listen-redis ADDRESS or --listen-zookeeper ADDRESS; --to names that address,\n"
            "otherwise it is the endpoint of lease.\n"
            "\n"
            "Source and destination are compared in rounds, and what differs is copied, until a\n"
            "round finds no difference: then the copy is verified (exit code 0). What is still\n"
            "written at the source may need another run, with --replace, after its writers were\n"
            "stopped. Without --replace, what is at the destination must be absent or the same.\n"
            "Ctrl-C leaves whole keys and nodes; the same command goes on.\n"
            "\n"
            "A password of the source may also be in LEASE_SOURCE_PASSWORD; --user and --password\n"
            "are those of the destination.\n",
    .examples = "lease import redis://10.0.0.5:6379/0 --to 127.0.0.1:6379  # one database\n"
                "lease import zk://10.0.0.5:2181/app --to 127.0.0.1:2181  # /app and all below\n"
                "lease import zk://10.0.0.5:2181 --to 127.0.0.1:2181 --dry-run  # counts\n",
    .options = options,
    .words_min = 1,
    .words_max = 1,
    .run = run,
};
