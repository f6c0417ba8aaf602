#include "core/rule_overlay.h"

#include <string.h>

enum { CAPACITY_MIN = 16 };

/* Arrays double in the arena; what they leave behind goes with it. */
static void *grown(struct arena *arena, void *array, size_t n, size_t *capacity, size_t size) {
    if (n < *capacity) {
        return array;
    }
    size_t larger = *capacity == 0 ? CAPACITY_MIN : *capacity * 2;
    uint8_t *copy = arena_alloc(arena, larger * size);
    if (n > 0) {
        memcpy(copy, array, n * size);
    }
    *capacity = larger;
    return copy;
}

void rule_overlay_init(struct rule_overlay *overlay, struct arena *arena) {
    *overlay = (struct rule_overlay){.arena = arena};
}

static struct rule_change *add_change(struct rule_overlay *overlay, enum rule_change_type type) {
    overlay->changes.at = grown(overlay->arena, overlay->changes.at, overlay->changes.n,
                                &overlay->changes.capacity, sizeof overlay->changes.at[0]);
    struct rule_change *change = &overlay->changes.at[overlay->changes.n++];
    change->type = type;
    return change;
}

/* --- Keys. --- */

size_t rule_overlay_seek(const struct rule_overlay *overlay, struct bytes stored_key) {
    size_t low = 0;
    size_t high = overlay->keys.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bytes_compare(overlay->keys.at[middle].stored_key, stored_key) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const struct rule_overlay_key *rule_overlay_key(const struct rule_overlay *overlay,
                                                struct bytes stored_key) {
    size_t at = rule_overlay_seek(overlay, stored_key);
    return at < overlay->keys.n && bytes_equal(overlay->keys.at[at].stored_key, stored_key)
               ? &overlay->keys.at[at]
               : NULL;
}

static void set_key(struct rule_overlay *overlay, struct bytes stored_key,
                    const struct record *record) {
    size_t at = rule_overlay_seek(overlay, stored_key);
    if (at == overlay->keys.n || !bytes_equal(overlay->keys.at[at].stored_key, stored_key)) {
        overlay->keys.at = grown(overlay->arena, overlay->keys.at, overlay->keys.n,
                                 &overlay->keys.capacity, sizeof overlay->keys.at[0]);
        memmove(overlay->keys.at + at + 1, overlay->keys.at + at,
                (overlay->keys.n - at) * sizeof overlay->keys.at[0]);
        overlay->keys.n++;
    }
    overlay->keys.at[at] = (struct rule_overlay_key){.stored_key = stored_key, .record = record};
}

void rule_overlay_put(struct rule_overlay *overlay, const struct record *record) {
    add_change(overlay, RULE_CHANGE_PUT)->put = record;
    set_key(overlay, record_stored_key(record), record);
    overlay->has_grown = true;
}

void rule_overlay_delete(struct rule_overlay *overlay, const struct record *live) {
    struct rule_change *change = add_change(overlay, RULE_CHANGE_DELETE);
    change->delete.space = record_space(live);
    change->delete.key = record_key(live);
    set_key(overlay, record_stored_key(live), NULL);
}

/* --- Leases. --- */

static size_t seek_lease(const struct rule_overlay *overlay, int64_t id) {
    size_t low = 0;
    size_t high = overlay->leases.n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (overlay->leases.at[middle].facts.id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const struct rule_overlay_lease *rule_overlay_lease(const struct rule_overlay *overlay,
                                                    int64_t id) {
    size_t at = seek_lease(overlay, id);
    return at < overlay->leases.n && overlay->leases.at[at].facts.id == id ? &overlay->leases.at[at]
                                                                           : NULL;
}

static void set_lease(struct rule_overlay *overlay, const struct lease_facts *facts,
                      bool is_ended) {
    size_t at = seek_lease(overlay, facts->id);
    if (at == overlay->leases.n || overlay->leases.at[at].facts.id != facts->id) {
        overlay->leases.at = grown(overlay->arena, overlay->leases.at, overlay->leases.n,
                                   &overlay->leases.capacity, sizeof overlay->leases.at[0]);
        memmove(overlay->leases.at + at + 1, overlay->leases.at + at,
                (overlay->leases.n - at) * sizeof overlay->leases.at[0]);
        overlay->leases.n++;
    }
    overlay->leases.at[at] = (struct rule_overlay_lease){.facts = *facts, .is_ended = is_ended};
}

void rule_overlay_grant(struct rule_overlay *overlay, const struct lease_facts *facts) {
    add_change(overlay, RULE_CHANGE_GRANT)->grant = *facts;
    set_lease(overlay, facts, false);
    overlay->n_epochs++;
    overlay->has_grown = true;
}

void rule_overlay_set_ttl(struct rule_overlay *overlay, const struct lease_facts *facts,
                          int64_t ttl_ms) {
    struct rule_change *change = add_change(overlay, RULE_CHANGE_SET_TTL);
    change->set_ttl.id = facts->id;
    change->set_ttl.ttl_ms = ttl_ms;
    struct lease_facts changed = *facts;
    changed.ttl_ms = ttl_ms;
    changed.checkpoint_ms = 0;
    changed.epoch = 0;
    set_lease(overlay, &changed, false);
    overlay->n_epochs++;
}

void rule_overlay_end(struct rule_overlay *overlay, const struct lease_facts *facts,
                      enum lease_end reason) {
    struct rule_change *change = add_change(overlay, RULE_CHANGE_END);
    change->end.id = facts->id;
    change->end.reason = reason;
    set_lease(overlay, facts, true);
    overlay->n_ended++;
}
