/*
 * Publishing: what was written since the last time is matched with the topics, record by record,
 * and handed over topic by topic, so that each watcher gets one batch and not one event at a time.
 */
#include "core/watch_hub_internal.h"

#include <assert.h>
#include <stdlib.h>

static void *resize(void *array, size_t count, size_t size) {
    void *memory = realloc(array, count * size);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static void events_reserve(struct watch_events *events, size_t capacity) {
    if (capacity > events->capacity) {
        size_t doubled = events->capacity * 2;
        events->capacity = capacity > doubled ? capacity : doubled;
        events->records = resize(events->records, events->capacity, sizeof events->records[0]);
    }
}

void watch_events_append(struct watch_events *events, const struct record *record) {
    events_reserve(events, events->n + 1);
    events->records[events->n++] = record;
}

void watch_hub_free_scratch(struct watch_hub *hub) {
    free(hub->matches);
    free(hub->matched);
    free(hub->sorted.records);
    free(hub->batch.records);
    hub->matches = NULL;
    hub->matches_capacity = 0;
    hub->matched = NULL;
    hub->matched_capacity = 0;
    hub->sorted = (struct watch_events){0};
    hub->batch = (struct watch_events){0};
}

/* --- Handing over. --- */

size_t watch_event_bytes(const struct record *record) {
    size_t replaced = record->older != NULL ? record->older->value_size : 0;
    return (size_t)record->key_size + record->value_size + replaced;
}

bool watcher_wants(const struct watcher *watcher, const struct record *record) {
    bool is_unwanted =
        record_is_tombstone(record) ? watcher->without_deletes : watcher->without_puts;
    return !is_unwanted && record->mod_revision >= watcher->next_revision;
}

bool watcher_hand_over(struct watcher *watcher, const struct record *const *records, size_t n,
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
    struct watch_events *batch = &watcher->hub->batch;
    batch->n = 0;
    for (size_t i = 0; i < n; i++) {
        if (batch->n >= WATCH_BATCH_EVENTS_MAX &&
            records[i]->mod_revision != records[i - 1]->mod_revision) {
            if (!watcher_hand_over(watcher, batch->records, batch->n,
                                   records[i - 1]->mod_revision)) {
                return false;
            }
            batch->n = 0;
        }
        if (watcher_wants(watcher, records[i])) {
            watch_events_append(batch, records[i]);
        }
    }
    return watcher_hand_over(watcher, batch->records, batch->n, revision);
}

static void publish_to(struct watcher *watcher, const struct record *const *records, size_t n,
                       int64_t revision) {
    bool is_plain = n <= WATCH_BATCH_EVENTS_MAX && !watcher->without_puts &&
                    !watcher->without_deletes && watcher->next_revision <= records[0]->mod_revision;
    bool is_taken = is_plain ? watcher_hand_over(watcher, records, n, revision)
                             : hand_over_parts(watcher, records, n, revision);
    if (!is_taken) {
        watcher_enter(watcher, WATCHER_WAITING);
    }
}

/* --- Publishing: matches are collected for a window of whole revisions, then handed over. --- */

static void note_idle(struct watch_hub *hub, struct watch_topic *topic) {
    topic->next_idle = hub->idle;
    hub->idle = topic;
    hub->n_idle++;
}

static void put_idle_to_sleep(struct watch_hub *hub) {
    if (hub->n_idle > 0) {
        watch_topics_sleep(&hub->topics, hub->idle, hub->n_idle);
        hub->idle = NULL;
        hub->n_idle = 0;
    }
}

static void collect_match(void *context, struct watch_topic *topic) {
    struct watch_hub *hub = context;
    if (topic->n_matches == 0 && !topic->is_overflown) {
        if (hub->n_matched == hub->matched_capacity) {
            hub->matched_capacity = hub->matched_capacity == 0 ? 64 : hub->matched_capacity * 2;
            hub->matched =
                resize(hub->matched, hub->matched_capacity, sizeof(struct watch_topic *));
        }
        hub->matched[hub->n_matched++] = topic;
    }
    if (list_is_empty(&topic->watchers) || hub->n_matches >= hub->n_matches_max) {
        if (!topic->is_overflown) {
            topic->is_overflown = true;
            note_idle(hub, topic);
        }
        return;
    }
    if (hub->n_matches == hub->matches_capacity) {
        hub->matches_capacity = hub->matches_capacity == 0 ? 64 : hub->matches_capacity * 2;
        hub->matches = resize(hub->matches, hub->matches_capacity, sizeof hub->matches[0]);
    }
    topic->n_matches++;
    /* The record is set by the caller. */
    hub->matches[hub->n_matches++].topic = topic;
}

static void spend(struct watch_hub *hub, size_t deliveries) {
    hub->deliveries_left -= deliveries < hub->deliveries_left ? deliveries : hub->deliveries_left;
}

/* Topics beyond the bound: their watchers look for themselves, from the window's beginning on, of
 * which they have been given nothing, or from the revision of the first match. One whose start is
 * in the future finds nothing and is current again. */
static void leave_idle_behind(struct watch_hub *hub, int64_t window_revision, int64_t revision) {
    for (struct watch_topic *topic = hub->idle; topic != NULL; topic = topic->next_idle) {
        int64_t first_revision = topic->n_matches > 0 ? window_revision : revision;
        while (!list_is_empty(&topic->watchers)) {
            struct watcher *watcher = list_entry(topic->watchers.next, struct watcher, link);
            if (watcher->next_revision < first_revision) {
                watcher->next_revision = first_revision;
            }
            watcher_enter(watcher, WATCHER_BEHIND);
            spend(hub, 1);
        }
    }
    put_idle_to_sleep(hub);
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
        const struct watch_match *match = &hub->matches[i];
        hub->sorted.records[match->topic->n_placed++] = match->record;
    }
}

/* What handing the records to one watcher counts, in events. */
static size_t delivery_cost(const struct record *const *records, size_t n) {
    size_t n_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        n_bytes += watch_event_bytes(records[i]);
    }
    return n + n_bytes / WATCH_BYTES_A_RECORD;
}

/* It was handed over, or its watchers were left behind. */
static void finish_topic(struct watch_hub *hub, struct watch_topic *topic) {
    if (list_is_empty(&topic->watchers)) {
        note_idle(hub, topic);
    }
    topic->n_matches = 0;
    topic->is_overflown = false;
}

static void publish_topic(struct watch_hub *hub, struct watch_topic *topic, int64_t first_revision,
                          int64_t last_revision) {
    if (topic->n_matches == 0) {
        finish_topic(hub, topic);
        return;
    }
    const struct record *const *records =
        hub->sorted.records + (topic->n_placed - topic->n_matches);
    size_t cost = delivery_cost(records, topic->n_matches);
    struct list *link = topic->watchers.next;
    while (link != &topic->watchers) {
        struct watcher *watcher = list_entry(link, struct watcher, link);
        link = link->next; /* it may leave the list */
        if (hub->deliveries_left == 0) {
            if (watcher->next_revision < first_revision) {
                watcher->next_revision = first_revision;
            }
            if (watcher->next_revision <= last_revision) {
                watcher_enter(watcher, WATCHER_BEHIND);
            }
        } else {
            publish_to(watcher, records, topic->n_matches, last_revision);
            spend(hub, cost);
        }
    }
    finish_topic(hub, topic);
}

/* Publishes from `position` on, a window; returns where the next one begins. */
static uint64_t publish_window(struct watch_hub *hub, uint64_t position) {
    int64_t first_revision = key_store_history_at(hub->store, position)->mod_revision;
    int64_t revision = first_revision;
    size_t n_bytes = 0;
    hub->n_matches = 0;
    hub->n_matched = 0;
    const struct record *record;
    while ((record = key_store_history_at(hub->store, position)) != NULL) {
        bool is_enough = hub->n_matches >= WATCH_WINDOW_MATCHES || n_bytes >= WATCH_BATCH_BYTES_MAX;
        if (is_enough && record->mod_revision != revision) {
            break;
        }
        revision = record->mod_revision;
        size_t n_before = hub->n_matches;
        watch_topics_visit(&hub->topics, record_stored_key(record), collect_match, hub);
        for (size_t i = n_before; i < hub->n_matches; i++) {
            hub->matches[i].record = record;
        }
        if (hub->n_idle > 0) {
            leave_idle_behind(hub, first_revision, revision);
        }
        n_bytes += hub->n_matches > n_before ? watch_event_bytes(record) : 0;
        position++;
    }
    sort_matches(hub);
    for (size_t i = 0; i < hub->n_matched; i++) {
        publish_topic(hub, hub->matched[i], first_revision, revision);
    }
    put_idle_to_sleep(hub);
    hub->published_revision = revision;
    return position;
}

void watch_hub_publish(struct watch_hub *hub) {
    assert(!hub->is_delivering);
    hub->is_publishing = false;
    uint64_t end = key_store_history_end(hub->store);
    if (hub->n_current > 0 && hub->published_end < end &&
        key_store_history_at(hub->store, hub->published_end) == NULL) {
        watch_hub_leave_current_behind(hub);
    } else {
        while (hub->n_current > 0 && hub->published_end < end && hub->deliveries_left > 0) {
            hub->published_end = publish_window(hub, hub->published_end);
        }
        if (hub->matches_capacity > WATCH_WINDOW_MATCHES * 2) {
            watch_hub_free_scratch(hub);
        }
        if (hub->n_current > 0 && hub->published_end < end) {
            hub->is_publishing = true;
            return;
        }
    }
    hub->published_end = end;
    hub->published_revision = key_store_revision(hub->store);
}

void watch_hub_publish_all(struct watch_hub *hub) {
    watch_hub_publish(hub);
    if (hub->is_publishing) {
        size_t n_matches_max = hub->n_matches_max;
        hub->n_matches_max = 0; /* whoever matches is left behind */
        hub->deliveries_left = SIZE_MAX;
        watch_hub_publish(hub);
        assert(!hub->is_publishing);
        hub->deliveries_left = 0;
        hub->n_matches_max = n_matches_max;
    }
}
