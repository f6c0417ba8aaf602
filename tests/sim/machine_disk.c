#include "machine_disk.h"

#include "node.h"
#include "world.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum {
    /* One call of the event loop's own is not slower than this. */
    OWN_CALL_US_MAX = 300 * WORLD_MS,
    /* Power is lost during one of so many calls. */
    CALLS_UNTIL_POWER_LOSS_MAX = 60
};

static const char *skipped_sync;

void machine_disks_skip_sync(const char *prefix) {
    skipped_sync = prefix;
}

void machine_disk_init(struct machine_disk *disk) {
    *disk = (struct machine_disk){.sim = disk_sim_create(random_next())};
    machine_disk_set_fast(disk);
    if (skipped_sync != NULL) {
        bool is_directory = strcmp(skipped_sync, "directory") == 0;
        disk_sim_ignore(disk->sim, is_directory ? DISK_SIM_SYNC_DIRECTORY : DISK_SIM_SYNC,
                        is_directory ? "" : skipped_sync);
    }
}

void machine_disk_set_fast(struct machine_disk *disk) {
    disk->delay_us = random_between(100, 3000);
    disk->worst_delay_us = 20 * WORLD_MS;
}

void machine_disk_set_slow(struct machine_disk *disk) {
    disk->delay_us = random_between(10, 300) * WORLD_MS;
    disk->worst_delay_us = random_between(300, 4000) * WORLD_MS;
}

void machine_disk_break(struct machine_disk *disk, bool is_full) {
    static const enum disk_sim_call kinds[] = {DISK_SIM_WRITE,      DISK_SIM_SYNC,
                                               DISK_SIM_WRITE_BACK, DISK_SIM_ALLOCATE,
                                               DISK_SIM_RENAME,     DISK_SIM_ANY_CALL};
    disk->is_full = is_full;
    disk->is_failing = !is_full;
    if (is_full) {
        disk_sim_set_capacity(disk->sim, disk_sim_used(disk->sim));
        return;
    }
    disk_sim_fail(disk->sim,
                  (struct disk_sim_fault){.kind = kinds[random_below(sizeof kinds / sizeof *kinds)],
                                          .at = random_between(1, 6),
                                          .error = EIO,
                                          .is_partial = random_chance(500),
                                          .is_lasting = random_chance(700)});
}

void machine_disk_mend(struct machine_disk *disk) {
    disk->is_full = false;
    disk->is_failing = false;
    disk->is_power_loss_due = false;
    disk_sim_stop_at(disk->sim, 0);
    disk_sim_set_capacity(disk->sim, UINT64_MAX);
    disk_sim_fail(disk->sim, (struct disk_sim_fault){.kind = DISK_SIM_ANY_CALL});
}

void machine_disk_lose_power_soon(struct machine_disk *disk) {
    disk->is_power_loss_due = true;
    disk_sim_stop_at(disk->sim, random_between(1, CALLS_UNTIL_POWER_LOSS_MAX));
}

bool machine_disk_has_lost_power(const struct machine_disk *disk) {
    return disk_sim_is_stopped(disk->sim);
}

void machine_disk_crash(struct machine_disk *disk, bool is_power) {
    disk->is_power_loss_due = false;
    disk_sim_crash(disk->sim, !is_power            ? DISK_SIM_LOSE_NONE
                              : random_chance(100) ? DISK_SIM_LOSE_ALL
                                                   : DISK_SIM_LOSE_ANY);
}

uint64_t machine_disk_write_us(const struct machine_disk *disk) {
    return random_delay(disk->delay_us, disk->worst_delay_us);
}

/* --- In the place of raft_files.c. --- */

static struct raft_files files_of(const struct node *node) {
    return disk_sim_files(node->disk.sim);
}

/* A call of the event loop's own; without power the process is gone at once. */
static int ended(struct node *node, bool is_slow, int error) {
    if (node_current() != node) {
        return error;
    }
    if (is_slow) {
        uint64_t took_us = machine_disk_write_us(&node->disk);
        node->elapsed_us += took_us < OWN_CALL_US_MAX ? took_us : OWN_CALL_US_MAX;
    }
    if (machine_disk_has_lost_power(&node->disk)) {
        node_die(node);
    }
    return error;
}

static int sim_open(void *data, const char *name, enum raft_files_mode mode, int *out_file) {
    struct raft_files files = files_of(data);
    return ended(data, false, files.calls->open(files.data, name, mode, out_file));
}

static int sim_close(void *data, int file) {
    struct raft_files files = files_of(data);
    return ended(data, false, files.calls->close(files.data, file));
}

static int sim_size(void *data, int file, uint64_t *out_size) {
    struct raft_files files = files_of(data);
    return ended(data, false, files.calls->size(files.data, file, out_size));
}

static int sim_read(void *data, int file, uint64_t offset, void *bytes, size_t size,
                    size_t *out_n) {
    struct raft_files files = files_of(data);
    return ended(data, false, files.calls->read(files.data, file, offset, bytes, size, out_n));
}

static int sim_write(void *data, int file, uint64_t offset, const struct iovec *parts,
                     int n_parts) {
    struct raft_files files = files_of(data);
    return ended(data, false, files.calls->write(files.data, file, offset, parts, n_parts));
}

static int sim_sync(void *data, int file) {
    struct raft_files files = files_of(data);
    return ended(data, true, files.calls->sync(files.data, file));
}

static int sim_write_back(void *data, int file, uint64_t offset, uint64_t size) {
    struct raft_files files = files_of(data);
    return ended(data, true, files.calls->write_back(files.data, file, offset, size));
}

static int sim_allocate(void *data, int file, uint64_t size) {
    struct raft_files files = files_of(data);
    return ended(data, false, files.calls->allocate(files.data, file, size));
}

static int sim_rename(void *data, const char *from, const char *to) {
    struct raft_files files = files_of(data);
    return ended(data, false, files.calls->rename(files.data, from, to));
}

static int sim_unlink(void *data, const char *name) {
    struct raft_files files = files_of(data);
    return ended(data, false, files.calls->unlink(files.data, name));
}

static int sim_sync_directory(void *data) {
    struct raft_files files = files_of(data);
    return ended(data, true, files.calls->sync_directory(files.data));
}

static int sim_list(void *data, void (*found)(void *found_data, const char *name),
                    void *found_data) {
    struct raft_files files = files_of(data);
    return ended(data, false, files.calls->list(files.data, found, found_data));
}

static const struct raft_files_calls sim_calls = {.open = sim_open,
                                                  .close = sim_close,
                                                  .size = sim_size,
                                                  .read = sim_read,
                                                  .write = sim_write,
                                                  .sync = sim_sync,
                                                  .write_back = sim_write_back,
                                                  .allocate = sim_allocate,
                                                  .rename = sim_rename,
                                                  .unlink = sim_unlink,
                                                  .sync_directory = sim_sync_directory,
                                                  .list = sim_list};

int raft_files_open(const char *directory, struct raft_files *out_files) {
    (void)directory;
    assert(node_current() != NULL);
    *out_files = (struct raft_files){.calls = &sim_calls, .data = node_current()};
    return 0;
}

void raft_files_close(struct raft_files *files) {
    const struct node *node = files->data;
    size_t n = disk_sim_open_files(node->disk.sim);
    if (n > 0) {
        check_failed("files", "%s has stopped and left %zu files open", node->name, n);
    }
}
