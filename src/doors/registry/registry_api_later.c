/* Answers that wait for a later iteration of the loop or for a worker: lists that are much work, in
 * the order in which they came. */
#include "base/pb_append.h"
#include "core/state_machine.h"
#include "doors/registry/registry_api_call.h"
#include "registry/registry_keys.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAUSE_MS = 1,
    /* Of an instance that is read, chosen and written, in looks at a record. */
    WORK_A_RECORD = 32,
    /* Records of a service that is written on the loop: about a millisecond. */
    SMALL_RECORDS = 1000,
    /* Others need workers, too. */
    JOBS_MAX = 2
};

static size_t count(struct registry_api *door, struct bytes service) {
    struct arena arena;
    arena_init(&arena);
    struct key_range range = registry_service_range(&arena, service);
    size_t n = key_store_count(registry_api_keys(door), range.space, range.key, range.range_end);
    arena_clear(&arena);
    return n;
}

/* --- On the loop. --- */

static void write_now(struct registry_api *door, struct registry_api_later *later) {
    const struct key_store *keys = registry_api_keys(door);
    struct arena arena;
    struct buffer body;
    arena_init(&arena);
    buffer_init(&body);
    later->write(later->message, keys, &arena, &body);
    arena_clear(&arena);
    later->done(later, STATUS_OK, bytes_of(body.data, body.size), key_store_revision(keys));
    buffer_clear(&body);
}

/* --- By a worker. --- */

/* It outlives who is to be answered. */
struct registry_api_job {
    struct service_scan scan;
    struct registry_api *door;
    struct registry_api_later *later; /* NULL: cancelled */
    void (*write)(struct bytes message, const struct key_store *keys, struct arena *arena,
                  struct buffer *out);
    struct buffer body;
    int64_t revision;
    size_t message_size;
    uint8_t message[];
};

static void go_on(uv_timer_t *timer);

static void arm(struct registry_api *door, uint64_t pause_ms) {
    if (!door->is_stopped) {
        uv_timer_start(&door->timer, go_on, pause_ms, 0);
    }
}

static void job_end(struct registry_api_job *job, enum status status) {
    struct registry_api *door = job->door;
    struct registry_api_later *later = job->later;
    bool is_ended = service_scan_end(&job->scan);
    assert(is_ended);
    door->n_jobs--;
    if (later != NULL) {
        later->job = NULL;
        later->done(later, status, bytes_of(job->body.data, job->body.size), job->revision);
    }
    buffer_clear(&job->body);
    free(job);
    if (!list_is_empty(&door->large)) {
        arm(door, 0);
    }
}

static void run(struct service_scan *scan) {
    struct registry_api_job *job = list_entry(scan, struct registry_api_job, scan);
    const struct key_store *keys = key_view_store(snapshot_view_keys(scan->view));
    struct arena arena;
    arena_init(&arena);
    job->revision = key_store_revision(keys);
    job->write(bytes_of(job->message, job->message_size), keys, &arena, &job->body);
    arena_clear(&arena);
}

static void ran(struct service_scan *scan) {
    job_end(list_entry(scan, struct registry_api_job, scan), STATUS_OK);
}

static void revoked(struct service_scan *scan, enum status status) {
    job_end(list_entry(scan, struct registry_api_job, scan), status);
}

static enum status job_start(struct registry_api *door, struct registry_api_later *later) {
    struct registry_api_job *job = calloc(1, sizeof *job + later->message.size);
    if (job == NULL) {
        return STATUS_NO_MEMORY;
    }
    job->scan = (struct service_scan){.run = run, .ran = ran, .revoked = revoked};
    job->door = door;
    job->later = later;
    job->write = later->write;
    job->message_size = later->message.size;
    if (later->message.size > 0) {
        memcpy(job->message, later->message.data, later->message.size);
    }
    buffer_init(&job->body);
    struct key_range range = registry_service_range(&door->arena, later->service);
    enum status status =
        service_scan_start(door->service, grpc_call_caller(later->call), &job->scan, &range, 1);
    arena_reset(&door->arena);
    if (status != STATUS_PENDING) {
        free(job);
        return status;
    }
    later->job = job;
    door->n_jobs++;
    return STATUS_PENDING;
}

/* --- The queues. --- */

static void begin_large(struct registry_api *door) {
    struct list *link = NULL;
    while (door->n_jobs < JOBS_MAX && (link = list_pop_first(&door->large)) != NULL) {
        struct registry_api_later *later = list_entry(link, struct registry_api_later, link);
        enum status status = job_start(door, later);
        if (status != STATUS_PENDING) {
            later->done(later, status, bytes_of("", 0), 0);
        }
    }
}

/* Of one that has waited: rights may have changed meanwhile. */
static enum status check(struct registry_api *door, const struct registry_api_later *later) {
    struct key_range range = registry_service_range(&door->arena, later->service);
    enum status status =
        service_read_local(door->service, grpc_call_caller(later->call), &range, 1);
    arena_reset(&door->arena);
    return status;
}

/* False: not now. */
static bool begin_next(struct registry_api *door) {
    struct registry_api_later *later =
        list_entry(door->later.next, struct registry_api_later, link);
    size_t n = count(door, later->service);
    if (n > SMALL_RECORDS) { /* by now */
        list_append(&door->large, list_pop_first(&door->later));
        return true;
    }
    if (!service_allow_work(door->service, n * WORK_A_RECORD)) {
        return false;
    }
    list_remove(&later->link);
    enum status status = check(door, later);
    if (status == STATUS_OK) {
        write_now(door, later);
    } else {
        later->done(later, status, bytes_of("", 0), 0);
    }
    return true;
}

static void go_on(uv_timer_t *timer) {
    struct registry_api *door = timer->data;
    while (!list_is_empty(&door->later) && begin_next(door)) {
    }
    if (!list_is_empty(&door->later)) {
        arm(door, PAUSE_MS);
    }
    begin_large(door);
}

/* Small ones do not wait for large ones. */
void registry_api_later(struct registry_api *door, struct registry_api_later *later) {
    size_t n = count(door, later->service);
    list_init(&later->link);
    if (n > SMALL_RECORDS) {
        list_append(&door->large, &later->link);
        begin_large(door);
    } else if (list_is_empty(&door->later) &&
               service_allow_work(door->service, n * WORK_A_RECORD)) {
        write_now(door, later);
    } else {
        list_append(&door->later, &later->link);
        if (!uv_is_active((const uv_handle_t *)&door->timer)) {
            arm(door, PAUSE_MS);
        }
    }
}

void registry_api_later_cancel(struct registry_api_later *later) {
    list_remove(&later->link);
    if (later->job != NULL) {
        later->job->later = NULL;
        later->job = NULL;
    }
}

void registry_api_later_init(struct registry_api *door, uv_loop_t *loop) {
    list_init(&door->later);
    list_init(&door->large);
    uv_timer_init(loop, &door->timer);
    uv_unref((uv_handle_t *)&door->timer);
    door->timer.data = door;
}

/* --- Calls. --- */

struct call_later {
    struct leased_v1_call waiting;
    struct registry_api_later later;
};

static void finish_call(struct registry_api_later *later, enum status status, struct bytes body,
                        int64_t revision) {
    struct call_later *call_later = list_entry(later, struct call_later, later);
    struct leased_v1_call *waiting = &call_later->waiting;
    struct grpc_call *call = leased_v1_call_take(waiting);
    const struct leased_v1_error *error = registry_api_error_of(
        status == STATUS_OK && !grpc_call_has_room(call) ? STATUS_TOO_MANY_REQUESTS : status);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
    } else {
        struct buffer *out = leased_v1_answer_begin_at(waiting->api, revision);
        buffer_append(out, body.data, body.size);
        leased_v1_answer_finish(call, out);
    }
    leased_v1_call_destroy(waiting);
}

static void abandon(struct leased_v1_call *waiting) {
    registry_api_later_cancel(&list_entry(waiting, struct call_later, waiting)->later);
    leased_v1_call_destroy(waiting);
}

void registry_api_call_later(struct grpc_call *call, struct bytes message, struct bytes service,
                             void (*write)(struct bytes message, const struct key_store *keys,
                                           struct arena *arena, struct buffer *out)) {
    struct registry_api *door = registry_api_of(call);
    struct call_later *call_later = leased_v1_call_create(&door->api, call, sizeof *call_later);
    if (call_later == NULL) {
        return;
    }
    struct leased_v1_call *waiting = &call_later->waiting;
    if (!leased_v1_call_keep(waiting, message)) {
        leased_v1_error_finish(call, registry_api_error_of(STATUS_NO_MEMORY));
        leased_v1_call_destroy(waiting);
        return;
    }
    waiting->abandon = abandon;
    call_later->later = (struct registry_api_later){
        .call = call,
        .service = bytes_of(waiting->message + (service.data - message.data), service.size),
        .message = bytes_of(waiting->message, waiting->message_size),
        .write = write,
        .done = finish_call};
    registry_api_later(door, &call_later->later);
}
