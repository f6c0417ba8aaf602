/* Requests of the Redis protocol: what is parsed from a beginning is the same when more follows,
 * and what was a request is one again, byte for byte as far as it was. */
#include "doors/redis/redis_parser.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct redis_parser_limits limits = {.arguments_max = 1024, .bulk_max = 64 * 1024};

static void check_again(const uint8_t *data, size_t size, const struct redis_parsed *parsed) {
    struct arena arena;
    struct redis_parsed again;
    arena_init(&arena);
    assert(parsed->size <= size);
    assert(redis_parse(bytes_of(data, parsed->size), &limits, &arena, &again) == REDIS_PARSE_OK);
    assert(again.size == parsed->size && again.argc == parsed->argc);
    for (size_t i = 0; i < again.argc; i++) {
        assert(bytes_equal(again.argv[i], parsed->argv[i]));
    }
    if (parsed->size > 1) {
        /* One byte less is no other request, unless a line end was optional. */
        (void)redis_parse(bytes_of(data, parsed->size - 1), &limits, &arena, &again);
    }
    arena_clear(&arena);
}

/* In pieces, an array is as long as the parser says; one that is too large is passed over. */
static void check_scan(const uint8_t *data, size_t size, enum redis_parse_result expected,
                       const struct redis_parsed *parsed) {
    struct redis_scan scan = {0};
    const char *error = NULL;
    enum redis_parse_result result = REDIS_PARSE_MORE;
    size_t passed = 0;
    for (size_t end = 1; end <= size && result == REDIS_PARSE_MORE; end += 1 + size / 16) {
        result = redis_scan(&scan, bytes_of(data + passed, end - passed), &limits, &error);
        assert(scan.at <= end - passed);
        passed += scan.is_too_large ? scan.at : 0;
    }
    if (result == REDIS_PARSE_MORE) {
        result = redis_scan(&scan, bytes_of(data + passed, size - passed), &limits, &error);
    }
    assert((result == REDIS_PARSE_ERROR) == (error != NULL));
    if (!scan.is_too_large) {
        assert(result == expected);
        assert(result != REDIS_PARSE_OK || scan.at == parsed->size);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct arena arena;
    struct redis_parsed parsed;
    size_t at = 0;
    arena_init(&arena);
    while (at < size) {
        enum redis_parse_result result =
            redis_parse(bytes_of(data + at, size - at), &limits, &arena, &parsed);
        if (data[at] == '*') {
            check_scan(data + at, size - at, result, &parsed);
        }
        if (result != REDIS_PARSE_OK) {
            assert(result == REDIS_PARSE_MORE || parsed.error != NULL);
            break;
        }
        /* An inline request is bounded by its size. */
        assert(parsed.size > 0);
        assert(parsed.argc <= limits.arguments_max || parsed.argc <= REDIS_INLINE_SIZE_MAX / 2 + 1);
        check_again(data + at, size - at, &parsed);
        at += parsed.size;
        arena_reset(&arena);
    }
    arena_clear(&arena);
    return 0;
}
