#include "log_workload.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS(...)                                                                                 \
    (const struct log_step[]){__VA_ARGS__},                                                        \
        sizeof((const struct log_step[]){__VA_ARGS__}) / sizeof(struct log_step)

const struct log_workload log_workloads[] = {
    {"append", STEPS({STEP_APPEND, 1, 0}, {STEP_APPEND, 3, 0}, {STEP_PREPARE, 1, 0},
                     {STEP_APPEND, 9, 0}, {STEP_PREPARE, 3, 0}, {STEP_APPEND, 2, 0},
                     {STEP_APPEND, 12, 0}, {STEP_APPEND, 25, 0}, {STEP_APPEND, 1, 0})},
    {"truncate",
     STEPS({STEP_APPEND, 9, 0}, {STEP_APPEND, 2, 3}, {STEP_APPEND, 8, 0}, {STEP_PREPARE, 4, 0},
           {STEP_APPEND, 6, 10}, {STEP_APPEND, 1, 13}, {STEP_APPEND, 10, 1}, {STEP_APPEND, 1, 10})},
    {"recycle",
     STEPS({STEP_APPEND, 20, 0}, {STEP_TRIM, 2, 0}, {STEP_PREPARE, 4, 0}, {STEP_APPEND, 14, 0},
           {STEP_TRIM, 1, 0}, {STEP_PREPARE, 4, 0}, {STEP_APPEND, 12, 4}, {STEP_TRIM, 0, 0},
           {STEP_PREPARE, 4, 0}, {STEP_APPEND, 12, 0})},
    {"trim", STEPS({STEP_APPEND, 30, 0}, {STEP_TRIM, 12, 0}, {STEP_TRIM, 8, 0}, {STEP_APPEND, 3, 5},
                   {STEP_TRIM, 0, 0}, {STEP_APPEND, 20, 0}, {STEP_TRIM, 19, 0}, {STEP_TRIM, 0, 0})},
    {"reset",
     STEPS({STEP_APPEND, 12, 0}, {STEP_RESET, 10, 0}, {STEP_APPEND, 4, 0}, {STEP_PREPARE, 4, 0},
           {STEP_APPEND, 9, 2}, {STEP_RESET, 0, 3}, {STEP_APPEND, 3, 0}, {STEP_RESET, 5, 0},
           {STEP_RESET, 5, 0}, {STEP_APPEND, 2, 0})},
    {"seal", STEPS({STEP_APPEND, 2, 0}, {STEP_REST, 0, 0}, {STEP_REST, 0, 0}, {STEP_APPEND, 11, 0},
                   {STEP_REST, 0, 0}, {STEP_APPEND, 1, 4}, {STEP_REST, 0, 0}, {STEP_APPEND, 6, 0})},
    {"restart",
     STEPS({STEP_APPEND, 5, 0}, {STEP_REOPEN, 0, 0}, {STEP_PREPARE, 4, 0}, {STEP_APPEND, 9, 0},
           {STEP_REOPEN, 0, 0}, {STEP_APPEND, 1, 0}, {STEP_TRIM, 3, 0}, {STEP_REOPEN, 0, 0},
           {STEP_APPEND, 12, 2}, {STEP_REOPEN, 0, 0}, {STEP_PREPARE, 2, 0}, {STEP_REOPEN, 0, 0},
           {STEP_RESET, 3, 0}, {STEP_REOPEN, 0, 0}, {STEP_APPEND, 2, 0})},
};
const size_t n_log_workloads = sizeof log_workloads / sizeof *log_workloads;

const struct log_workload log_continuation = {
    "continuation",
    STEPS({STEP_APPEND, 2, 0}, {STEP_APPEND, 4, 1}, {STEP_PREPARE, 2, 0}, {STEP_APPEND, 9, 0},
          {STEP_TRIM, 3, 0}, {STEP_PREPARE, 4, 0}, {STEP_APPEND, 11, 0}, {STEP_APPEND, 1, 0})};

/* Sizes of all kinds: none, small, odd, and now and then more than a segment holds. */
static size_t entry_size(uint64_t index, uint64_t term) {
    uint64_t mix = (index * 2654435761u + term * 40503u) % 97;
    if (mix < 8) {
        return 0;
    }
    return mix == 50 ? 3000 : (size_t)(mix * 5);
}

static uint8_t entry_byte(uint64_t index, uint64_t term, size_t i) {
    return (uint8_t)(index * 31 + term * 7 + i * 13 + 1);
}

static struct log_item *make_entry(uint64_t index, uint64_t term) {
    size_t size = entry_size(index, term);
    uint8_t *bytes = size == 0 ? NULL : malloc(size);
    assert(bytes != NULL || size == 0);
    for (size_t i = 0; i < size; i++) {
        bytes[i] = entry_byte(index, term, i);
    }
    return log_item_create(size == 0 ? LOG_BARRIER : LOG_COMMAND, index, term, bytes, size);
}

static bool is_entry(const struct log_item *item, uint64_t index, uint64_t term) {
    bool is_equal = item->index == index && item->term == term &&
                    item->size == entry_size(index, term) &&
                    item->type == (item->size == 0 ? LOG_BARRIER : LOG_COMMAND);
    for (size_t i = 0; is_equal && i < item->size; i++) {
        is_equal = item->bytes[i] == entry_byte(index, term, i);
    }
    return is_equal;
}

static uint64_t last_term(const struct log_model *model) {
    uint64_t term = model->last == 0 ? 1 : model->terms[model->last];
    return term > model->snapshot_term ? term : model->snapshot_term;
}

/* --- steps --- */

void log_world_init(struct log_world *world, struct disk_sim *disk, const struct log_world *before,
                    enum sync_site left_out) {
    memset(world, 0, sizeof *world);
    world->files.under = disk_sim_files(disk);
    world->files.left_out = left_out;
    if (before != NULL) {
        world->acknowledged = before->acknowledged;
        world->attempted = before->attempted;
    }
}

bool log_world_open(struct log_world *world) {
    /* Snapshots and votes are durable before what rests on them is done. */
    struct log_store_options options = {.segment_size = LOG_WORLD_SEGMENT_SIZE,
                                        .snapshot_index = world->acknowledged.snapshot_index,
                                        .snapshot_term = world->acknowledged.snapshot_term,
                                        .term = last_term(&world->attempted) + 1};
    struct raft_files files = mutant_files(&world->files);
    mutant_files_begin_opening(&world->files);
    enum status status =
        log_store_open(&files, &options, &world->store, world->text, sizeof world->text);
    mutant_files_end_opening(&world->files);
    return status == STATUS_OK;
}

void log_world_close(struct log_world *world) {
    log_store_close(world->store);
    world->store = NULL;
}

static int append(struct log_world *world, unsigned n, unsigned n_replaced) {
    struct log_model *model = &world->attempted;
    struct log_item *items[64] = {NULL};
    assert(n <= 64);
    uint64_t term = last_term(model) + (n_replaced > 0 ? 1 : 0);
    uint64_t floor =
        model->trimmed > model->snapshot_index ? model->trimmed : model->snapshot_index;
    uint64_t first = model->last + 1;
    first = first - floor > n_replaced ? first - n_replaced : floor + 1;
    for (unsigned i = 0; i < n; i++) {
        model->terms[first + i] = term;
        items[i] = make_entry(first + i, term);
    }
    model->last = first + n - 1;
    assert(model->last <= LOG_MODEL_ENTRIES_MAX);
    int error = log_store_append(world->store, items, n);
    for (unsigned i = 0; i < n; i++) {
        log_item_release(items[i]);
    }
    return error;
}

static int prepare(struct log_world *world, unsigned n) {
    int error = 0;
    while (n-- > 0 && error == 0) {
        bool is_over;
        error = log_store_prepare(world->store, &is_over);
    }
    return error;
}

static int trim(struct log_world *world, unsigned n_kept) {
    struct log_model *model = &world->acknowledged;
    uint64_t floor = model->snapshot_index;
    uint64_t upto = model->last - floor > n_kept ? model->last - n_kept : floor;
    if (upto > floor) {
        model->snapshot_term = model->terms[upto];
        model->snapshot_index = upto;
    }
    model->trimmed = upto;
    world->attempted = *model;
    return log_store_trim(world->store, upto);
}

static int reset(struct log_world *world, unsigned n_ahead, unsigned n_back) {
    struct log_model *model = &world->acknowledged;
    uint64_t term = last_term(model) + 1;
    uint64_t index = model->last + n_ahead;
    if (index > model->snapshot_index + n_back) {
        index -= n_back;
    }
    model->snapshot_index = index;
    model->snapshot_term = term;
    world->attempted = *model;
    world->attempted.last = model->snapshot_index;
    world->attempted.terms[world->attempted.last] = term;
    world->attempted.trimmed = model->snapshot_index;
    return log_store_reset(world->store, model->snapshot_index, term);
}

static int reopen(struct log_world *world) {
    log_world_close(world);
    return log_world_open(world) ? 0 : EBADMSG;
}

int log_world_step(struct log_world *world, const struct log_step *step) {
    int error = 0;
    world->attempted = world->acknowledged;
    switch (step->kind) {
    case STEP_APPEND:
        error = append(world, step->a, step->b);
        break;
    case STEP_PREPARE:
        error = prepare(world, step->a);
        break;
    case STEP_REST:
        error = log_store_seal(world->store);
        break;
    case STEP_TRIM:
        error = trim(world, step->a);
        break;
    case STEP_RESET:
        error = reset(world, step->a, step->b);
        break;
    case STEP_REOPEN:
        error = reopen(world);
        break;
    }
    if (error == 0) {
        world->acknowledged = world->attempted;
    }
    return error;
}

int log_world_run(struct log_world *world, const struct log_workload *workload) {
    for (size_t i = 0; i < workload->n; i++) {
        int error = log_world_step(world, &workload->steps[i]);
        if (error != 0) {
            return error;
        }
    }
    return 0;
}

/* --- the check --- */

/* A log that does not hold the snapshot's last entry is replaced by the snapshot. */
static void meet_snapshot(struct log_model *model) {
    uint64_t index = model->snapshot_index;
    if (index > 0 && (model->last < index || model->terms[index] != model->snapshot_term)) {
        model->last = index;
        model->terms[index] = model->snapshot_term;
        model->trimmed = index;
    }
}

static bool is_log_equal(struct log_world *world, const struct log_model *model) {
    uint64_t first = log_store_first_index(world->store);
    uint64_t last = log_store_last_index(world->store);
    if (last != model->last || first > model->trimmed + 1) {
        snprintf(world->text, sizeof world->text,
                 "the log has entries %" PRIu64 " to %" PRIu64 ", not %" PRIu64 " to %" PRIu64,
                 first, last, model->trimmed + 1, model->last);
        return false;
    }
    while (first <= last) {
        struct log_item *items[64];
        size_t n = 0;
        int error = log_store_read(world->store, first, last, 4096, items, 64, &n);
        if (error != 0) {
            snprintf(world->text, sizeof world->text, "entry %" PRIu64 ": %s", first,
                     strerror(error));
            return false;
        }
        bool are_right = true;
        for (size_t i = 0; i < n; i++) {
            uint64_t index = first + i;
            bool is_right = is_entry(items[i], index, model->terms[index]) &&
                            log_store_entry_term(world->store, index) == model->terms[index];
            log_item_release(items[i]);
            if (!is_right && are_right) {
                snprintf(world->text, sizeof world->text, "entry %" PRIu64 " is another", index);
            }
            are_right &= is_right;
        }
        if (!are_right) {
            return false;
        }
        first += n;
    }
    return true;
}

bool log_world_check(struct log_world *world) {
    struct log_model with = world->attempted;
    struct log_model without = world->acknowledged;
    meet_snapshot(&with);
    meet_snapshot(&without);
    if (is_log_equal(world, &with)) {
        world->acknowledged = with;
    } else if (is_log_equal(world, &without)) {
        world->acknowledged = without;
    } else {
        return false;
    }
    world->attempted = world->acknowledged;
    return true;
}
