#include "base/log.h"

#include "base/clock.h"
#include "base/log_writer.h"
#include "base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    /* A longer line is cut; it stays well-formed. */
    LOG_LINE_BYTES_MAX = LOG_WRITER_LINE_BYTES_MAX,
    /* Kept free for what must follow a cut: the mark, quotes, a brace, the end of the line. */
    LOG_LINE_BYTES_RESERVED = 32,
    /* How long a process that ends waits for a reader of its log. */
    LOG_FLUSH_MS_MAX = 1000,
};

/* Any thread may log; configuring happens once, at the start. */
static atomic_int log_level_min = LOG_INFO;
static atomic_int log_line_format = LOG_FORMAT_TEXT;

struct line {
    size_t size;
    bool is_cut;
    char bytes[LOG_LINE_BYTES_MAX];
};

void log_configure(enum log_level level, enum log_format format) {
    atomic_store(&log_level_min, (int)level);
    atomic_store(&log_line_format, (int)format);
}

bool log_enabled(enum log_level level) {
    return (int)level >= atomic_load_explicit(&log_level_min, memory_order_relaxed);
}

/* For what always fits: the frame of the line, out of the reserve. */
static void line_close(struct line *line, const char *text) {
    size_t size = strlen(text);
    if (size <= sizeof line->bytes - line->size) {
        memcpy(line->bytes + line->size, text, size);
        line->size += size;
    }
}

static bool line_has_room(const struct line *line, size_t size) {
    /* The frame may already have taken some of the reserve. */
    const size_t limit = sizeof line->bytes - LOG_LINE_BYTES_RESERVED;
    return !line->is_cut && line->size <= limit && size <= limit - line->size;
}

/* Appends all or, from the first piece on that does not fit, nothing. */
static void line_append(struct line *line, const char *bytes, size_t size) {
    if (!line_has_room(line, size)) {
        line->is_cut = true;
        return;
    }
    memcpy(line->bytes + line->size, bytes, size);
    line->size += size;
}

static void line_text(struct line *line, const char *text) {
    line_append(line, text, strlen(text));
}

/* A text with everything escaped that could end its quotes, break the line, or move the cursor of
 * a terminal. What is not UTF-8 becomes the replacement character. Valid in JSON (RFC 8259,
 * section 7). */
static void line_escaped(struct line *line, const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    const unsigned char *end = at + strlen(text);
    while (at < end) {
        size_t length = utf8_character_size(bytes_of(at, (size_t)(end - at)));
        char escape[8];
        if (length == 0) {
            line_text(line, "\\ufffd");
            length = 1;
        } else if (*at == '"' || *at == '\\') {
            escape[0] = '\\';
            escape[1] = (char)*at;
            line_append(line, escape, 2);
        } else if (*at == '\n') {
            line_text(line, "\\n");
        } else if (*at == '\t') {
            line_text(line, "\\t");
        } else if (*at < 0x20 || *at == 0x7f) {
            snprintf(escape, sizeof escape, "\\u%04x", *at);
            line_text(line, escape);
        } else if (*at == 0xc2 && at[1] < 0xa0) {
            /* The C1 control characters, which some terminals obey. */
            snprintf(escape, sizeof escape, "\\u%04x", at[1]);
            line_text(line, escape);
        } else {
            line_append(line, (const char *)at, length);
        }
        at += length;
    }
    if (line->is_cut) {
        line_close(line, "...");
    }
}

static void line_quoted(struct line *line, const char *text) {
    line_close(line, "\"");
    line_escaped(line, text);
    line_close(line, "\"");
}

/* Quotes only where a reader could not tell where the value ends. */
static void line_value(struct line *line, const char *text) {
    bool is_bare = *text != 0;
    for (const unsigned char *at = (const unsigned char *)text; *at != 0; at++) {
        if (*at <= ' ' || *at >= 0x7f || *at == '"' || *at == '\\' || *at == '=') {
            is_bare = false;
        }
    }
    if (is_bare) {
        line_escaped(line, text);
    } else {
        line_quoted(line, text);
    }
}

static void line_number(struct line *line, const struct log_field *field) {
    char text[24];
    snprintf(text, sizeof text, field->is_hex ? "%" PRIx64 : "%" PRId64, field->number);
    line_close(line, text);
}

static void format_time(char *out_text, size_t size) {
    int64_t wall_ms = clock_wall_ms();
    time_t seconds = (time_t)(wall_ms / 1000);
    struct tm parts;
    gmtime_r(&seconds, &parts);
    size_t n = strftime(out_text, size, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(out_text + n, size - n, ".%03dZ", (int)(wall_ms % 1000));
}

static void format_text(struct line *line, const char *time_text, enum log_level level,
                        const char *message, const struct log_field *fields, size_t n_fields) {
    static const char *const names[] = {"DEBUG", "INFO ", "WARN ", "ERROR"};
    line_text(line, time_text);
    line_text(line, " ");
    line_text(line, names[level]);
    line_text(line, " ");
    line_escaped(line, message);
    for (size_t i = 0; i < n_fields; i++) {
        if (!line_has_room(line, strlen(fields[i].name) + 32)) {
            break;
        }
        line_text(line, " ");
        line_text(line, fields[i].name);
        line_text(line, "=");
        if (fields[i].text != NULL) {
            line_value(line, fields[i].text);
        } else {
            line_number(line, &fields[i]);
        }
    }
    line_close(line, "\n");
}

/* The folder and the name of a source file. */
static const char *short_path(const char *path) {
    const char *last = strrchr(path, '/');
    if (last == NULL) {
        return path;
    }
    while (last > path && last[-1] != '/') {
        last--;
    }
    return last;
}

/* The shape that zap gives the lines of etcd, for whatever reads those. */
static void format_json(struct line *line, const char *time_text, const struct log_place *place,
                        enum log_level level, const char *message, const struct log_field *fields,
                        size_t n_fields) {
    static const char *const names[] = {"debug", "info", "warn", "error"};
    line_text(line, "{\"level\":\"");
    line_text(line, names[level]);
    line_text(line, "\",\"ts\":\"");
    line_text(line, time_text);
    line_text(line, "\"");
    if (place->file != NULL) {
        char number[24];
        snprintf(number, sizeof number, ":%d\"", place->line);
        line_text(line, ",\"caller\":\"");
        line_text(line, short_path(place->file));
        line_text(line, number);
    }
    line_text(line, ",\"msg\":");
    line_quoted(line, message);
    for (size_t i = 0; i < n_fields; i++) {
        /* Each byte of a name may take six when escaped. */
        if (!line_has_room(line, strlen(fields[i].name) * 6 + 32)) {
            break;
        }
        line_text(line, ",");
        line_quoted(line, fields[i].name);
        line_text(line, ":");
        if (fields[i].text != NULL) {
            line_quoted(line, fields[i].text);
        } else {
            line_text(line, fields[i].is_hex ? "\"" : "");
            line_number(line, &fields[i]);
            line_text(line, fields[i].is_hex ? "\"" : "");
        }
    }
    line_close(line, "}\n");
}

/* One write a line, so that lines of several processes and threads do not mix. */
static void write_line(const struct line *line) {
    size_t written = 0;
    while (written < line->size) {
        ssize_t n = write(STDERR_FILENO, line->bytes + written, line->size - written);
        if (n > 0) {
            written += (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            return; /* there is nobody left to tell */
        }
    }
}

static void format_line(struct line *line, const struct log_place *place, enum log_level level,
                        const char *message, const struct log_field *fields, size_t n_fields) {
    char time_text[40];
    line->size = 0;
    line->is_cut = false;
    format_time(time_text, sizeof time_text);
    if (atomic_load_explicit(&log_line_format, memory_order_relaxed) == LOG_FORMAT_JSON) {
        format_json(line, time_text, place, level, message, fields, n_fields);
    } else {
        format_text(line, time_text, level, message, fields, n_fields);
    }
}

void log_write(enum log_level level, const char *message, const struct log_field *fields,
               size_t n_fields) {
    log_write_at(&(struct log_place){0}, level, message, fields, n_fields);
}

void log_write_at(const struct log_place *place, enum log_level level, const char *message,
                  const struct log_field *fields, size_t n_fields) {
    int saved_errno = errno;
    struct line line;
    format_line(&line, place, level, message, fields, n_fields);
    if (!log_writer_put(line.bytes, line.size, level == LOG_DEBUG)) {
        write_line(&line);
    }
    errno = saved_errno;
}

/* --- The thread. --- */

static size_t dropped_notice(uint64_t n_dropped, char out_line[LOG_WRITER_LINE_BYTES_MAX]) {
    struct line line;
    const struct log_field fields[] = {LOG_NUMBER("lines", n_dropped)};
    format_line(&line, &(struct log_place){0}, LOG_WARNING,
                "log lines were dropped: whoever reads the log did not keep up", fields, 1);
    memcpy(out_line, line.bytes, line.size);
    return line.size;
}

bool log_start_thread(void) {
    return log_writer_start(STDERR_FILENO, dropped_notice);
}

void log_flush(void) {
    log_writer_flush(LOG_FLUSH_MS_MAX);
}

void log_stop_thread(void) {
    log_writer_stop(LOG_FLUSH_MS_MAX);
}
