/*
 * Starting on a data directory that `etcdutl snapshot restore` made: at the first start its
 * database is taken in as the state that the new cluster begins with, under the ids and with the
 * members that the restore chose. Our files are made beside etcd's, which are only read.
 *
 * A directory on which etcd has run is refused: what its log holds is not in the database yet.
 */
#ifndef LEASED_SERVER_ETCD_DATA_DIR_H
#define LEASED_SERVER_ETCD_DATA_DIR_H

#include "base/status.h"
#include "server/data_dir.h"
#include "server/identity.h"
#include "server/options.h"

#include <stddef.h>

/* To be called when data_dir_has_etcd_data() and data_dir_load_identity() has found none. Raft's
 * files are on disk when it returns STATUS_OK, and the identity, which is then to be stored, names
 * their member. A take-over that was interrupted is done again, or found done. STATUS_INVALID: the
 * directory cannot be taken over. STATUS_CORRUPT, STATUS_UNSUPPORTED, STATUS_IO, STATUS_NO_SPACE;
 * `out_error` says why and what to do. */
enum status etcd_data_dir_take_over(struct data_dir *dir, const struct options *options,
                                    struct identity *out_identity, char *out_error,
                                    size_t error_size);

#endif
