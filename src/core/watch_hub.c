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
#include "core/watch_hub_internal.h"

#include <assert.h>
#include <stdlib.h>

struct watch_hub *watch_hub_create(const struct key_store *store, const struct hash_key *key) {
    struct watch_hub *hub = calloc(1, sizeof *hub);
    if (hub == NULL) {
        abort();
    }
    watch_topics_init(&hub->topics, key != NULL ? key : &hash_key_fixed);
    list_init(&hub->behind);
    list_init(&hub->waiting);
    hub->store = store;
    hub->n_matches_max = WATCH_WINDOW_MATCHES_MAX;
    hub->published_end = key_store_history_end(store);
    hub->published_revision = key_store_revision(store);
    watch_hub_begin_iteration(hub);
    return hub;
}

void watch_hub_begin_iteration(struct watch_hub *hub) {
    hub->deliveries_left = WATCH_DELIVERIES_MAX;
}

static void free_watchers(struct list *list) {
    struct list *link;
    while ((link = list_pop_first(list)) != NULL) {
        free(list_entry(link, struct watcher, link));
    }
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
    watch_hub_free_scratch(hub);
    free(hub);
}

void watcher_enter(struct watcher *watcher, enum watcher_state state) {
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
    if (state == WATCHER_CURRENT) {
        watch_topics_wake(&hub->topics, watcher->topic);
    }
}

struct watcher *watch_hub_add(struct watch_hub *hub, const struct watcher_options *options) {
    assert(!hub->is_delivering);
    struct watcher *watcher = calloc(1, sizeof *watcher);
    if (watcher == NULL) {
        abort();
    }
    int64_t revision = key_store_revision(hub->store);
    watcher->hub = hub;
    watcher->topic =
        watch_topics_get(&hub->topics, options->space, options->key, options->range_end);
    watcher->next_revision = options->start_revision > 0 ? options->start_revision : revision + 1;
    watcher->callbacks = options->callbacks;
    watcher->data = options->data;
    watcher->without_puts = options->without_puts;
    watcher->without_deletes = options->without_deletes;
    watcher->state = WATCHER_WAITING;
    list_init(&watcher->link);
    watcher_enter(watcher, watcher->next_revision > revision ? WATCHER_CURRENT : WATCHER_BEHIND);
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

void watch_hub_leave_current_behind(struct watch_hub *hub) {
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
                watcher_enter(watcher, WATCHER_BEHIND);
            }
        }
    }
}

/* --- Catching up. --- */

void watch_hub_resume(struct watch_hub *hub, struct watcher *watcher) {
    assert(watcher->hub == hub);
    if (watcher->state == WATCHER_WAITING) {
        watcher_enter(watcher, WATCHER_BEHIND);
    }
}

static void drop_compacted(struct watcher *watcher, int64_t compacted_revision) {
    void (*compacted)(void *, int64_t) = watcher->callbacks->compacted;
    void *data = watcher->data;
    forget(watcher);
    free(watcher);
    compacted(data, compacted_revision);
}

/* Gives one watcher its turn; returns how much work it was, in records looked at. */
static size_t catch_up(struct watcher *watcher) {
    struct watch_hub *hub = watcher->hub;
    struct watch_events *batch = &hub->batch;
    batch->n = 0;
    uint64_t position = key_store_history_seek(hub->store, watcher->next_revision);
    int64_t revision = watcher->next_revision - 1;
    size_t n_seen = 0;
    size_t n_bytes = 0;
    const struct record *record;
    while ((record = key_store_history_at(hub->store, position)) != NULL) {
        bool is_enough = batch->n >= WATCH_BATCH_EVENTS_MAX || n_seen >= WATCH_TURN_RECORDS ||
                         n_bytes >= WATCH_BATCH_BYTES_MAX;
        if (is_enough && record->mod_revision != revision) {
            break;
        }
        revision = record->mod_revision;
        if (watcher_wants(watcher, record) &&
            watch_topic_contains(watcher->topic, record_stored_key(record))) {
            watch_events_append(batch, record);
            n_bytes += watch_event_bytes(record);
        }
        n_seen++;
        position++;
    }
    if (record == NULL && revision < key_store_revision(hub->store)) {
        revision = key_store_revision(hub->store);
    }
    bool is_taken = watcher_hand_over(watcher, batch->records, batch->n, revision);
    if (!is_taken) {
        watcher_enter(watcher, WATCHER_WAITING);
    } else if (record == NULL) {
        watcher_enter(watcher, WATCHER_CURRENT);
    } else {
        watcher_enter(watcher, WATCHER_BEHIND); /* at the end of the queue */
    }
    return n_seen + n_bytes / WATCH_BYTES_A_RECORD;
}

bool watch_hub_work(struct watch_hub *hub, size_t budget) {
    assert(!hub->is_delivering);
    size_t n_seen = 0;
    if (hub->is_publishing) {
        watch_hub_begin_iteration(hub);
        watch_hub_publish(hub);
    }
    while (n_seen < budget && !list_is_empty(&hub->behind)) {
        struct watcher *watcher = list_entry(hub->behind.next, struct watcher, link);
        int64_t compacted_revision = key_store_compacted_revision(hub->store);
        if (watcher->next_revision < compacted_revision) {
            drop_compacted(watcher, compacted_revision);
            n_seen += WATCH_DROP_RECORDS;
        } else {
            n_seen += 1 + catch_up(watcher);
        }
    }
    if (hub->batch.capacity > WATCH_WINDOW_MATCHES * 2) {
        watch_hub_free_scratch(hub);
    }
    return watch_hub_has_work(hub);
}

bool watch_hub_has_work(const struct watch_hub *hub) {
    return !list_is_empty(&hub->behind) || hub->is_publishing;
}

void watch_hub_set_store(struct watch_hub *hub, const struct key_store *store) {
    assert(!hub->is_delivering);
    hub->store = store;
    hub->is_publishing = false;
    watch_hub_leave_current_behind(hub);
    hub->published_end = key_store_history_end(store);
    hub->published_revision = key_store_revision(store);
}

/* --- Reading. --- */

struct key_range watcher_range(const struct watcher *watcher) {
    return watch_topic_range(watcher->topic);
}

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
        assert(n == 0 || topic->is_one_key || !topic->interval.is_asleep);
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
