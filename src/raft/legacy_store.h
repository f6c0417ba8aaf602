/*
 * A directory as raft_uv leaves it behind (releases before 0.2): metadata1 and metadata2 with term
 * and vote, snapshot-<term>-<index>-<time> with a .meta beside it, closed segments <first>-<last>,
 * open segments open-<n>. Only reads. All of it is checked when it is opened; nothing damaged is
 * passed over for something older.
 *
 * What raft_uv keeps no checksum of cannot be checked: the term and the vote.
 */
#ifndef LEASED_RAFT_LEGACY_STORE_H
#define LEASED_RAFT_LEGACY_STORE_H

#include "base/bytes.h"
#include "base/status.h"
#include "raft/log_item.h"
#include "raft/raft_files.h"
#include "raft/snapshot_store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct legacy_store;

/* Whether raft_uv gives a file this name. */
bool legacy_store_is_file(const char *name);

/* Whether a payload is a whole snapshot: STATUS_OK, STATUS_CORRUPT, STATUS_UNSUPPORTED. */
typedef enum status (*legacy_store_check)(struct bytes payload);

/* STATUS_CORRUPT, STATUS_UNSUPPORTED, STATUS_IO: `out_error` names the file, what is wrong with it,
 * and what to do. */
enum status legacy_store_open(const struct raft_files *files, legacy_store_check check_snapshot,
                              struct legacy_store **out_store, char *out_error, size_t error_size);
/* Accepts NULL. */
void legacy_store_close(struct legacy_store *store);

uint64_t legacy_store_term(const struct legacy_store *store);
uint64_t legacy_store_vote(const struct legacy_store *store);
/* Index 0: there is none. Its size is that of the payload. */
const struct snapshot_meta *legacy_store_snapshot(const struct legacy_store *store);
/* As the state machine wrote it, without the size that stood in front and the zeros behind. */
struct bytes legacy_store_payload(const struct legacy_store *store);
/* Of the last entry behind the snapshot; the snapshot's when there is none. */
uint64_t legacy_store_last_index(const struct legacy_store *store);

/* The entries behind the snapshot, in order. The item is the callee's. What `found` returns other
 * than 0 ends the walk and is returned; else 0 or an errno (EBADMSG: the files have changed since
 * they were checked). */
typedef int (*legacy_store_found)(void *data, struct log_item *item);
int legacy_store_read(struct legacy_store *store, legacy_store_found found, void *data);

#endif
