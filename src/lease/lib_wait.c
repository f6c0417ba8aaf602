#include "lease/lib_wait.h"

#include "base/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAME_SIZE_MAX = 256,
    VALUE_SIZE_MAX = 64 * 1024,
    AGAIN_MS = 50 /* before a lost connection is tried again */
};

/* ---- notices ---- */

struct progress_notice {
    struct lib_notice base;
    lease_progress_callback *callback;
    void *context;
    struct arena arena;
    struct lease_progress progress;
};

static void run_progress(struct lib_notice *base) {
    struct progress_notice *notice = (struct progress_notice *)base;
    notice->callback(&notice->progress, notice->context);
}

static void clear_progress(struct lib_notice *base) {
    arena_clear(&((struct progress_notice *)base)->arena);
}

static const char *copy_text(struct arena *arena, const char *text) {
    return text == NULL ? NULL : arena_copy(arena, text, strlen(text) + 1);
}

static struct lease_want *copy_wants(struct arena *arena, const struct lease_want *wants,
                                     size_t n) {
    struct lease_want *copies = arena_calloc(arena, n, sizeof *copies);
    for (size_t i = 0; i < n; i++) {
        copies[i] = wants[i];
        copies[i].resource = copy_text(arena, wants[i].resource);
        copies[i].pool = copy_text(arena, wants[i].pool);
    }
    return copies;
}

static void copy_acquisition(struct arena *arena, const struct lease_acquisition *from,
                             struct lease_acquisition *to) {
    struct lease_slot *slots = arena_calloc(arena, from->n_slots, sizeof *slots);
    for (size_t i = 0; i < from->n_slots; i++) {
        slots[i].pool = copy_text(arena, from->slots[i].pool);
        slots[i].slot = copy_text(arena, from->slots[i].slot);
    }
    *to = *from;
    to->wants = copy_wants(arena, from->wants, from->n_wants);
    to->slots = slots;
    to->value = copy_text(arena, from->value);
    to->owner = copy_text(arena, from->owner);
    to->request_id = copy_text(arena, from->request_id);
}

void lib_wait_tell(struct lease_wait *wait, const struct lease_progress *progress) {
    if (wait->on_progress == NULL) {
        return;
    }
    struct progress_notice *notice = calloc(1, sizeof *notice);
    if (notice == NULL) {
        abort();
    }
    arena_init(&notice->arena);
    notice->base.run = run_progress;
    notice->base.clear = clear_progress;
    notice->callback = wait->on_progress;
    notice->context = wait->progress_context;
    notice->progress = *progress;
    struct lease_acquisition *holders =
        arena_calloc(&notice->arena, progress->n_holders, sizeof *holders);
    for (size_t i = 0; i < progress->n_holders; i++) {
        copy_acquisition(&notice->arena, &progress->holders[i], &holders[i]);
    }
    notice->progress.holders = holders;
    lib_notice_add(wait->connection, &notice->base, wait);
}

struct done_notice {
    struct lib_notice base;
    struct lease_wait *wait;
    enum lease_status status;
    char text[LIB_TEXT_SIZE_MAX];
};

static void run_done(struct lib_notice *base) {
    struct done_notice *notice = (struct done_notice *)base;
    notice->wait->done(notice->wait, notice->status, notice->text, notice->wait->done_context);
}

static void tell_done(struct lease_wait *wait) {
    if (wait->done == NULL) {
        return;
    }
    struct done_notice *notice = calloc(1, sizeof *notice);
    if (notice == NULL) {
        abort();
    }
    notice->base.run = run_done;
    notice->wait = wait;
    notice->status = wait->status;
    memcpy(notice->text, wait->text, sizeof notice->text);
    lib_notice_add(wait->connection, &notice->base, wait);
}

/* ---- the end of a wait ---- */

static void finish(struct lease_wait *wait, enum lease_status status, const char *text) {
    assert(!wait->is_over);
    wait->is_over = true;
    wait->status = status;
    snprintf(wait->text, sizeof wait->text, "%s", text);
    list_remove(&wait->link);
    tell_done(wait);
    lib_changed(wait->connection);
}

static void leave(struct lease_wait *wait) {
    if (wait->connection->protocol == LEASE_PROTOCOL_ETCD) {
        lib_etcd_wait_leave(wait);
    } else {
        lib_native_wait_leave(wait);
    }
}

void lib_wait_fail(struct lease_wait *wait, enum lease_status status, const char *text) {
    finish(wait, status, text);
}

void lib_wait_succeed(struct lease_wait *wait, struct arena *arena,
                      const struct lease_acquisition *acquisition, struct lib_etcd_place place,
                      uint64_t limit_ms) {
    struct lease_hold *hold = calloc(1, sizeof *hold);
    if (hold == NULL) {
        abort();
    }
    hold->connection = wait->connection;
    hold->session = wait->session;
    hold->arena = *arena;
    arena_init(arena);
    hold->acquisition = *acquisition;
    hold->place = place;
    hold->limit_ms = limit_ms;
    wait->hold = hold;
    finish(wait, LEASE_OK, "");
}

void lib_wait_again(struct lease_wait *wait) {
    wait->begin_ms = clock_boottime_ms() + AGAIN_MS;
}

void lib_waits_lost(struct lease_session *session, const char *reason) {
    struct list *waits = &session->connection->waits;
    struct list *next;
    for (struct list *node = waits->next; node != waits; node = next) {
        next = node->next;
        struct lease_wait *wait = list_entry(node, struct lease_wait, link);
        if (wait->session == session) {
            leave(wait);
            finish(wait, LEASE_LOST, reason);
            wait->session = NULL;
        }
    }
    lib_calls_session_over(session->connection, session->id);
}

static void expire(struct lease_wait *wait) {
    leave(wait);
    if (wait->waits) {
        finish(wait, LEASE_TIMEOUT, "it did not become free in time");
    } else {
        char text[LIB_TEXT_SIZE_MAX];
        snprintf(text, sizeof text, "no server answered in time: %.400s",
                 wait->connection->last_failure);
        finish(wait, LEASE_UNAVAILABLE, text);
    }
}

static void begin(struct lease_wait *wait) {
    wait->begin_ms = UINT64_MAX;
    if (wait->connection->protocol == LEASE_PROTOCOL_ETCD) {
        lib_etcd_wait_begin(wait);
    } else {
        lib_native_wait_begin(wait);
    }
}

void lib_waits_poll(struct lease_connection *connection, uint64_t now_ms) {
    struct list *waits = &connection->waits;
    struct list *next;
    for (struct list *node = waits->next; node != waits; node = next) {
        next = node->next;
        struct lease_wait *wait = list_entry(node, struct lease_wait, link);
        if (wait->deadline_ms != 0 && wait->deadline_ms <= now_ms) {
            expire(wait);
        } else if (wait->begin_ms <= now_ms) {
            begin(wait);
        }
    }
}

uint64_t lib_waits_wake_ms(const struct lease_connection *connection) {
    uint64_t wake_ms = UINT64_MAX;
    const struct list *waits = &connection->waits;
    for (const struct list *node = waits->next; node != waits; node = node->next) {
        const struct lease_wait *wait = list_entry(node, struct lease_wait, link);
        uint64_t own_ms = wait->begin_ms;
        if (wait->deadline_ms != 0 && wait->deadline_ms < own_ms) {
            own_ms = wait->deadline_ms;
        }
        wake_ms = own_ms < wake_ms ? own_ms : wake_ms;
    }
    return wake_ms;
}

/* ---- what users call ---- */

static enum lease_status check_want(const struct lease_want *want) {
    const char *name = want->resource != NULL ? want->resource : want->pool;
    if (name == NULL || (want->resource != NULL && want->pool != NULL)) {
        return lib_error(LEASE_INVALID, "a want names a resource or a pool");
    }
    size_t size = strlen(name);
    if (size == 0 || size > NAME_SIZE_MAX) {
        return lib_error(LEASE_INVALID, "a name has 1 to %d bytes", NAME_SIZE_MAX);
    }
    if ((unsigned)want->mode > LEASE_SHARED) {
        return lib_error(LEASE_INVALID, "a mode is out of range");
    }
    return LEASE_OK;
}

static enum lease_status check(const struct lease_acquire_options *options) {
    if (options->wants == NULL || options->n_wants == 0 || options->n_wants > LEASE_WANTS_MAX) {
        return lib_error(LEASE_INVALID, "1 to %d resources or pools are acquired at once",
                         LEASE_WANTS_MAX);
    }
    if (options->wait_ms < LEASE_WAIT_FOREVER || options->hold_limit_ms < 0) {
        return lib_error(LEASE_INVALID, "a time is below 0");
    }
    if (options->value != NULL && strlen(options->value) > VALUE_SIZE_MAX) {
        return lib_error(LEASE_INVALID, "a value has at most %d bytes", VALUE_SIZE_MAX);
    }
    for (size_t i = 0; i < options->n_wants; i++) {
        enum lease_status status = check_want(&options->wants[i]);
        if (status != LEASE_OK) {
            return status;
        }
    }
    return LEASE_OK;
}

static struct lease_wait *create(struct lease_session *session,
                                 const struct lease_acquire_options *options) {
    struct lease_wait *wait = calloc(1, sizeof *wait);
    if (wait == NULL) {
        abort();
    }
    struct lease_connection *connection = session->connection;
    uint64_t now_ms = clock_boottime_ms();
    arena_init(&wait->arena);
    wait->connection = connection;
    wait->session = session;
    wait->wants = copy_wants(&wait->arena, options->wants, options->n_wants);
    wait->n_wants = options->n_wants;
    wait->value = (char *)copy_text(&wait->arena, options->value);
    wait->hold_limit_ms = options->hold_limit_ms;
    wait->queue_limit = options->queue_limit;
    wait->waits = options->wait_ms != LEASE_NO_WAIT;
    wait->on_progress = options->on_progress;
    wait->progress_context = options->context;
    wait->begin_ms = 0;
    if (!wait->waits) {
        wait->deadline_ms = now_ms + connection->request_timeout_ms;
    } else if (options->wait_ms != LEASE_WAIT_FOREVER && options->wait_ms < LIB_KEEPER_TTL_MS_MAX) {
        /* leased ends a wait by its own clock, for etcd it is ours alone. */
        bool is_etcd = connection->protocol == LEASE_PROTOCOL_ETCD;
        wait->deadline_ms = now_ms + (uint64_t)options->wait_ms + (is_etcd ? 0 : LIB_WAIT_GRACE_MS);
    }
    /* A repeated request finds its first place again. */
    snprintf(wait->request_id, sizeof wait->request_id, "%llx-%llx", (unsigned long long)now_ms,
             (unsigned long long)++connection->next_number);
    list_append(&connection->waits, &wait->link);
    return wait;
}

enum lease_status lease_acquire_start(struct lease_session *session,
                                      const struct lease_acquire_options *options,
                                      lease_acquired *done, void *context,
                                      struct lease_wait **out_wait) {
    struct lease_acquire_options known = {0};
    memcpy(&known, options, options->size < sizeof known ? options->size : sizeof known);
    enum lease_status status = check(&known);
    if (status == LEASE_OK) {
        status = lib_check_process(session->connection);
    }
    if (status != LEASE_OK) {
        return status;
    }
    struct lease_connection *connection = session->connection;
    lib_lock(connection);
    if (!lib_session_is_alive(session)) {
        status = lib_error(LEASE_LOST, "the session is not valid any more");
    } else {
        struct lease_wait *wait = create(session, &known);
        wait->done = done;
        wait->done_context = context;
        *out_wait = wait;
        lib_step(connection);
    }
    lib_unlock(connection);
    return status;
}

enum lease_status lease_wait_finish(struct lease_wait *wait, int64_t limit_ms_asked,
                                    struct lease_hold **out_hold) {
    struct lease_connection *connection = wait->connection;
    lib_lock(connection);
    enum lease_status status = lib_check_process(connection);
    if (status == LEASE_OK && !wait->is_over && limit_ms_asked != LEASE_NO_WAIT) {
        status = lib_may_wait(connection);
    }
    if (status == LEASE_OK && limit_ms_asked != LEASE_NO_WAIT) {
        bool has_limit = limit_ms_asked > 0 && limit_ms_asked < LIB_KEEPER_TTL_MS_MAX;
        lib_wait_until(connection, &wait->is_over,
                       has_limit ? clock_boottime_ms() + (uint64_t)limit_ms_asked : 0);
    }
    if (status == LEASE_OK && !wait->is_over) {
        status = lib_error(LEASE_TIMEOUT, "it is not decided yet");
    } else if (status == LEASE_OK && wait->status != LEASE_OK) {
        status = lib_error(wait->status, "%s", wait->text);
    } else if (status == LEASE_OK && wait->hold == NULL) {
        status = lib_error(LEASE_INVALID, "its hold was taken before");
    } else if (status == LEASE_OK) {
        *out_hold = wait->hold;
        wait->hold = NULL;
    }
    lib_unlock(connection);
    return status;
}

bool lease_wait_is_over(const struct lease_wait *wait) {
    lib_lock(wait->connection);
    bool is_over = wait->is_over;
    lib_unlock(wait->connection);
    return is_over;
}

void lease_wait_cancel(struct lease_wait *wait) {
    lib_lock(wait->connection);
    if (!wait->is_over && !lib_is_inherited(wait->connection)) {
        leave(wait);
        finish(wait, LEASE_CANCELED, "canceled");
        lib_step(wait->connection);
    }
    lib_unlock(wait->connection);
}

void lease_wait_destroy(struct lease_wait *wait) {
    if (wait == NULL || lib_is_inherited(wait->connection)) {
        return;
    }
    struct lease_connection *connection = wait->connection;
    lib_lock(connection);
    wait->done = NULL;
    if (!wait->is_over) {
        leave(wait);
        finish(wait, LEASE_CANCELED, "canceled");
    }
    lib_notice_forget(connection, wait);
    struct lease_hold *hold = wait->hold;
    wait->hold = NULL;
    lib_step(connection);
    lib_unlock(connection);
    if (hold != NULL) {
        lease_release_start(hold);
        lease_hold_destroy(hold);
    }
    lib_etcd_wait_free(wait->etcd);
    arena_clear(&wait->arena);
    free(wait);
}
