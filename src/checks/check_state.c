#include "checks/check_state.h"

static bool is_critical(enum registry_health health) {
    return health == REGISTRY_CRITICAL;
}

bool check_state_add(struct check_state *state, const struct check_thresholds *thresholds,
                     enum registry_health result) {
    if (!state->is_known) {
        *state = (struct check_state){.health = result, .is_known = true};
        return true;
    }
    if (is_critical(result) != is_critical(state->health)) {
        uint32_t needed = is_critical(result) ? thresholds->falls : thresholds->rises;
        if (++state->n_against < needed) {
            return false;
        }
    }
    bool is_changed = result != state->health;
    state->health = result;
    state->n_against = 0;
    return is_changed;
}
