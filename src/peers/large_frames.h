/*
 * Which connections may receive a frame that is larger than usual: few at a time, so that what
 * members make this node hold is bounded in all, and each for a limited time, so that nobody keeps
 * the others waiting. Knows no sockets; time is an argument.
 */
#ifndef LEASED_PEERS_LARGE_FRAMES_H
#define LEASED_PEERS_LARGE_FRAMES_H

#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* As many as four members of a cluster of five may send at once. */
    LARGE_FRAMES_MAX = 4,
    /* From its announcement, or from when it was admitted, to its end. */
    LARGE_FRAME_MS_MAX = 30 * 1000
};

/* Zeroed: its connection receives no large frame. */
struct large_frame {
    struct list in_list;
    uint64_t since_ms;
    bool is_arriving;
    bool is_waiting;
};

struct large_frames {
    struct list arriving; /* oldest first */
    struct list waiting;
    size_t n_arriving;
};

void large_frames_init(struct large_frames *frames);

/* A large frame was announced. True: it may be read. False: nothing more is to be read of its
 * connection before large_frames_admit() names it. Again for the same frame: as before. */
bool large_frames_announce(struct large_frames *frames, struct large_frame *frame, uint64_t now_ms);

/* It is whole, or its connection ends. Nothing happens to one that was not announced. */
void large_frames_end(struct large_frames *frames, struct large_frame *frame);

/* One that waited, and may be read from now on; NULL: none. To be asked after an end. */
struct large_frame *large_frames_admit(struct large_frames *frames, uint64_t now_ms);

/* One that takes too long; NULL: none. */
struct large_frame *large_frames_overdue(const struct large_frames *frames, uint64_t now_ms);

#endif
