#include "checks/check_jobs.h"

#include "base/keyed_hash.h"

#include <assert.h>
#include <stdlib.h>

enum { BUCKETS_MIN = 1024, HANDLES_MIN = 64 };

static void *must(void *memory) {
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static struct timing_wheel_timer *resolve(void *owner, uint32_t handle) {
    const struct check_jobs *jobs = owner;
    return &jobs->jobs[handle]->timer;
}

static struct list *make_buckets(size_t n) {
    struct list *buckets = must(malloc(n * sizeof *buckets));
    for (size_t i = 0; i < n; i++) {
        list_init(&buckets[i]);
    }
    return buckets;
}

void check_jobs_init(struct check_jobs *jobs, uint64_t now_ms) {
    *jobs = (struct check_jobs){.n_buckets = BUCKETS_MIN};
    jobs->buckets = make_buckets(BUCKETS_MIN);
    jobs->hash_key = must(malloc(sizeof *jobs->hash_key));
    hash_key_fill(jobs->hash_key);
    jobs->wheel = timing_wheel_create(now_ms, resolve, jobs);
}

void check_jobs_clear(struct check_jobs *jobs) {
    assert(jobs->n_jobs == 0);
    timing_wheel_destroy(jobs->wheel);
    free(jobs->jobs);
    free(jobs->free_handles);
    free(jobs->buckets);
    free(jobs->hash_key);
}

static struct list *bucket_of(const struct check_jobs *jobs, struct bytes key) {
    return &jobs->buckets[keyed_hash_bytes(jobs->hash_key, key) % jobs->n_buckets];
}

struct check_job *check_jobs_find(const struct check_jobs *jobs, struct bytes key) {
    struct list *bucket = bucket_of(jobs, key);
    for (struct list *link = bucket->next; link != bucket; link = link->next) {
        struct check_job *job = list_entry(link, struct check_job, in_bucket);
        if (bytes_equal(bytes_of(job->key.data, job->key.size), key)) {
            return job;
        }
    }
    return NULL;
}

static void grow_handles(struct check_jobs *jobs) {
    jobs->capacity = jobs->capacity == 0 ? HANDLES_MIN : 2 * jobs->capacity;
    jobs->jobs = must(realloc(jobs->jobs, jobs->capacity * sizeof *jobs->jobs));
    jobs->free_handles =
        must(realloc(jobs->free_handles, jobs->capacity * sizeof *jobs->free_handles));
}

static uint32_t take_handle(struct check_jobs *jobs) {
    if (jobs->n_free > 0) {
        return jobs->free_handles[--jobs->n_free];
    }
    if (jobs->n_handles == jobs->capacity) {
        grow_handles(jobs);
    }
    return (uint32_t)jobs->n_handles++;
}

static void grow_buckets(struct check_jobs *jobs) {
    free(jobs->buckets);
    jobs->n_buckets *= 4;
    jobs->buckets = make_buckets(jobs->n_buckets);
    for (size_t i = 0; i < jobs->n_handles; i++) {
        struct check_job *job = jobs->jobs[i];
        if (job != NULL) {
            list_append(bucket_of(jobs, bytes_of(job->key.data, job->key.size)), &job->in_bucket);
        }
    }
}

struct check_job *check_jobs_add(struct check_jobs *jobs, struct bytes key) {
    if (jobs->n_jobs >= jobs->n_buckets) {
        grow_buckets(jobs);
    }
    struct check_job *job = must(calloc(1, sizeof *job));
    buffer_append(&job->key, key.data, key.size);
    list_init(&job->in_ready);
    list_init(&job->in_reports);
    list_init(&job->in_aliases);
    timing_wheel_timer_init(&job->timer);
    job->handle = take_handle(jobs);
    jobs->jobs[job->handle] = job;
    jobs->n_jobs++;
    list_append(bucket_of(jobs, key), &job->in_bucket);
    return job;
}

void check_jobs_remove(struct check_jobs *jobs, struct check_job *job) {
    assert(job->probe == NULL);
    timing_wheel_disarm(jobs->wheel, job->handle);
    list_remove(&job->in_bucket);
    jobs->jobs[job->handle] = NULL;
    jobs->free_handles[jobs->n_free++] = job->handle;
    jobs->n_jobs--;
    buffer_clear(&job->key);
    buffer_clear(&job->definition);
    buffer_clear(&job->output);
    free(job);
}

void check_jobs_arm(struct check_jobs *jobs, struct check_job *job, uint64_t due_ms) {
    timing_wheel_arm(jobs->wheel, job->handle, due_ms);
}
