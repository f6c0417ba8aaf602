/* Why a directory of raft_uv cannot be taken over, in words for an operator. */
#ifndef LEASED_RAFT_LEGACY_REPORT_H
#define LEASED_RAFT_LEGACY_REPORT_H

#include "base/status.h"

#include <stddef.h>

struct legacy_report {
    char *text;
    size_t size;
};

/* "<name> is damaged: <what>. ..." Returns STATUS_CORRUPT. */
enum status legacy_report_damage(const struct legacy_report *report, const char *name,
                                 const char *what);
/* Reading `name` failed. Returns STATUS_IO. */
enum status legacy_report_error(const struct legacy_report *report, const char *name, int error);

#endif
