/* What compiling a source costs beside its length. Only as much is read of it as tells how
 * functions are inside of each other; where it is no Lua, the compiler stops. */
#include "doors/redis/redis_script_state_rules.h"

#include <lua.h>

enum {
    JUMP_PAIRS = 16,    /* that are looked at in the time of an instruction */
    NAMES_PER_WORK = 8, /* that are compared in it */
    BLOCKS_MAX = 256,   /* inside of each other; more than Lua takes */
    LOCALS_MAX = 200,   /* of one function, in Lua */
    ERROR_PER_WORK = 8, /* bytes of the source of a function that an error is in */
    NAME_PER_WORK = 16  /* bytes of the name of a source */
};

struct scan {
    struct bytes source;
    size_t at;
    uint64_t n_jumps;
    uint64_t n_compared;
    bool is_list; /* of names that are declared */
    size_t n_blocks;
    bool is_function[BLOCKS_MAX];
    size_t n_functions; /* inside of each other, and what each of them declares */
    uint32_t n_locals[BLOCKS_MAX + 1];
    uint32_t n_seen; /* the sum of these */
};

static bool is_letter(uint8_t byte) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9') || byte == '_';
}

static bool is_one_of(struct bytes word, const char *const *words) {
    for (; *words != NULL; words++) {
        if (bytes_equal(word, bytes_from_text(*words))) {
            return true;
        }
    }
    return false;
}

static bool is_word(struct bytes word, const char *text) {
    return bytes_equal(word, bytes_from_text(text));
}

static uint8_t byte_at(const struct scan *scan, size_t at) {
    return at < scan->source.size ? scan->source.data[at] : 0;
}

static void declare(struct scan *scan, uint32_t n) {
    uint32_t *n_locals = &scan->n_locals[scan->n_functions];
    uint32_t more = n < LOCALS_MAX - *n_locals ? n : LOCALS_MAX - *n_locals;
    *n_locals += more;
    scan->n_seen += more;
}

static void begin_block(struct scan *scan, bool is_function) {
    if (scan->n_blocks == BLOCKS_MAX) {
        scan->at = scan->source.size; /* Lua does not get further */
        return;
    }
    scan->is_function[scan->n_blocks++] = is_function;
    if (is_function) {
        scan->n_locals[++scan->n_functions] = 0;
    }
}

static void end_block(struct scan *scan) {
    if (scan->n_blocks > 0 && scan->is_function[--scan->n_blocks]) {
        scan->n_seen -= scan->n_locals[scan->n_functions--];
    }
}

/* A name is sought among those of its function, then of the one around it, … */
static void take_word(struct scan *scan, struct bytes word) {
    /* At each of these Lua goes through a list of the jumps before it. */
    static const char *const jumps[] = {"or", "and", "elseif", "break", NULL};
    static const char *const blocks[] = {"do", "if", "repeat", NULL};
    static const char *const ends[] = {"end", "until", NULL};
    enum { HIDDEN_OF_FOR = 3, HIDDEN_OF_FUNCTION = 2 };
    scan->n_compared += scan->n_seen;
    scan->n_jumps += is_one_of(word, jumps);
    if (is_word(word, "function")) {
        declare(scan, 1); /* its own name */
        begin_block(scan, true);
        declare(scan, HIDDEN_OF_FUNCTION + 1);
        scan->is_list = true;
    } else if (is_one_of(word, blocks)) {
        begin_block(scan, false);
    } else if (is_one_of(word, ends)) {
        end_block(scan);
    } else if (is_word(word, "local")) {
        declare(scan, 1);
        scan->is_list = true;
    } else if (is_word(word, "for")) {
        declare(scan, HIDDEN_OF_FOR + 1);
        scan->is_list = true;
    }
}

/* The level of a long bracket that begins here, or -1. */
static int bracket_level(const struct scan *scan, size_t at) {
    size_t end = at + 1;
    if (byte_at(scan, at) != '[') {
        return -1;
    }
    while (byte_at(scan, end) == '=') {
        end++;
    }
    return byte_at(scan, end) == '[' ? (int)(end - at - 1) : -1;
}

static void skip_bracket(struct scan *scan, int level) {
    size_t size = (size_t)level + 2;
    for (scan->at += size; scan->at < scan->source.size; scan->at++) {
        size_t end = scan->at + 1;
        while (byte_at(scan, scan->at) == ']' && byte_at(scan, end) == '=') {
            end++;
        }
        if (byte_at(scan, scan->at) == ']' && byte_at(scan, end) == ']' &&
            end + 1 - scan->at == size) {
            scan->at += size;
            return;
        }
    }
}

static void skip_comment(struct scan *scan) {
    int level = bracket_level(scan, scan->at + 2);
    scan->at += 2;
    if (level >= 0) {
        skip_bracket(scan, level);
        return;
    }
    while (scan->at < scan->source.size && byte_at(scan, scan->at) != '\n' &&
           byte_at(scan, scan->at) != '\r') {
        scan->at++;
    }
}

static void skip_string(struct scan *scan) {
    uint8_t quote = byte_at(scan, scan->at++);
    while (scan->at < scan->source.size && byte_at(scan, scan->at) != quote) {
        scan->at += byte_at(scan, scan->at) == '\\' ? 2 : 1;
    }
    scan->at++;
}

static void take_sign(struct scan *scan, uint8_t sign) {
    switch (sign) {
    case ',':
        declare(scan, scan->is_list ? 1 : 0);
        break;
    case ' ':
    case '\t':
    case '\n':
    case '\v':
    case '\f':
    case '\r':
    case '(': /* of parameters */
    case '.':
    case ':':
        break;
    default:
        scan->is_list = false;
    }
    scan->at++;
}

static void take_next(struct scan *scan) {
    uint8_t byte = byte_at(scan, scan->at);
    int level = bracket_level(scan, scan->at);
    size_t begin = scan->at;
    if (is_letter(byte)) {
        while (is_letter(byte_at(scan, scan->at))) {
            scan->at++;
        }
        take_word(scan, bytes_of(scan->source.data + begin, scan->at - begin));
    } else if (byte == '-' && byte_at(scan, begin + 1) == '-') {
        skip_comment(scan);
    } else if (byte == '"' || byte == '\'') {
        skip_string(scan);
    } else if (level >= 0) {
        skip_bracket(scan, level);
    } else {
        take_sign(scan, byte);
    }
}

static void note_size(size_t size) {
    struct redis_script_counters *counters = redis_script_current()->counters;
    counters->source_max = size > counters->source_max ? size : counters->source_max;
}

void redis_script_charge_source(lua_State *lua, struct bytes source) {
    struct scan scan = {.source = source};
    note_size(source.size);
    redis_script_charge(lua, source.size);
    while (scan.at < source.size) {
        take_next(&scan);
    }
    redis_script_charge(lua, scan.n_jumps * scan.n_jumps / JUMP_PAIRS +
                                 scan.n_compared / NAMES_PER_WORK);
}

void redis_script_charge_name(lua_State *lua, size_t size) {
    note_size(size);
    redis_script_charge(lua, size / NAME_PER_WORK);
}

void redis_script_charge_error(lua_State *lua) {
    redis_script_charge(lua, redis_script_current()->counters->source_max / ERROR_PER_WORK);
}
