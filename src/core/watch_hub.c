/*
 * A watcher is in one of three states:
 *
 *     current   given everything that was published: in its topic's list, served by publish
 *     behind    owed something and able to take it: in the list of work, served in turn
 *     waiting   owed something, and its owner refused the last batch: until watch_hub_resume()
 *
 * All that is remembered of a watcher's place is the first revision it has not been given. For one
 * that is current this is a lower bound: what was published since did not concern it. Finding that
 * revision again in the history is a binary search, so nothing has to be kept up when history is
 * compacted or the store is replaced.
 */
#include "core/watch_hub.h"

#include "base/list.h"
#include "core/watch_topics.h"

#include <assert.h>
#include <stdlib.h>

enum {
    /* Events handed over at once; more only when one revision has more. */
    WATCH_BATCH_EVENTS_MAX = 1000,
    /* Records looked at for one watcher before the next one has its turn. */
    WATCH_TURN_RECORDS = 1000,
    /* Matches collected before they are handed over, revisions kept whole … */
    WATCH_WINDOW_MATCHES = 16384,
    /* … and at most: topics that match beyond are caught up from history, one at a time. */
    WATCH_WINDOW_MATCHES_MAX = 1 << 20,
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

struct match {
    struct watch_topic *topic;
    const struct record *record;
};

/* A growing array of borrowed records. */
struct events {
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
    bool is_delivering; /* to catch watchers added or removed where that is not allowed */
    /* Scratch of a publication: matches in order, the topics they belong to, and the same matches
     * topic by topic. */
    struct match *matches;
    size_t n_matches;
    size_t matches_capacity;
    struct watch_topic **matched;
    size_t n_matched;
    size_t matched_capacity;
    struct events sorted;
    struct events batch;
};

static void *resize(void *array, size_t count, size_t size) {
    void *memory = realloc(array, count * size);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static void events_reserve(struct events *events, size_t capacity) {
    if (capacity > events->capacity) {
        size_t doubled = events->capacity * 2;
        events->capacity = capacity > doubled ? capacity : doubled;
        events->records = resize(events->records, events->capacity, sizeof events->records[0]);
    }
}

static void events_append(struct events *events, const struct record *record) {
    events_reserve(events, events->n + 1);
    events->records[events->n++] = record;
}

struct watch_hub *watch_hub_create(const struct key_store *store) {
    struct watch_hub *hub = calloc(1, sizeof *hub);
    if (hub == NULL) {
        abort();
    }
    watch_topics_init(&hub->topics);
    list_init(&hub->behind);
    list_init(&hub->waiting);
    hub->store = store;
    hub->published_end = key_store_history_end(store);
    hub->published_revision = key_store_revision(store);
    return hub;
}

static void free_watchers(struct list *list) {
    struct list *link;
    while ((link = list_pop_first(list)) != NULL) {
        free(list_entry(link, struct watcher, link));
    }
}

/* Memory that only an unusual publication needed. */
static void free_scratch(struct watch_hub *hub) {
    free(hub->matches);
    free(hub->matched);
    free(hub->sorted.records);
    free(hub->batch.records);
    hub->matches = NULL;
    hub->matches_capacity = 0;
    hub->matched = NULL;
    hub->matched_capacity = 0;
    hub->sorted = (struct events){0};
    hub->batch = (struct events){0};
}

void watch_hub_destroy(struct watch_hub *hub) {
    if (hub == NULL) {
        return;
    }
    for (struct list *link = hub->topics.all.next; link != &hub->topics.all; link = link->next) {
        free_watchers(&list_entry(link, struct watch_topic, link)->watchers);
    }
    free_watchers(&hub->behind);
    free_watchers(&hub->waiting);
    watch_topics_clear(&hub->topics);
    free_scratch(hub);
    free(hub);
}

/* Puts a watcher into the list of its state. */
static void enter(struct watcher *watcher, enum watcher_state state) {
    struct watch_hub *hub = watcher->hub;
    struct list *lists[] = {
        [WATCHER_CURRENT] = &watcher->topic->watchers,
        [WATCHER_BEHIND] = &hub->behind,
        [WATCHER_WAITING] = &hub->waiting,
    };
    hub->n_current -= watcher->state == WATCHER_CURRENT;
    hub->n_current += state == WATCHER_CURRENT;
    watcher->state = state;
    list_remove(&watcher->link);
    list_append(lists[state], &watcher->link);
}

struct watcher *watch_hub_add(struct watch_hub *hub, const struct watcher_options *options) {
    assert(!hub->is_delivering);
    struct watcher *watcher = calloc(1, sizeof *watcher);
    if (watcher == NULL) {
        abort();
    }
    int64_t revision = key_store_revision(hub->store);
    watcher->hub = hub;
    watcher->topic = watch_topics_get(&hub->topics, options->key, options->range_end);
    watcher->next_revision = options->start_revision > 0 ? options->start_revision : revision + 1;
    watcher->callbacks = options->callbacks;
    watcher->data = options->data;
    watcher->without_puts = options->without_puts;
    watcher->without_deletes = options->without_deletes;
    watcher->state = WATCHER_WAITING;
    list_init(&watcher->link);
    enter(watcher, watcher->next_revision > revision ? WATCHER_CURRENT : WATCHER_BEHIND);
    hub->count++;
    return watcher;
}

/* Takes a watcher out of everything but memory. */
static void forget(struct watcher *watcher) {
    struct watch_hub *hub = watcher->hub;
    hub->n_current -= watcher->state == WATCHER_CURRENT;
    hub->count--;
    list_remove(&watcher->link);
    watch_topics_release(&hub->topics, watcher->topic);
}

void watch_hub_remove(struct watch_hub *hub, struct watcher *watcher) {
    assert(!hub->is_delivering);
    assert(watcher->hub == hub);
    forget(watcher);
    free(watcher);
}

/* --- Handing over. --- */

static bool wants(const struct watcher *watcher, const struct record *record) {
    bool is_unwanted =
        record_is_tombstone(record) ? watcher->without_deletes : watcher->without_puts;
    return !is_unwanted && record->mod_revision >= watcher->next_revision;
}

/* Hands over one batch, of which `revision` is then the last revision given. When it is refused,
 * the watcher is owed all from the first event on. */
static bool hand_over(struct watcher *watcher, const struct record *const *records, size_t n,
                      int64_t revision) {
    struct watch_hub *hub = watcher->hub;
    if (n > 0) {
        struct watch_batch batch = {.revision = revision, .n_events = n, .events = records};
        hub->is_delivering = true;
        bool is_taken = watcher->callbacks->deliver(watcher->data, &batch);
        hub->is_delivering = false;
        if (!is_taken) {
            watcher->next_revision = records[0]->mod_revision;
            return false;
        }
    }
    if (watcher->next_revision <= revision) {
        watcher->next_revision = revision + 1;
    }
    return true;
}

/* The same for watchers with filters, and for more than fits one batch. */
static bool hand_over_parts(struct watcher *watcher, const struct record *const *records, size_t n,
                            int64_t revision) {
    struct events *batch = &watcher->hub->batch;
    batch->n = 0;
    for (size_t i = 0; i < n; i++) {
        if (batch->n >= WATCH_BATCH_EVENTS_MAX &&
            records[i]->mod_revision != records[i - 1]->mod_revision) {
            if (!hand_over(watcher, batch->records, batch->n, records[i - 1]->mod_revision)) {
                return false;
            }
            batch->n = 0;
        }
        if (wants(watcher, records[i])) {
            events_append(batch, records[i]);
        }
    }
    return hand_over(watcher, batch->records, batch->n, revision);
}

static void publish_to(struct watcher *watcher, const struct record *const *records, size_t n,
                       int64_t revision) {
    bool is_plain = n <= WATCH_BATCH_EVENTS_MAX && !watcher->without_puts &&
                    !watcher->without_deletes && watcher->next_revision <= records[0]->mod_revision;
    bool is_taken = is_plain ? hand_over(watcher, records, n, revision)
                             : hand_over_parts(watcher, records, n, revision);
    if (!is_taken) {
        enter(watcher, WATCHER_WAITING);
    }
}

/* --- Publishing: matches are collected for a window of whole revisions, then handed over. --- */

static void collect_match(void *context, struct watch_topic *topic) {
    struct watch_hub *hub = context;
    if (list_is_empty(&topic->watchers)) {
        return;
    }
    if (topic->n_matches == 0 && !topic->is_overflown) {
        if (hub->n_matched == hub->matched_capacity) {
            hub->matched_capacity = hub->matched_capacity == 0 ? 64 : hub->matched_capacity * 2;
            hub->matched =
                resize(hub->matched, hub->matched_capacity, sizeof(struct watch_topic *));
        }
        hub->matched[hub->n_matched++] = topic;
    }
    if (hub->n_matches == WATCH_WINDOW_MATCHES_MAX) {
        topic->is_overflown = true;
        return;
    }
    if (hub->n_matches == hub->matches_capacity) {
        hub->matches_capacity = hub->matches_capacity == 0 ? 64 : hub->matches_capacity * 2;
        hub->matches = resize(hub->matches, hub->matches_capacity, sizeof hub->matches[0]);
    }
    topic->n_matches++;
    /* The record is set by the caller, who knows it. */
    hub->matches[hub->n_matches++].topic = topic;
}

/* Orders the matches topic by topic; within a topic they stay in order. Afterwards each topic's
 * end in `sorted` is its n_placed. */
static void sort_matches(struct watch_hub *hub) {
    events_reserve(&hub->sorted, hub->n_matches);
    size_t start = 0;
    for (size_t i = 0; i < hub->n_matched; i++) {
        hub->matched[i]->n_placed = start;
        start += hub->matched[i]->n_matches;
    }
    for (size_t i = 0; i < hub->n_matches; i++) {
        const struct match *match = &hub->matches[i];
        hub->sorted.records[match->topic->n_placed++] = match->record;
    }
}

static void publish_topic(struct watch_hub *hub, struct watch_topic *topic, int64_t first_revision,
                          int64_t last_revision) {
    const struct record *const *records =
        hub->sorted.records + (topic->n_placed - topic->n_matches);
    struct list *link = topic->watchers.next;
    while (link != &topic->watchers) {
        struct watcher *watcher = list_entry(link, struct watcher, link);
        link = link->next; /* it may leave the list */
        if (topic->is_overflown) {
            if (watcher->next_revision < first_revision) {
                watcher->next_revision = first_revision;
            }
            if (watcher->next_revision <= last_revision) {
                enter(watcher, WATCHER_BEHIND);
            }
        } else {
            publish_to(watcher, records, topic->n_matches, last_revision);
        }
    }
    topic->n_matches = 0;
    topic->is_overflown = false;
}

/* Publishes from `position` on, a window; returns where the next one begins. */
static uint64_t publish_window(struct watch_hub *hub, uint64_t position) {
    int64_t first_revision = key_store_history_at(hub->store, position)->mod_revision;
    int64_t revision = first_revision;
    hub->n_matches = 0;
    hub->n_matched = 0;
    const struct record *record;
    while ((record = key_store_history_at(hub->store, position)) != NULL) {
        if (record->mod_revision != revision && hub->n_matches >= WATCH_WINDOW_MATCHES) {
            break;
        }
        revision = record->mod_revision;
        size_t n_before = hub->n_matches;
        watch_topics_visit(&hub->topics, record_key(record), collect_match, hub);
        for (size_t i = n_before; i < hub->n_matches; i++) {
            hub->matches[i].record = record;
        }
        position++;
    }
    sort_matches(hub);
    for (size_t i = 0; i < hub->n_matched; i++) {
        publish_topic(hub, hub->matched[i], first_revision, revision);
    }
    hub->published_revision = revision;
    return position;
}

/* Sends every current watcher to look for itself: what was to be published is no longer there, or
 * is another store's. */
static void leave_current_behind(struct watch_hub *hub) {
    int64_t revision = key_store_revision(hub->store);
    for (struct list *link = hub->topics.all.next; link != &hub->topics.all; link = link->next) {
        struct watch_topic *topic = list_entry(link, struct watch_topic, link);
        struct list *at = topic->watchers.next;
        while (at != &topic->watchers) {
            struct watcher *watcher = list_entry(at, struct watcher, link);
            at = at->next;
            if (watcher->next_revision <= hub->published_revision) {
                watcher->next_revision = hub->published_revision + 1;
            }
            if (watcher->next_revision <= revision) {
                enter(watcher, WATCHER_BEHIND);
            }
        }
    }
}

void watch_hub_publish(struct watch_hub *hub) {
    assert(!hub->is_delivering);
    uint64_t end = key_store_history_end(hub->store);
    if (hub->n_current > 0 && hub->published_end < end &&
        key_store_history_at(hub->store, hub->published_end) == NULL) {
        leave_current_behind(hub);
    } else {
        while (hub->n_current > 0 && hub->published_end < end) {
            hub->published_end = publish_window(hub, hub->published_end);
        }
        if (hub->matches_capacity > WATCH_WINDOW_MATCHES * 2) {
            free_scratch(hub);
        }
    }
    hub->published_end = end;
    hub->published_revision = key_store_revision(hub->store);
}

/* --- Catching up. --- */

void watch_hub_resume(struct watch_hub *hub, struct watcher *watcher) {
    assert(watcher->hub == hub);
    if (watcher->state == WATCHER_WAITING) {
        enter(watcher, WATCHER_BEHIND);
    }
}

static void drop_compacted(struct watcher *watcher, int64_t compacted_revision) {
    void (*compacted)(void *, int64_t) = watcher->callbacks->compacted;
    void *data = watcher->data;
    forget(watcher);
    free(watcher);
    compacted(data, compacted_revision);
}

/* Gives one watcher its turn; returns how many records were looked at. */
static size_t catch_up(struct watcher *watcher) {
    struct watch_hub *hub = watcher->hub;
    struct events *batch = &hub->batch;
    batch->n = 0;
    uint64_t position = key_store_history_seek(hub->store, watcher->next_revision);
    int64_t revision = watcher->next_revision - 1;
    size_t n_seen = 0;
    const struct record *record;
    while ((record = key_store_history_at(hub->store, position)) != NULL) {
        bool is_enough = batch->n >= WATCH_BATCH_EVENTS_MAX || n_seen >= WATCH_TURN_RECORDS;
        if (is_enough && record->mod_revision != revision) {
            break;
        }
        revision = record->mod_revision;
        if (wants(watcher, record) && watch_topic_contains(watcher->topic, record_key(record))) {
            events_append(batch, record);
        }
        n_seen++;
        position++;
    }
    if (record == NULL && revision < key_store_revision(hub->store)) {
        revision = key_store_revision(hub->store);
    }
    bool is_taken = hand_over(watcher, batch->records, batch->n, revision);
    if (!is_taken) {
        enter(watcher, WATCHER_WAITING);
    } else if (record == NULL) {
        enter(watcher, WATCHER_CURRENT);
    } else {
        enter(watcher, WATCHER_BEHIND); /* at the end of the queue */
    }
    return n_seen;
}

bool watch_hub_work(struct watch_hub *hub, size_t budget) {
    assert(!hub->is_delivering);
    size_t n_seen = 0;
    while (n_seen < budget && !list_is_empty(&hub->behind)) {
        struct watcher *watcher = list_entry(hub->behind.next, struct watcher, link);
        int64_t compacted_revision = key_store_compacted_revision(hub->store);
        if (watcher->next_revision < compacted_revision) {
            drop_compacted(watcher, compacted_revision);
            n_seen++;
        } else {
            n_seen += 1 + catch_up(watcher);
        }
    }
    if (hub->batch.capacity > WATCH_WINDOW_MATCHES * 2) {
        free_scratch(hub);
    }
    return watch_hub_has_work(hub);
}

bool watch_hub_has_work(const struct watch_hub *hub) {
    return !list_is_empty(&hub->behind);
}

void watch_hub_set_store(struct watch_hub *hub, const struct key_store *store) {
    assert(!hub->is_delivering);
    hub->store = store;
    leave_current_behind(hub);
    hub->published_end = key_store_history_end(store);
    hub->published_revision = key_store_revision(store);
}

/* --- Reading. --- */

int64_t watcher_revision(const struct watcher *watcher) {
    const struct watch_hub *hub = watcher->hub;
    int64_t given = watcher->next_revision - 1;
    if (given > key_store_revision(hub->store)) {
        return 0;
    }
    if (watcher->state == WATCHER_CURRENT && given < hub->published_revision) {
        return hub->published_revision;
    }
    return given;
}

bool watcher_is_current(const struct watch_hub *hub, const struct watcher *watcher) {
    return watcher->state == WATCHER_CURRENT &&
           (hub->published_end == key_store_history_end(hub->store) ||
            watcher->next_revision > key_store_revision(hub->store));
}

size_t watch_hub_count(const struct watch_hub *hub) {
    return hub->count;
}

size_t watch_hub_lagging_count(const struct watch_hub *hub) {
    return hub->count - hub->n_current;
}

static size_t validate_list(const struct watch_hub *hub, const struct list *list,
                            enum watcher_state state) {
    size_t count = 0;
    for (const struct list *link = list->next; link != list; link = link->next) {
        const struct watcher *watcher = list_entry(link, struct watcher, link);
        assert(link->next->previous == link);
        assert(watcher->hub == hub);
        assert(watcher->state == state);
        count++;
    }
    return count;
}

void watch_hub_validate(const struct watch_hub *hub) {
    watch_topics_validate(&hub->topics);
    size_t n_current = 0;
    size_t references = 0;
    for (const struct list *link = hub->topics.all.next; link != &hub->topics.all;
         link = link->next) {
        const struct watch_topic *topic = list_entry(link, struct watch_topic, link);
        size_t n = validate_list(hub, &topic->watchers, WATCHER_CURRENT);
        assert(n <= topic->references);
        assert(topic->n_matches == 0);
        n_current += n;
        references += topic->references;
    }
    size_t n_lagging = validate_list(hub, &hub->behind, WATCHER_BEHIND) +
                       validate_list(hub, &hub->waiting, WATCHER_WAITING);
    assert(n_current == hub->n_current);
    assert(n_current + n_lagging == hub->count);
    assert(references == hub->count);
    assert(!hub->is_delivering);
}
