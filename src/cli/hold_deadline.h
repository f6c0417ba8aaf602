/*
 * Where a command reads until when it may go on: LEASE_DEADLINE_FD, a file of one line with the
 * moment twice, in milliseconds of CLOCK_BOOTTIME, 20 digits each. It is written anew with every
 * renewal; a reader that finds two different numbers reads again. Zeros: it is lost.
 */
#ifndef LEASED_CLI_HOLD_DEADLINE_H
#define LEASED_CLI_HOLD_DEADLINE_H

#include "base/status.h"

#include <stdint.h>

struct hold_deadline {
    int writer; /* -1: none */
    int reader; /* what the command gets: it cannot write */
    uint64_t written_ms;
};

/* STATUS_IO: errno says why. */
enum status hold_deadline_init(struct hold_deadline *deadline);
void hold_deadline_clear(struct hold_deadline *deadline);
void hold_deadline_write(struct hold_deadline *deadline, uint64_t until_ms);

#endif
