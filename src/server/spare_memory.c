#include "server/spare_memory.h"

static size_t beyond(size_t resident, size_t held) {
    return resident > held ? resident - held : 0;
}

void spare_memory_note_searched(struct spare_memory *spare, size_t resident, size_t held) {
    spare->usual = spare->last = beyond(resident, held);
}

bool spare_memory_look(struct spare_memory *spare, size_t resident, size_t held) {
    size_t now = beyond(resident, held);
    size_t lasting = now < spare->last ? now : spare->last;
    spare->last = now;
    if (now < spare->usual) {
        spare->usual = now;
    }
    return lasting >= spare->usual + SPARE_MEMORY_BYTES;
}
