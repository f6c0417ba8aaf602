/*
 * The fields of a simulated disk, for disk_sim.c and disk_sim_calls.c alone.
 */
#ifndef LEASED_TESTS_STORAGE_DISK_SIM_STATE_H
#define LEASED_TESTS_STORAGE_DISK_SIM_STATE_H

#include "disk_directory.h"
#include "disk_node.h"
#include "disk_sim.h"

#include <pthread.h>

struct disk_handle {
    int file;
    enum raft_files_mode mode;
    struct disk_node *node;
    char name[DISK_SIM_NAME_SIZE]; /* when it was opened */
};

struct disk_sim {
    pthread_mutex_t mutex;
    uint64_t random_state;
    struct disk_directory directory;
    struct disk_handle *handles;
    size_t n_handles;
    size_t handles_capacity;
    int next_file;
    uint64_t capacity;
    uint64_t counts[DISK_SIM_ANY_CALL];
    struct disk_sim_fault fault;
    bool is_fault_lasting;
    uint64_t stop_in;
    bool is_stopped;
    char fault_text[2 * DISK_SIM_NAME_SIZE + 96];
    enum disk_sim_call ignored_kind;
    char ignored_prefix[DISK_SIM_NAME_SIZE];
};

#endif
