#include "cli/import.h"

#include "base/clock.h"
#include "base/duration.h"
#include "cli/cli_format.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>

enum {
    ANSWER_TIMEOUT_MS_MIN = 30000,
    PLACE_SIZE_MAX = HOST_PORT_TEXT_SIZE_MAX,
    URL_SIZE_MAX = PLACE_SIZE_MAX + IMPORT_PATH_SIZE_MAX + 32
};

/* ---- for the protocols ---- */

static volatile sig_atomic_t is_signalled;

static void on_signal(int number) {
    is_signalled = number;
}

/* The second Ctrl-C ends the program at once. */
static void watch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
    is_signalled = 0;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static void draw(struct import_job *job) {
    const struct import_counts *counts = &job->counts;
    char time[DURATION_TEXT_SIZE_MAX];
    uint64_t total = counts->seen > job->estimate ? counts->seen : job->estimate;
    uint64_t elapsed_ms = clock_elapsed_ms(clock_boottime_ms(), job->round_started_ms) + 1;
    uint64_t rate = counts->seen * 1000 / elapsed_ms;
    uint64_t left_s = rate > 0 ? (total - counts->seen) / rate : 0;
    progress_text(&job->progress,
                  "%s %u: %" PRIu64 " of about %" PRIu64 " %s (%u %%), %" PRIu64
                  "/s, %s left; %" PRIu64 " copied",
                  job->round == 0 ? "looking, round" : "round", job->round, counts->seen, total,
                  job->unit, total > 0 ? (unsigned)(counts->seen * 100 / total) : 100U, rate,
                  duration_format((int64_t)left_s * 1000, time), counts->copied + counts->replaced);
}

bool import_goes_on(struct import_job *job) {
    if (is_signalled != 0) {
        job->is_interrupted = true;
        return false;
    }
    draw(job);
    return true;
}

bool import_fail(struct import_job *job, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(job->error, sizeof job->error, format, list);
    va_end(list);
    return false;
}

void import_problem(struct import_job *job, struct bytes name, const char *what) {
    char plain[CLI_TEXT_SIZE_MAX];
    char text[IMPORT_PROBLEM_SIZE_MAX / 2];
    size_t size = name.size < sizeof text - 1 ? name.size : sizeof text - 1;
    if (job->n_problems < IMPORT_PROBLEMS_MAX) {
        memcpy(text, name.data, size);
        text[size] = '\0';
        snprintf(job->problems[job->n_problems], IMPORT_PROBLEM_SIZE_MAX, "%s: %s",
                 cli_plain(text, plain), what);
    }
    job->n_problems++;
}

struct wire_stream *import_connect(struct import_job *job, const struct import_url *url) {
    char error[WIRE_STREAM_ERROR_SIZE_MAX];
    uint32_t timeout_ms = job->cli->timeout_ms;
    const struct wire_stream_options options = {
        .host = url->place.host,
        .port = url->place.port,
        .tls = url->is_tls ? job->tls : NULL,
        .connect_timeout_ms = timeout_ms,
        .answer_timeout_ms =
            timeout_ms > ANSWER_TIMEOUT_MS_MIN ? timeout_ms : ANSWER_TIMEOUT_MS_MIN,
    };
    struct wire_stream *stream = wire_stream_open(&options, error);
    if (stream == NULL) {
        (void)import_fail(job, "%s", error);
    }
    return stream;
}

bool import_not_served(struct import_job *job, const struct import_url *url, const char *reason) {
    char where[PLACE_SIZE_MAX];
    bool is_redis = url->protocol == IMPORT_REDIS;
    host_port_format(url->place.host, url->place.port, where);
    if (url == &job->source) {
        return import_fail(job, "%s does not answer as %s: %s", where,
                           is_redis ? "Redis" : "ZooKeeper", reason);
    }
    return import_fail(
        job,
        "%s does not serve the %s protocol (%s): start leased with --listen-%s ADDRESS, and name "
        "that address with --to",
        where, is_redis ? "Redis" : "ZooKeeper", reason, is_redis ? "redis" : "zookeeper");
}

/* ---- rounds ---- */

static uint64_t changes(const struct import_counts *counts) {
    return counts->copied + counts->replaced + counts->removed;
}

/* What was changed adds up; what there is, is as the last round saw it. */
static void add_round(struct import_job *job) {
    struct import_counts *total = &job->total;
    const struct import_counts *counts = &job->counts;
    total->seen = counts->seen;
    total->equal = counts->equal;
    total->failed = counts->failed;
    total->unsupported = counts->unsupported;
    total->ephemeral = counts->ephemeral;
    total->copied += counts->copied;
    total->replaced += counts->replaced;
    total->removed += counts->removed;
    total->bytes += counts->bytes;
}

static bool run_round(struct import_job *job, const struct import_kind *kind, void *state,
                      enum import_mode mode) {
    job->counts = (struct import_counts){0};
    job->n_problems = 0;
    job->round_started_ms = clock_boottime_ms();
    bool is_done = kind->round(state, mode);
    add_round(job);
    return is_done && !job->is_interrupted;
}

/* Until a round finds nothing to do, or nothing that it could do. */
static void run_rounds(struct import_job *job, const struct import_kind *kind, void *state) {
    for (job->round = 1; job->round <= job->rounds_max; job->round++) {
        if (!run_round(job, kind, state, IMPORT_WRITE)) {
            return;
        }
        job->estimate = job->counts.seen;
        if (changes(&job->counts) == 0) {
            job->is_verified = job->counts.failed == 0;
            return;
        }
    }
    job->round = job->rounds_max;
}

/* Something else may be there only if it is the same, or may be replaced. */
static bool may_write(struct import_job *job, const struct import_kind *kind, void *state) {
    if (job->is_destination_empty || job->replaces) {
        return true;
    }
    if (!run_round(job, kind, state, IMPORT_COMPARE)) {
        return false;
    }
    uint64_t n_others = job->counts.replaced + job->counts.removed;
    job->total = (struct import_counts){0};
    if (n_others > 0) {
        return import_fail(job,
                           "the destination is not empty: %" PRIu64
                           " %s there are not the same at the source. --replace overwrites what "
                           "differs and removes what the source does not have; --dry-run counts it",
                           n_others, job->unit);
    }
    return true;
}

static void run_all(struct import_job *job, const struct import_kind *kind, void *state) {
    if (!kind->look(state, &job->is_destination_empty, &job->estimate)) {
        return;
    }
    if (job->is_dry_run) {
        (void)run_round(job, kind, state, IMPORT_COMPARE);
        return;
    }
    if (may_write(job, kind, state)) {
        run_rounds(job, kind, state);
        if (job->error[0] == '\0' && !kind->finish(state)) {
            job->is_verified = false;
        }
    }
}

/* ---- the report ---- */

static const char *place_text(const struct import_url *url, char room[URL_SIZE_MAX]) {
    char where[PLACE_SIZE_MAX];
    host_port_format(url->place.host, url->place.port, where);
    if (url->protocol == IMPORT_REDIS) {
        snprintf(room, URL_SIZE_MAX, "redis%s://%s/%" PRIu32, url->is_tls ? "s" : "", where,
                 url->database);
    } else {
        snprintf(room, URL_SIZE_MAX, "zk%s://%s%s", url->is_tls ? "s" : "", where, url->path);
    }
    return room;
}

static void print_json(const struct import_job *job, int64_t elapsed_ms) {
    char from[URL_SIZE_MAX];
    char to[URL_SIZE_MAX];
    const struct import_counts *total = &job->total;
    json_t *problems = json_array();
    for (size_t i = 0; i < job->n_problems && i < IMPORT_PROBLEMS_MAX; i++) {
        json_array_append_new(problems, cli_json_text(job->problems[i]));
    }
    cli_print_json(json_pack(
        "{s:s, s:s, s:b, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, "
        "s:s*}",
        "source", place_text(&job->source, from), "destination", place_text(&job->destination, to),
        "dry_run", job->is_dry_run, "verified", job->is_verified, "interrupted",
        job->is_interrupted, "rounds", (json_int_t)job->round, "elapsed_ms", (json_int_t)elapsed_ms,
        "seen", (json_int_t)total->seen, "equal", (json_int_t)total->equal, "copied",
        (json_int_t)total->copied, "replaced", (json_int_t)total->replaced, "removed",
        (json_int_t)total->removed, "failed", (json_int_t)total->failed, "unsupported",
        (json_int_t)total->unsupported, "ephemeral", (json_int_t)total->ephemeral, "value_bytes",
        (json_int_t)total->bytes, "problems", problems, "error",
        job->error[0] != '\0' ? job->error : NULL));
}

static void print_counts(const struct import_job *job, int64_t elapsed_ms) {
    char from[URL_SIZE_MAX];
    char to[URL_SIZE_MAX];
    char time[DURATION_TEXT_SIZE_MAX];
    const struct import_counts *total = &job->total;
    printf("%s to %s, %s, %s\n", place_text(&job->source, from), place_text(&job->destination, to),
           duration_format(elapsed_ms, time),
           job->is_dry_run ? "dry run: nothing was written" : "written");
    printf("%" PRIu64 " %s at the source: %" PRIu64 " copied (%" PRIu64 " bytes), %" PRIu64
           " replaced, %" PRIu64 " removed, %" PRIu64 " failed\n",
           total->seen, job->unit, total->copied, total->bytes, total->replaced, total->removed,
           total->failed);
    if (total->unsupported > 0) {
        printf("%" PRIu64 " not copied: their type is not supported\n", total->unsupported);
    }
    if (total->ephemeral > 0) {
        printf("%" PRIu64 " ephemeral nodes not copied: they belong to sessions of the source\n",
               total->ephemeral);
    }
}

static void print_problems(const struct import_job *job) {
    for (size_t i = 0; i < job->n_problems && i < IMPORT_PROBLEMS_MAX; i++) {
        fprintf(stderr, "lease: %s\n", job->problems[i]);
    }
    if (job->n_problems > IMPORT_PROBLEMS_MAX) {
        fprintf(stderr, "lease: and %zu more\n", job->n_problems - IMPORT_PROBLEMS_MAX);
    }
}

static void print_verdict(const struct import_job *job) {
    const struct import_counts *counts = &job->counts;
    if (job->is_dry_run || job->error[0] != '\0') {
        return;
    }
    if (job->is_interrupted) {
        fputs("lease: interrupted; what was copied is whole. The same command goes on\n", stderr);
    } else if (job->is_verified) {
        printf("verified: round %" PRIu32 " found no difference\n", job->round);
    } else {
        fprintf(stderr,
                "lease: not verified: round %" PRIu32 " still found %" PRIu64
                " differences. Stop what writes to the source and run it again with --replace\n",
                job->round, changes(counts) + counts->failed);
    }
}

static enum cli_exit report(struct import_job *job) {
    int64_t elapsed_ms = (int64_t)clock_elapsed_ms(clock_boottime_ms(), job->started_ms);
    bool is_refused = job->total.unsupported > 0 && !job->skips_unsupported;
    progress_end(&job->progress);
    if (job->cli->json) {
        print_json(job, elapsed_ms);
    } else if (job->error[0] == '\0' || job->total.seen > 0) {
        print_counts(job, elapsed_ms);
        print_verdict(job);
    }
    print_problems(job);
    if (job->error[0] != '\0') {
        fprintf(stderr, "lease: %s\n", job->error);
        return CLI_FAILED;
    }
    if (job->is_interrupted) {
        return CLI_SIGNAL + (is_signalled != 0 ? (int)is_signalled : SIGINT);
    }
    if (is_refused) {
        fputs("lease: not everything was copied; --skip-unsupported accepts that\n", stderr);
    }
    return (job->is_verified || job->is_dry_run) && !is_refused ? CLI_OK : CLI_FAILED;
}

enum cli_exit import_run(struct import_job *job, const struct import_kind *kind) {
    job->unit = kind->unit;
    job->started_ms = clock_boottime_ms();
    progress_init(&job->progress, kind->unit);
    watch_signals();
    void *state = kind->open(job);
    if (state != NULL) {
        run_all(job, kind, state);
        kind->close(state);
    }
    return report(job);
}
