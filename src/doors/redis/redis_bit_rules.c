/* Bits of strings, and numbers of some bits. Bit 0 is the highest of the first byte. */
#include "doors/redis/redis_bit_rules.h"

#include "core/key_work.h"
#include "doors/redis/redis_events_rules.h"
#include "doors/redis/redis_string_rules.h"

#include <string.h>

/* Behind 512 MiB, as in Redis; strings are smaller here. */
#define OFFSET_MAX (INT64_C(512) * 1024 * 1024 * 8 - 1)

static const char wrong_offset[] = "bit offset is not an integer or out of range";

/* `bits`: of a number, for "#3", the third such number; 0: that is not known. */
static bool parse_offset(struct bytes argument, unsigned bits, int64_t *out_offset) {
    bool counts_numbers = bits > 0 && argument.size > 0 && argument.data[0] == '#';
    if (counts_numbers) {
        argument = bytes_of(argument.data + 1, argument.size - 1);
    }
    if (!redis_number_integer(argument, out_offset) || *out_offset < 0 ||
        *out_offset > OFFSET_MAX) {
        return false;
    }
    *out_offset *= counts_numbers ? bits : 1;
    return *out_offset <= OFFSET_MAX;
}

/* What is behind the end is 0. */
static unsigned bit_at(struct bytes value, size_t offset) {
    size_t byte = offset / 8;
    return byte < value.size ? value.data[byte] >> (7 - offset % 8) & 1 : 0;
}

static void set_bit(uint8_t *value, size_t offset, unsigned bit) {
    uint8_t mask = (uint8_t)(1 << (7 - offset % 8));
    value[offset / 8] = (uint8_t)((value[offset / 8] & ~mask) | (bit != 0 ? mask : 0));
}

/* A copy that has room for so many bytes. */
static struct bytes copy_grown(struct redis_run *run, struct bytes value, size_t size) {
    size_t grown = value.size > size ? value.size : size;
    uint8_t *copy = arena_calloc(run->arena, grown, 1);
    if (value.size > 0) {
        memcpy(copy, value.data, value.size);
    }
    return bytes_of(copy, grown);
}

/* --- One bit. --- */

void redis_bit_setbit(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object object;
    int64_t offset;
    int64_t bit;
    (void)argc;
    if (!parse_offset(argv[2], 0, &offset)) {
        redis_error(run, wrong_offset);
        return;
    }
    if (!redis_number_integer(argv[3], &bit) || bit < 0 || bit > 1) {
        redis_error(run, "bit is not an integer or out of range");
        return;
    }
    size_t size = (size_t)offset / 8 + 1;
    if (!redis_object_load_as(run, argv[1], REDIS_STRING, &object) ||
        !redis_string_fits(run, size)) {
        return;
    }
    unsigned old = bit_at(object.header.value, (size_t)offset);
    if (size > object.header.value.size || old != (unsigned)bit) {
        struct bytes value = copy_grown(run, object.header.value, size);
        set_bit((uint8_t *)value.data, (size_t)offset, (unsigned)bit);
        redis_string_change(run, &object, value);
        redis_event(run, REDIS_EVENT_STRING, "setbit", object.name);
    }
    redis_reply_integer(run->reply, old);
}

void redis_bit_getbit(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object object;
    int64_t offset;
    (void)argc;
    if (!parse_offset(argv[2], 0, &offset)) {
        redis_error(run, wrong_offset);
        return;
    }
    if (redis_object_load_as(run, argv[1], REDIS_STRING, &object)) {
        redis_reply_integer(run->reply, bit_at(object.header.value, (size_t)offset));
    }
}

/* --- Many bits. --- */

struct bit_range {
    int64_t first; /* bits, [first, last] */
    int64_t last;
};

static bool get_unit(struct redis_run *run, struct bytes word, bool *out_is_bits) {
    *out_is_bits = redis_word_is(word, "bit");
    if (!*out_is_bits && !redis_word_is(word, "byte")) {
        redis_error_syntax(run);
        return false;
    }
    return true;
}

/* Negative ends count from the end of the value. */
static struct bit_range range_of(size_t size, int64_t first, int64_t last, bool is_bits) {
    int64_t total = (int64_t)size * (is_bits ? 8 : 1);
    first = first < 0 ? first + total : first;
    last = last < 0 ? last + total : last;
    first = first < 0 ? 0 : first;
    last = last < 0 ? 0 : last;
    last = last >= total ? total - 1 : last;
    if (first > last) {
        return (struct bit_range){.first = 1, .last = 0};
    }
    return is_bits ? (struct bit_range){first, last} : (struct bit_range){8 * first, 8 * last + 7};
}

static size_t bytes_in(const struct bit_range *range) {
    return range->first > range->last ? 0 : (size_t)(range->last / 8 - range->first / 8 + 1);
}

/* A byte as it is within the range; bits beyond it are 0. */
static uint8_t byte_within(struct bytes value, const struct bit_range *range, int64_t byte) {
    unsigned all = value.data[byte];
    if (8 * byte < range->first) {
        all &= 0xffU >> (range->first - 8 * byte);
    }
    if (8 * byte + 7 > range->last) {
        all &= 0xffU << (8 * byte + 7 - range->last);
    }
    return (uint8_t)all;
}

static int64_t count_bits(struct bytes value, const struct bit_range *range) {
    int64_t n = 0;
    int64_t byte = range->first / 8;
    int64_t end = range->last / 8; /* the last one */
    if (range->first > range->last) {
        return 0;
    }
    n += __builtin_popcount(byte_within(value, range, byte++));
    for (; byte + 8 <= end; byte += 8) {
        uint64_t eight;
        memcpy(&eight, value.data + byte, sizeof eight);
        n += __builtin_popcountll(eight);
    }
    for (; byte <= end; byte++) {
        n += __builtin_popcount(byte_within(value, range, byte));
    }
    return n;
}

void redis_bit_bitcount(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object object;
    int64_t first = 0;
    int64_t last = -1;
    bool is_bits = false;
    if (!redis_object_load_as(run, argv[1], REDIS_STRING, &object)) {
        return;
    }
    if (!redis_object_exists(&object)) {
        redis_reply_integer(run->reply, 0);
        return;
    }
    if (argc != 2 && argc != 4 && argc != 5) {
        redis_error_syntax(run);
        return;
    }
    if (argc > 2 &&
        (!redis_get_integer(run, argv[2], &first) || !redis_get_integer(run, argv[3], &last))) {
        return;
    }
    struct bit_range range = {.first = 1};
    bool is_empty = argc > 2 && first < 0 && last < 0 && first > last;
    if (!is_empty) {
        if (argc == 5 && !get_unit(run, argv[4], &is_bits)) {
            return;
        }
        range = range_of(object.header.value.size, first, last, is_bits);
    }
    if (redis_run_compare(run, bytes_in(&range), 1)) {
        redis_reply_integer(run->reply, count_bits(object.header.value, &range));
    }
}

/* -1: there is none. */
static int64_t find_bit(struct bytes value, const struct bit_range *range, unsigned bit) {
    uint8_t others[8];
    memset(others, bit != 0 ? 0 : 0xff, sizeof others);
    for (int64_t at = range->first; at <= range->last; at++) {
        if (at % 8 == 0 && at + 63 <= range->last &&
            memcmp(value.data + at / 8, others, sizeof others) == 0) {
            at += 63;
        } else if (bit_at(value, (size_t)at) == bit) {
            return at;
        }
    }
    return -1;
}

void redis_bit_bitpos(struct redis_run *run, const struct bytes *argv, size_t argc) {
    struct redis_object object;
    int64_t bit;
    int64_t first = 0;
    int64_t last = -1;
    bool is_bits = false;
    if (!redis_get_integer(run, argv[2], &bit)) {
        return;
    }
    if (bit != 0 && bit != 1) {
        redis_error(run, "The bit argument must be 1 or 0.");
        return;
    }
    if (!redis_object_load_as(run, argv[1], REDIS_STRING, &object)) {
        return;
    }
    if (!redis_object_exists(&object)) {
        redis_reply_integer(run->reply, bit != 0 ? -1 : 0);
        return;
    }
    if (argc > 6) {
        redis_error_syntax(run);
        return;
    }
    if ((argc > 3 && !redis_get_integer(run, argv[3], &first)) ||
        (argc > 5 && !get_unit(run, argv[5], &is_bits)) ||
        (argc > 4 && !redis_get_integer(run, argv[4], &last))) {
        return;
    }
    struct bit_range range = range_of(object.header.value.size, first, last, is_bits);
    if (!redis_run_compare(run, bytes_in(&range), 1)) {
        return;
    }
    int64_t at = find_bit(object.header.value, &range, (unsigned)bit);
    if (at < 0 && bit == 0 && argc <= 4 && range.first <= range.last) {
        at = range.last + 1; /* zeros follow where no end was named */
    }
    redis_reply_integer(run->reply, at);
}

/* --- Numbers of some bits. --- */

enum overflow { WRAP, SATURATE, FAIL };

struct field {
    enum { FIELD_GET, FIELD_SET, FIELD_INCREMENT } kind;
    bool is_signed;
    unsigned bits;
    size_t offset;
    int64_t operand;
    enum overflow overflow;
};

static bool parse_type(struct bytes argument, struct field *field) {
    int64_t bits;
    bool is_known = argument.size > 0 && (argument.data[0] == 'i' || argument.data[0] == 'u');
    field->is_signed = is_known && argument.data[0] == 'i';
    if (!is_known || !redis_number_integer(bytes_of(argument.data + 1, argument.size - 1), &bits) ||
        bits < 1 || bits > (field->is_signed ? 64 : 63)) {
        return false;
    }
    field->bits = (unsigned)bits;
    return true;
}

static bool parse_overflow(struct bytes argument, enum overflow *out) {
    static const char *const names[] = {[WRAP] = "wrap", [SATURATE] = "sat", [FAIL] = "fail"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (redis_word_is(argument, names[i])) {
            *out = (enum overflow)i;
            return true;
        }
    }
    return false;
}

static bool parse_kind(struct bytes word, size_t n_behind, struct field *field) {
    field->kind = redis_word_is(word, "get")   ? FIELD_GET
                  : redis_word_is(word, "set") ? FIELD_SET
                                               : FIELD_INCREMENT;
    bool is_known = field->kind != FIELD_INCREMENT || redis_word_is(word, "incrby");
    return is_known && n_behind >= (field->kind == FIELD_GET ? 2 : 3);
}

/* One operation, from argument `*at` on; `*at` is behind it then. The error, or NULL. What is no
 * operation, but says what an overflow does, leaves `bits` at 0. */
static const char *parse_field(const struct bytes *argv, size_t argc, size_t *at,
                               struct field *field) {
    size_t n_behind = argc - *at - 1;
    const struct bytes *words = argv + *at;
    field->bits = 0;
    if (redis_word_is(words[0], "overflow") && n_behind >= 1) {
        *at += 2;
        return parse_overflow(words[1], &field->overflow) ? NULL
                                                          : "Invalid OVERFLOW type specified";
    }
    if (!parse_kind(words[0], n_behind, field)) {
        return "syntax error";
    }
    if (!parse_type(words[1], field)) {
        return "Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported "
               "but i64 is.";
    }
    int64_t offset;
    if (!parse_offset(words[2], field->bits, &offset)) {
        return wrong_offset;
    }
    field->offset = (size_t)offset;
    if (field->kind != FIELD_GET && !redis_number_integer(words[3], &field->operand)) {
        return "value is not an integer or out of range";
    }
    *at += field->kind == FIELD_GET ? 3 : 4;
    return NULL;
}

/* What the arguments of BITFIELD come to. */
struct fields {
    size_t n;
    size_t size; /* that a value has at least; 0: nothing is written */
};

static const char *parse_fields(const struct bytes *argv, size_t argc, struct fields *out) {
    struct field field = {0};
    struct fields fields = {0};
    for (size_t at = 2; at < argc;) {
        const char *error = parse_field(argv, argc, &at, &field);
        if (error != NULL) {
            return error;
        }
        size_t size = field.bits == 0 ? 0 : (field.offset + field.bits - 1) / 8 + 1;
        fields.n += field.bits > 0;
        if (field.kind != FIELD_GET && size > fields.size) {
            fields.size = size;
        }
    }
    *out = fields;
    return NULL;
}

static uint64_t raw_at(struct bytes value, const struct field *field) {
    uint64_t raw = 0;
    for (unsigned i = 0; i < field->bits; i++) {
        raw = raw << 1 | bit_at(value, field->offset + i);
    }
    return raw;
}

static void put_raw(uint8_t *value, const struct field *field, uint64_t raw) {
    for (unsigned i = 0; i < field->bits; i++) {
        set_bit(value, field->offset + i, (unsigned)(raw >> (field->bits - 1 - i) & 1));
    }
}

/* Its lowest bits as a number. */
static int64_t number_of(const struct field *field, uint64_t raw) {
    uint64_t mask = UINT64_MAX >> (64 - field->bits);
    bool is_negative = field->is_signed && (raw >> (field->bits - 1) & 1) != 0;
    return (int64_t)(is_negative ? raw | ~mask : raw & mask);
}

/* What is to be written; false: it does not fit, and nothing is to be. */
static bool result_of(const struct field *field, int64_t old, int64_t *out_number) {
    int64_t most = (int64_t)(UINT64_MAX >> (64 - field->bits) >> field->is_signed);
    int64_t least = field->is_signed ? -most - 1 : 0;
    int64_t base = field->kind == FIELD_INCREMENT ? old : 0;
    int64_t sum;
    /* A negative number that is set where there is no sign is a very large one. */
    bool is_large = !field->is_signed && field->kind == FIELD_SET && field->operand < 0;
    bool is_beyond = __builtin_add_overflow(base, field->operand, &sum);
    bool is_above = is_large || (is_beyond ? field->operand > 0 : sum > most);
    bool is_below = !is_large && (is_beyond ? field->operand < 0 : sum < least);
    if (!is_above && !is_below) {
        *out_number = sum;
        return true;
    }
    if (field->overflow == SATURATE) {
        *out_number = is_above ? most : least;
    } else {
        *out_number = number_of(field, (uint64_t)base + (uint64_t)field->operand);
    }
    return field->overflow != FAIL;
}

/* True when it was written, even if it is the same then. */
static bool run_field(struct redis_run *run, struct bytes value, const struct field *field,
                      bool *has_changed) {
    int64_t old = number_of(field, raw_at(value, field));
    int64_t number;
    if (field->kind == FIELD_GET) {
        redis_reply_integer(run->reply, old);
        return false;
    }
    if (!result_of(field, old, &number)) {
        redis_reply_null(run->reply);
        return false;
    }
    put_raw((uint8_t *)value.data, field, (uint64_t)number);
    redis_reply_integer(run->reply, field->kind == FIELD_SET ? old : number);
    *has_changed = *has_changed || old != number;
    return true;
}

void redis_bit_bitfield(struct redis_run *run, const struct bytes *argv, size_t argc) {
    enum { WORK_OF_FIELD = 8 }; /* one of 64 bits takes as long, in units of core/key_work.h */
    struct redis_object object;
    struct fields fields;
    const char *error = parse_fields(argv, argc, &fields);
    if (error == NULL && fields.size > 0 && run->command->id == REDIS_CMD_BITFIELD_RO) {
        error = "BITFIELD_RO only supports the GET subcommand";
    }
    if (error != NULL) {
        redis_error(run, error);
        return;
    }
    if (!redis_object_load_as(run, argv[1], REDIS_STRING, &object) ||
        !redis_string_fits(run, fields.size)) {
        return;
    }
    struct bytes value = object.header.value;
    bool has_grown = fields.size > value.size;
    bool has_changed = false;
    bool has_written = false;
    if (!redis_run_compare(run, KEY_WORK_COMPARED_BYTES, WORK_OF_FIELD * fields.n)) {
        return;
    }
    if (fields.size > 0) {
        value = copy_grown(run, value, fields.size);
    }
    redis_reply_array(run->reply, fields.n);
    struct field field = {0};
    for (size_t at = 2; at < argc && !redis_run_is_full(run);) {
        (void)parse_field(argv, argc, &at, &field);
        has_written =
            (field.bits > 0 && run_field(run, value, &field, &has_changed)) || has_written;
    }
    if (has_grown || has_changed) {
        redis_string_change(run, &object, value);
    }
    if (has_changed || (has_grown && has_written)) {
        redis_event(run, REDIS_EVENT_STRING, "setbit", object.name);
    }
}

size_t redis_bits_written(const struct redis_command *command, const struct bytes *argv,
                          size_t argc) {
    struct fields fields = {0};
    int64_t offset;
    if (command->id == REDIS_CMD_SETBIT) {
        return argc > 2 && parse_offset(argv[2], 0, &offset) ? (size_t)offset / 8 + 1 : 0;
    }
    return command->id == REDIS_CMD_BITFIELD && parse_fields(argv, argc, &fields) == NULL
               ? fields.size
               : 0;
}
