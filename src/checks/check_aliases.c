#include "checks/check_aliases.h"

#include <assert.h>
#include <stdlib.h>

enum { BUCKETS_MIN = 256 };

/* A service that checks name. */
struct check_alias_service {
    struct list in_bucket;
    struct list in_changed;
    struct list jobs;    /* that know how it is */
    struct list waiting; /* that have to look again */
    struct buffer name;
};

static void *must(void *memory) {
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static struct list *make_buckets(size_t n) {
    struct list *buckets = must(malloc(n * sizeof *buckets));
    for (size_t i = 0; i < n; i++) {
        list_init(&buckets[i]);
    }
    return buckets;
}

void check_aliases_init(struct check_aliases *aliases) {
    *aliases =
        (struct check_aliases){.buckets = make_buckets(BUCKETS_MIN), .n_buckets = BUCKETS_MIN};
    list_init(&aliases->changed);
    hash_key_fill(&aliases->hash_key);
}

void check_aliases_clear(struct check_aliases *aliases) {
    assert(aliases->n_services == 0);
    free(aliases->buckets);
}

static struct bytes name_of(const struct check_alias_service *service) {
    return bytes_of(service->name.data, service->name.size);
}

static struct list *bucket_of(const struct check_aliases *aliases, struct bytes name) {
    return &aliases->buckets[keyed_hash_bytes(&aliases->hash_key, name) % aliases->n_buckets];
}

static struct check_alias_service *find(const struct check_aliases *aliases, struct bytes name) {
    struct list *bucket = bucket_of(aliases, name);
    for (struct list *link = bucket->next; link != bucket; link = link->next) {
        struct check_alias_service *service =
            list_entry(link, struct check_alias_service, in_bucket);
        if (bytes_equal(name_of(service), name)) {
            return service;
        }
    }
    return NULL;
}

static void grow(struct check_aliases *aliases) {
    struct list *old = aliases->buckets;
    size_t n_old = aliases->n_buckets;
    aliases->n_buckets *= 4;
    aliases->buckets = make_buckets(aliases->n_buckets);
    for (size_t i = 0; i < n_old; i++) {
        for (struct list *link; (link = list_pop_first(&old[i])) != NULL;) {
            struct check_alias_service *service =
                list_entry(link, struct check_alias_service, in_bucket);
            list_append(bucket_of(aliases, name_of(service)), link);
        }
    }
    free(old);
}

static struct check_alias_service *create(struct check_aliases *aliases, struct bytes name) {
    if (aliases->n_services >= aliases->n_buckets) {
        grow(aliases);
    }
    struct check_alias_service *service = must(calloc(1, sizeof *service));
    buffer_append(&service->name, name.data, name.size);
    list_init(&service->in_changed);
    list_init(&service->jobs);
    list_init(&service->waiting);
    list_append(bucket_of(aliases, name), &service->in_bucket);
    aliases->n_services++;
    return service;
}

static void destroy(struct check_aliases *aliases, struct check_alias_service *service) {
    list_remove(&service->in_bucket);
    list_remove(&service->in_changed);
    buffer_clear(&service->name);
    free(service);
    aliases->n_services--;
}

void check_aliases_add(struct check_aliases *aliases, struct check_job *job, struct bytes service) {
    assert(job->alias_of == NULL);
    job->alias_of = find(aliases, service);
    if (job->alias_of == NULL) {
        job->alias_of = create(aliases, service);
    }
    list_append(&job->alias_of->jobs, &job->in_aliases);
}

void check_aliases_remove(struct check_aliases *aliases, struct check_job *job) {
    struct check_alias_service *service = job->alias_of;
    if (service == NULL) {
        return;
    }
    job->alias_of = NULL;
    list_remove(&job->in_aliases);
    if (list_is_empty(&service->jobs) && list_is_empty(&service->waiting)) {
        destroy(aliases, service);
    } else if (list_is_empty(&service->waiting)) {
        list_remove(&service->in_changed);
    }
}

bool check_aliases_touch(struct check_aliases *aliases, struct bytes service) {
    struct check_alias_service *found = aliases->n_services > 0 ? find(aliases, service) : NULL;
    if (found == NULL) {
        return false;
    }
    /* Those that wait already see the change, too. */
    list_append_all(&found->waiting, &found->jobs);
    if (list_is_empty(&found->in_changed)) {
        list_append(&aliases->changed, &found->in_changed);
    }
    return true;
}

struct check_job *check_aliases_next(struct check_aliases *aliases) {
    struct list *first = list_pop_first(&aliases->changed);
    if (first == NULL) {
        return NULL;
    }
    struct check_alias_service *service = list_entry(first, struct check_alias_service, in_changed);
    struct list *link = list_pop_first(&service->waiting);
    list_append(&service->jobs, link);
    if (!list_is_empty(&service->waiting)) {
        list_append(&aliases->changed, first);
    }
    return list_entry(link, struct check_job, in_aliases);
}
