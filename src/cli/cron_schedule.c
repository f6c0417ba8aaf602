#include "cli/cron_schedule.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum {
    MINUTES_OF_HOUR = 60,
    MINUTES_OF_DAY = 24 * 60,
    SEARCH_DAYS_MAX = 3660,
    FIELD_SIZE_MAX = 128
};

struct field {
    const char *title;
    int min;
    int max;
    const char *const *names; /* of `first_name` and on; NULL: none */
    int first_name;
};

static const char *const month_names[] = {"jan", "feb", "mar", "apr", "may", "jun", "jul",
                                          "aug", "sep", "oct", "nov", "dec", NULL};
static const char *const weekday_names[] = {"sun", "mon", "tue", "wed", "thu", "fri", "sat", NULL};

static const struct field fields[] = {
    {"minute", 0, 59, NULL, 0},
    {"hour", 0, 23, NULL, 0},
    {"day", 1, 31, NULL, 0},
    {"month", 1, 12, month_names, 1},
    {"weekday", 0, 7, weekday_names, 0}, /* 7 is Sunday too */
};
enum { N_FIELDS = 5, FIELD_WEEKDAY = 4 };

static const struct {
    const char *name;
    const char *line;
} nicknames[] = {
    {"@hourly", "0 * * * *"},   {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
    {"@weekly", "0 0 * * 0"},   {"@monthly", "0 0 1 * *"}, {"@yearly", "0 0 1 1 *"},
    {"@annually", "0 0 1 1 *"},
};

/* A number or a name at *text, which moves behind it. False: there is none. */
static bool take_value(const struct field *field, const char **text, int *out_value) {
    for (int i = 0; field->names != NULL && field->names[i] != NULL; i++) {
        size_t size = strlen(field->names[i]);
        if (strncasecmp(*text, field->names[i], size) == 0) {
            *text += size;
            *out_value = field->first_name + i;
            return true;
        }
    }
    const char *at = *text;
    int value = 0;
    while (*at >= '0' && *at <= '9' && value < 1000) {
        value = value * 10 + (*at++ - '0');
    }
    if (at == *text) {
        return false;
    }
    *text = at;
    *out_value = value;
    return true;
}

/* One item of a list: "*", "3", "1-5", each with "/step". NULL: it was taken; otherwise what is
 * wrong. */
static const char *take_item(const struct field *field, const char **text, uint64_t *bits) {
    int first = field->min;
    int last = field->max;
    bool is_single = false;
    if (**text == '*') {
        (*text)++;
        last = field == &fields[FIELD_WEEKDAY] ? 6 : last;
    } else {
        if (!take_value(field, text, &first)) {
            return "a number, a name or * is needed";
        }
        last = first;
        is_single = true;
        if (**text == '-') {
            (*text)++;
            is_single = false;
            if (!take_value(field, text, &last)) {
                return "a range needs its end";
            }
        }
    }
    int step = 1;
    if (**text == '/') {
        (*text)++;
        const struct field number = {.title = "step"};
        if (!take_value(&number, text, &step) || step == 0) {
            return "a step is a number from 1 on";
        }
        last = is_single ? field->max : last;
    }
    if (first < field->min || last > field->max) {
        return "out of range";
    }
    if (first > last) {
        return "a range goes from small to large";
    }
    for (int i = first; i <= last; i += step) {
        *bits |= UINT64_C(1) << i;
    }
    return NULL;
}

static enum status take_field(const struct field *field, const char *text, uint64_t *out_bits,
                              char error[CRON_ERROR_SIZE_MAX]) {
    const char *at = text;
    uint64_t bits = 0;
    const char *problem;
    do {
        problem = take_item(field, &at, &bits);
    } while (problem == NULL && *at == ',' && *++at != '\0');
    if (problem == NULL && *at != '\0') {
        problem = "unexpected characters";
    }
    if (problem == NULL && at[-1] == ',') {
        problem = "a list ends with a comma";
    }
    if (problem != NULL) {
        snprintf(error, CRON_ERROR_SIZE_MAX, "%s %.64s: %s (%d to %d)", field->title, text, problem,
                 field->min, field->max);
        return STATUS_MALFORMED;
    }
    *out_bits = bits;
    return STATUS_OK;
}

enum status cron_schedule_parse(const char *text, struct cron_schedule *out_schedule,
                                char error[CRON_ERROR_SIZE_MAX]) {
    for (size_t i = 0; i < sizeof nicknames / sizeof nicknames[0]; i++) {
        if (strcasecmp(text, nicknames[i].name) == 0) {
            text = nicknames[i].line;
        }
    }
    uint64_t bits[N_FIELDS] = {0};
    char words[N_FIELDS][FIELD_SIZE_MAX];
    size_t n_words = 0;
    for (const char *at = text + strspn(text, " \t"); *at != '\0'; at += strspn(at, " \t")) {
        size_t size = strcspn(at, " \t");
        if (n_words == N_FIELDS || size >= FIELD_SIZE_MAX) {
            n_words = N_FIELDS + 1;
            break;
        }
        memcpy(words[n_words], at, size);
        words[n_words++][size] = '\0';
        at += size;
    }
    if (n_words != N_FIELDS) {
        snprintf(error, CRON_ERROR_SIZE_MAX,
                 "five fields are needed: minute hour day month weekday, as in '*/5 * * * *'");
        return STATUS_MALFORMED;
    }
    for (size_t i = 0; i < N_FIELDS; i++) {
        enum status status = take_field(&fields[i], words[i], &bits[i], error);
        if (status != STATUS_OK) {
            return status;
        }
    }
    const uint64_t sunday_again = UINT64_C(1) << 7;
    if ((bits[FIELD_WEEKDAY] & sunday_again) != 0) {
        bits[FIELD_WEEKDAY] = (bits[FIELD_WEEKDAY] | 1) & ~sunday_again;
    }
    *out_schedule = (struct cron_schedule){
        .minutes = bits[0],
        .hours = bits[1],
        .days = bits[2],
        .months = bits[3],
        .weekdays = bits[4],
        .is_any_day = words[2][0] == '*',
        .is_any_weekday = words[4][0] == '*',
    };
    return STATUS_OK;
}

static bool has(uint64_t bits, int number) {
    return (bits >> number & 1) != 0;
}

static bool is_due_day(const struct cron_schedule *schedule, const struct tm *local) {
    bool day = has(schedule->days, local->tm_mday);
    bool weekday = has(schedule->weekdays, local->tm_wday);
    bool is_either = !schedule->is_any_day && !schedule->is_any_weekday;
    return has(schedule->months, local->tm_mon + 1) &&
           (is_either ? day || weekday : day && weekday);
}

static struct tm broken_down(const struct cron_schedule *schedule, int64_t minute) {
    time_t seconds = (time_t)minute * 60;
    struct tm tm;
    if (schedule->is_utc) {
        gmtime_r(&seconds, &tm);
    } else {
        localtime_r(&seconds, &tm);
    }
    return tm;
}

bool cron_schedule_next(const struct cron_schedule *schedule, int64_t minute, int64_t *out_minute) {
    int64_t last = minute + (int64_t)SEARCH_DAYS_MAX * MINUTES_OF_DAY;
    int64_t at = minute + 1;
    while (at <= last) {
        struct tm tm = broken_down(schedule, at);
        if (!is_due_day(schedule, &tm)) {
            /* The next midnight; a day of 23 hours would take us beyond it, so we go back to it.
             * Where clocks skip midnight itself, going back would lead into the day before. */
            at += MINUTES_OF_DAY - (tm.tm_hour * MINUTES_OF_HOUR + tm.tm_min);
            struct tm next = broken_down(schedule, at);
            int64_t midnight = at - (next.tm_hour * MINUTES_OF_HOUR + next.tm_min);
            if (broken_down(schedule, midnight).tm_mday == next.tm_mday) {
                at = midnight;
            }
        } else if (!has(schedule->hours, tm.tm_hour)) {
            at += MINUTES_OF_HOUR - tm.tm_min;
        } else if (!has(schedule->minutes, tm.tm_min)) {
            at++;
        } else {
            *out_minute = at;
            return true;
        }
    }
    return false;
}
