#include "server/config_file.h"

#include "base/buffer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

enum { NAME_SIZE = 128 };

struct config_file {
    const char *path;
    yaml_parser_t parser;
    struct arena *arena;
    config_file_visit visit;
    void *data;
    char *out_error;
    size_t error_size;
};

__attribute__((format(printf, 3, 4))) static enum status
fail(struct config_file *file, const yaml_event_t *event, const char *format, ...) {
    char reason[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(reason, sizeof reason, format, arguments);
    va_end(arguments);
    size_t line = event != NULL ? event->start_mark.line : file->parser.problem_mark.line;
    snprintf(file->out_error, file->error_size, "--config-file %s, line %zu: %s", file->path,
             line + 1, reason);
    return STATUS_INVALID;
}

static enum status next(struct config_file *file, yaml_event_t *event) {
    if (!yaml_parser_parse(&file->parser, event)) {
        return fail(file, NULL, "%s",
                    file->parser.problem != NULL ? file->parser.problem : "not YAML");
    }
    return STATUS_OK;
}

/* As a text in the arena; NULL when it says nothing ("key:", "~", "null"). */
static const char *text_of(struct config_file *file, const yaml_event_t *event) {
    const char *text = (const char *)event->data.scalar.value;
    size_t size = event->data.scalar.length;
    bool is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (is_plain && (size == 0 || strcmp(text, "~") == 0 || strcmp(text, "null") == 0)) {
        return NULL;
    }
    return arena_copy(file->arena, text, size + 1);
}

static enum status check_scalar(struct config_file *file, const yaml_event_t *event) {
    size_t size = event->data.scalar.length;
    if (size > CONFIG_FILE_VALUE_MAX) {
        return fail(file, event, "a value of more than %d bytes", CONFIG_FILE_VALUE_MAX);
    }
    if (memchr(event->data.scalar.value, 0, size) != NULL) {
        return fail(file, event, "a value with a zero byte");
    }
    return STATUS_OK;
}

/* The entries of a list, with commas between them. */
static enum status read_list(struct config_file *file, const char **out_text) {
    struct buffer joined;
    buffer_init(&joined);
    enum status status = STATUS_OK;
    for (;;) {
        yaml_event_t event;
        status = next(file, &event);
        if (status != STATUS_OK) {
            break;
        }
        bool is_end = event.type == YAML_SEQUENCE_END_EVENT;
        if (event.type == YAML_SCALAR_EVENT) {
            status = check_scalar(file, &event);
            if (status == STATUS_OK && joined.size > 0) {
                buffer_put_u8(&joined, ',');
            }
            if (status == STATUS_OK) {
                buffer_append(&joined, event.data.scalar.value, event.data.scalar.length);
            }
        } else if (!is_end) {
            status = fail(file, &event, "a list may hold nothing but texts");
        }
        yaml_event_delete(&event);
        if (is_end || status != STATUS_OK) {
            break;
        }
    }
    if (status == STATUS_OK) {
        buffer_put_u8(&joined, 0);
        *out_text = arena_copy(file->arena, joined.data, joined.size);
    }
    buffer_clear(&joined);
    return status;
}

/* What the keys of the two sections are called as flags. */
static void flag_name(const char *section, const char *key, char out_name[NAME_SIZE]) {
    static const struct {
        const char *section;
        const char *key;
        const char *flag;
    } renamed[] = {
        {"client", "allowed-cn", "client-cert-allowed-cn"},
        {"client", "allowed-hostname", "client-cert-allowed-hostname"},
        {"client", "crl-file", "client-crl-file"},
        {"peer", "allowed-cn", "peer-cert-allowed-cn"},
        {"peer", "allowed-hostname", "peer-cert-allowed-hostname"},
        {"peer", "client-cert-file", "peer-client-cert-file"},
        {"peer", "client-key-file", "peer-client-key-file"},
    };
    for (size_t i = 0; section != NULL && i < sizeof renamed / sizeof renamed[0]; i++) {
        if (strcmp(renamed[i].section, section) == 0 && strcmp(renamed[i].key, key) == 0) {
            snprintf(out_name, NAME_SIZE, "%s", renamed[i].flag);
            return;
        }
    }
    bool is_peer = section != NULL && strcmp(section, "peer") == 0;
    snprintf(out_name, NAME_SIZE, "%s%s", is_peer ? "peer-" : "", key);
}

static const char *section_of(const char *key) {
    if (strcmp(key, "client-transport-security") == 0) {
        return "client";
    }
    return strcmp(key, "peer-transport-security") == 0 ? "peer" : NULL;
}

static enum status read_mapping(struct config_file *file, const char *section);

/* The value behind a key. */
static enum status read_value(struct config_file *file, const char *section, const char *key) {
    yaml_event_t event;
    const char *text = NULL;
    enum status status = next(file, &event);
    if (status != STATUS_OK) {
        return status;
    }
    if (event.type == YAML_SCALAR_EVENT) {
        status = check_scalar(file, &event);
        text = status == STATUS_OK ? text_of(file, &event) : NULL;
    } else if (event.type == YAML_SEQUENCE_START_EVENT) {
        status = read_list(file, &text);
    } else if (event.type == YAML_MAPPING_START_EVENT && section == NULL &&
               section_of(key) != NULL) {
        status = read_mapping(file, section_of(key));
    } else {
        status = fail(file, &event, "%.100s: a text, a number or a list is expected", key);
    }
    if (status == STATUS_OK && text != NULL && section_of(key) == NULL) {
        char name[NAME_SIZE];
        char reason[384];
        flag_name(section, key, name);
        status = file->visit(file->data, arena_copy(file->arena, name, strlen(name) + 1), text,
                             reason, sizeof reason);
        if (status != STATUS_OK) {
            status = fail(file, &event, "%s", reason);
        }
    }
    yaml_event_delete(&event);
    return status;
}

static enum status read_mapping(struct config_file *file, const char *section) {
    for (;;) {
        yaml_event_t event;
        enum status status = next(file, &event);
        if (status != STATUS_OK) {
            return status;
        }
        char key[NAME_SIZE / 2] = "";
        bool is_end = event.type == YAML_MAPPING_END_EVENT;
        if (event.type == YAML_SCALAR_EVENT && event.data.scalar.length < sizeof key) {
            memcpy(key, event.data.scalar.value, event.data.scalar.length);
        } else if (!is_end) {
            status = fail(file, &event, "the name of a flag is expected");
        }
        yaml_event_delete(&event);
        if (is_end || status != STATUS_OK) {
            return status;
        }
        status = read_value(file, section, key);
        if (status != STATUS_OK) {
            return status;
        }
    }
}

/* One document with one mapping, or nothing at all. */
static enum status read_document(struct config_file *file) {
    enum status status = STATUS_OK;
    bool is_over = false;
    bool is_read = false;
    while (status == STATUS_OK && !is_over) {
        yaml_event_t event;
        status = next(file, &event);
        if (status != STATUS_OK) {
            break;
        }
        switch (event.type) {
        case YAML_STREAM_START_EVENT:
        case YAML_DOCUMENT_START_EVENT:
        case YAML_DOCUMENT_END_EVENT:
            break;
        case YAML_STREAM_END_EVENT:
            is_over = true;
            break;
        case YAML_MAPPING_START_EVENT:
            if (is_read) {
                status = fail(file, &event, "a second document");
                break;
            }
            is_read = true;
            status = read_mapping(file, NULL);
            break;
        default:
            status = fail(file, &event, "lines of the form \"name: value\" are expected");
        }
        yaml_event_delete(&event);
    }
    return status;
}

static enum status load(const char *path, struct buffer *content, char *out_error,
                        size_t error_size) {
    FILE *stream = fopen(path, "re");
    if (stream == NULL) {
        snprintf(out_error, error_size, "--config-file %s: %s", path, strerror(errno));
        return STATUS_IO;
    }
    uint8_t *to = buffer_reserve(content, CONFIG_FILE_SIZE_MAX + 1);
    content->size = fread(to, 1, CONFIG_FILE_SIZE_MAX + 1, stream);
    int error = ferror(stream) ? errno : 0;
    fclose(stream);
    if (error != 0 || content->size > CONFIG_FILE_SIZE_MAX) {
        snprintf(out_error, error_size, "--config-file %s: %s", path,
                 error != 0 ? strerror(error) : "larger than 1 MiB");
        return error != 0 ? STATUS_IO : STATUS_INVALID;
    }
    return STATUS_OK;
}

enum status config_file_read(const char *path, struct arena *arena, config_file_visit visit,
                             void *data, char *out_error, size_t error_size) {
    struct buffer content;
    buffer_init(&content);
    enum status status = load(path, &content, out_error, error_size);
    struct config_file file = {.path = path,
                               .arena = arena,
                               .visit = visit,
                               .data = data,
                               .out_error = out_error,
                               .error_size = error_size};
    if (status == STATUS_OK && !yaml_parser_initialize(&file.parser)) {
        snprintf(out_error, error_size, "--config-file %s: out of memory", path);
        status = STATUS_NO_MEMORY;
    } else if (status == STATUS_OK) {
        yaml_parser_set_input_string(&file.parser, content.data, content.size);
        status = read_document(&file);
        yaml_parser_delete(&file.parser);
    }
    buffer_clear(&content);
    return status;
}
