#include "peers/large_frames.h"

void large_frames_init(struct large_frames *frames) {
    list_init(&frames->arriving);
    list_init(&frames->waiting);
    frames->n_arriving = 0;
}

static void arrive(struct large_frames *frames, struct large_frame *frame, uint64_t now_ms) {
    frame->is_arriving = true;
    frame->is_waiting = false;
    frame->since_ms = now_ms;
    list_append(&frames->arriving, &frame->in_list);
    frames->n_arriving++;
}

bool large_frames_announce(struct large_frames *frames, struct large_frame *frame,
                           uint64_t now_ms) {
    if (frame->is_arriving || frame->is_waiting) {
        return frame->is_arriving;
    }
    if (frames->n_arriving < LARGE_FRAMES_MAX) {
        arrive(frames, frame, now_ms);
        return true;
    }
    frame->is_waiting = true;
    list_append(&frames->waiting, &frame->in_list);
    return false;
}

void large_frames_end(struct large_frames *frames, struct large_frame *frame) {
    if (frame->is_arriving || frame->is_waiting) {
        list_remove(&frame->in_list);
        frames->n_arriving -= frame->is_arriving;
        *frame = (struct large_frame){.since_ms = 0};
    }
}

struct large_frame *large_frames_admit(struct large_frames *frames, uint64_t now_ms) {
    if (frames->n_arriving == LARGE_FRAMES_MAX || list_is_empty(&frames->waiting)) {
        return NULL;
    }
    struct list *node = list_pop_first(&frames->waiting);
    struct large_frame *frame = list_entry(node, struct large_frame, in_list);
    arrive(frames, frame, now_ms);
    return frame;
}

struct large_frame *large_frames_overdue(const struct large_frames *frames, uint64_t now_ms) {
    if (list_is_empty(&frames->arriving)) {
        return NULL;
    }
    struct large_frame *oldest = list_entry(frames->arriving.next, struct large_frame, in_list);
    return now_ms - oldest->since_ms > LARGE_FRAME_MS_MAX ? oldest : NULL;
}
