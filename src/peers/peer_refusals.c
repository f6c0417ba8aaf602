#include "peers/peer_refusals.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

bool peer_refusals_note(struct peer_refusals *refusals, const char *from, const char *reason,
                        uint64_t now_ms) {
    refusals->n_refused++;
    char text[PEER_REFUSAL_SIZE_MAX];
    size_t free_place = PEER_REFUSALS_MAX;
    snprintf(text, sizeof text, "%s %s", from, reason);
    for (size_t i = 0; i < PEER_REFUSALS_MAX; i++) {
        if (refusals->logged[i].until_ms <= now_ms) {
            free_place = i;
        } else if (strcmp(refusals->logged[i].text, text) == 0) {
            return false;
        }
    }
    if (free_place == PEER_REFUSALS_MAX) {
        return false;
    }
    memcpy(refusals->logged[free_place].text, text, sizeof text);
    refusals->logged[free_place].until_ms = now_ms + PEER_REFUSALS_MS;
    return true;
}
