/*
 * The watchers and the events they are owed. A watcher of one key is found by hash, a watcher of a
 * range by interval, so an event costs what its watchers cost, not what all watchers cost. Events
 * come in revision order without gap or duplicate. A watcher that cannot take more is left behind
 * at its revision and caught up later from the key store's history: it never holds others back and
 * never makes memory grow.
 */
#ifndef LEASED_CORE_WATCH_HUB_H
#define LEASED_CORE_WATCH_HUB_H

#include "base/bytes.h"
#include "base/keyed_hash.h"
#include "core/key_store.h"
#include "core/permission.h"
#include "core/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct watch_hub;
struct watcher;

/* Events for one watcher, in order; never splits a revision across batches. */
struct watch_batch {
    int64_t revision; /* everything up to this revision has been delivered then */
    size_t n_events;
    const struct record *const *events; /* a tombstone is a DELETE, anything else a PUT */
};

struct watcher_callbacks {
    /* Takes a batch; it is borrowed for the call. Returning false means that it was NOT taken:
     * the watcher lags from here until watch_hub_resume(). Must not add or remove watchers. */
    bool (*deliver)(void *data, const struct watch_batch *batch);
    /* The watcher's next revision was compacted away; the hub has dropped the watcher already. */
    void (*compacted)(void *data, int64_t compacted_revision);
};

struct watcher_options {
    struct key_space_id space; /* no event of another is seen, whatever the range */
    struct bytes key;          /* borrowed for the call */
    struct bytes range_end;
    int64_t start_revision; /* 0 or less: from now on */
    bool without_puts;
    bool without_deletes;
    const struct watcher_callbacks *callbacks;
    void *data;
};

/* The key is copied; NULL: hash_key_fixed. */
struct watch_hub *watch_hub_create(const struct key_store *store, const struct hash_key *key);
/* Watchers left are dropped silently. */
void watch_hub_destroy(struct watch_hub *hub);

/* Delivers nothing before it returns: a watcher with a past start revision lags at first and is
 * caught up by watch_hub_work(). A start in the future waits for that revision.
 * The caller checks a compacted start itself (key_store_compacted_revision). */
struct watcher *watch_hub_add(struct watch_hub *hub, const struct watcher_options *options);
void watch_hub_remove(struct watch_hub *hub, struct watcher *watcher);

/* Delivers to all watchers that are up to date what was written since the last call. To be called
 * after commands were applied (once a log entry is enough). Delivers a bounded amount in an
 * iteration of the loop: when a client has a hundred thousand watches on one key, those beyond the
 * bound lag for a moment, and no other watcher waits for them. */
void watch_hub_publish(struct watch_hub *hub);
/* The same to the end, before history is compacted: beyond the bound those who are owed something
 * lag from there on, which ends them if that is compacted. */
void watch_hub_publish_all(struct watch_hub *hub);
/* A new iteration of the loop: publications may deliver as much again. */
void watch_hub_begin_iteration(struct watch_hub *hub);
/* The watcher can take more again. */
void watch_hub_resume(struct watch_hub *hub, struct watcher *watcher);
/* Goes on with a publication that had reached its bound, and catches up lagging watchers that can
 * take more, looking at no more than about `budget` records; true when more is to be done. */
bool watch_hub_work(struct watch_hub *hub, size_t budget);
bool watch_hub_has_work(const struct watch_hub *hub);

/* What it watches; lives as long as the watcher. */
struct key_range watcher_range(const struct watcher *watcher);
/* The watcher has been given everything up to here; 0 while its start is in the future. */
int64_t watcher_revision(const struct watcher *watcher);
/* True when nothing is owed: a progress notification may claim the store's revision. */
bool watcher_is_current(const struct watch_hub *hub, const struct watcher *watcher);
size_t watch_hub_count(const struct watch_hub *hub);
size_t watch_hub_lagging_count(const struct watch_hub *hub);

/* The key store was replaced by a restored one (a snapshot was installed). Every watcher lags from
 * its own revision. */
void watch_hub_set_store(struct watch_hub *hub, const struct key_store *store);

void watch_hub_validate(const struct watch_hub *hub);

#endif
