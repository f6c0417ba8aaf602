/* What `lease register` is given: an instance, its checks, and how it ends. */
#ifndef LEASED_CLI_REGISTRATION_OPTIONS_H
#define LEASED_CLI_REGISTRATION_OPTIONS_H

#include "cli/cli_lease.h"

enum { REGISTRATION_ITEMS_MAX = 32, REGISTRATION_CHECKS_MAX = 16, REGISTRATION_TEXT_MAX = 512 };

#define REGISTRATION_OPTIONS                                                                       \
    {"--addr", 'a', "HOST:PORT", "where it is reached"},                                           \
        {"--id", 0, "ID", "unique within the service (HOST:PORT, or HOST:PID)"},                   \
        {"--tag", 0, "TAG", "may be given several times"},                                         \
        {"--meta", 0, "KEY=VALUE", "may be given several times"},                                  \
        {"--zone", 0, "ZONE", "where it runs; clients of the same zone come first"},               \
        {"--release", 0, "TEXT", "its version"},                                                   \
        {"--weight", 0, "N", "its share of the work (1); 0: listed, never chosen"},                \
        {"--node", 0, "NAME", "the machine (its host name)"},                                      \
        {"--ttl", 0, "TIME", "how long it outlives its last renewal, 1s and up (15s)"},            \
        {"--drain", 0, "TIME", "how long it is draining before it stops (3s)"},                    \
        {"--check", 'c', "URL", "run by the servers; may be given several times"},                 \
        {"--check-interval", 0, "TIME", "how often (5s)"},                                         \
        {"--check-timeout", 0, "TIME", "how long one may take (2s)"},                              \
        {"--rises", 0, "N", "successes in a row that make it healthy (1)"},                        \
        {"--falls", 0, "N", "failures in a row that make it ill (2)"}, {                           \
        "--insecure-checks", 0, NULL, "checks take any certificate"                                \
    }

struct registration_options {
    struct lease_register_options options;
    int64_t drain_ms;
    /* What the options point to. */
    char host[REGISTRATION_TEXT_MAX];
    char id[REGISTRATION_TEXT_MAX];
    const char *tags[REGISTRATION_ITEMS_MAX];
    struct lease_pair metadata[REGISTRATION_ITEMS_MAX];
    char keys[REGISTRATION_ITEMS_MAX][REGISTRATION_TEXT_MAX];
    struct lease_check checks[REGISTRATION_CHECKS_MAX];
    char check_ids[REGISTRATION_CHECKS_MAX][16];
    char targets[REGISTRATION_CHECKS_MAX][REGISTRATION_TEXT_MAX];
};

/* CLI_OK, or CLI_USAGE after a message. The first word is the service. */
enum cli_exit registration_options_take(struct cli *cli, struct registration_options *out);

#endif
