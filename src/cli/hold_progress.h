/* What a person is told while `lease` waits: the place in the queue, who has it, and for how long
 * at most. A line that is drawn anew on a terminal; with --verbose, or where there is none, a line
 * for each change. */
#ifndef LEASED_CLI_HOLD_PROGRESS_H
#define LEASED_CLI_HOLD_PROGRESS_H

#include <lease.h>

#include <stdbool.h>
#include <stdint.h>

enum { HOLD_PROGRESS_OWNER_SIZE_MAX = 160 };

struct hold_progress {
    const char *title;
    bool is_terminal;
    bool is_verbose;
    bool is_drawn;
    bool is_known;
    uint32_t position;
    uint32_t n_free; /* of n_slots of a pool; n_slots 0: it is not a pool */
    uint32_t n_slots;
    char owner[HOLD_PROGRESS_OWNER_SIZE_MAX]; /* "": not known */
    int64_t remaining_ms;                     /* -1: not known */
    uint64_t told_at_ms;
};

void hold_progress_init(struct hold_progress *progress, const char *title, bool is_verbose);
/* The server told where we stand. */
void hold_progress_take(struct hold_progress *progress, const struct lease_progress *news);
/* Asks who has what is wanted, for a wait that ended before the server told. Waits for the answer.
 */
void hold_progress_look(struct hold_progress *progress, struct lease_connection *connection,
                        const struct lease_want *wants, size_t n_wants);
/* Draws the line; about once a second. */
void hold_progress_draw(struct hold_progress *progress);
/* Takes the line away. */
void hold_progress_end(struct hold_progress *progress);

/* "position 2, held by web-1:4711, ends in 12s unless renewed"; gives `room`. */
const char *hold_progress_text(const struct hold_progress *progress, char *room, size_t room_size);

#endif
