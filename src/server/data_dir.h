/*
 * The data directory: made when missing, held by one process at a time, and the place of the
 * member's identity and of raft's files. Every failure comes with a message that an operator can
 * act on.
 */
#ifndef LEASED_SERVER_DATA_DIR_H
#define LEASED_SERVER_DATA_DIR_H

#include "base/status.h"
#include "server/identity.h"

#include <stdbool.h>
#include <stddef.h>

struct data_dir;

/* Makes the directory (and its parents) when it is missing, readable by its owner only, and locks
 * it until data_dir_close(). STATUS_IO, STATUS_NO_SPACE, STATUS_DATA_DIR_IN_USE, STATUS_INVALID (no
 * path) with a reason in `out_error`. */
enum status data_dir_open(const char *path, struct data_dir **out_dir, char *out_error,
                          size_t error_size);
/* Gives up the lock. Accepts NULL. */
void data_dir_close(struct data_dir *dir);

/* The absolute path. */
const char *data_dir_path(const struct data_dir *dir);
/* Where raft's files go; made by data_dir_open(). */
const char *data_dir_raft_path(const struct data_dir *dir);
/* Where the ids of the other members' directories are kept (replication/data_dir_ids.h). */
const char *data_dir_ids_path(const struct data_dir *dir);
/* True when others than the owner may look into it. */
bool data_dir_is_open_to_others(const struct data_dir *dir);

/* True when etcd's own files are there too: etcd_data_dir.h. */
bool data_dir_has_etcd_data(const struct data_dir *dir);
/* True when raft has ever been started here. */
bool data_dir_has_log(const struct data_dir *dir);

/* STATUS_KEY_NOT_FOUND when there is none yet; STATUS_CORRUPT (also when it is missing beside a
 * log, unless the directory was etcd's, whose files tell it again), STATUS_IO. */
enum status data_dir_load_identity(const struct data_dir *dir, struct identity *out_identity,
                                   char *out_error, size_t error_size);
/* Durable when it returns STATUS_OK. STATUS_IO, STATUS_NO_SPACE. */
enum status data_dir_store_identity(const struct data_dir *dir, const struct identity *identity,
                                    char *out_error, size_t error_size);

#endif
