/*
 * Random writes, watchers, refusals, compactions and replaced stores, against a plain list of all
 * events: every watcher must be given exactly what that list says, in order, or be told that it was
 * compacted away. The seed is printed; give it as the first argument to replay a run.
 */
#include "../storage/thorough.h"
#include "core/watch_hub.h"

#include "core/key_store.h"
#include "core/watch_hub_internal.h"
#include "model_random.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BYTES = 3, WATCHERS = 60, EVENTS_MAX = 200000, STEPS = 3000, ROUNDS = THOROUGH(40) };

struct event {
    int64_t revision;
    struct key_space_id space;
    char key[KEY_BYTES + 1];
    bool is_delete;
};

/* A watcher as the test knows it. */
struct listener {
    struct watcher *watcher; /* NULL: not in use */
    struct key_space_id space;
    char key[KEY_BYTES + 1];
    char range_end[KEY_BYTES + 1];
    size_t range_end_size; /* 0: one key; 1 with a zero byte: to the end */
    int64_t start_revision;
    bool without_puts;
    bool without_deletes;
    bool is_full;
    size_t cursor;    /* into the events: all before it was given or does not concern it */
    int64_t revision; /* as the hub last told it */
};

static struct key_store *store;
static struct watch_hub *hub;
static struct event *events;
static size_t n_events;
static struct listener listeners[WATCHERS];

static void random_key(char *out_key) {
    memset(out_key, 0, KEY_BYTES + 1);
    size_t size = 1 + random_below(KEY_BYTES);
    for (size_t i = 0; i < size; i++) {
        out_key[i] = (char)('a' + random_below(3));
    }
}

/* Neighbours, so that the end of one is the beginning of the next. */
static struct key_space_id random_space(void) {
    return random_one_in(2) ? KEY_SPACE_REDIS : KEY_SPACE_ZOOKEEPER;
}

static bool concerns(const struct listener *listener, const struct event *event) {
    if (event->revision < listener->start_revision ||
        !key_space_equal(event->space, listener->space)) {
        return false;
    }
    if (event->is_delete ? listener->without_deletes : listener->without_puts) {
        return false;
    }
    if (listener->range_end_size == 0) {
        return strcmp(event->key, listener->key) == 0;
    }
    bool is_endless = listener->range_end_size == 1 && listener->range_end[0] == 0;
    return strcmp(event->key, listener->key) >= 0 &&
           (is_endless || strcmp(event->key, listener->range_end) < 0);
}

/* Moves the cursor to the next event that is owed. */
static const struct event *next_owed(struct listener *listener) {
    while (listener->cursor < n_events && !concerns(listener, &events[listener->cursor])) {
        listener->cursor++;
    }
    return listener->cursor < n_events ? &events[listener->cursor] : NULL;
}

static bool deliver(void *data, const struct watch_batch *batch) {
    struct listener *listener = data;
    assert(listener->watcher != NULL);
    assert(batch->n_events > 0);
    for (size_t i = 0; i < batch->n_events; i++) {
        const struct record *record = batch->events[i];
        const struct event *owed = next_owed(listener);
        assert(owed != NULL);
        assert(owed->revision == record->mod_revision);
        assert(owed->is_delete == record_is_tombstone(record));
        assert(bytes_equal(record_key(record), bytes_from_text(owed->key)));
        assert(key_space_equal(record_space(record), owed->space));
        listener->cursor++;
    }
    const struct event *owed = next_owed(listener);
    assert(owed == NULL || owed->revision > batch->revision);
    if (listener->is_full) {
        /* It looked at the batch, but did not take it. */
        while (listener->cursor > 0 &&
               events[listener->cursor - 1].revision >= batch->events[0]->mod_revision) {
            listener->cursor--;
        }
        return false;
    }
    if (random_one_in(30)) {
        listener->is_full = true; /* from the next one on */
    }
    return true;
}

static void compacted(void *data, int64_t compacted_revision) {
    struct listener *listener = data;
    assert(compacted_revision == key_store_compacted_revision(store));
    assert(listener->revision + 1 < compacted_revision);
    listener->watcher = NULL;
    /* Another one may go at this moment. */
    struct listener *other = &listeners[random_below(WATCHERS)];
    if (other->watcher != NULL && random_one_in(3)) {
        watch_hub_remove(hub, other->watcher);
        other->watcher = NULL;
    }
}

static const struct watcher_callbacks callbacks = {.deliver = deliver, .compacted = compacted};

static void note(const struct record *record, int64_t revision) {
    assert(n_events < EVENTS_MAX);
    struct event *event = &events[n_events++];
    *event = (struct event){.revision = revision,
                            .space = record_space(record),
                            .is_delete = record_is_tombstone(record)};
    struct bytes key = record_key(record);
    memcpy(event->key, key.data, key.size);
}

static void do_write(void) {
    int64_t revision = key_store_revision(store) + 1;
    size_t n = random_one_in(300) ? 1500 : 1 + random_below(4);
    key_store_begin(store);
    for (size_t i = 0; i < n; i++) {
        char key[KEY_BYTES + 1];
        random_key(key);
        struct key_space_id space = random_space();
        struct record *live = key_store_find(store, space, bytes_from_text(key));
        if (live != NULL && random_one_in(2)) {
            note(key_store_delete(store, live), revision);
        } else {
            note(key_store_put(store, space, bytes_from_text(key), bytes_from_text("v"), 0, NULL),
                 revision);
        }
    }
    assert(key_store_end(store) == revision);
}

static void do_watch(void) {
    struct listener *listener = &listeners[random_below(WATCHERS)];
    if (listener->watcher != NULL) {
        watch_hub_remove(hub, listener->watcher);
        listener->watcher = NULL;
        return;
    }
    *listener = (struct listener){.space = random_space()};
    random_key(listener->key);
    if (random_one_in(2)) {
        random_key(listener->range_end);
        listener->range_end_size = random_one_in(5) ? 1 : strlen(listener->range_end);
        if (listener->range_end_size == 1 && random_one_in(2)) {
            listener->range_end[0] = 0;
        }
        listener->range_end[listener->range_end_size] = 0;
    }
    listener->without_puts = random_one_in(6);
    listener->without_deletes = random_one_in(6);
    int64_t revision = key_store_revision(store);
    int64_t compacted_revision = key_store_compacted_revision(store);
    int64_t start = 0;
    if (random_one_in(2)) {
        start = compacted_revision +
                (int64_t)random_below((uint64_t)(revision + 10 - compacted_revision));
    }
    listener->start_revision = start > 0 ? start : revision + 1;
    struct watcher_options options = {
        .space = listener->space,
        .key = bytes_from_text(listener->key),
        .range_end = bytes_of(listener->range_end, listener->range_end_size),
        .start_revision = start,
        .without_puts = listener->without_puts,
        .without_deletes = listener->without_deletes,
        .callbacks = &callbacks,
        .data = listener,
    };
    listener->watcher = watch_hub_add(hub, &options);
}

static void remember_revisions(void) {
    for (size_t i = 0; i < WATCHERS; i++) {
        if (listeners[i].watcher != NULL) {
            int64_t revision = watcher_revision(listeners[i].watcher);
            assert(revision >= listeners[i].revision); /* what was given stays given */
            listeners[i].revision = revision;
        }
    }
}

static void do_work(size_t budget) {
    remember_revisions();
    bool more = watch_hub_work(hub, budget);
    assert(more == watch_hub_has_work(hub));
}

static void do_compact(void) {
    int64_t revision = key_store_revision(store);
    int64_t compacted_revision = key_store_compacted_revision(store);
    int64_t target = revision - (int64_t)random_below(20);
    if (target > compacted_revision && target > 0) {
        assert(key_store_compact(store, target) == STATUS_OK);
    }
    while (random_one_in(2) && key_store_reclaim(store, 50)) {
    }
}

static bool restore_one(void *context, const struct record *record) {
    struct record *restored;
    return key_store_restore(context, record, record_space(record), record_key(record),
                             record_value(record), &restored) == STATUS_OK;
}

static void do_replace_store(void) {
    struct key_store *copy = key_store_create();
    struct key_view *view = key_view_open(store);
    assert(key_view_visit(view, restore_one, copy));
    assert(key_store_restore_end(copy, key_view_revision(view),
                                 key_view_compacted_revision(view)) == STATUS_OK);
    key_view_close(view);
    watch_hub_set_store(hub, copy);
    key_store_destroy(store);
    store = copy;
}

/* Lets everybody take everything: then nothing may be owed. */
static void settle(void) {
    watch_hub_publish(hub);
    do {
        for (size_t i = 0; i < WATCHERS; i++) {
            listeners[i].is_full = false;
            if (listeners[i].watcher != NULL) {
                watch_hub_resume(hub, listeners[i].watcher);
            }
        }
        do_work(1000);
    } while (watch_hub_lagging_count(hub) > 0);
    size_t count = 0;
    for (size_t i = 0; i < WATCHERS; i++) {
        struct listener *listener = &listeners[i];
        if (listener->watcher == NULL) {
            continue;
        }
        count++;
        assert(next_owed(listener) == NULL);
        assert(watcher_is_current(hub, listener->watcher));
        int64_t revision = key_store_revision(store);
        bool is_future = listener->start_revision > revision + 1;
        assert(watcher_revision(listener->watcher) == (is_future ? 0 : revision));
    }
    assert(watch_hub_count(hub) == count);
}

static void do_publish(void) {
    watch_hub_begin_iteration(hub);
    if (random_one_in(4)) {
        hub->deliveries_left = random_below(100); /* so that a publication is cut */
    }
    if (random_one_in(4)) {
        watch_hub_publish_all(hub);
        assert(!hub->is_publishing);
    } else {
        watch_hub_publish(hub);
    }
}

static void step(void) {
    remember_revisions();
    uint64_t choice = random_below(1000);
    if (choice < 450) {
        do_write();
    } else if (choice < 600) {
        do_watch();
    } else if (choice < 800) {
        do_publish();
    } else if (choice < 900) {
        do_work(random_below(300));
    } else if (choice < 950) {
        struct listener *listener = &listeners[random_below(WATCHERS)];
        listener->is_full = random_one_in(3);
        if (listener->watcher != NULL && !listener->is_full) {
            watch_hub_resume(hub, listener->watcher);
        }
    } else if (choice < 970) {
        do_compact();
    } else if (choice < 980) {
        do_replace_store();
    } else if (choice < 990) {
        settle();
    } else {
        watch_hub_validate(hub);
    }
}

static void run(void) {
    store = key_store_create();
    hub = watch_hub_create(store, NULL);
    if (random_one_in(2)) {
        hub->n_matches_max = 1 + random_below(200); /* so that windows overflow */
    }
    memset(listeners, 0, sizeof listeners);
    n_events = 0;
    for (unsigned i = 0; i < STEPS; i++) {
        step();
    }
    settle();
    watch_hub_validate(hub);
    watch_hub_destroy(hub);
    key_store_destroy(store);
}

int main(int argc, char **argv) {
    random_seed(argc, argv);
    events = calloc(EVENTS_MAX, sizeof *events);
    assert(events != NULL);
    for (unsigned round = 0; round < ROUNDS; round++) {
        run();
    }
    free(events);
    return 0;
}
