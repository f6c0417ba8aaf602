/* lease-sim: a whole cluster in one process, in virtual time. README.md tells how to use it. */
#include "faults.h"
#include "run.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char usage[] =
    "usage: lease-sim [--seed N | --seeds FROM-TO | --soak] [--jobs N] [--nodes N]\n"
    "                 [--plan NAME] [--natives] [--registrars] [--pipelines] [--doors]\n"
    "                 [--verbose] [--hash]\n"
    "                 [--keep-going]\n"
    "                 [--skip-sync PREFIX-OF-FILES | --skip-sync directory]\n";

struct arguments {
    uint64_t first;
    uint64_t last;
    size_t n_jobs;
    bool keeps_going;
    bool prints_hash;
    struct run_options run;
};

static void refuse(void) {
    fputs(usage, stderr);
    exit(2);
}

static uint64_t number(const char *text, const char **out_end) {
    char *end;
    uint64_t value = strtoull(text, &end, 10);
    if (end == text) {
        refuse();
    }
    *out_end = end;
    return value;
}

static uint64_t whole_number(const char *text) {
    const char *end;
    uint64_t value = number(text, &end);
    if (*end != '\0') {
        refuse();
    }
    return value;
}

static int plan_of(const char *name) {
    for (int i = 0; i < PLAN_COUNT; i++) {
        if (strcmp(plan_name((enum plan)i), name) == 0) {
            return i;
        }
    }
    refuse();
    return -1;
}

static struct arguments parse(int argc, char **argv) {
    struct arguments arguments = {.first = 1, .last = 100, .n_jobs = 1, .run = {.plan = -1}};
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i];
        if (strcmp(name, "--verbose") == 0) {
            arguments.run.is_verbose = true;
            continue;
        }
        if (strcmp(name, "--natives") == 0) {
            arguments.run.has_natives = true;
            continue;
        }
        if (strcmp(name, "--registrars") == 0) {
            arguments.run.has_registrars = true;
            continue;
        }
        if (strcmp(name, "--pipelines") == 0) {
            arguments.run.has_pipelines = true;
            continue;
        }
        if (strcmp(name, "--doors") == 0) {
            arguments.run.has_doors = true;
            continue;
        }
        if (strcmp(name, "--hash") == 0) {
            arguments.prints_hash = true;
            continue;
        }
        if (strcmp(name, "--keep-going") == 0) {
            arguments.keeps_going = true;
            continue;
        }
        if (strcmp(name, "--soak") == 0) {
            arguments.last = UINT64_MAX;
            continue;
        }
        if (++i == argc) {
            refuse();
        }
        const char *value = argv[i];
        if (strcmp(name, "--seed") == 0) {
            arguments.first = arguments.last = whole_number(value);
        } else if (strcmp(name, "--seeds") == 0) {
            const char *end;
            arguments.first = number(value, &end);
            if (*end != '-') {
                refuse();
            }
            arguments.last = whole_number(end + 1);
        } else if (strcmp(name, "--jobs") == 0) {
            arguments.n_jobs = whole_number(value);
        } else if (strcmp(name, "--nodes") == 0) {
            arguments.run.n_nodes = whole_number(value);
        } else if (strcmp(name, "--skip-sync") == 0) {
            arguments.run.skipped_sync = value;
        } else if (strcmp(name, "--plan") == 0) {
            arguments.run.plan = plan_of(value);
        } else {
            refuse();
        }
    }
    if (arguments.n_jobs == 0 ||
        (arguments.run.n_nodes != 0 && arguments.run.n_nodes != 3 && arguments.run.n_nodes != 5)) {
        refuse();
    }
    return arguments;
}

/* A process for each seed: what a simulated crash leaves behind goes with it, and an abort ends one
 * seed only. */
static void begin_seed(const struct arguments *arguments, uint64_t seed) {
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) {
        perror("fork");
        exit(1);
    }
    if (child == 0) {
        struct run_options options = arguments->run;
        options.seed = seed;
        run(&options);
        if (arguments->prints_hash) {
            printf("seed %llu: %016llx, %llu events\n", (unsigned long long)seed,
                   (unsigned long long)trace_hash(), (unsigned long long)world_events());
        }
        fflush(stdout);
        _exit(0);
    }
}

static bool await_seed(void) {
    int status = 0;
    if (wait(&status) < 0) {
        perror("wait");
        exit(1);
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv) {
    struct arguments arguments = parse(argc, argv);
    uint64_t n_passed = 0;
    uint64_t n_failed = 0;
    size_t n_running = 0;
    for (uint64_t seed = arguments.first;; seed++) {
        bool is_last = seed == arguments.last;
        if (n_failed == 0 || arguments.keeps_going) {
            begin_seed(&arguments, seed);
            n_running++;
        } else {
            is_last = true;
        }
        while (n_running > 0 && (n_running >= arguments.n_jobs || is_last)) {
            bool is_passed = await_seed();
            n_running--;
            n_passed += is_passed;
            n_failed += !is_passed;
        }
        if (is_last) {
            break;
        }
    }
    printf("%llu seeds passed, %llu failed\n", (unsigned long long)n_passed,
           (unsigned long long)n_failed);
    return n_failed == 0 ? 0 : 1;
}
