/*
 * The disk of a simulated machine: a disk_sim (tests/storage) that outlives the machine's
 * processes, with a pace. It stands behind raft_files_open(). A sync by the event loop itself takes
 * its time from the turn; what lanes and workers do takes theirs before it happens (lane_sim,
 * loop_sim).
 */
#ifndef LEASED_SIM_MACHINE_DISK_H
#define LEASED_SIM_MACHINE_DISK_H

#include "disk_sim.h"

#include <stdbool.h>
#include <stdint.h>

struct machine_disk {
    struct disk_sim *sim;
    uint64_t delay_us;
    uint64_t worst_delay_us;
    bool is_full;
    bool is_failing;
    bool is_power_loss_due;
};

/* Mutants: from now on a disk that is made ignores syncs of files whose names begin so, or of the
 * directory ("directory"). NULL: none. */
void machine_disks_skip_sync(const char *prefix);

void machine_disk_init(struct machine_disk *disk);
void machine_disk_set_fast(struct machine_disk *disk);
void machine_disk_set_slow(struct machine_disk *disk);
/* Nothing can grow any more, or writes and syncs fail from some moment on. */
void machine_disk_break(struct machine_disk *disk, bool is_full);
void machine_disk_mend(struct machine_disk *disk);
/* The machine loses power during one of the next calls. */
void machine_disk_lose_power_soon(struct machine_disk *disk);
bool machine_disk_has_lost_power(const struct machine_disk *disk);
/* What a process that ends leaves: all that it wrote, or without power some of it. */
void machine_disk_crash(struct machine_disk *disk, bool is_power);
/* How long a write and its sync take. */
uint64_t machine_disk_write_us(const struct machine_disk *disk);

#endif
