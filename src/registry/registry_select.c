#include "registry/registry_select.h"

#include <math.h>
#include <stdlib.h>

/* --- What matches. --- */

static bool has_tags(const struct registry_query *query, const struct registry_instance *instance) {
    for (size_t i = 0; i < query->n_tags; i++) {
        if (!registry_instance_has_tag(instance, query->tags[i])) {
            return false;
        }
    }
    return true;
}

static bool has_pair(const struct registry_instance *instance, const struct registry_pair *pair) {
    for (size_t i = 0; i < instance->n_metadata; i++) {
        if (bytes_equal(instance->metadata[i].key, pair->key)) {
            return bytes_equal(instance->metadata[i].value, pair->value);
        }
    }
    return false;
}

static bool has_metadata(const struct registry_query *query,
                         const struct registry_instance *instance) {
    for (size_t i = 0; i < query->n_metadata; i++) {
        if (!has_pair(instance, &query->metadata[i])) {
            return false;
        }
    }
    return true;
}

static bool is_wanted(struct bytes wanted, struct bytes text) {
    return wanted.size == 0 || bytes_equal(wanted, text);
}

bool registry_query_matches(const struct registry_query *query,
                            const struct registry_entry *entry) {
    const struct registry_instance *instance = &entry->instance;
    return (query->with_unhealthy || entry->is_serving) && has_tags(query, instance) &&
           has_metadata(query, instance) && is_wanted(query->only_zone, instance->zone) &&
           is_wanted(query->version, instance->version);
}

/* --- In which order. --- */

/* The finalizer of SplitMix64. */
static uint64_t mix(uint64_t number) {
    number = (number ^ number >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    number = (number ^ number >> 27) * UINT64_C(0x94d049bb133111eb);
    return number ^ number >> 31;
}

/* FNV-1a, mixed: the same everywhere and always, so that the same client gets the same subset after
 * a restart and from every member. */
static uint64_t hash_of(uint64_t seed, struct bytes text) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ mix(seed);
    for (size_t i = 0; i < text.size; i++) {
        hash = (hash ^ text.data[i]) * UINT64_C(0x100000001b3);
    }
    return mix(hash);
}

struct place {
    const struct registry_entry *entry;
    bool is_far;
    double key; /* the least is first */
};

static int compare_places(const void *a, const void *b) {
    const struct place *first = a;
    const struct place *second = b;
    if (first->is_far != second->is_far) {
        return (int)first->is_far - (int)second->is_far;
    }
    if (first->key < second->key || first->key > second->key) {
        return first->key < second->key ? -1 : 1;
    }
    const struct registry_instance *x = &first->entry->instance;
    const struct registry_instance *y = &second->entry->instance;
    int order = bytes_compare(x->id, y->id);
    return order != 0 ? order : bytes_compare(x->service, y->service);
}

/* A time that is exponentially distributed with the weight as its rate: who has the least is chosen
 * first, which gives a choice without replacement by weight (Efraimidis and Spirakis). Weight 0
 * comes last. */
static double draw(uint64_t hash, uint32_t weight) {
    double uniform = ((double)(hash >> 11) + 1.0) / 9007199254740993.0;
    return weight == 0 ? 1e18 + uniform : -log(uniform) / (double)weight;
}

/* Rendezvous hashing: each client draws for each instance, so that clients are spread evenly and
 * one instance that comes or goes changes one place of a subset. */
static double key_of(const struct registry_query *query, const struct registry_entry *entry) {
    const struct registry_instance *instance = &entry->instance;
    if (query->subset_of.size > 0) {
        uint64_t client = hash_of(query->seed, query->subset_of);
        return draw(hash_of(client, instance->id), instance->weight);
    }
    return query->seed == 0 ? 0 : draw(hash_of(query->seed, instance->id), instance->weight);
}

size_t registry_select(const struct registry_query *query, const struct registry_entry **entries,
                       size_t n_entries) {
    size_t n = 0;
    struct place *places = malloc((n_entries + 1) * sizeof *places);
    if (places == NULL) {
        abort();
    }
    for (size_t i = 0; i < n_entries; i++) {
        if (registry_query_matches(query, entries[i])) {
            places[n++] =
                (struct place){.entry = entries[i],
                               .is_far = query->near_zone.size > 0 &&
                                         !bytes_equal(query->near_zone, entries[i]->instance.zone),
                               .key = key_of(query, entries[i])};
        }
    }
    qsort(places, n, sizeof *places, compare_places);
    if (query->limit > 0 && n > query->limit) {
        n = query->limit;
    }
    for (size_t i = 0; i < n; i++) {
        entries[i] = places[i].entry;
    }
    free(places);
    return n;
}
