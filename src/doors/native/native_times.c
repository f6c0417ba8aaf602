#include "doors/native/native_call.h"

#include <assert.h>
#include <stdlib.h>

struct native_time {
    struct service_renewal question;
    struct native_times *times;
};

/* The questions belong to the service until they are answered, whoever has lost interest. */
struct native_times {
    void (*done)(void *context, const int64_t *remaining_ms, size_t n); /* NULL: forgotten */
    void *context;
    size_t n;
    size_t n_waiting;
    bool is_asking;
    int64_t *remaining_ms;
    struct native_time questions[];
};

static void complete(struct native_times *times) {
    if (times->n_waiting > 0 || times->is_asking) {
        return;
    }
    if (times->done != NULL) {
        times->done(times->context, times->remaining_ms, times->n);
    }
    free(times->remaining_ms);
    free(times);
}

static void answered(struct service_renewal *question, enum status status, int64_t remaining_ms) {
    struct native_time *time = list_entry(question, struct native_time, question);
    struct native_times *times = time->times;
    times->remaining_ms[time - times->questions] = status == STATUS_OK ? remaining_ms : -1;
    assert(times->n_waiting > 0);
    times->n_waiting--;
    complete(times);
}

static struct native_times *create(size_t n) {
    struct native_times *times = calloc(1, sizeof *times + n * sizeof times->questions[0]);
    if (times != NULL) {
        times->n = n;
        times->remaining_ms = calloc(n > 0 ? n : 1, sizeof times->remaining_ms[0]);
        if (times->remaining_ms == NULL) {
            free(times);
            times = NULL;
        }
    }
    return times;
}

struct native_times *
native_times_ask(struct native_door *door, const struct caller *caller, const int64_t *lease_ids,
                 size_t n, void (*done)(void *context, const int64_t *remaining_ms, size_t n),
                 void *context) {
    struct native_times *times = create(n);
    if (times == NULL) {
        done(context, NULL, 0);
        return NULL;
    }
    times->done = done;
    times->context = context;
    times->is_asking = true;
    for (size_t i = 0; i < n; i++) {
        struct native_time *time = &times->questions[i];
        time->times = times;
        time->question.id = lease_ids[i];
        time->question.owner = KEY_SPACE_NATIVE;
        time->question.done = answered;
        int64_t remaining_ms = -1;
        enum status status = lease_ids[i] == 0 ? STATUS_LEASE_NOT_FOUND
                                               : service_time_left(door->service, caller,
                                                                   &time->question, &remaining_ms);
        if (status == STATUS_PENDING) {
            times->n_waiting++;
        } else {
            times->remaining_ms[i] = status == STATUS_OK ? remaining_ms : -1;
        }
    }
    times->is_asking = false;
    struct native_times *waiting = times->n_waiting > 0 ? times : NULL;
    complete(times);
    return waiting;
}

void native_times_forget(struct native_times *times) {
    if (times != NULL) {
        times->done = NULL;
    }
}
