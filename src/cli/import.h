/*
 * What `lease import` does for any protocol: rounds that compare source and destination and copy
 * what differs, until one finds no difference; what is counted meanwhile, what a person sees of
 * it, and Ctrl-C. The protocols are import_redis.c and import_zk.c.
 */
#ifndef LEASED_CLI_IMPORT_H
#define LEASED_CLI_IMPORT_H

#include "base/bytes.h"
#include "base/progress.h"
#include "cli/cli.h"
#include "cli/cli_user.h"
#include "cli/import_url.h"
#include "client/wire_stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    IMPORT_AUTHS_MAX = 8,
    IMPORT_PROBLEMS_MAX = 10,
    IMPORT_PROBLEM_SIZE_MAX = 256,
    IMPORT_PATTERN_SIZE_MAX = 1024,
    IMPORT_ERROR_SIZE_MAX = 768
};

struct import_counts {
    uint64_t seen; /* at the source */
    uint64_t equal;
    uint64_t copied;      /* new at the destination */
    uint64_t replaced;    /* was different there */
    uint64_t removed;     /* the source does not have it */
    uint64_t failed;      /* could not be read or written */
    uint64_t unsupported; /* of a type that is not copied */
    uint64_t ephemeral;   /* of a session, so not copied */
    uint64_t bytes;       /* of values copied */
};

enum import_mode { IMPORT_COMPARE, IMPORT_WRITE };

struct import_job {
    struct cli *cli;
    struct import_url source;
    struct import_url destination;
    struct tls_context *tls;             /* for those with TLS; NULL: none has */
    struct cli_user user;                /* of the destination */
    const char *auths[IMPORT_AUTHS_MAX]; /* ZooKeeper: "scheme:credentials" */
    size_t n_auths;
    char pattern[IMPORT_PATTERN_SIZE_MAX]; /* Redis: "": all keys */
    bool is_all_databases;
    bool replaces;
    bool is_dry_run;
    bool skips_unsupported;
    uint32_t rounds_max;

    const char *unit; /* "keys" */
    uint32_t round;   /* from 1 on; 0: looking before anything is written */
    uint64_t estimate;
    struct import_counts counts; /* of this round */
    struct import_counts total;  /* of all rounds that write */
    struct progress progress;
    uint64_t started_ms;
    uint64_t round_started_ms;
    bool is_destination_empty;
    bool is_verified;
    bool is_interrupted;
    char error[IMPORT_ERROR_SIZE_MAX]; /* "": none; then the run is over */
    char problems[IMPORT_PROBLEMS_MAX][IMPORT_PROBLEM_SIZE_MAX];
    size_t n_problems; /* more than IMPORT_PROBLEMS_MAX are only counted */
};

/* A protocol. Each of these gives false with job->error set when a connection was lost. */
struct import_kind {
    const char *unit;
    void *(*open)(struct import_job *job); /* NULL: as above */
    bool (*look)(void *state, bool *out_is_empty, uint64_t *out_estimate);
    bool (*round)(void *state, enum import_mode mode);
    bool (*finish)(void *state); /* after the last round, also an interrupted one */
    void (*close)(void *state);
};
extern const struct import_kind import_redis;
extern const struct import_kind import_zk;

/* Runs it to its end and reports. */
enum cli_exit import_run(struct import_job *job, const struct import_kind *kind);

/* ---- for the protocols ---- */

/* Between two batches: draws the progress. False: Ctrl-C was pressed, end the round. */
bool import_goes_on(struct import_job *job);
/* Sets job->error; gives false. */
bool import_fail(struct import_job *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Remembers what is wrong with one key or node. */
void import_problem(struct import_job *job, struct bytes name, const char *what);
/* Connects to one of the two; NULL: job->error is set. */
struct wire_stream *import_connect(struct import_job *job, const struct import_url *url);
/* The destination does not answer as the protocol would. Gives false. */
bool import_not_served(struct import_job *job, const struct import_url *url, const char *reason);

#endif
