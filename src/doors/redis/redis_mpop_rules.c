#include "doors/redis/redis_mpop_rules.h"

#include "doors/redis/redis_run_rules.h"

bool redis_mpop_is(const struct redis_command *command) {
    return command->id == REDIS_CMD_LMPOP || command->id == REDIS_CMD_BLMPOP ||
           command->id == REDIS_CMD_ZMPOP || command->id == REDIS_CMD_BZMPOP;
}

static bool get_end(const struct redis_command *command, struct bytes word, bool *out_is_last) {
    bool is_list = command->id == REDIS_CMD_LMPOP || command->id == REDIS_CMD_BLMPOP;
    *out_is_last = redis_word_is(word, is_list ? "right" : "max");
    return *out_is_last || redis_word_is(word, is_list ? "left" : "min");
}

const char *redis_mpop_parse(const struct redis_command *command, const struct bytes *argv,
                             size_t argc, struct redis_mpop *out_mpop) {
    struct redis_mpop mpop = {.count = 1};
    size_t at = (command->flags & REDIS_F_BLOCK) != 0 ? 2 : 1;
    bool has_count = false;
    int64_t n_keys;
    if (!redis_number_integer(argv[at], &n_keys) || n_keys < 1) {
        return "ERR numkeys should be greater than 0";
    }
    at++;
    if ((uint64_t)n_keys >= argc - at) {
        return "ERR syntax error";
    }
    mpop.keys = argv + at;
    mpop.n_keys = (size_t)n_keys;
    at += mpop.n_keys;
    if (!get_end(command, argv[at++], &mpop.is_last)) {
        return "ERR syntax error";
    }
    for (; at < argc; at += 2) {
        if (has_count || at + 1 == argc || !redis_word_is(argv[at], "count")) {
            return "ERR syntax error";
        }
        has_count = true;
        if (!redis_number_integer(argv[at + 1], &mpop.count) || mpop.count < 1) {
            return "ERR count should be greater than 0";
        }
    }
    *out_mpop = mpop;
    return NULL;
}

const char *redis_timeout_parse(struct bytes argument, uint64_t *out_ms) {
    enum { SECONDS_MAX = 1000 * 1000 * 1000 };
    double seconds;
    if (!redis_number_double(argument, &seconds) || seconds > SECONDS_MAX) {
        return "ERR timeout is not a float or out of range";
    }
    if (seconds < 0) {
        return "ERR timeout is negative";
    }
    uint64_t ms = (uint64_t)(seconds * 1000);
    *out_ms = seconds > 0 && ms == 0 ? 1 : ms;
    return NULL;
}

bool redis_timeout_check(struct redis_run *run, struct bytes argument) {
    uint64_t ignored;
    const char *error = redis_timeout_parse(argument, &ignored);
    if (error != NULL) {
        redis_reply_error_text(run->reply, error);
    }
    return error == NULL;
}
