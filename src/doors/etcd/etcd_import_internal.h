/* What the parts of etcd_import.c share: the state of one import. Every byte of the file is
 * untrusted. */
#ifndef LEASED_DOORS_ETCD_IMPORT_INTERNAL_H
#define LEASED_DOORS_ETCD_IMPORT_INTERNAL_H

#include "bolt/bolt_reader.h"
#include "doors/etcd/etcd_import.h"

/* One version of a key, as it is in the file. */
struct etcd_import_entry {
    struct bytes key;
    struct bytes message;
    int64_t main;
    uint32_t sub;
    bool is_tombstone;
};

struct etcd_import {
    const struct etcd_import_options *options;
    struct bolt_file file;
    struct snapshot_target *target;
    struct etcd_import_report *report;
    struct etcd_import_entry *entries;
    size_t n_entries;
    size_t capacity;
    struct bytes last_key;  /* of the bucket "key": the last revision */
    struct record **leased; /* the newest versions that have a lease */
    size_t n_leased;
    char *error;
    size_t error_size;
};

/* Notes the reason and returns the status. */
__attribute__((format(printf, 3, 4))) enum status
etcd_import_fail(struct etcd_import *import, enum status status, const char *format, ...);
/* Of so many; 0: nobody knows. Told to the caller now and then. */
void etcd_import_tell(const struct etcd_import *import, const char *what, size_t done,
                      size_t total);

/* --- etcd_import_records.c: the keys with their history. --- */

/* Collects the entries, the last key of the bucket and the newest revision. */
enum status etcd_import_collect_keys(struct etcd_import *import);
/* Adds what the compaction leaves. `has_leases`: they are in the table already. */
enum status etcd_import_add_keys(struct etcd_import *import, bool has_leases);
/* Attaches the keys to their leases, when both are there. */
enum status etcd_import_attach_leases(struct etcd_import *import);

/* --- etcd_import_own.c: what etcd has no place for, in a bucket of our own. --- */

/* STATUS_KEY_NOT_FOUND: there is none, or it belongs to other data. */
enum status etcd_import_find_own_part(struct etcd_import *import, struct buffer *out_snapshot);
/* Leases, users, and the keys of all other spaces. Members are of the cluster that was. */
enum status etcd_import_take_own_part(struct etcd_import *import, struct bytes snapshot);

#endif
