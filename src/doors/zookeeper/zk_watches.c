#include "doors/zookeeper/zk_watches.h"

#include "doors/zookeeper/zk_keys.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum { FREED_MUCH = 32 * 1024 * 1024 }; /* so much is worth a search for pages to give back */

void zk_watches_init(struct zk_watches *table) {
    *table = (struct zk_watches){0};
    hash_key_fill(&table->key);
}

void zk_watches_clear(struct zk_watches *table) {
    zk_hash_clear(&table->paths);
    zk_hash_clear(&table->watches);
}

void zk_watcher_init(struct zk_watcher *watcher) {
    list_init(&watcher->watches);
    list_init(&watcher->unseen);
    watcher->n_watches = 0;
    watcher->bytes = 0;
    watcher->told_event = 0;
}

/* --- Finding. --- */

static struct zk_watched_path *find_path(const struct zk_watches *table, struct bytes path,
                                         uint64_t hash) {
    for (struct zk_hash_node *node = zk_hash_first(&table->paths, hash); node != NULL;
         node = node->next) {
        struct zk_watched_path *watched = (struct zk_watched_path *)node;
        if (node->hash == hash && bytes_equal(bytes_of(watched->path, watched->size), path)) {
            return watched;
        }
    }
    return NULL;
}

static uint64_t pair_hash(const struct zk_watches *table, const struct zk_watcher *watcher,
                          const struct zk_watched_path *path) {
    return keyed_hash_number(&table->key,
                             (uint64_t)(uintptr_t)watcher ^
                                 keyed_hash_number(&table->key, (uint64_t)(uintptr_t)path));
}

static struct zk_watch *find_watch(const struct zk_watches *table, const struct zk_watcher *watcher,
                                   const struct zk_watched_path *path) {
    uint64_t hash = pair_hash(table, watcher, path);
    for (struct zk_hash_node *node = zk_hash_first(&table->watches, hash); node != NULL;
         node = node->next) {
        struct zk_watch *watch = (struct zk_watch *)node;
        if (watch->watcher == watcher && watch->path == path) {
            return watch;
        }
    }
    return NULL;
}

/* --- Adding and removing. --- */

static size_t path_bytes(size_t path_size) {
    return ZK_WATCHED_PATH_BYTES + path_size;
}

/* No connection has more than it leaves to the others, and a part is for those that have little: so
 * a few that take what they can get leave room for everybody else. */
static bool has_share(size_t bytes_of_watcher, size_t bytes_of_all) {
    size_t most = ZK_WATCH_BYTES_MAX - ZK_WATCH_BYTES_OF_SMALL;
    return bytes_of_watcher <= ZK_WATCH_BYTES_SMALL
               ? bytes_of_all <= ZK_WATCH_BYTES_MAX
               : bytes_of_all <= most && bytes_of_watcher <= most - bytes_of_all;
}

static bool has_room(const struct zk_watches *table, const struct zk_watcher *watcher,
                     size_t path_size, bool is_new_path) {
    size_t bytes = ZK_WATCH_BYTES + path_bytes(path_size);
    return watcher->n_watches < ZK_WATCHES_OF_CONNECTION_MAX &&
           watcher->bytes + bytes <= ZK_WATCH_BYTES_OF_CONNECTION_MAX &&
           has_share(watcher->bytes + bytes, table->bytes + (is_new_path ? bytes : ZK_WATCH_BYTES));
}

static struct zk_watched_path *add_path(struct zk_watches *table, struct bytes path,
                                        uint64_t hash) {
    struct zk_watched_path *watched = malloc(sizeof *watched + path.size);
    if (watched == NULL) {
        return NULL;
    }
    list_init(&watched->watches);
    watched->size = path.size;
    memcpy(watched->path, path.data, path.size);
    zk_hash_add(&table->paths, &watched->in_table, hash);
    table->bytes += path_bytes(path.size);
    return watched;
}

static void drop_path_if_unused(struct zk_watches *table, struct zk_watched_path *path) {
    if (list_is_empty(&path->watches)) {
        zk_hash_remove(&table->paths, &path->in_table);
        table->bytes -= path_bytes(path->size);
        table->freed += path_bytes(path->size);
        free(path);
    }
}

static struct zk_watch *add_watch(struct zk_watches *table, struct zk_watcher *watcher,
                                  struct zk_watched_path *path) {
    struct zk_watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL) {
        return NULL;
    }
    watch->watcher = watcher;
    watch->path = path;
    list_append(&path->watches, &watch->in_path);
    list_append(&watcher->watches, &watch->in_watcher);
    table->n_watchers += watcher->n_watches == 0;
    watcher->n_watches++;
    watcher->bytes += ZK_WATCH_BYTES + path_bytes(path->size);
    table->bytes += ZK_WATCH_BYTES;
    zk_hash_add(&table->watches, &watch->in_table, pair_hash(table, watcher, path));
    return watch;
}

static void drop_watch(struct zk_watches *table, struct zk_watch *watch) {
    struct zk_watched_path *path = watch->path;
    table->n_recursive -= (watch->kinds & ZK_WATCH_RECURSIVE) != 0;
    zk_hash_remove(&table->watches, &watch->in_table);
    list_remove(&watch->in_path);
    list_remove(&watch->in_watcher);
    watch->watcher->n_watches--;
    table->n_watchers -= watch->watcher->n_watches == 0;
    watch->watcher->bytes -= ZK_WATCH_BYTES + path_bytes(path->size);
    table->bytes -= ZK_WATCH_BYTES;
    table->freed += ZK_WATCH_BYTES;
    free(watch);
    drop_path_if_unused(table, path);
}

static void set_kinds(struct zk_watches *table, struct zk_watch *watch, unsigned kinds) {
    table->n_recursive -= (watch->kinds & ZK_WATCH_RECURSIVE) != 0;
    table->n_recursive += (kinds & ZK_WATCH_RECURSIVE) != 0;
    watch->kinds = (uint8_t)kinds;
    if (kinds == 0) {
        drop_watch(table, watch);
    }
}

/* The server looks for such memory by itself, but counts what was held during the last search as
 * usual. */
static void give_memory_back(struct zk_watches *table) {
    if (table->freed < FREED_MUCH) {
        return;
    }
    table->freed = 0;
    if (table->watches.n == 0) {
        zk_watches_clear(table);
    }
    malloc_trim(0);
}

void zk_watcher_clear(struct zk_watches *table, struct zk_watcher *watcher) {
    list_append_all(&watcher->watches, &watcher->unseen);
    while (!list_is_empty(&watcher->watches)) {
        drop_watch(table, list_entry(watcher->watches.next, struct zk_watch, in_watcher));
    }
    give_memory_back(table);
}

bool zk_watches_add(struct zk_watches *table, struct zk_watcher *watcher, struct bytes path,
                    unsigned kinds) {
    uint64_t hash = keyed_hash_bytes(&table->key, path);
    struct zk_watched_path *watched = find_path(table, path, hash);
    struct zk_watch *watch = watched != NULL ? find_watch(table, watcher, watched) : NULL;
    if (watch == NULL) {
        if (!has_room(table, watcher, path.size, watched == NULL)) {
            return false;
        }
        if (watched == NULL && (watched = add_path(table, path, hash)) == NULL) {
            return false;
        }
        watch = add_watch(table, watcher, watched);
        if (watch == NULL) {
            drop_path_if_unused(table, watched);
            return false;
        }
    }
    set_kinds(table, watch, watch->kinds | kinds);
    return true;
}

static struct zk_watch *find(const struct zk_watches *table, const struct zk_watcher *watcher,
                             struct bytes path) {
    const struct zk_watched_path *watched =
        find_path(table, path, keyed_hash_bytes(&table->key, path));
    return watched == NULL ? NULL : find_watch(table, watcher, watched);
}

unsigned zk_watches_kinds(const struct zk_watches *table, const struct zk_watcher *watcher,
                          struct bytes path) {
    const struct zk_watch *watch = find(table, watcher, path);
    return watch == NULL ? 0 : watch->kinds;
}

void zk_watches_remove(struct zk_watches *table, struct zk_watcher *watcher, struct bytes path,
                       unsigned kinds) {
    struct zk_watch *watch = find(table, watcher, path);
    if (watch != NULL) {
        set_kinds(table, watch, watch->kinds & ~kinds);
    }
}

/* --- Firing. --- */

/* What an event of a node is of interest to, and what of it is over then. */
static unsigned kinds_of(enum zk_event_type type) {
    switch (type) {
    case ZK_EVENT_CREATED:
    case ZK_EVENT_DATA_CHANGED:
        return ZK_WATCH_DATA | ZK_WATCH_PERSISTENT | ZK_WATCH_RECURSIVE;
    case ZK_EVENT_DELETED:
        return ZK_WATCH_ALL;
    case ZK_EVENT_CHILDREN_CHANGED:
        break;
    }
    return ZK_WATCH_CHILD | ZK_WATCH_PERSISTENT;
}

struct firing {
    struct zk_watches *table;
    struct bytes path;
    enum zk_event_type type;
    void (*tell)(void *context, struct zk_watcher *watcher, struct bytes path,
                 enum zk_event_type type);
    void *context;
};

static void tell_once(const struct firing *firing, struct zk_watcher *watcher) {
    if (watcher->told_event != firing->table->n_events) {
        watcher->told_event = firing->table->n_events;
        firing->tell(firing->context, watcher, firing->path, firing->type);
    }
}

static bool is_to_be_told(const struct firing *firing, const struct list *node) {
    const struct zk_watch *watch = list_entry(node, struct zk_watch, in_path);
    return (watch->kinds & ZK_WATCH_RECURSIVE) != 0 &&
           watch->watcher->told_event != firing->table->n_events;
}

/* Whoever watches one beginning of the path, and what is below it. Long paths are compared for
 * those alone who do not know yet. */
static void tell_at(const struct firing *firing, struct bytes above, uint64_t hash) {
    for (struct zk_hash_node *at = zk_hash_first(&firing->table->paths, hash); at != NULL;
         at = at->next) {
        struct zk_watched_path *watched = (struct zk_watched_path *)at;
        struct list *node = watched->watches.next;
        if (at->hash != hash || watched->size != above.size) {
            continue;
        }
        while (node != &watched->watches && !is_to_be_told(firing, node)) {
            node = node->next;
        }
        if (node == &watched->watches ||
            !bytes_equal(bytes_of(watched->path, watched->size), above)) {
            continue;
        }
        for (; node != &watched->watches; node = node->next) {
            if (is_to_be_told(firing, node)) {
                tell_once(firing, list_entry(node, struct zk_watch, in_path)->watcher);
            }
        }
    }
}

/* From the root downwards, so that the path is hashed once, however deep it is. */
static void tell_above(const struct firing *firing) {
    struct bytes path = firing->path;
    struct keyed_hash hash;
    size_t hashed = 1;
    if (firing->table->n_recursive == 0 || zk_path_is_root(path)) {
        return;
    }
    keyed_hash_begin(&hash, &firing->table->key);
    keyed_hash_add(&hash, bytes_of(path.data, hashed));
    tell_at(firing, bytes_of(path.data, hashed), keyed_hash_value(&hash));
    const uint8_t *slash = path.data;
    while ((slash = memchr(slash + 1, '/', path.size - (size_t)(slash + 1 - path.data))) != NULL) {
        size_t size = (size_t)(slash - path.data);
        keyed_hash_add(&hash, bytes_of(path.data + hashed, size - hashed));
        hashed = size;
        tell_at(firing, bytes_of(path.data, size), keyed_hash_value(&hash));
    }
}

void zk_watches_fire(struct zk_watches *table, struct bytes path, enum zk_event_type type,
                     void (*tell)(void *context, struct zk_watcher *watcher, struct bytes path,
                                  enum zk_event_type type),
                     void *context) {
    const struct firing firing = {
        .table = table, .path = path, .type = type, .tell = tell, .context = context};
    unsigned kinds = kinds_of(type);
    if (table->watches.n == 0) {
        return;
    }
    table->n_events++;
    struct zk_watched_path *watched = find_path(table, path, keyed_hash_bytes(&table->key, path));
    struct list *node = watched == NULL ? NULL : watched->watches.next;
    size_t left = 0;
    for (struct list *at = node; at != NULL && at != &watched->watches; at = at->next) {
        left++;
    }
    /* The path itself goes with its last watch, so they are counted first. */
    for (struct list *next; left > 0; left--, node = next) {
        struct zk_watch *watch = list_entry(node, struct zk_watch, in_path);
        next = node->next;
        if (watch->kinds & kinds) {
            tell_once(&firing, watch->watcher);
            set_kinds(table, watch, watch->kinds & ~(kinds & (ZK_WATCH_DATA | ZK_WATCH_CHILD)));
        }
    }
    if (type != ZK_EVENT_CHILDREN_CHANGED) {
        tell_above(&firing);
    }
}
