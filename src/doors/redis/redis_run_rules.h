/*
 * One execution of Redis commands: what it may read and change, and the objects that the commands
 * work on. The commands are the same functions whether they run as a rule, in apply (changes,
 * scripts, transactions), or over the state after a read of the service (plain reads): they see a
 * store of functions. Pure: the same input gives the same output on every replica.
 */
#ifndef LEASED_DOORS_REDIS_REDIS_RUN_RULES_H
#define LEASED_DOORS_REDIS_REDIS_RUN_RULES_H

#include "base/arena.h"
#include "base/buffer.h"
#include "core/rule.h"
#include "doors/redis/redis_keys.h"
#include "doors/redis/redis_number_model.h"
#include "doors/redis/redis_reply.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* Of one reply, and of the records that one command collects. The rule's answer may be smaller
     * still: RULE_ANSWER_SIZE_MAX. */
    REDIS_REPLY_BYTES_MAX = 16 * 1024 * 1024,
    /* Steps of comparing with patterns, in one run: some milliseconds, and how many more when no
     * other client waits for it. */
    REDIS_GLOB_STEPS_MAX = 4 * 1024 * 1024,
    REDIS_GLOB_STEPS_OF_WORKER_MORE = 28 * 1024 * 1024,
    /* So many of them, and so many units of a script's work, take as long as one unit of
     * core/key_work.h. */
    REDIS_GLOB_STEPS_OF_WORK = 8,
    REDIS_SCRIPT_WORK_OF_WORK = 2
};

typedef bool (*redis_visit)(void *context, const struct record *record);

/* As the functions of core/rule.h of the same names. A store that cannot be changed has NULL from
 * `put` on: its commands do not change anything. */
struct redis_store {
    const struct record *(*get)(void *context, struct key_space_id space, struct bytes key);
    /* False: a bound was met, and what comes of the run is thrown away. */
    bool (*visit)(void *context, const struct key_range *range, redis_visit visit,
                  void *visit_context);
    size_t (*count)(void *context, const struct key_range *range);
    /* What is left of a lease's time as far as it is known: `deadline_ms` is information. */
    int64_t (*remaining_ms)(void *context, int64_t lease_id, int64_t deadline_ms);
    int64_t (*put)(void *context, struct key_space_id space, struct bytes key, struct bytes value,
                   int64_t lease_id);
    bool (*delete)(void *context, struct key_space_id space, struct bytes key);
    enum status (*lease_grant)(void *context, int64_t ttl_ms, int64_t *out_id);
    void (*lease_end)(void *context, int64_t id);
    enum status (*lease_set_ttl)(void *context, int64_t id, int64_t ttl_ms);
    /* How many changes may still be made. */
    size_t (*changes_left)(void *context);
};

/* Where a SCAN goes on: numbers that stand for keys. Each member has its own; a rule has none, and
 * gives everything at once. */
struct redis_cursor_table {
    /* Never 0. */
    uint64_t (*save)(void *context, struct bytes position);
    /* False: it is not known, or not any more. */
    bool (*find)(void *context, uint64_t cursor, struct bytes *out_position);
    void *context;
};

struct redis_run {
    const struct redis_store *store;
    void *context; /* of the store */
    struct arena *arena;
    struct buffer *reply; /* one value for each command */
    unsigned db;
    int64_t wall_ms;
    int64_t revision; /* that the changes will have */
    uint64_t seed;    /* for commands that choose at random; chosen by the proposer */
    uint32_t n_objects;
    size_t n_ended;                           /* elements that went with their objects */
    size_t call_bytes;                        /* of the arguments of a script's calls */
    size_t put_bytes;                         /* of values that were written so far */
    size_t glob_steps;                        /* of comparing with patterns */
    size_t glob_steps_more;                   /* that may be made beyond REDIS_GLOB_STEPS_MAX */
    size_t compare_work;                      /* of comparing long members, as in core/key_work.h */
    uint64_t script_work;                     /* of the scripts of this run so far */
    const struct redis_cursor_table *cursors; /* NULL: none */
    bool shows_tokens;                        /* SET NX answers with the token as an attribute */
    bool is_in_script;
    bool is_read_only;   /* EVAL_RO: what changes something is refused */
    bool is_interrupted; /* a script was stopped: nothing of the run is kept */
    bool is_exceeded;    /* a bound was met: nothing of the run is kept, and it should end soon */
    bool knows_events;   /* `events` was read */
    uint32_t events;     /* that are to be told: see redis_events_rules.h */
    const struct redis_command *command; /* that runs */
};

/* --- Objects: a key and its header. --- */

struct redis_object {
    struct bytes name;       /* as the client knows it */
    struct bytes key;        /* of the header's record */
    int64_t lease_id;        /* 0: none */
    int64_t create_revision; /* the token; 0: there is no such key */
    int64_t mod_revision;
    struct redis_header header;
};

static inline bool redis_object_exists(const struct redis_object *object) {
    return object->header.type != REDIS_NONE;
}

/* A key that does not exist has the type REDIS_NONE. */
void redis_object_load(struct redis_run *run, struct bytes name, struct redis_object *out_object);
/* False when it exists with another type: the error is the reply. */
bool redis_object_load_as(struct redis_run *run, struct bytes name, enum redis_type type,
                          struct redis_object *out_object);
/* Makes an object that does not exist into an empty one of a type; a collection gets its id and its
 * lease. False: it could not, and the error is the reply. */
bool redis_object_create(struct redis_run *run, struct redis_object *object, enum redis_type type);
/* Writes the header: after every change, so that WATCH and those that wait see it. A collection
 * without elements is deleted. */
void redis_object_save(struct redis_run *run, struct redis_object *object);
/* With all that belongs to it. It does not exist any more then. */
void redis_object_delete(struct redis_run *run, struct redis_object *object);
/* The header alone: the lease and the elements stay, for another header. */
void redis_object_erase_header(struct redis_run *run, const struct redis_object *object);
/* Counts anew from now: a lease of so many milliseconds, of which `deadline_ms` is the wall time.
 * Writes the header. */
void redis_object_expire(struct redis_run *run, struct redis_object *object, int64_t ttl_ms,
                         int64_t deadline_ms);
void redis_object_persist(struct redis_run *run, struct redis_object *object);
/* What is left, 0 at least; -1 without a deadline, -2 when it does not exist. */
int64_t redis_object_remaining_ms(struct redis_run *run, const struct redis_object *object);
/* Replaces whatever there is by a string. `ttl_ms` 0: without a deadline, -1: as it is. A value
 * that is another than before makes a new create revision: a new holder has a new token. */
void redis_object_set_string(struct redis_run *run, struct redis_object *object, struct bytes value,
                             int64_t ttl_ms, int64_t deadline_ms);

/* --- Elements of collections. --- */

const struct record *redis_element_get(struct redis_run *run, struct bytes key);
void redis_element_put(struct redis_run *run, const struct redis_object *object, struct bytes key,
                       struct bytes value);
bool redis_element_delete(struct redis_run *run, struct bytes key);

/* Whether the reply is as large as it may become; then the run is exceeded. */
bool redis_run_is_full(struct redis_run *run);
/* Compares with a pattern; the run is exceeded when that was too much work. */
bool redis_run_matches(struct redis_run *run, struct bytes pattern, struct bytes text);

/* Members of this size are to be compared, or values to be counted, at most so many times. False:
 * that is too much work, and the run is exceeded. Short ones count by the records that are looked
 * at. */
bool redis_run_compare(struct redis_run *run, size_t size, size_t times);

/* Records of a range, in arena memory. */
struct redis_records {
    const struct record **at;
    size_t n;
};
/* Passes over `skip` of them and gives at most `limit`. What they hold is bounded. */
struct redis_records redis_collect(struct redis_run *run, const struct key_range *range,
                                   size_t skip, size_t limit);
/* For those whose values are not shown: only their keys are bounded. */
struct redis_records redis_collect_keys(struct redis_run *run, const struct key_range *range,
                                        size_t limit);

/* --- Arguments and errors. --- */

/* Replies "ERR …" of the text. */
void redis_error(struct redis_run *run, const char *text);
void redis_error_syntax(struct redis_run *run);
/* "WRONGTYPE …". */
void redis_error_type(struct redis_run *run);
/* "value is not an integer or out of range" is the reply when it is false. */
bool redis_get_integer(struct redis_run *run, struct bytes argument, int64_t *out_value);
bool redis_get_integer_or(struct redis_run *run, struct bytes argument, const char *error,
                          int64_t *out_value);
/* "value is not a valid float". */
bool redis_get_double(struct redis_run *run, struct bytes argument, double *out_value);
/* Ignores case. */
bool redis_word_is(struct bytes argument, const char *word);
/* A number below `n`, which is not 0. */
uint64_t redis_random(struct redis_run *run, uint64_t n);
/* [start, stop] of a sequence of `count`, negative from its end; false: there is nothing. */
bool redis_clamp(int64_t count, int64_t *start, int64_t *stop);

#endif
