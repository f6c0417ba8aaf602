/*
 * The names of a simulated disk: as they read now, as they are on disk, and the creations, renames
 * and unlinks in between. Each name holds a reference to its file.
 */
#ifndef LEASED_TESTS_STORAGE_DISK_DIRECTORY_H
#define LEASED_TESTS_STORAGE_DISK_DIRECTORY_H

#include "disk_node.h"
#include "disk_sim.h"

struct disk_names {
    struct disk_name {
        char name[DISK_SIM_NAME_SIZE];
        struct disk_node *node;
    } * items;
    size_t n;
    size_t capacity;
};

enum disk_operation_kind { DISK_LINK, DISK_RENAME, DISK_UNLINK };

struct disk_operation {
    enum disk_operation_kind kind;
    char name[DISK_SIM_NAME_SIZE];
    char to[DISK_SIM_NAME_SIZE]; /* of a rename, else "" */
    struct disk_node *node;      /* of a link; holds a reference */
    bool is_lost;
};

struct disk_directory {
    struct disk_names current;
    struct disk_names durable;
    struct disk_operation *operations;
    size_t n_operations;
    size_t operations_capacity;
};

void disk_directory_clear(struct disk_directory *directory);
/* NULL: there is none of that name. */
struct disk_node *disk_directory_find(const struct disk_directory *directory, const char *name);
/* Names `node` and takes a reference. The name is not taken. */
void disk_directory_link(struct disk_directory *directory, const char *name,
                         struct disk_node *node);
/* The name exists; what `to` named is replaced. */
void disk_directory_rename(struct disk_directory *directory, const char *from, const char *to);
void disk_directory_unlink(struct disk_directory *directory, const char *name);
void disk_directory_sync(struct disk_directory *directory);
/* `random` decides what survives. NULL: nothing. */
void disk_directory_crash(struct disk_directory *directory, disk_node_random random, void *data);
/* Into an empty one; files are copied. */
void disk_directory_copy(struct disk_directory *directory, const struct disk_directory *from);

#endif
