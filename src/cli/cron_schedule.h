/*
 * When a cron line is due: five fields (minute, hour, day, month, weekday) with lists, ranges,
 * steps and names, or @hourly, @daily, @weekly, @monthly, @yearly. As in other crons, a line that
 * restricts both the day and the weekday is due when either matches. Times are local unless the
 * schedule says UTC.
 */
#ifndef LEASED_CLI_CRON_SCHEDULE_H
#define LEASED_CLI_CRON_SCHEDULE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CRON_ERROR_SIZE_MAX = 160 };

struct cron_schedule {
    uint64_t minutes; /* a bit each */
    uint64_t hours;
    uint64_t days;
    uint64_t months;
    uint64_t weekdays; /* Sunday is 0 */
    bool is_any_day;
    bool is_any_weekday;
    bool is_utc;
};

/* STATUS_MALFORMED: `error` says which field, and why. `is_utc` of the result is false. */
enum status cron_schedule_parse(const char *text, struct cron_schedule *out_schedule,
                                char error[CRON_ERROR_SIZE_MAX]);

/* The first minute after `minute` (both since the epoch) at which it is due. False: within ten
 * years there is none, as for 30 February. */
bool cron_schedule_next(const struct cron_schedule *schedule, int64_t minute, int64_t *out_minute);

#endif
