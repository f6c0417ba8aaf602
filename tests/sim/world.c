#include "world.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct event {
    uint64_t time_us;
    uint64_t order;
    void (*run)(void *data);
    void *data;
};

static struct {
    uint64_t seed;
    uint64_t random[4];
    uint64_t now_us;
    uint64_t n_ordered;
    uint64_t n_run;
    struct event *heap; /* the earliest first */
    size_t n;
    size_t capacity;
    uint64_t hash;
    bool is_verbose;
} world;

static uint64_t split_mix(uint64_t *state) {
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void world_init(uint64_t seed, bool is_verbose) {
    world.seed = seed;
    world.is_verbose = is_verbose;
    world.hash = UINT64_C(0xcbf29ce484222325);
    uint64_t state = seed;
    for (size_t i = 0; i < 4; i++) {
        world.random[i] = split_mix(&state);
    }
}

uint64_t world_now_us(void) {
    return world.now_us;
}

uint64_t world_seed(void) {
    return world.seed;
}

bool world_is_verbose(void) {
    return world.is_verbose;
}

uint64_t world_events(void) {
    return world.n_run;
}

/* --- Events. --- */

static bool is_before(const struct event *a, const struct event *b) {
    return a->time_us != b->time_us ? a->time_us < b->time_us : a->order < b->order;
}

static void swap(size_t a, size_t b) {
    struct event event = world.heap[a];
    world.heap[a] = world.heap[b];
    world.heap[b] = event;
}

void world_at(uint64_t time_us, void (*run)(void *data), void *data) {
    if (world.n == world.capacity) {
        world.capacity = world.capacity == 0 ? 1024 : world.capacity * 2;
        world.heap = realloc(world.heap, world.capacity * sizeof *world.heap);
        if (world.heap == NULL) {
            abort();
        }
    }
    world.heap[world.n] = (struct event){.time_us = time_us > world.now_us ? time_us : world.now_us,
                                         .order = world.n_ordered++,
                                         .run = run,
                                         .data = data};
    for (size_t i = world.n++; i > 0 && is_before(&world.heap[i], &world.heap[(i - 1) / 2]);
         i = (i - 1) / 2) {
        swap(i, (i - 1) / 2);
    }
}

static struct event take_first(void) {
    struct event first = world.heap[0];
    world.heap[0] = world.heap[--world.n];
    for (size_t i = 0;;) {
        size_t least = i;
        for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < world.n; child++) {
            least = is_before(&world.heap[child], &world.heap[least]) ? child : least;
        }
        if (least == i) {
            return first;
        }
        swap(i, least);
        i = least;
    }
}

void world_run_until(uint64_t time_us) {
    while (world.n > 0 && world.heap[0].time_us <= time_us) {
        struct event event = take_first();
        world.now_us = event.time_us;
        world.n_run++;
        event.run(event.data);
    }
    world.now_us = time_us;
}

/* --- Randomness: xoshiro256**. --- */

static uint64_t rotate(uint64_t x, unsigned by) {
    return (x << by) | (x >> (64 - by));
}

uint64_t random_next(void) {
    uint64_t *s = world.random;
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

uint64_t random_below(uint64_t n) {
    return random_next() % n;
}

uint64_t random_between(uint64_t low, uint64_t high) {
    return low + random_below(high - low + 1);
}

bool random_chance(unsigned permille) {
    return random_below(1000) < permille;
}

uint64_t random_delay(uint64_t typical, uint64_t worst) {
    uint64_t roll = random_below(100);
    if (roll < 90 || worst <= typical) {
        return random_between(typical / 2, typical + typical / 2);
    }
    return roll < 98 ? random_between(typical, typical + (worst - typical) / 8)
                     : random_between(typical, worst);
}

/* --- What happened. --- */

void trace(const char *format, ...) {
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    (void)n;
    for (const char *c = line; *c != '\0'; c++) {
        world.hash = (world.hash ^ (uint8_t)*c) * UINT64_C(0x100000001b3);
    }
    world.hash = (world.hash ^ world.now_us) * UINT64_C(0x100000001b3);
    if (world.is_verbose) {
        printf("%10.3f  %s\n", (double)world.now_us / WORLD_SECOND, line);
    }
}

uint64_t trace_hash(void) {
    return world.hash;
}

void check_failed(const char *check, const char *format, ...) {
    char why[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    printf("seed %llu failed: %s: at %.3f s: %s\n", (unsigned long long)world.seed, check,
           (double)world.now_us / WORLD_SECOND, why);
    fflush(stdout);
    _exit(WORLD_EXIT_FAILED);
}

static void aborted(int number) {
    char text[160];
    int n = snprintf(text, sizeof text, "seed %llu failed: %s: at %.3f s\n",
                     (unsigned long long)world.seed, number == SIGABRT ? "assertion" : "crash",
                     (double)world.now_us / WORLD_SECOND);
    if (n > 0) {
        fflush(stdout);
        ssize_t written = write(STDOUT_FILENO, text, (size_t)n);
        (void)written;
    }
    signal(number, SIG_DFL);
    raise(number);
}

void world_catch_aborts(void) {
    signal(SIGABRT, aborted);
    signal(SIGSEGV, aborted);
}
