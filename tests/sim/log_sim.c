/* In the place of base/log.c: what a node says becomes part of the trace. */
#include "base/log.h"
#include "node.h"
#include "world.h"

#include <stdio.h>

void log_configure(enum log_level level, enum log_format format) {
    (void)level;
    (void)format;
}

bool log_enabled(enum log_level level) {
    return level >= LOG_INFO;
}

void log_write(enum log_level level, const char *message, const struct log_field *fields,
               size_t n_fields) {
    char line[256];
    int n = snprintf(line, sizeof line, "%s", message);
    (void)level;
    for (size_t i = 0; i < n_fields && n > 0 && (size_t)n < sizeof line; i++) {
        size_t left = sizeof line - (size_t)n;
        n +=
            fields[i].text != NULL
                ? snprintf(line + n, left, " %s=%s", fields[i].name, fields[i].text)
                : snprintf(line + n, left, " %s=%lld", fields[i].name, (long long)fields[i].number);
    }
    const struct node *node = node_current();
    trace("%s says: %s", node != NULL ? node->name : "?", line);
}

void log_write_at(const struct log_place *place, enum log_level level, const char *message,
                  const struct log_field *fields, size_t n_fields) {
    (void)place;
    log_write(level, message, fields, n_fields);
}
