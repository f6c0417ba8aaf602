#include "doors/redis/redis_work_rules.h"

#include "base/arena.h"
#include "core/key_work.h"
#include "doors/redis/redis_bit_rules.h"
#include "doors/redis/redis_exec_rules.h"
#include "doors/redis/redis_keys.h"
#include "doors/redis/redis_mpop_rules.h"
#include "doors/redis/redis_run_rules.h"

#include <string.h>

/* As measured, a unit being some twenty nanoseconds. */
enum {
    WORK_SEEN = 2,  /* an element that is looked at */
    WORK_SHOWN = 8, /* one that is in the reply as well */
    WORK_AN_ARGUMENT = 16,
    PATTERN_BYTES = 8,                 /* of a pattern, that cost a unit for each text */
    WORK_OF_PATTERNS_MAX = 512 * 1024, /* REDIS_GLOB_STEPS_MAX bounds it */
    ELEMENT_SIZE = 32,                 /* in a reply, as a rule */
    SCANNED_AT_ONCE = 512,             /* elements of a small object are all given */
    SCANNED_MAX = 64 * 1024,
    COUNTED_BYTES = 128, /* whose bits are counted in the time of a unit */
    VALUE_BYTES = 4,     /* that are copied for a unit, a few times each, into memory that is new */
    WORK_OF_VALUES_LEAST = 6 * 1024,
    WORK_OF_WRITING_SCRIPTS = 256 * 1024, /* more than any has by its looks alone */
    VALUE_SIZE_MAX = 1024 * 1024,         /* what SETRANGE fills up to its offset */
    ELEMENTS_LOOKED_AT = 1024,            /* by one command that writes them again */
    ELEMENTS_AT_AN_END = 32,              /* of a list */
    /* Of elements that were not looked at: a run writes RULE_BYTES_MAX at most, and a few of them
     * are on their way. */
    WORK_OF_MORE_ELEMENTS = 256 * 1024,
    KEYS_LOOKED_AT = 1024, /* for this guess; commands with more are counted by their arguments */
};

static bool find_header(const struct key_store *keys, unsigned db, struct bytes name,
                        struct redis_header *out_header) {
    uint8_t key[1 + REDIS_KEY_SIZE_MAX];
    if (name.size > REDIS_KEY_SIZE_MAX) {
        return false;
    }
    key[0] = (uint8_t)db;
    if (name.size > 0) {
        memcpy(key + 1, name.data, name.size);
    }
    const struct record *record =
        key_store_find(keys, KEY_SPACE_REDIS, bytes_of(key, 1 + name.size));
    return record != NULL && redis_header_decode(record_value(record), out_header);
}

/* What one element of a key costs a command; 0: it does not look at them all. */
static size_t element_work(const struct redis_command *command) {
    switch (command->id) {
    case REDIS_CMD_DEL:
    case REDIS_CMD_UNLINK:
    case REDIS_CMD_COPY:
    case REDIS_CMD_RENAME:
    case REDIS_CMD_RENAMENX:
        return KEY_WORK_A_DELETE;
    case REDIS_CMD_SPOP:
    case REDIS_CMD_SRANDMEMBER:
    case REDIS_CMD_HRANDFIELD:
    case REDIS_CMD_ZRANDMEMBER:
    case REDIS_CMD_ZPOPMAX:
    case REDIS_CMD_BZPOPMAX:
    case REDIS_CMD_ZLEXCOUNT:
    case REDIS_CMD_LREM:
    case REDIS_CMD_LINSERT:
    case REDIS_CMD_LPOS:
        return WORK_SEEN;
    case REDIS_CMD_LINDEX:
    case REDIS_CMD_LSET:
    case REDIS_CMD_LMOVE:
    case REDIS_CMD_RPOPLPUSH:
    case REDIS_CMD_LMPOP: /* counted by what they take: see pop_work() */
    case REDIS_CMD_ZMPOP:
    case REDIS_CMD_TYPE:
    case REDIS_CMD_OBJECT:
    case REDIS_CMD_XTRIM: /* of which a run changes a few thousand at most */
        return 0;
    default:
        return (command->flags & (REDIS_F_FAST | REDIS_F_LOCAL | REDIS_F_BLOCK)) != 0 ||
                       strcmp(command->group, "string") == 0 ||
                       strcmp(command->group, "bitmap") == 0
                   ? 0
                   : WORK_SHOWN;
    }
}

/* Of comparing so many texts with a pattern, beside showing them. */
static size_t pattern_work(size_t n, size_t pattern_size) {
    size_t work = n * (pattern_size / PATTERN_BYTES);
    return n * WORK_SHOWN + (work < WORK_OF_PATTERNS_MAX ? work : WORK_OF_PATTERNS_MAX);
}

/* Of SCAN and its like: as many as they are asked for, each compared with the pattern. */
static size_t scan_work(const struct bytes *argv, size_t argc) {
    int64_t count = SCANNED_AT_ONCE;
    size_t pattern_size = 0;
    for (size_t i = 2; i + 1 < argc; i++) {
        if (redis_word_is(argv[i], "count") && redis_number_integer(argv[i + 1], &count)) {
            count = count < SCANNED_AT_ONCE ? SCANNED_AT_ONCE : count;
            count = count > SCANNED_MAX ? SCANNED_MAX : count;
        } else if (redis_word_is(argv[i], "match")) {
            pattern_size = argv[i + 1].size;
        }
    }
    return pattern_work((size_t)count, pattern_size);
}

/* Of LMPOP and its like: of the first key that has something. */
static size_t pop_work(const struct key_store *keys, unsigned db,
                       const struct redis_command *command, const struct bytes *argv, size_t argc) {
    enum { RECORDS_OF_MEMBER = 2 };
    struct redis_mpop mpop;
    struct redis_header header;
    size_t i = 0;
    if (redis_mpop_parse(command, argv, argc, &mpop) != NULL) {
        /* It is refused, or not all of it is here. */
        mpop =
            (struct redis_mpop){.keys = argv + 1, .n_keys = argc - 1, .is_last = true, .count = 1};
    }
    while (i < mpop.n_keys && i < KEYS_LOOKED_AT && !find_header(keys, db, mpop.keys[i], &header)) {
        i++;
    }
    if (i == mpop.n_keys || i == KEYS_LOOKED_AT) {
        return 0;
    }
    bool passes_over_all = mpop.is_last && header.type == REDIS_ZSET;
    int64_t n = mpop.count < header.count ? mpop.count : header.count;
    return (passes_over_all ? WORK_SEEN * (size_t)header.count : 0) +
           KEY_WORK_A_DELETE * RECORDS_OF_MEMBER * (size_t)n;
}

/* Of members at random, which may be more than there are. */
static size_t sample_work(struct bytes argument) {
    int64_t count;
    if (!redis_number_integer(argument, &count) || count < -1024 * 1024) {
        return 0; /* it is refused */
    }
    return WORK_SHOWN * (size_t)(count < 0 ? -count : count > SCANNED_MAX ? SCANNED_MAX : count);
}

/* Of a whole database. */
static size_t database_work(const struct key_store *keys, unsigned db,
                            const struct redis_command *command, const struct bytes *argv) {
    const uint8_t first = (uint8_t)db;
    const uint8_t end = (uint8_t)(db + 1);
    switch (command->id) {
    case REDIS_CMD_KEYS:
        return pattern_work(
            key_store_count(keys, KEY_SPACE_REDIS, bytes_of(&first, 1), bytes_of(&end, 1)),
            argv[1].size);
    case REDIS_CMD_FLUSHALL:
    case REDIS_CMD_FLUSHDB:
        return KEY_WORK_A_DELETE * (size_t)(32 * 1024); /* of one step */
    default:
        return 0;
    }
}

/* How many entries of a stream are asked for, of so many. */
static size_t counted(const struct bytes *argv, size_t argc, size_t n) {
    int64_t count;
    for (size_t i = 1; i + 1 < argc; i++) {
        if (redis_word_is(argv[i], "count") && redis_number_integer(argv[i + 1], &count) &&
            count > 0 && (uint64_t)count < n) {
            return (size_t)count;
        }
    }
    return n;
}

/* How many elements a range by rank looks at, of so many. */
static size_t ranked(const struct redis_command *command, const struct bytes *argv, size_t argc,
                     size_t count) {
    int64_t start;
    int64_t stop;
    if (strcmp(command->group, "stream") == 0) {
        return counted(argv, argc, count);
    }
    bool is_list = command->id == REDIS_CMD_LRANGE;
    bool is_rank = is_list || (command->id == REDIS_CMD_ZRANGE && argc <= 5);
    if (!is_rank || !redis_number_integer(argv[2], &start) ||
        !redis_number_integer(argv[3], &stop) || start < 0 || stop < 0) {
        return count;
    }
    /* Those before the range are passed over, which takes as long. */
    size_t n = stop < start ? 0 : (size_t)(is_list ? stop - start : stop);
    return n < count ? n : count;
}

/* --- What values are. --- */

struct sizes {
    size_t n_left; /* elements that may still be looked at */
    size_t sum;
    size_t largest;
};

static bool add_size(void *context, const struct record *record) {
    struct sizes *sizes = context;
    if (sizes->n_left == 0) {
        return false;
    }
    size_t size = (size_t)record->key_size + record->value_size;
    sizes->n_left--;
    sizes->sum += size;
    sizes->largest = size > sizes->largest ? size : sizes->largest;
    return true;
}

static void visit_elements(const struct key_store *keys, const struct key_range *range,
                           struct sizes *sizes) {
    (void)key_store_visit(keys, range->space, range->key, range->range_end, add_size, sizes);
}

/* The largest element at the ends of a list, which commands on their way may move. */
static size_t end_size(const struct key_store *keys, const struct redis_header *header,
                       struct arena *arena) {
    struct sizes sizes = {.n_left = SIZE_MAX};
    if (header->type != REDIS_LIST) {
        return 0;
    }
    int64_t end = header->head + header->count;
    int64_t starts[] = {header->head, end - ELEMENTS_AT_AN_END};
    for (size_t i = 0; i < 2; i++) {
        const struct key_range range = {
            .space = KEY_SPACE_REDIS_RECORDS,
            .key = redis_key_position(arena, header->id, starts[i]),
            .range_end = redis_key_position(arena, header->id, starts[i] + ELEMENTS_AT_AN_END)};
        visit_elements(keys, &range, &sizes);
    }
    return sizes.largest;
}

/* What a script would copy if it read every key that its arguments may name. */
static size_t work_of_arguments(const struct key_store *keys, unsigned db, const struct bytes *argv,
                                size_t argc) {
    enum { LISTS_LOOKED_AT = 16 };
    size_t n_lists = 0;
    size_t work = 0;
    struct arena arena;
    arena_init(&arena);
    for (size_t i = 3; i < argc && i < KEYS_LOOKED_AT; i++) {
        struct redis_header header;
        if (!find_header(keys, db, argv[i], &header)) {
            continue;
        }
        work += header.value.size / VALUE_BYTES;
        if (header.type == REDIS_LIST && n_lists++ < LISTS_LOOKED_AT) {
            work += end_size(keys, &header, &arena) / VALUE_BYTES;
        }
    }
    arena_clear(&arena);
    return work;
}

/* Whether what is at its first key goes, before it is written. */
static bool replaces_first(const struct redis_command *command) {
    switch (command->id) {
    case REDIS_CMD_SINTERSTORE:
    case REDIS_CMD_SUNIONSTORE:
    case REDIS_CMD_SDIFFSTORE:
    case REDIS_CMD_ZINTERSTORE:
    case REDIS_CMD_ZUNIONSTORE:
    case REDIS_CMD_ZDIFFSTORE:
    case REDIS_CMD_ZRANGESTORE:
        return true;
    default:
        return false;
    }
}

/* Of a command whose keys are more than the arguments that are looked at, these. */
static bool find_keys(const struct redis_command *command, const struct bytes *argv, size_t argc,
                      struct redis_key_places *out_places) {
    if (redis_command_keys(command, argv, argc, out_places)) {
        return true;
    }
    bool is_counted = (command->flags & REDIS_F_MOVABLE) != 0 && command->id != REDIS_CMD_XREAD;
    *out_places = (struct redis_key_places){.first = 1, .n = argc - 1, .step = 1};
    return is_counted;
}

size_t redis_work_of(const struct key_store *keys, unsigned db, const struct redis_command *command,
                     const struct bytes *argv, size_t argc) {
    struct redis_key_places places;
    size_t work = WORK_AN_ARGUMENT * argc;
    if (command->id == REDIS_CMD_SCRIPT && argc > 2) {
        work += argv[2].size; /* which is compiled */
    } else if (argc > 1) {
        size_t script = redis_scripting_estimate(keys, bytes_from_text(command->name), argv[1]);
        work += script > 0 ? script + work_of_arguments(keys, db, argv, argc) : 0;
    }
    if (command->id == REDIS_CMD_BITCOUNT || command->id == REDIS_CMD_BITPOS) {
        struct redis_header header;
        return work +
               (find_header(keys, db, argv[1], &header) ? header.value.size / COUNTED_BYTES : 0);
    }
    if (redis_mpop_is(command)) {
        return work + pop_work(keys, db, command, argv, argc);
    }
    size_t each = element_work(command);
    if (each == 0 || !find_keys(command, argv, argc, &places)) {
        return work;
    }
    switch (command->id) {
    case REDIS_CMD_SCAN:
    case REDIS_CMD_HSCAN:
    case REDIS_CMD_SSCAN:
    case REDIS_CMD_ZSCAN:
        return work + scan_work(argv, argc);
    case REDIS_CMD_SRANDMEMBER:
    case REDIS_CMD_HRANDFIELD:
    case REDIS_CMD_ZRANDMEMBER:
        work += argc > 2 ? sample_work(argv[2]) : 0;
        break;
    default:
        break;
    }
    if (places.first == 0) {
        return work + database_work(keys, db, command, argv);
    }
    for (size_t i = 0; i < places.n && i < KEYS_LOOKED_AT; i++) {
        struct redis_header header;
        if (find_header(keys, db, argv[redis_key_place(&places, i)], &header)) {
            work += i == 0 && replaces_first(command)
                        ? KEY_WORK_A_DELETE * (size_t)header.count
                        : each * ranked(command, argv, argc, (size_t)header.count);
        }
    }
    return work;
}

/* Which values a command answers with, or makes new ones of, whose sizes its arguments do not
 * tell. */
enum moved {
    MOVED_NOTHING,
    MOVED_HEADERS,  /* written again, with the value of a string: nothing else */
    MOVED_VALUES,   /* and elements that are not looked at */
    MOVED_ENDS,     /* of lists */
    MOVED_ELEMENTS, /* many of them, or all */
};

static enum moved moved_by(const struct redis_command *command, const struct bytes *argv,
                           size_t argc) {
    switch (command->id) {
    case REDIS_CMD_SET:
        for (size_t i = 3; i < argc; i++) {
            if (redis_word_is(argv[i], "get")) {
                return MOVED_VALUES;
            }
        }
        return MOVED_NOTHING;
    case REDIS_CMD_EXPIRE:
    case REDIS_CMD_PEXPIRE:
    case REDIS_CMD_EXPIREAT:
    case REDIS_CMD_PEXPIREAT:
    case REDIS_CMD_PERSIST:
    case REDIS_CMD_RENAME:
    case REDIS_CMD_RENAMENX:
        return MOVED_HEADERS;
    case REDIS_CMD_GETSET:
    case REDIS_CMD_GETDEL:
    case REDIS_CMD_GETEX:
    case REDIS_CMD_APPEND:
    case REDIS_CMD_SETRANGE:
    case REDIS_CMD_SETBIT:
    case REDIS_CMD_BITFIELD:
    case REDIS_CMD_LPOP:
    case REDIS_CMD_RPOP:
    case REDIS_CMD_LMPOP:
    case REDIS_CMD_BLMPOP:
    case REDIS_CMD_ZMPOP:
    case REDIS_CMD_BZMPOP:
    case REDIS_CMD_SPOP:
        return MOVED_VALUES;
    case REDIS_CMD_LMOVE:
    case REDIS_CMD_RPOPLPUSH:
    case REDIS_CMD_BLMOVE:
    case REDIS_CMD_BRPOPLPUSH:
        return MOVED_ENDS;
    case REDIS_CMD_COPY:
    case REDIS_CMD_LINSERT:
    case REDIS_CMD_LREM:
    case REDIS_CMD_SINTER: /* which are compared, the long ones as well */
    case REDIS_CMD_SINTERCARD:
    case REDIS_CMD_SUNION:
    case REDIS_CMD_SDIFF:
    case REDIS_CMD_ZINTER:
    case REDIS_CMD_ZINTERCARD:
    case REDIS_CMD_ZUNION:
    case REDIS_CMD_ZDIFF:
        return MOVED_ELEMENTS;
    default:
        if (replaces_first(command)) {
            return MOVED_ELEMENTS;
        }
        return (command->flags & REDIS_F_READ) != 0 ? MOVED_VALUES : MOVED_NOTHING;
    }
}

/* Elements may be as large as values, and are not looked at: so some hundred commands at once. */
static size_t least_work_of(enum moved moved, size_t size_to_come) {
    size_t least = moved == MOVED_HEADERS ? 0 : WORK_OF_VALUES_LEAST;
    size_t to_come = size_to_come / VALUE_BYTES;
    return to_come > least ? to_come : least;
}

static size_t elements_work(const struct key_store *keys, const struct redis_header *header,
                            struct arena *arena, struct sizes *sizes) {
    if (header->type == REDIS_STRING) {
        return 0;
    }
    struct key_range range = redis_range_elements(arena, header->id);
    size_t before = sizes->sum;
    bool is_more = (size_t)header->count > sizes->n_left;
    visit_elements(keys, &range, sizes);
    return (sizes->sum - before) / VALUE_BYTES + (is_more ? WORK_OF_MORE_ELEMENTS : 0);
}

/* SETRANGE, SETBIT and BITFIELD make a value as large as their offset. */
static size_t work_of_offset(const struct redis_command *command, const struct bytes *argv,
                             size_t argc) {
    int64_t size = (int64_t)redis_bits_written(command, argv, argc);
    if (command->id == REDIS_CMD_SETRANGE && !redis_number_integer(argv[2], &size)) {
        size = 0;
    }
    return size > 0 && size <= VALUE_SIZE_MAX ? (size_t)size / VALUE_BYTES : 0;
}

size_t redis_work_of_values(const struct key_store *keys, unsigned db,
                            const struct redis_command *command, const struct bytes *argv,
                            size_t argc, size_t size_to_come) {
    struct redis_key_places places;
    enum moved moved = moved_by(command, argv, argc);
    bool is_script = strcmp(command->group, "scripting") == 0;
    if (is_script && (command->flags & REDIS_F_WRITE) != 0) {
        return size_to_come / VALUE_BYTES;
    }
    if (moved == MOVED_NOTHING || !redis_command_keys(command, argv, argc, &places) ||
        places.first == 0) {
        return 0;
    }
    struct sizes sizes = {.n_left = ELEMENTS_LOOKED_AT};
    struct arena arena;
    arena_init(&arena);
    size_t work = least_work_of(moved, size_to_come) + work_of_offset(command, argv, argc);
    for (size_t i = 0; i < places.n && i < KEYS_LOOKED_AT; i++) {
        struct redis_header header;
        if (!find_header(keys, db, argv[redis_key_place(&places, i)], &header)) {
            continue;
        }
        work += header.value.size / VALUE_BYTES;
        if (moved == MOVED_ENDS) {
            work += end_size(keys, &header, &arena) / VALUE_BYTES;
        } else if (moved == MOVED_ELEMENTS && sizes.n_left > 0) {
            work += elements_work(keys, &header, &arena, &sizes);
        }
    }
    arena_clear(&arena);
    return work;
}

size_t redis_work_kept_bytes(const struct key_store *keys, unsigned db,
                             const struct redis_command *command, const struct bytes *argv,
                             size_t argc) {
    struct redis_key_places places = {.first = 3, .n = argc > 3 ? argc - 3 : 0, .step = 1};
    size_t size = 0;
    bool copies = command->id == REDIS_CMD_COPY || replaces_first(command);
    switch (command->id) {
    case REDIS_CMD_EVAL:
    case REDIS_CMD_EVALSHA: /* its arguments may be keys */
        break;
    case REDIS_CMD_SETRANGE:
    case REDIS_CMD_SETBIT:
    case REDIS_CMD_BITFIELD:
        size = VALUE_BYTES * work_of_offset(command, argv, argc);
        /* fall through */
    case REDIS_CMD_EXPIRE:
    case REDIS_CMD_PEXPIRE:
    case REDIS_CMD_EXPIREAT:
    case REDIS_CMD_PEXPIREAT:
    case REDIS_CMD_PERSIST:
    case REDIS_CMD_RENAME:
    case REDIS_CMD_RENAMENX:
    case REDIS_CMD_APPEND:
    case REDIS_CMD_GETEX:
    case REDIS_CMD_COPY:
        if (!redis_command_keys(command, argv, argc, &places) || places.first == 0) {
            return 0;
        }
        break;
    default:
        if (!copies || !redis_command_keys(command, argv, argc, &places)) {
            return 0;
        }
    }
    for (size_t i = 0; i < places.n && i < KEYS_LOOKED_AT; i++) {
        struct redis_header header;
        if (find_header(keys, db, argv[redis_key_place(&places, i)], &header)) {
            size += header.value.size + (copies ? ELEMENT_SIZE * (size_t)header.count : 0);
        }
    }
    return size;
}

size_t redis_work_of_members(const struct key_store *keys, unsigned db,
                             const struct redis_command *command, const struct bytes *argv,
                             size_t argc, size_t n_max) {
    struct redis_key_places places;
    struct sizes sizes = {.n_left = n_max};
    struct arena arena;
    if (!redis_command_keys(command, argv, argc, &places) || places.first == 0) {
        return 0;
    }
    arena_init(&arena);
    for (size_t i = 0; i < places.n && i < KEYS_LOOKED_AT && sizes.n_left > 0; i++) {
        struct redis_header header;
        if (find_header(keys, db, argv[redis_key_place(&places, i)], &header)) {
            (void)elements_work(keys, &header, &arena, &sizes);
        }
    }
    arena_clear(&arena);
    return sizes.sum / VALUE_BYTES;
}

size_t redis_work_of_made(const struct redis_command *command, size_t work, size_t of_values) {
    switch (command->id) {
    case REDIS_CMD_RENAME:
    case REDIS_CMD_RENAMENX:
    case REDIS_CMD_COPY:
    case REDIS_CMD_SETRANGE:
    case REDIS_CMD_SETBIT:
    case REDIS_CMD_BITFIELD:
        return of_values > WORK_OF_VALUES_LEAST ? of_values : 0;
    case REDIS_CMD_EVAL:
    case REDIS_CMD_EVALSHA:
        /* What it was seen to write, and not what a script of its looks may. */
        return work > WORK_OF_WRITING_SCRIPTS ? work : 0;
    default:
        return replaces_first(command) && of_values > WORK_OF_VALUES_LEAST ? of_values : 0;
    }
}

size_t redis_work_reply_size(const struct key_store *keys, unsigned db,
                             const struct redis_command *command, const struct bytes *argv,
                             size_t argc) {
    struct redis_key_places places;
    size_t size = 0;
    bool shows_all = element_work(command) > 0;
    if (!redis_command_keys(command, argv, argc, &places) || places.first == 0) {
        return 0;
    }
    for (size_t i = 0; i < places.n && i < KEYS_LOOKED_AT; i++) {
        struct redis_header header;
        if (find_header(keys, db, argv[redis_key_place(&places, i)], &header)) {
            size += header.value.size + (shows_all ? ELEMENT_SIZE * (size_t)header.count : 0);
        }
    }
    return size;
}
