#include "core/rule_index.h"

#include "core/rule_acquire.h"

#include <assert.h>
#include <stdlib.h>

struct rule_index {
    size_t n;
    const struct rule *rules[]; /* by number */
};

static int compare_rules(const void *a, const void *b) {
    uint32_t left = (*(const struct rule *const *)a)->number;
    uint32_t right = (*(const struct rule *const *)b)->number;
    return (left > right) - (left < right);
}

/* Those of core itself. */
static const struct rule *const core_rules[] = {&rule_native_acquire};
enum { N_CORE_RULES = sizeof core_rules / sizeof core_rules[0] };

struct rule_index *rule_index_create(const struct rule_set *rules) {
    size_t n_given = rules == NULL ? 0 : rules->n;
    size_t n = n_given + N_CORE_RULES;
    struct rule_index *index = malloc(sizeof *index + n * sizeof index->rules[0]);
    if (index == NULL) {
        abort();
    }
    index->n = n;
    for (size_t i = 0; i < n; i++) {
        index->rules[i] = i < n_given ? rules->rules[i] : core_rules[i - n_given];
        assert(index->rules[i]->number != 0);
        assert(index->rules[i]->run != NULL);
        assert(key_space_is_valid(index->rules[i]->spaces[0]));
    }
    qsort(index->rules, n, sizeof index->rules[0], compare_rules);
    for (size_t i = 1; i < n; i++) {
        assert(index->rules[i]->number != index->rules[i - 1]->number);
    }
    return index;
}

void rule_index_destroy(struct rule_index *index) {
    free(index);
}

const struct rule *rule_index_find(const struct rule_index *index, uint32_t number) {
    size_t low = 0;
    size_t high = index->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (index->rules[middle]->number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < index->n && index->rules[low]->number == number ? index->rules[low] : NULL;
}
