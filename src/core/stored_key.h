/*
 * A key as the tree and the watch topics have it: the byte of its space, then the key. Needed to
 * search for a key that a caller gave without the byte. Short keys are built on the stack.
 */
#ifndef LEASED_CORE_STORED_KEY_H
#define LEASED_CORE_STORED_KEY_H

#include "base/bytes.h"
#include "core/key_space.h"

#include <stdint.h>

enum { STORED_KEY_SHORT = 128 };

struct stored_key {
    struct bytes bytes;
    uint8_t *heap; /* NULL: the bytes are in `storage` */
    uint8_t storage[STORED_KEY_SHORT];
};

/* For keys that do not fit. Aborts when memory is out. */
void stored_key_init_long(struct stored_key *stored, struct key_space_id space, struct bytes key);
void stored_key_free_long(struct stored_key *stored);

/* The key may be empty: that is the lower bound of the space. The struct must not be moved. */
static inline void stored_key_init(struct stored_key *stored, struct key_space_id space,
                                   struct bytes key) {
    if (key.size >= STORED_KEY_SHORT) {
        stored_key_init_long(stored, space, key);
        return;
    }
    stored->heap = NULL;
    stored->storage[0] = space.value;
    if (key.size > 0) {
        memcpy(stored->storage + 1, key.data, key.size);
    }
    stored->bytes = bytes_of(stored->storage, key.size + 1);
}

static inline void stored_key_clear(struct stored_key *stored) {
    if (stored->heap != NULL) {
        stored_key_free_long(stored);
    }
}

/* The exclusive upper end of a range whose `range_end` is not empty: one zero byte means the end of
 * the space. */
static inline void stored_key_init_end(struct stored_key *stored, struct key_space_id space,
                                       struct bytes range_end) {
    if (range_end.size == 1 && range_end.data[0] == 0) {
        struct key_space_id next = {.value = (uint8_t)(space.value + 1)};
        stored_key_init(stored, next, bytes_of(NULL, 0));
    } else {
        stored_key_init(stored, space, range_end);
    }
}

#endif
