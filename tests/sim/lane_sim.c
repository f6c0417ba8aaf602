#include "lane_sim.h"

#include "node.h"
#include "raft/raft_lane.h"
#include "world.h"

#include <assert.h>
#include <stdlib.h>

enum { REST_US = WORLD_SECOND };

enum lane_phase {
    LANE_WAITS, /* for a job */
    LANE_RUNS,
    LANE_WORKS_AHEAD,
    LANE_RESTS
};

struct raft_lane {
    struct raft_lane *next; /* of the same node */
    struct node *node;
    uint64_t generation;
    struct raft_lane_work work;
    struct list waiting;
    struct list running;
    struct list finished;
    enum lane_phase phase;
    uint64_t n_phases;
    bool is_ahead; /* what can be done ahead has been */
    bool is_rested;
    bool is_polling;
    bool is_closed;
    void (*closed)(void *data);
    void *closed_data;
};

struct lane_event {
    struct raft_lane *lane;
    uint64_t phase;
};

static void phase_ends(void *data);

static void begin(struct raft_lane *lane, enum lane_phase phase, uint64_t for_us) {
    struct lane_event *event = malloc(sizeof *event);
    if (event == NULL) {
        abort();
    }
    lane->phase = phase;
    *event = (struct lane_event){.lane = lane, .phase = ++lane->n_phases};
    world_at(node_now_us(lane->node) + for_us, phase_ends, event);
}

static void go_on(struct raft_lane *lane) {
    uint64_t write_us = machine_disk_write_us(&lane->node->disk);
    lane->phase = LANE_WAITS;
    if (!list_is_empty(&lane->waiting)) {
        list_append_all(&lane->running, &lane->waiting);
        lane->is_ahead = lane->is_rested = lane->work.idle == NULL;
        begin(lane, LANE_RUNS, write_us);
    } else if (!lane->is_ahead) {
        begin(lane, LANE_WORKS_AHEAD, write_us);
    } else if (!lane->is_rested) {
        begin(lane, LANE_RESTS, REST_US);
    }
}

static void wake(struct node *node, void *data) {
    (void)node;
    raft_lane_poll(data);
}

static void do_phase(struct raft_lane *lane) {
    switch (lane->phase) {
    case LANE_RUNS:
        lane->work.run(lane->work.data, &lane->running);
        break;
    case LANE_WORKS_AHEAD:
        lane->is_ahead = true;
        lane->work.idle(lane->work.data, false);
        break;
    case LANE_RESTS:
        lane->is_rested = true;
        lane->work.idle(lane->work.data, true);
        break;
    case LANE_WAITS:
        break;
    }
}

static void phase_ends(void *data) {
    struct lane_event event = *(struct lane_event *)data;
    struct raft_lane *lane = event.lane;
    struct node *node = lane->node;
    free(data);
    if (lane->is_closed || !node->is_up || node->generation != lane->generation ||
        event.phase != lane->n_phases) {
        return;
    }
    do_phase(lane);
    if (machine_disk_has_lost_power(&node->disk)) {
        node_crash(node, true);
        return;
    }
    if (lane->phase == LANE_RUNS) {
        list_append_all(&lane->finished, &lane->running);
        node_deliver(node, wake, NULL, lane);
    }
    go_on(lane);
}

void lanes_sim_crash(struct node *node) {
    for (struct raft_lane *lane = node->lanes; lane != NULL; lane = lane->next) {
        if (!lane->is_closed && lane->phase != LANE_RESTS && random_chance(700)) {
            do_phase(lane);
        }
        lane->is_closed = true;
    }
    node->lanes = NULL;
}

/* --- In the place of raft_lane.c. --- */

int raft_lane_open(uv_loop_t *loop, const struct raft_lane_work *work,
                   struct raft_lane **out_lane) {
    struct raft_lane *lane = calloc(1, sizeof *lane);
    if (lane == NULL) {
        abort();
    }
    lane->node = node_of_loop(loop);
    lane->generation = lane->node->generation;
    lane->work = *work;
    lane->is_ahead = lane->is_rested = work->idle == NULL;
    list_init(&lane->waiting);
    list_init(&lane->running);
    list_init(&lane->finished);
    lane->next = lane->node->lanes;
    lane->node->lanes = lane;
    go_on(lane);
    *out_lane = lane;
    return 0;
}

void raft_lane_submit(struct raft_lane *lane, struct raft_job *job) {
    assert(!lane->is_closed);
    list_append(&lane->waiting, &job->link);
    if (lane->phase == LANE_WAITS || lane->phase == LANE_RESTS) {
        go_on(lane);
    }
}

void raft_lane_poll(struct raft_lane *lane) {
    if (lane->is_polling) {
        return;
    }
    struct list finished;
    list_init(&finished);
    list_append_all(&finished, &lane->finished);
    lane->is_polling = true;
    for (struct list *node; (node = list_pop_first(&finished)) != NULL;) {
        struct raft_job *job = list_entry(node, struct raft_job, link);
        job->done(job);
    }
    lane->is_polling = false;
}

static void closed_read(struct node *node, void *data) {
    struct raft_lane *lane = data;
    (void)node;
    lane->closed(lane->closed_data);
}

void raft_lane_close(struct raft_lane *lane, void (*closed)(void *data), void *data) {
    assert(list_is_empty(&lane->waiting));
    assert(list_is_empty(&lane->running));
    assert(list_is_empty(&lane->finished));
    if (lane->phase == LANE_WORKS_AHEAD) {
        do_phase(lane); /* the thread is joined */
    }
    lane->is_closed = true;
    lane->closed = closed;
    lane->closed_data = data;
    node_deliver(lane->node, closed_read, NULL, lane);
}
