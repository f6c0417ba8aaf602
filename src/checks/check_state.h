/*
 * Health with hysteresis: how many results in a row it takes to change it. Pure.
 */
#ifndef LEASED_CHECKS_CHECK_STATE_H
#define LEASED_CHECKS_CHECK_STATE_H

#include "registry/registry_model.h"

#include <stdbool.h>
#include <stdint.h>

struct check_thresholds {
    uint32_t rises; /* results that are not critical, until critical ends; 0 is 1 */
    uint32_t falls; /* critical results, until it is critical; 0 is 1 */
};

struct check_state {
    enum registry_health health; /* that is in effect */
    bool is_known;               /* false: there was no result yet, and the first one decides */
    uint32_t n_against;          /* results in a row that speak against it */
};

/* Adds a result. A change between passing and warning counts at once, in either direction: both
 * serve. True: the health in effect has changed, or was not known before. */
bool check_state_add(struct check_state *state, const struct check_thresholds *thresholds,
                     enum registry_health result);

#endif
