/*
 * Structured log lines on standard error: text for people, JSON in the shape of zap, etcd's
 * logger, for machines. A line is a message
 * and key-value fields:
 *
 *     log_info("listening", LOG_TEXT("address", address), LOG_NUMBER("port", port));
 *
 * Once log_start_thread() was called, a thread writes (log_writer.h) and logging never waits. Core
 * never logs.
 */
#ifndef LEASED_BASE_LOG_H
#define LEASED_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR };
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

struct log_field {
    const char *name;
    const char *text; /* NULL: the field is the number */
    int64_t number;
    bool is_hex; /* the number is written as an id: hexadecimal, in quotes */
};

#define LOG_TEXT(field_name, field_text)                                                           \
    ((struct log_field){.name = (field_name), .text = (field_text)})
#define LOG_NUMBER(field_name, field_number)                                                       \
    ((struct log_field){.name = (field_name), .number = (int64_t)(field_number)})

#define LOG_HEX(field_name, field_number)                                                          \
    ((struct log_field){.name = (field_name), .number = (int64_t)(field_number), .is_hex = true})

void log_configure(enum log_level level, enum log_format format);
bool log_enabled(enum log_level level);
void log_write(enum log_level level, const char *message, const struct log_field *fields,
               size_t n_fields);

/* Where a line was logged, which JSON tells; file NULL: not told. */
struct log_place {
    const char *file;
    int line;
};
void log_write_at(const struct log_place *place, enum log_level level, const char *message,
                  const struct log_field *fields, size_t n_fields);

/* False: lines go on being written by whoever logs them. */
bool log_start_thread(void);
/* Before the process ends: waits a moment for lines that are not written yet. */
void log_flush(void);
/* The same, and lines are written by whoever logs them again. */
void log_stop_thread(void);

#define LOG_WITH(level, message, ...)                                                              \
    do {                                                                                           \
        if (log_enabled(level)) {                                                                  \
            const struct log_field log_fields_[] = {{0}, ##__VA_ARGS__};                           \
            const struct log_place log_place_ = {__FILE__, __LINE__};                              \
            log_write_at(&log_place_, level, message, log_fields_ + 1,                             \
                         sizeof log_fields_ / sizeof log_fields_[0] - 1);                          \
        }                                                                                          \
    } while (0)

#define log_debug(message, ...) LOG_WITH(LOG_DEBUG, message, ##__VA_ARGS__)
#define log_info(message, ...) LOG_WITH(LOG_INFO, message, ##__VA_ARGS__)
#define log_warning(message, ...) LOG_WITH(LOG_WARNING, message, ##__VA_ARGS__)
#define log_error(message, ...) LOG_WITH(LOG_ERROR, message, ##__VA_ARGS__)

#endif
