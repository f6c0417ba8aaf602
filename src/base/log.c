#include "base/log.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A line is written by one call of write(2), so that lines of several threads do not mix; what is
 * longer is cut. */
enum { LOG_LINE_SIZE = 4096, LOG_LINE_TAIL = 4, LOG_ESCAPE_SIZE = sizeof "\\u0000" - 1 };

struct line {
    size_t size;
    char text[LOG_LINE_SIZE];
};

static enum log_level least_level = LOG_INFO;
static enum log_format line_format = LOG_FORMAT_TEXT;

void log_configure(enum log_level level, enum log_format format) {
    least_level = level;
    line_format = format;
}

bool log_enabled(enum log_level level) {
    return level >= least_level;
}

static void append_byte(struct line *line, char byte) {
    if (line->size < LOG_LINE_SIZE - LOG_LINE_TAIL) {
        line->text[line->size++] = byte;
    }
}

static void append_text(struct line *line, const char *text) {
    for (; *text != '\0'; text++) {
        append_byte(line, *text);
    }
}

/* What may come from a peer must not forge lines or steer a terminal. Stops early rather than in
 * the middle of an escape, with room for a closing quote. */
static void append_escaped(struct line *line, const char *text) {
    for (; *text != '\0' && line->size + LOG_ESCAPE_SIZE < LOG_LINE_SIZE - LOG_LINE_TAIL; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            append_byte(line, '\\');
            append_byte(line, (char)c);
        } else if (c < ' ' || c == 0x7f) {
            char code[8];
            snprintf(code, sizeof code, "\\u%04x", c);
            append_text(line, code);
        } else {
            append_byte(line, (char)c);
        }
    }
}

static void append_quoted(struct line *line, const char *text) {
    append_byte(line, '"');
    append_escaped(line, text);
    append_byte(line, '"');
}

static void append_number(struct line *line, int64_t number) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)number);
    append_text(line, text);
}

static void append_time(struct line *line) {
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    char text[64];
    snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900,
             utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
             (int)(now.tv_nsec / 1000000));
    append_text(line, text);
}

static bool needs_quotes(const char *text) {
    if (*text == '\0') {
        return true;
    }
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c <= ' ' || c == 0x7f || c == '"' || c == '\\' || c == '=') {
            return true;
        }
    }
    return false;
}

static void write_text(struct line *line, enum log_level level, const char *message,
                       const struct log_field *fields, size_t n_fields) {
    static const char *const names[] = {"DEBUG", "INFO ", "WARN ", "ERROR"};
    append_time(line);
    append_byte(line, ' ');
    append_text(line, names[level]);
    append_byte(line, ' ');
    append_escaped(line, message);
    for (size_t i = 0; i < n_fields; i++) {
        append_text(line, i == 0 ? "  " : " ");
        append_text(line, fields[i].name);
        append_byte(line, '=');
        if (fields[i].text == NULL) {
            append_number(line, fields[i].number);
        } else if (needs_quotes(fields[i].text)) {
            append_quoted(line, fields[i].text);
        } else {
            append_text(line, fields[i].text);
        }
    }
}

static void write_json(struct line *line, enum log_level level, const char *message,
                       const struct log_field *fields, size_t n_fields) {
    static const char *const names[] = {"debug", "info", "warn", "error"};
    append_text(line, "{\"level\":\"");
    append_text(line, names[level]);
    append_text(line, "\",\"ts\":\"");
    append_time(line);
    append_text(line, "\",\"msg\":");
    append_quoted(line, message);
    for (size_t i = 0; i < n_fields; i++) {
        size_t before = line->size;
        append_byte(line, ',');
        append_quoted(line, fields[i].name);
        append_byte(line, ':');
        if (fields[i].text == NULL) {
            append_number(line, fields[i].number);
        } else {
            append_quoted(line, fields[i].text);
        }
        if (line->size == LOG_LINE_SIZE - LOG_LINE_TAIL) {
            line->size = before; /* a field that does not fit goes as a whole: JSON stays JSON */
            break;
        }
    }
    line->text[line->size++] = '}';
}

void log_write(enum log_level level, const char *message, const struct log_field *fields,
               size_t n_fields) {
    struct line line;
    line.size = 0;
    if (line_format == LOG_FORMAT_JSON) {
        write_json(&line, level, message, fields, n_fields);
    } else {
        write_text(&line, level, message, fields, n_fields);
    }
    line.text[line.size++] = '\n';
    /* There is nobody to tell when the log cannot be written. */
    ssize_t written = write(STDERR_FILENO, line.text, line.size);
    (void)written;
}
