#include "lease/lib_entries.h"

#include <stdlib.h>
#include <string.h>

enum { ROOM_MIN = 16 };

/* ---- one entry: key and value in one piece of memory, which the key points to ---- */

static void fill(struct lease_entry *entry, char *room, const struct lib_etcd_key *key) {
    char *value = room + key->key.size + 1;
    if (key->key.size > 0) {
        memcpy(room, key->key.data, key->key.size);
    }
    room[key->key.size] = '\0';
    if (key->value.size > 0) {
        memcpy(value, key->value.data, key->value.size);
    }
    value[key->value.size] = '\0';
    *entry = (struct lease_entry){
        .key = room,
        .key_size = key->key.size,
        .value = value,
        .value_size = key->value.size,
        .lease_id = key->lease,
        .revision = key->mod_revision,
    };
}

static size_t room_of(const struct lib_etcd_key *key) {
    return key->key.size + 1 + key->value.size + 1;
}

static void clear_entry(struct lease_entry *entry) {
    free((char *)(uintptr_t)entry->key);
}

/* ---- all of them ---- */

void lib_entries_clear(struct lib_entries *entries) {
    if (entries == NULL) {
        return;
    }
    for (size_t i = 0; i < entries->n; i++) {
        clear_entry(&entries->items[i]);
    }
    free(entries->items);
    *entries = (struct lib_entries){0};
}

static int compare(const struct lease_entry *entry, struct bytes key) {
    size_t size = entry->key_size < key.size ? entry->key_size : key.size;
    int order = size > 0 ? memcmp(entry->key, key.data, size) : 0;
    return order != 0 ? order : (entry->key_size > key.size) - (entry->key_size < key.size);
}

/* Where it is, or would be. */
static size_t place_of(const struct lib_entries *entries, struct bytes key, bool *out_is_there) {
    size_t low = 0;
    size_t high = entries->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare(&entries->items[middle], key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *out_is_there = low < entries->n && compare(&entries->items[low], key) == 0;
    return low;
}

static void make_room(struct lib_entries *entries) {
    if (entries->n < entries->n_room) {
        return;
    }
    entries->n_room = entries->n_room == 0 ? ROOM_MIN : entries->n_room * 2;
    entries->items = realloc(entries->items, entries->n_room * sizeof entries->items[0]);
    if (entries->items == NULL) {
        abort();
    }
}

bool lib_entries_put(struct lib_entries *entries, const struct lib_etcd_key *key) {
    bool is_there;
    size_t place = place_of(entries, key->key, &is_there);
    if (!is_there && entries->n == LIB_ENTRIES_MAX) {
        return false;
    }
    char *room = malloc(room_of(key));
    if (room == NULL) {
        abort();
    }
    if (is_there) {
        clear_entry(&entries->items[place]);
    } else {
        make_room(entries);
        memmove(&entries->items[place + 1], &entries->items[place],
                (entries->n - place) * sizeof entries->items[0]);
        entries->n++;
    }
    fill(&entries->items[place], room, key);
    return true;
}

void lib_entries_remove(struct lib_entries *entries, struct bytes key) {
    bool is_there;
    size_t place = place_of(entries, key, &is_there);
    if (is_there) {
        clear_entry(&entries->items[place]);
        entries->n--;
        memmove(&entries->items[place], &entries->items[place + 1],
                (entries->n - place) * sizeof entries->items[0]);
    }
}

int64_t lib_entries_newest(const struct lib_entries *entries) {
    int64_t newest = 0;
    for (size_t i = 0; i < entries->n; i++) {
        newest = entries->items[i].revision > newest ? entries->items[i].revision : newest;
    }
    return newest;
}

const struct lease_entry *lib_entries_copy(const struct lib_entries *entries, struct arena *arena) {
    struct lease_entry *copy = arena_calloc(arena, entries->n, sizeof *copy);
    for (size_t i = 0; i < entries->n; i++) {
        const struct lease_entry *entry = &entries->items[i];
        const struct lib_etcd_key key = {
            .key = bytes_of(entry->key, entry->key_size),
            .value = bytes_of(entry->value, entry->value_size),
            .lease = entry->lease_id,
            .mod_revision = entry->revision,
        };
        fill(&copy[i], arena_alloc(arena, room_of(&key)), &key);
    }
    return copy;
}
