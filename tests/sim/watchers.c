#include "clients.h"
#include "node.h"
#include "users.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

enum { WATCHERS_MAX = 4, REFUSE_PERMILLE = 50, WAY_US = 2 * WORLD_MS };

/* One event as the client got it. */
struct seen {
    int64_t revision;
    uint64_t hash; /* of key and value; 0 for the value of a deletion */
};

struct watch_client {
    size_t number;
    struct node *node;
    uint64_t generation;
    uint64_t attempt; /* what an earlier watch sends is of no interest */
    bool is_attached;
    int64_t next_revision; /* to be watched from */
    struct seen *seen;
    size_t n;
    size_t capacity;
    uint64_t last_us; /* a stream keeps its order */
};

/* A watch on a node. */
struct watch {
    struct watch_client *client;
    struct node *node;
    uint64_t generation;
    uint64_t attempt;
    struct service_watch watch;
    bool is_begun;
    bool is_resuming;
};

/* A batch on its way to the client. */
struct batch {
    struct watch_client *client;
    uint64_t attempt;
    int64_t revision;
    size_t n;
    struct seen events[];
};

static struct watch_client clients[WATCHERS_MAX];
static size_t n_clients;
static bool is_stopped;

static uint64_t hash_record(const struct record *record) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < (size_t)record->key_size + record->value_size; i++) {
        hash = (hash ^ record->bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash * 2 + record_is_tombstone(record);
}

static void batch_arrives(void *data) {
    struct batch *batch = data;
    struct watch_client *client = batch->client;
    if (client->attempt != batch->attempt) {
        free(batch);
        return;
    }
    for (size_t i = 0; i < batch->n; i++) {
        if (batch->events[i].revision < client->next_revision) {
            check_failed("watch", "watcher %zu got revision %lld again, or out of order",
                         client->number, (long long)batch->events[i].revision);
        }
        if (client->n == client->capacity) {
            client->capacity = client->capacity == 0 ? 1024 : client->capacity * 2;
            client->seen = realloc(client->seen, client->capacity * sizeof *client->seen);
            if (client->seen == NULL) {
                abort();
            }
        }
        client->seen[client->n++] = batch->events[i];
    }
    client->next_revision = batch->revision + 1;
    free(batch);
}

/* --- At the node. --- */

static void resume_read(struct node *node, void *data) {
    struct watch *watch = data;
    watch->is_resuming = false;
    if (watch->client->attempt == watch->attempt) {
        service_watch_resume(node->service, &watch->watch);
    }
}

static void resume(void *data) {
    struct watch *watch = data;
    if (watch->node->is_up && watch->node->generation == watch->generation) {
        node_deliver(watch->node, resume_read, NULL, watch);
    }
}

static bool deliver(struct service_watch *service_watch, const struct watch_batch *events) {
    struct watch *watch = list_entry(service_watch, struct watch, watch);
    struct watch_client *client = watch->client;
    if (random_chance(REFUSE_PERMILLE)) {
        if (!watch->is_resuming) {
            watch->is_resuming = true;
            world_at(node_now_us(watch->node) + random_below(WORLD_SECOND), resume, watch);
        }
        return false;
    }
    struct batch *batch = malloc(sizeof *batch + events->n_events * sizeof batch->events[0]);
    if (batch == NULL) {
        abort();
    }
    batch->client = client;
    batch->attempt = watch->attempt;
    batch->revision = events->revision;
    batch->n = events->n_events;
    for (size_t i = 0; i < events->n_events; i++) {
        batch->events[i] = (struct seen){.revision = events->events[i]->mod_revision,
                                         .hash = hash_record(events->events[i])};
    }
    uint64_t time_us = node_now_us(watch->node) + random_delay(WAY_US, 100 * WORLD_MS);
    client->last_us = time_us > client->last_us ? time_us : client->last_us + 1;
    world_at(client->last_us, batch_arrives, batch);
    return true;
}

static void compacted(struct service_watch *service_watch, int64_t revision) {
    const struct watch *watch = list_entry(service_watch, struct watch, watch);
    check_failed("watch", "watcher %zu was told that %lld is compacted, which it had yet to see",
                 watch->client->number, (long long)revision);
}

static void revoked(struct service_watch *service_watch, enum status status) {
    const struct watch *watch = list_entry(service_watch, struct watch, watch);
    check_failed("watch", "watcher %zu was ended: %s", watch->client->number, status_text(status));
}

static void attach_read(struct node *node, void *data) {
    struct watch *watch = data;
    struct watch_client *client = watch->client;
    if (client->attempt != watch->attempt) {
        return;
    }
    static const uint8_t zero[1];
    const struct service_watch_options options = {
        .range = {KEY_SPACE_ETCD, bytes_of(zero, 1), bytes_of(zero, 1)},
        .start_revision = client->next_revision};
    watch->watch.deliver = deliver;
    watch->watch.compacted = compacted;
    watch->watch.revoked = revoked;
    enum status status = service_watch(node->service, users_worker(), &watch->watch, &options);
    watch->is_begun = status == STATUS_OK;
    client->is_attached = watch->is_begun;
}

static void detach_read(struct node *node, void *data) {
    struct watch *watch = data;
    service_unwatch(node->service, &watch->watch);
}

/* --- At the client. --- */

static struct watch *watch_of[WATCHERS_MAX];

static void attach(struct watch_client *client) {
    struct watch *before = watch_of[client->number];
    if (before != NULL && before->is_begun && before->node->is_up &&
        before->node->generation == before->generation) {
        node_deliver(before->node, detach_read, NULL, before);
    }
    client->attempt++;
    client->is_attached = false;
    struct node *node = clients_choose_node();
    if (!node->is_up || node->service == NULL) {
        watch_of[client->number] = NULL;
        return;
    }
    struct watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL) {
        abort();
    }
    *watch = (struct watch){
        .client = client, .node = node, .generation = node->generation, .attempt = client->attempt};
    client->node = node;
    client->generation = node->generation;
    watch_of[client->number] = watch;
    node_deliver(node, attach_read, NULL, watch);
}

static void look_after(void *data) {
    struct watch_client *client = data;
    bool is_lost = watch_of[client->number] == NULL || !client->node->is_up ||
                   client->node->generation != client->generation;
    if (!is_stopped && (is_lost || random_chance(30))) {
        attach(client);
    } else if (is_lost) {
        attach(client);
    }
    world_at(world_now_us() + random_between(50, 500) * WORLD_MS, look_after, client);
}

void watchers_start(size_t n) {
    n_clients = n;
    for (size_t i = 0; i < n; i++) {
        clients[i] = (struct watch_client){.number = i, .next_revision = 1};
        world_at(random_below(WORLD_SECOND), look_after, &clients[i]);
    }
}

void watchers_stop(void) {
    is_stopped = true;
}

/* --- The check: against the history of a node, which keeps everything. --- */

static const struct key_store *keys_of_first(void) {
    size_t i = 0;
    while (!node_at(i)->is_in_service) {
        i++;
    }
    return state_view_keys(service_view(node_at(i)->service));
}

static bool is_watched(const struct record *record) {
    return key_space_equal(record_space(record), KEY_SPACE_ETCD);
}

/* The newest revision that changed a key that is watched; 0: all are compacted. */
static int64_t newest_watched_revision(void) {
    const struct key_store *keys = keys_of_first();
    uint64_t begin = key_store_history_seek(keys, upkeep_compacted_revision() + 1);
    for (uint64_t at = key_store_history_end(keys); at > begin; at--) {
        if (is_watched(key_store_history_at(keys, at - 1))) {
            return key_store_history_at(keys, at - 1)->mod_revision;
        }
    }
    return 0;
}

bool watchers_are_done(void) {
    int64_t revision = newest_watched_revision();
    for (size_t i = 0; i < n_clients; i++) {
        if (clients[i].next_revision <= revision) {
            return false;
        }
    }
    return true;
}

int64_t watchers_seen_by_all(void) {
    int64_t revision = INT64_MAX;
    for (size_t i = 0; i < n_clients; i++) {
        if (clients[i].next_revision - 1 < revision) {
            revision = clients[i].next_revision - 1;
        }
    }
    return revision;
}

/* What was compacted is not there any more: there the watchers must agree. */
static void check_beginning(const struct watch_client *client, const struct watch_client *first,
                            size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (i >= first->n || client->seen[i].revision != first->seen[i].revision ||
            client->seen[i].hash != first->seen[i].hash) {
            check_failed("watch", "watchers %zu and %zu differ at revision %lld", client->number,
                         first->number, (long long)client->seen[i].revision);
        }
    }
}

void watchers_check(void) {
    const struct key_store *keys = keys_of_first();
    int64_t compacted_revision = upkeep_compacted_revision();
    for (size_t i = 0; i < n_clients; i++) {
        const struct watch_client *client = &clients[i];
        size_t n = 0;
        while (n < client->n && client->seen[n].revision <= compacted_revision) {
            n++;
        }
        check_beginning(client, &clients[0], n);
        for (uint64_t at = key_store_history_seek(keys, compacted_revision + 1);
             at < key_store_history_end(keys); at++) {
            const struct record *record = key_store_history_at(keys, at);
            if (!is_watched(record)) {
                continue;
            }
            if (n == client->n || client->seen[n].revision != record->mod_revision ||
                client->seen[n].hash != hash_record(record)) {
                check_failed("watch", "watcher %zu missed something at revision %lld", i,
                             (long long)record->mod_revision);
            }
            n++;
        }
        if (n != client->n) {
            check_failed("watch", "watcher %zu got %zu events, %zu happened", i, client->n, n);
        }
    }
}
