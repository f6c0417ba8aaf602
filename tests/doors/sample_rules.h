/* The rule of the sample door: see sample_door.c. */
#ifndef LEASED_TESTS_SAMPLE_RULES_H
#define LEASED_TESTS_SAMPLE_RULES_H

#include "core/rule.h"

enum { SAMPLE_RULE_TAKE = 250 * 65536 + 1, SAMPLE_QUEUE_SIZE_MAX = 64 };

extern const struct rule sample_rule_take;

#endif
