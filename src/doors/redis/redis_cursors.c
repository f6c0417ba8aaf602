#include "doors/redis/redis_cursors.h"

#include <stdlib.h>
#include <string.h>

struct cursor {
    uint64_t number; /* 0: none */
    uint8_t *position;
    size_t size;
};

struct redis_cursors {
    uint64_t n_saved;
    struct cursor all[REDIS_CURSORS_MAX];
};

struct redis_cursors *redis_cursors_create(void) {
    struct redis_cursors *cursors = calloc(1, sizeof *cursors);
    if (cursors == NULL) {
        abort();
    }
    return cursors;
}

void redis_cursors_destroy(struct redis_cursors *cursors) {
    for (size_t i = 0; i < REDIS_CURSORS_MAX; i++) {
        free(cursors->all[i].position);
    }
    free(cursors);
}

/* The oldest makes room. Clients keep numbers as doubles: they stay below 2^53. */
static uint64_t save(void *context, struct bytes position) {
    struct redis_cursors *cursors = context;
    struct cursor *cursor = &cursors->all[++cursors->n_saved % REDIS_CURSORS_MAX];
    free(cursor->position);
    cursor->position = malloc(position.size);
    if (cursor->position == NULL) {
        abort();
    }
    memcpy(cursor->position, position.data, position.size);
    cursor->size = position.size;
    cursor->number = cursors->n_saved;
    return cursor->number;
}

static bool find(void *context, uint64_t number, struct bytes *out_position) {
    struct redis_cursors *cursors = context;
    const struct cursor *cursor = &cursors->all[number % REDIS_CURSORS_MAX];
    if (number == 0 || cursor->number != number) {
        return false;
    }
    *out_position = bytes_of(cursor->position, cursor->size);
    return true;
}

struct redis_cursor_table redis_cursors_table(struct redis_cursors *cursors) {
    return (struct redis_cursor_table){.save = save, .find = find, .context = cursors};
}
