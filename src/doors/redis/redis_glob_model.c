#include "doors/redis/redis_glob_model.h"

#include <stddef.h>
#include <stdint.h>

/* False, and nothing is left, when there is less. */
static bool spend(size_t *left, size_t steps) {
    bool is_enough = *left > steps;
    *left = is_enough ? *left - steps : 0;
    return is_enough;
}

/* A class at pattern[*at], which is behind its '['; *at is then behind its ']', or at the end. */
static bool class_has(struct bytes pattern, size_t *at, uint8_t byte) {
    size_t i = *at;
    bool is_negated = i < pattern.size && pattern.data[i] == '^';
    bool is_found = false;
    for (i += is_negated; i < pattern.size && pattern.data[i] != ']'; i++) {
        if (pattern.data[i] == '\\' && i + 1 < pattern.size) {
            i++;
            is_found = is_found || pattern.data[i] == byte;
        } else if (i + 2 < pattern.size && pattern.data[i + 1] == '-') {
            uint8_t low = pattern.data[i];
            uint8_t high = pattern.data[i + 2];
            is_found = is_found ||
                       (low <= high ? byte >= low && byte <= high : byte >= high && byte <= low);
            i += 2;
        } else {
            is_found = is_found || pattern.data[i] == byte;
        }
    }
    *at = i < pattern.size ? i + 1 : i;
    return is_found != is_negated;
}

/* Whether what is at pattern[*at], which is no star, takes the byte; *at goes behind it. */
static bool one_matches(struct bytes pattern, size_t *at, uint8_t byte) {
    uint8_t letter = pattern.data[(*at)++];
    if (letter == '?') {
        return true;
    }
    if (letter == '[') {
        return class_has(pattern, at, byte);
    }
    if (letter == '\\' && *at < pattern.size) {
        letter = pattern.data[(*at)++];
    }
    return letter == byte;
}

/* Only the last star need ever take one byte more. */
bool redis_glob_match(struct bytes pattern, struct bytes text, size_t *steps_left) {
    size_t p = 0;
    size_t t = 0;
    size_t star_p = SIZE_MAX;
    size_t star_t = 0;
    /* A class is looked at before it is counted: not once more for each text that is left. */
    while (*steps_left > 0) {
        if (p < pattern.size && pattern.data[p] == '*') {
            star_p = ++p;
            star_t = t;
            (*steps_left)--;
            continue;
        }
        if (t == text.size && p == pattern.size) {
            return true;
        }
        size_t next = p;
        bool is_one =
            t < text.size && p < pattern.size && one_matches(pattern, &next, text.data[t]);
        if (!spend(steps_left, 1 + next - p)) {
            return false;
        }
        if (is_one) {
            p = next;
            t++;
            continue;
        }
        if (star_p == SIZE_MAX || star_t >= text.size) {
            return false;
        }
        p = star_p;
        t = ++star_t;
    }
    return false;
}
