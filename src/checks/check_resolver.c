#include "checks/check_resolver.h"

#include "base/host_port.h"
#include "base/keyed_hash.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { BUCKETS = 1024, FOUND_MS = 5000, NOT_FOUND_MS = 1000 };

/* One name: waiting for a worker, being resolved, or known. */
struct name {
    struct list in_bucket;
    struct list in_queue; /* of those that wait for a worker */
    struct list lookups;
    struct check_resolver *resolver;
    uv_getaddrinfo_t request;
    bool is_running;
    bool is_known;
    uint64_t known_until_ms;
    struct check_addresses addresses;
    char host[HOST_PORT_HOST_SIZE_MAX + 1];
};

struct check_resolver {
    uv_loop_t *loop;
    struct hash_key key;
    struct list buckets[BUCKETS];
    struct list queue;
    size_t n_names;
    size_t n_running;
    bool is_destroyed;
};

struct check_resolver *check_resolver_create(uv_loop_t *loop) {
    struct check_resolver *resolver = calloc(1, sizeof *resolver);
    if (resolver == NULL) {
        abort();
    }
    resolver->loop = loop;
    hash_key_fill(&resolver->key);
    list_init(&resolver->queue);
    for (size_t i = 0; i < BUCKETS; i++) {
        list_init(&resolver->buckets[i]);
    }
    return resolver;
}

static void free_name(struct name *name) {
    list_remove(&name->in_bucket);
    list_remove(&name->in_queue);
    name->resolver->n_names--;
    free(name);
}

static void free_resolver(struct check_resolver *resolver) {
    for (size_t i = 0; i < BUCKETS; i++) {
        while (!list_is_empty(&resolver->buckets[i])) {
            free_name(list_entry(resolver->buckets[i].next, struct name, in_bucket));
        }
    }
    free(resolver);
}

void check_resolver_destroy(struct check_resolver *resolver) {
    resolver->is_destroyed = true;
    if (resolver->n_running == 0) {
        free_resolver(resolver);
    }
}

void check_lookup_cancel(struct check_lookup *lookup) {
    list_remove(&lookup->link);
}

/* ---- resolving ---- */

static void tell(struct name *name) {
    struct list waiting;
    list_init(&waiting);
    list_append_all(&waiting, &name->lookups);
    /* Whoever is told may look up or cancel others, but this name is known now and stays. */
    struct check_addresses addresses = name->addresses;
    struct list *link;
    while ((link = list_pop_first(&waiting)) != NULL) {
        struct check_lookup *lookup = list_entry(link, struct check_lookup, link);
        lookup->done(lookup, &addresses);
    }
}

static void know(struct name *name, int result, const struct addrinfo *found) {
    struct check_addresses *addresses = &name->addresses;
    addresses->n = 0;
    for (; found != NULL && addresses->n < CHECK_ADDRESSES_MAX; found = found->ai_next) {
        if (found->ai_addrlen <= sizeof addresses->addresses[0]) {
            memcpy(&addresses->addresses[addresses->n++], found->ai_addr, found->ai_addrlen);
        }
    }
    addresses->error = addresses->n > 0 ? NULL
                       : result < 0     ? uv_strerror(result)
                                        : "the name has no address";
    name->is_known = true;
    name->known_until_ms =
        uv_now(name->resolver->loop) + (addresses->n > 0 ? FOUND_MS : NOT_FOUND_MS);
}

static void start_queued(struct check_resolver *resolver);

static void on_resolved(uv_getaddrinfo_t *request, int result, struct addrinfo *found) {
    struct name *name = request->data;
    struct check_resolver *resolver = name->resolver;
    resolver->n_running--;
    name->is_running = false;
    if (resolver->is_destroyed) {
        uv_freeaddrinfo(found);
        check_resolver_destroy(resolver);
        return;
    }
    know(name, result, found);
    uv_freeaddrinfo(found);
    tell(name);
    start_queued(resolver);
}

static void start(struct name *name) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    name->request.data = name;
    int result =
        uv_getaddrinfo(name->resolver->loop, &name->request, on_resolved, name->host, NULL, &hints);
    if (result < 0) {
        know(name, result, NULL);
        return;
    }
    name->is_running = true;
    name->resolver->n_running++;
}

static void start_queued(struct check_resolver *resolver) {
    while (resolver->n_running < CHECK_LOOKUPS_MAX && !list_is_empty(&resolver->queue)) {
        struct name *name = list_entry(list_pop_first(&resolver->queue), struct name, in_queue);
        if (list_is_empty(&name->lookups)) {
            free_name(name); /* everybody has gone */
        } else {
            start(name);
            if (name->is_known) {
                tell(name);
            }
        }
    }
}

/* ---- finding ---- */

static bool find_numeric(const char *host, struct check_addresses *out_addresses) {
    *out_addresses = (struct check_addresses){.n = 1};
    struct sockaddr_storage *first = &out_addresses->addresses[0];
    if (strcasecmp(host, "localhost") == 0) { /* RFC 6761, section 6.3 */
        uv_ip4_addr("127.0.0.1", 0, (struct sockaddr_in *)first);
        uv_ip6_addr("::1", 0, (struct sockaddr_in6 *)&out_addresses->addresses[1]);
        out_addresses->n = 2;
        return true;
    }
    return uv_ip4_addr(host, 0, (struct sockaddr_in *)first) == 0 ||
           uv_ip6_addr(host, 0, (struct sockaddr_in6 *)first) == 0;
}

static bool is_idle(const struct name *name, uint64_t now_ms) {
    return !name->is_running && list_is_empty(&name->lookups) && list_is_empty(&name->in_queue) &&
           name->known_until_ms <= now_ms;
}

/* The name, if it is there; those of its bucket whose time is over go. */
static struct name *find_name(struct list *bucket, const char *host, uint64_t now_ms) {
    struct name *found = NULL;
    for (struct list *link = bucket->next; link != bucket;) {
        struct name *name = list_entry(link, struct name, in_bucket);
        link = link->next;
        if (strcmp(name->host, host) == 0) {
            found = name;
        } else if (is_idle(name, now_ms)) {
            free_name(name);
        }
    }
    return found;
}

/* Names that nobody asks for any more are found by chance only, so all are looked at when there is
 * no room: as often as there are new names. */
static void make_room(struct check_resolver *resolver, uint64_t now_ms) {
    for (size_t i = 0; i < BUCKETS; i++) {
        (void)find_name(&resolver->buckets[i], "", now_ms);
    }
}

static struct name *add_name(struct check_resolver *resolver, struct list *bucket,
                             const char *host) {
    struct name *name = calloc(1, sizeof *name);
    if (name == NULL) {
        abort();
    }
    name->resolver = resolver;
    strncpy(name->host, host, sizeof name->host - 1);
    list_append(bucket, &name->in_bucket);
    list_init(&name->in_queue);
    list_init(&name->lookups);
    resolver->n_names++;
    return name;
}

bool check_resolver_find(struct check_resolver *resolver, const char *host, uint64_t now_ms,
                         struct check_lookup *lookup, struct check_addresses *out_addresses) {
    if (find_numeric(host, out_addresses)) {
        return true;
    }
    uint64_t hash = keyed_hash_bytes(&resolver->key, bytes_from_text(host));
    struct list *bucket = &resolver->buckets[hash % BUCKETS];
    struct name *name = find_name(bucket, host, now_ms);
    if (name != NULL && name->is_known && name->known_until_ms > now_ms) {
        *out_addresses = name->addresses;
        return true;
    }
    if (name == NULL && resolver->n_names >= CHECK_NAMES_MAX) {
        make_room(resolver, now_ms);
    }
    if (name == NULL && resolver->n_names >= CHECK_NAMES_MAX) {
        *out_addresses = (struct check_addresses){.error = "too many host names at a time"};
        return true;
    }
    name = name != NULL ? name : add_name(resolver, bucket, host);
    name->is_known = false;
    list_append(&name->lookups, &lookup->link);
    if (!name->is_running && list_is_empty(&name->in_queue)) {
        if (resolver->n_running < CHECK_LOOKUPS_MAX) {
            start(name);
        } else {
            list_append(&resolver->queue, &name->in_queue);
        }
    }
    if (name->is_known) { /* that it cannot even be asked for */
        list_remove(&lookup->link);
        *out_addresses = name->addresses;
    }
    return name->is_known;
}
