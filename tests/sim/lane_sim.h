/*
 * In the place of raft_lane.c: what a lane's thread would do happens at one virtual moment, a while
 * after it could begin. A process that ends before has got anywhere with it.
 */
#ifndef LEASED_SIM_LANE_SIM_H
#define LEASED_SIM_LANE_SIM_H

struct node;
struct raft_lane;

/* The node's process ends: its threads come as far as the disk lets them (disk_sim_stop_at()), and
 * are gone. */
void lanes_sim_crash(struct node *node);

#endif
