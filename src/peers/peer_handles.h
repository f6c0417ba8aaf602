/* Counts what libuv still holds of somebody, so that its memory goes when the last of it is closed.
 */
#ifndef LEASED_PEERS_PEER_HANDLES_H
#define LEASED_PEERS_PEER_HANDLES_H

#include <assert.h>
#include <stddef.h>

struct peer_handles {
    size_t n;
    /* Nothing is left. Called at once; the counter may be freed inside. */
    void (*gone)(void *data);
    void *data;
};

static inline void peer_handles_add(struct peer_handles *handles) {
    handles->n++;
}

static inline void peer_handles_remove(struct peer_handles *handles) {
    assert(handles->n > 0);
    if (--handles->n == 0) {
        handles->gone(handles->data);
    }
}

#endif
