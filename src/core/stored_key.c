#include "core/stored_key.h"

#include <stdlib.h>

void stored_key_init_long(struct stored_key *stored, struct key_space_id space, struct bytes key) {
    stored->heap = malloc(key.size + 1);
    if (stored->heap == NULL) {
        abort();
    }
    stored->heap[0] = space.value;
    memcpy(stored->heap + 1, key.data, key.size);
    stored->bytes = bytes_of(stored->heap, key.size + 1);
}

void stored_key_free_long(struct stored_key *stored) {
    free(stored->heap);
    stored->heap = NULL;
}
