/* The watch hub from inside: shared by the files that carry out watch_hub.h. */
#ifndef LEASED_CORE_WATCH_HUB_INTERNAL_H
#define LEASED_CORE_WATCH_HUB_INTERNAL_H

#include "base/list.h"
#include "core/watch_hub.h"
#include "core/watch_topics.h"

enum {
    /* Events handed over at once; more only when one revision has more. */
    WATCH_BATCH_EVENTS_MAX = 1000,
    /* Bytes of events handed over at once, what they replaced included; more only when one revision
     * has more. A batch is one message of a door: a thousand large values must not be. */
    WATCH_BATCH_BYTES_MAX = 1 << 20,
    /* Records looked at for one watcher before the next one has its turn. */
    WATCH_TURN_RECORDS = 1000,
    /* A watcher that is dropped counts as so many: its owner is told, memory is freed. */
    WATCH_DROP_RECORDS = 16,
    /* So many bytes handed over count as one more record looked at: large values take turns, too.
     */
    WATCH_BYTES_A_RECORD = 1024,
    /* Matches collected before they are handed over, revisions kept whole … */
    WATCH_WINDOW_MATCHES = 16384,
    /* … and at most, since a revision may change as many keys as one client has ranges to watch:
     * watchers of topics that match beyond are caught up from history, one at a time, and their
     * topics are not visited again. */
    WATCH_WINDOW_MATCHES_MAX = 1 << 18,
    /* Events handed over by publications of one iteration of the loop, large ones counted as
     * several; watchers beyond are caught up later, a few in each iteration. */
    WATCH_DELIVERIES_MAX = 1 << 16,
};

enum watcher_state { WATCHER_CURRENT, WATCHER_BEHIND, WATCHER_WAITING };

struct watcher {
    struct list link; /* of its topic's watchers, of the hub's behind or waiting */
    struct watch_hub *hub;
    struct watch_topic *topic;
    int64_t next_revision; /* all before it has been given */
    const struct watcher_callbacks *callbacks;
    void *data;
    enum watcher_state state;
    bool without_puts;
    bool without_deletes;
};

struct watch_match {
    struct watch_topic *topic;
    const struct record *record;
};

/* A growing array of borrowed records. */
struct watch_events {
    const struct record **records;
    size_t n;
    size_t capacity;
};

struct watch_hub {
    const struct key_store *store;
    struct watch_topics topics;
    struct list behind;
    struct list waiting;
    size_t count;
    size_t n_current;
    uint64_t published_end; /* history position up to which was published */
    int64_t published_revision;
    size_t deliveries_left; /* of this iteration */
    bool is_publishing;     /* the last publication stopped there: watch_hub_work() goes on */
    bool is_delivering;     /* to catch watchers added or removed where that is not allowed */
    /* Scratch of a publication: matches in order, the topics they belong to, and the same matches
     * topic by topic. */
    struct watch_match *matches;
    size_t n_matches;
    size_t n_matches_max; /* WATCH_WINDOW_MATCHES_MAX; tests lower it */
    size_t matches_capacity;
    struct watch_topic **matched;
    size_t n_matched;
    size_t matched_capacity;
    struct watch_topic *idle; /* topics found to have no current watchers, or too much for them */
    size_t n_idle;
    struct watch_events sorted;
    struct watch_events batch;
};

/* --- watch_hub.c --- */

/* Puts a watcher into the list of its state. */
void watcher_enter(struct watcher *watcher, enum watcher_state state);
/* Sends every current watcher to look for itself: what was to be published is no longer there, or
 * is another store's. */
void watch_hub_leave_current_behind(struct watch_hub *hub);

/* --- watch_publish.c --- */

void watch_events_append(struct watch_events *events, const struct record *record);
/* Memory that only an unusual publication needed. */
void watch_hub_free_scratch(struct watch_hub *hub);

/* What an event may cost the watcher that gets it, along with what it replaced. */
size_t watch_event_bytes(const struct record *record);
/* True when the watcher is owed the record, if its key is the watcher's at all. */
bool watcher_wants(const struct watcher *watcher, const struct record *record);
/* Hands over one batch, of which `revision` is then the last revision given. When it is refused,
 * the watcher is owed all from the first event on. */
bool watcher_hand_over(struct watcher *watcher, const struct record *const *records, size_t n,
                       int64_t revision);

#endif
