/*
 * The rules that this member knows, found by number: those it was given, and those of core.
 */
#ifndef LEASED_CORE_RULE_INDEX_H
#define LEASED_CORE_RULE_INDEX_H

#include "core/rule.h"

struct rule_index;

/* Copies the list, not the rules. NULL is the empty set. Asserts that numbers are not 0 and not
 * given twice, and that every rule has a function and a space. */
struct rule_index *rule_index_create(const struct rule_set *rules);
void rule_index_destroy(struct rule_index *index);

/* NULL: not known. */
const struct rule *rule_index_find(const struct rule_index *index, uint32_t number);

#endif
