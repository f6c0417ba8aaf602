/*
 * A thread that does blocking work in order, for the loop. Everything that waits is handed to the
 * work function at once, so that one write and one sync carry all that gathered while the last one
 * ran. What is finished comes back on the loop's thread.
 */
#ifndef LEASED_RAFT_RAFT_LANE_H
#define LEASED_RAFT_RAFT_LANE_H

#include "base/list.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* Embedded in the caller's own object, which stays alive until it is done. */
struct raft_job {
    struct list link;
    /* On the loop, in the order of submission. */
    void (*done)(struct raft_job *job);
};

struct raft_lane;

struct raft_lane_work {
    /* In the thread: does all of these jobs, oldest first, and leaves the list as it is. */
    void (*run)(void *data, struct list *jobs);
    /* In the thread, when nothing waits: work that can be done ahead. `is_resting`: nothing came
     * for a second. May be NULL. */
    void (*idle)(void *data, bool is_resting);
    void *data;
    /* The next job often follows on the heels of the last, and somebody waits for each: the thread
     * looks for it a moment before it sleeps, for as long as that succeeds. */
    bool is_prompt;
};

/* Starts the thread. 0 or an errno. */
int raft_lane_open(uv_loop_t *loop, const struct raft_lane_work *work, struct raft_lane **out_lane);
void raft_lane_submit(struct raft_lane *lane, struct raft_job *job);
/* Hands out what is finished now, without waiting for the loop to come round. Called by the owner
 * at fixed points of each iteration; the lane wakes the loop by itself. */
void raft_lane_poll(struct raft_lane *lane);
/* No job may be under way (the owner counts). Joins the thread, then calls closed. */
void raft_lane_close(struct raft_lane *lane, void (*closed)(void *data), void *data);

#endif
