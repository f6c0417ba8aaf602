#include "lease/lib_copy.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what users are told: that something changed, once for many changes ---- */

struct copy_notice {
    struct lib_notice base;
    struct lib_copy *copy;
    enum lease_status status;
    char text[LIB_TEXT_SIZE_MAX];
};

static void take_notice(struct lib_notice *base) {
    struct copy_notice *notice = (struct copy_notice *)base;
    notice->copy->is_notice_pending = false;
    notice->status = notice->copy->status;
    memcpy(notice->text, notice->copy->text, sizeof notice->text);
}

static void run_notice(struct lib_notice *base) {
    struct copy_notice *notice = (struct copy_notice *)base;
    notice->copy->kind->notify(notice->copy, notice->status, notice->text);
}

void lib_copy_tell(struct lib_copy *copy) {
    lib_changed(copy->connection);
    if (!copy->is_told || copy->is_notice_pending) {
        return;
    }
    struct copy_notice *notice = calloc(1, sizeof *notice);
    if (notice == NULL) {
        abort();
    }
    notice->base.take = take_notice;
    notice->base.run = run_notice;
    notice->copy = copy;
    copy->is_notice_pending = true;
    lib_notice_add(copy->connection, &notice->base, copy);
}

/* ---- its life ---- */

static void stop(struct lib_copy *copy) {
    lib_call_cancel(copy->watch);
    lib_asking_cancel(copy->reading);
    lib_asking_cancel(copy->checking);
    copy->watch = NULL;
    copy->reading = NULL;
    copy->checking = NULL;
    copy->begin_ms = UINT64_MAX;
    copy->check_ms = UINT64_MAX;
    copy->n_doubts = 0;
}

void lib_copy_fail(struct lib_copy *copy, enum lease_status status, const char *text) {
    stop(copy);
    copy->is_over = true;
    copy->is_decided = true;
    copy->status = status;
    snprintf(copy->text, sizeof copy->text, "%s", text);
    lib_copy_tell(copy);
}

void lib_copy_again(struct lib_copy *copy) {
    stop(copy);
    copy->begin_ms = clock_boottime_ms() + LIB_COPY_AGAIN_MS;
    copy->connection->is_dirty = true;
}

void lib_copy_ended(struct lib_copy *copy, enum lib_code code, const char *text) {
    bool may_pass = code == LIB_CODE_OK || code == LIB_CODE_UNAVAILABLE ||
                    code == LIB_CODE_DEADLINE_EXCEEDED || code == LIB_CODE_CANCELLED ||
                    (copy->kind->may_pass != NULL && copy->kind->may_pass(code));
    if (may_pass ||
        (code == LIB_CODE_UNAUTHENTICATED && lib_ready_authenticate_again(copy->connection))) {
        lib_copy_again(copy);
    } else if (code == LIB_CODE_UNIMPLEMENTED) {
        lib_copy_fail(copy, LEASE_UNSUPPORTED, copy->kind->unsupported);
    } else {
        lib_copy_fail(copy, lib_code_status(code), text);
    }
}

void lib_copy_is_current(struct lib_copy *copy, uint64_t sent_ms) {
    copy->current_ms = sent_ms > copy->current_ms ? sent_ms : copy->current_ms;
    copy->n_doubts = 0;
}

void lib_copy_open(struct lib_copy *copy, struct lease_connection *connection,
                   const struct lib_copy_kind *kind, bool is_told) {
    copy->connection = connection;
    copy->kind = kind;
    copy->is_told = is_told;
    copy->check_ms = UINT64_MAX;
    lib_lock(connection);
    list_append(&connection->copies, &copy->link);
    lib_step(connection);
    lib_unlock(connection);
}

void lib_copy_close(struct lib_copy *copy) {
    struct lease_connection *connection = copy->connection;
    lib_lock(connection);
    stop(copy);
    copy->is_over = true;
    list_remove(&copy->link);
    lib_notice_forget(connection, copy);
    lib_step(connection);
    lib_unlock(connection);
}

/* ---- time ---- */

void lib_copies_poll(struct lease_connection *connection, uint64_t now_ms) {
    struct list *all = &connection->copies;
    for (struct list *node = all->next; node != all; node = node->next) {
        struct lib_copy *copy = list_entry(node, struct lib_copy, link);
        if (copy->begin_ms <= now_ms) {
            copy->begin_ms = UINT64_MAX;
            copy->kind->begin(copy);
        } else if (copy->check_ms <= now_ms) {
            copy->check_ms = UINT64_MAX;
            copy->kind->check(copy);
        }
    }
}

uint64_t lib_copies_wake_ms(const struct lease_connection *connection) {
    uint64_t wake_ms = UINT64_MAX;
    const struct list *all = &connection->copies;
    for (const struct list *node = all->next; node != all; node = node->next) {
        const struct lib_copy *copy = list_entry(node, struct lib_copy, link);
        wake_ms = copy->begin_ms < wake_ms ? copy->begin_ms : wake_ms;
        wake_ms = copy->check_ms < wake_ms ? copy->check_ms : wake_ms;
    }
    return wake_ms;
}

/* ---- what users ask ---- */

enum lease_status lib_copy_status(const struct lib_copy *copy) {
    enum lease_status status = lib_check_process(copy->connection);
    if (status != LEASE_OK) {
        return status;
    }
    if (copy->is_filled) {
        return LEASE_OK;
    }
    return copy->is_over ? lib_error(copy->status, "%s", copy->text)
                         : lib_error(LEASE_UNAVAILABLE, "no server has answered yet");
}

int64_t lib_copy_age(const struct lib_copy *copy) {
    return copy->is_filled && !lib_is_inherited(copy->connection)
               ? (int64_t)(clock_boottime_ms() - copy->current_ms)
               : -1;
}

enum lease_status lib_copy_wait(struct lib_copy *copy, int64_t limit_ms) {
    struct lease_connection *connection = copy->connection;
    lib_lock(connection);
    enum lease_status status =
        copy->is_decided ? lib_check_process(connection) : lib_may_wait(connection);
    if (status == LEASE_OK && limit_ms != LEASE_NO_WAIT) {
        lib_wait_until(connection, &copy->is_decided,
                       limit_ms > 0 ? clock_boottime_ms() + (uint64_t)limit_ms : 0);
    }
    if (status == LEASE_OK && !copy->is_decided) {
        status = lib_error(LEASE_TIMEOUT, "no server has answered in time");
    } else if (status == LEASE_OK && copy->is_over) {
        status = lib_error(copy->status, "%s", copy->text);
    }
    lib_unlock(connection);
    return status;
}

int64_t lib_copy_age_ms(struct lib_copy *copy) {
    lib_lock(copy->connection);
    int64_t age_ms = lib_copy_age(copy);
    lib_unlock(copy->connection);
    return age_ms;
}
