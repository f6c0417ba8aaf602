/*
 * Takes the file of an etcd database, or of a backup of ours, which has the same form: keys with
 * their history, leases, users and roles. Pure: reads bytes and fills tables. Every byte is
 * hostile.
 *
 * Members, alarms and what raft knew are left out: the file begins a new cluster.
 */
#ifndef LEASED_DOORS_ETCD_IMPORT_H
#define LEASED_DOORS_ETCD_IMPORT_H

#include "base/bytes.h"
#include "base/status.h"
#include "core/snapshot.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct etcd_import_options {
    /* The revision goes on so much later than the file's, whose clients may have seen more. */
    int64_t bump_revision;
    /* All before that is compacted, so that watches from the old revisions are told. */
    bool is_marked_compacted;
    /* Of tokens, if authentication is on: AUTH_TOKEN_KEY_SIZE, equal on all members. */
    struct bytes token_key;
    void (*progress)(void *data, const char *what, size_t done, size_t total); /* may be NULL */
    void *progress_data;
};

struct etcd_import_report {
    int64_t revision;
    int64_t compacted_revision;
    size_t n_keys; /* live ones of etcd's space */
    size_t n_records;
    size_t n_leases;
    size_t n_users;
    size_t n_roles;
    bool is_auth_enabled;
    bool is_of_leased; /* what only leased keeps was in the file and was taken */
    /* It was there, but etcd has written since: so many keys of other protocols are left out. */
    size_t n_left_out;
    size_t n_detached; /* keys whose lease is not in the file: they have none now */
};

/* Into new, empty tables; `target->members` stays empty. STATUS_MALFORMED: no bbolt file, or not
 * etcd's. STATUS_CORRUPT, STATUS_UNSUPPORTED. The tables are then good for nothing but to be
 * destroyed, and `out_error` says what is wrong. */
enum status etcd_import(struct bytes file, const struct etcd_import_options *options,
                        struct snapshot_target *target, struct etcd_import_report *out_report,
                        char *out_error, size_t error_size);

#endif
