#include "cli/hold_progress.h"

#include "base/clock.h"
#include "base/duration.h"
#include "cli/cli_format.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_SIZE = 512 };

void hold_progress_init(struct hold_progress *progress, const char *title, bool is_verbose) {
    *progress = (struct hold_progress){.title = title,
                                       .is_terminal = isatty(STDERR_FILENO) != 0,
                                       .is_verbose = is_verbose,
                                       .remaining_ms = -1};
}

/* Owners are texts of whoever wrote them. */
static void take_owner(struct hold_progress *progress, const char *owner) {
    char text[CLI_TEXT_SIZE_MAX];
    snprintf(progress->owner, sizeof progress->owner, "%s", cli_plain(owner, text));
}

void hold_progress_take(struct hold_progress *progress, const struct lease_progress *news) {
    bool is_holder_known = news->n_holders > 0 && news->holders[0].owner != NULL;
    progress->is_known = true;
    progress->position = news->position;
    progress->remaining_ms = news->holder_remaining_ms;
    progress->told_at_ms = clock_boottime_ms();
    take_owner(progress, is_holder_known ? news->holders[0].owner : "");
    if (progress->is_terminal) {
        hold_progress_draw(progress);
    } else if (progress->is_verbose) {
        char text[LINE_SIZE];
        fprintf(stderr, "lease: waiting for %s: %s\n", progress->title,
                hold_progress_text(progress, text, sizeof text));
    }
}

static void look_at_pool(struct hold_progress *progress, struct lease_connection *connection,
                         const char *name) {
    const struct lease_pool *pool = NULL;
    if (lease_pool_get(connection, name, &pool) == LEASE_OK) {
        progress->n_slots = (uint32_t)pool->n_slots;
        progress->n_free =
            pool->n_slots > pool->n_taken ? (uint32_t)(pool->n_slots - pool->n_taken) : 0;
        progress->is_known = true;
    }
    lease_free(pool);
}

static void look_at_resource(struct hold_progress *progress, struct lease_connection *connection,
                             const char *name) {
    const struct lease_resource *resource = NULL;
    if (lease_resource_get(connection, name, 0, &resource) == LEASE_OK && resource->n_holders > 0) {
        take_owner(progress, resource->holders[0].owner);
        progress->remaining_ms = resource->remaining_ms;
        progress->told_at_ms = clock_boottime_ms();
        progress->is_known = true;
    }
    lease_free(resource);
}

void hold_progress_look(struct hold_progress *progress, struct lease_connection *connection,
                        const struct lease_want *wants, size_t n_wants) {
    for (size_t i = 0; i < n_wants && !progress->is_known; i++) {
        if (wants[i].resource != NULL) {
            look_at_resource(progress, connection, wants[i].resource);
        } else {
            look_at_pool(progress, connection, wants[i].pool);
        }
    }
}

/* Adds to what is in `room`. */
static void add(char *room, size_t room_size, const char *before, const char *text) {
    size_t size = strlen(room);
    snprintf(room + size, room_size - size, "%s%s%s", size > 0 ? ", " : "", before, text);
}

const char *hold_progress_text(const struct hold_progress *progress, char *room, size_t room_size) {
    char text[DURATION_TEXT_SIZE_MAX + 64];
    room[0] = '\0';
    if (progress->position > 0) {
        snprintf(text, sizeof text, "%u", progress->position);
        add(room, room_size, "position ", text);
    }
    if (progress->n_slots > 0) {
        snprintf(text, sizeof text, "%u of %u slots", progress->n_free, progress->n_slots);
        add(room, room_size, "free are ", text);
    }
    if (progress->owner[0] != '\0') {
        add(room, room_size, "held by ", progress->owner);
    }
    int64_t passed_ms = (int64_t)(clock_boottime_ms() - progress->told_at_ms);
    if (progress->remaining_ms > passed_ms) {
        char time[DURATION_TEXT_SIZE_MAX];
        duration_format((progress->remaining_ms - passed_ms + 999) / 1000 * 1000, time);
        snprintf(text, sizeof text, "%s unless renewed", time);
        add(room, room_size, "ends in ", text);
    }
    if (room[0] == '\0') {
        add(room, room_size, "", "somebody else has it");
    }
    return room;
}

void hold_progress_draw(struct hold_progress *progress) {
    char text[LINE_SIZE];
    if (!progress->is_terminal || !progress->is_known) {
        return;
    }
    fprintf(stderr, "\r\033[Kwaiting for %s: %s", progress->title,
            hold_progress_text(progress, text, sizeof text));
    fflush(stderr);
    progress->is_drawn = true;
}

void hold_progress_end(struct hold_progress *progress) {
    if (progress->is_drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        progress->is_drawn = false;
    }
}
