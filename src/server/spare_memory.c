#include "server/spare_memory.h"

/* Looks until what a search left is searched again, and how many more they may become. */
enum { PATIENCE_FIRST = 4, PATIENCE_MAX = 128 };

static size_t beyond(size_t resident, size_t held) {
    return resident > held ? resident - held : 0;
}

void spare_memory_begin(struct spare_memory *spare, size_t resident, size_t held) {
    size_t now = beyond(resident, held);
    *spare =
        (struct spare_memory){.least = now, .usual = now, .last = now, .patience = PATIENCE_FIRST};
}

void spare_memory_note_searched(struct spare_memory *spare, size_t resident, size_t held) {
    size_t now = beyond(resident, held);
    bool is_in_vain = now + SPARE_MEMORY_BYTES > spare->last;
    bool was_waited_for = spare->n_looks >= spare->patience;
    if (!is_in_vain || !was_waited_for) {
        spare->patience = PATIENCE_FIRST;
    } else if (spare->patience < PATIENCE_MAX) {
        spare->patience *= 2;
    }
    spare->n_looks = 0;
    spare->usual = spare->last = now;
}

bool spare_memory_look(struct spare_memory *spare, size_t resident, size_t held) {
    size_t now = beyond(resident, held);
    size_t lasting = now < spare->last ? now : spare->last;
    spare->last = now;
    if (now < spare->usual) {
        spare->usual = now;
    }
    if (now < spare->least) {
        spare->least = now;
    }
    spare->n_looks = lasting >= spare->least + SPARE_MEMORY_BYTES ? spare->n_looks + 1 : 0;
    return lasting >= spare->usual + SPARE_MEMORY_BYTES || spare->n_looks >= spare->patience;
}
