#include "server/options.h"

#include "base/duration.h"
#include "server/config_file.h"
#include "server/listen_address.h"
#include "server/option_set.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_SOURCE_SIZE = OPTION_VARIABLE_SIZE };

/* Where the value of each option came from, until all are known. */
struct raw_value {
    const char *text;                /* NULL: not given */
    char source[OPTION_SOURCE_SIZE]; /* "--name" or "ETCD_NAME" */
};

__attribute__((format(printf, 2, 3))) static enum status fail(char out_error[OPTIONS_ERROR_SIZE],
                                                              const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out_error, OPTIONS_ERROR_SIZE, format, arguments);
    va_end(arguments);
    return STATUS_INVALID;
}

void options_notice(struct options *options, enum log_level level, const char *format, ...) {
    if (options->n_notices == OPTIONS_NOTICES_MAX) {
        return;
    }
    char text[OPTIONS_ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    options->notices[options->n_notices++] = (struct options_notice){
        .level = level, .text = arena_copy(&options->arena, text, strlen(text) + 1)};
}

/* --- Values. --- */

static bool switch_parse(const char *text, bool *out_on) {
    static const char *const yes[] = {"1", "t", "T", "true", "TRUE", "True"};
    static const char *const no[] = {"0", "f", "F", "false", "FALSE", "False"};
    for (size_t i = 0; i < sizeof yes / sizeof yes[0]; i++) {
        if (strcmp(text, yes[i]) == 0) {
            *out_on = true;
            return true;
        }
        if (strcmp(text, no[i]) == 0) {
            *out_on = false;
            return true;
        }
    }
    return false;
}

static bool number_parse(const char *text, uint64_t *out_number) {
    uint64_t number = 0;
    if (*text == '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9') {
            return false;
        }
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*text - '0'), &number)) {
            return false;
        }
    }
    *out_number = number;
    return true;
}

static bool word_is_among(const char *word, const char *choices) {
    size_t word_size = strlen(word);
    for (const char *choice = choices;; choice++) {
        size_t size = strcspn(choice, "|");
        if (size == word_size && memcmp(choice, word, size) == 0) {
            return true;
        }
        choice += size;
        if (*choice == '\0') {
            return false;
        }
    }
}

static enum status value_store(struct options *options, const struct option *option,
                               const char *text, const char *source, char *out_error) {
    void *field = (char *)options + option->offset;
    uint64_t number = 0;
    char reason[OPTIONS_ERROR_SIZE / 2];

    switch (option->kind) {
    case OPTION_TEXT:
        *(const char **)field = arena_copy(&options->arena, text, strlen(text) + 1);
        return STATUS_OK;
    case OPTION_WORD:
        if (!word_is_among(text, option->choices)) {
            return fail(out_error, "%s: \"%s\" is none of %s", source, text, option->choices);
        }
        *(const char **)field = arena_copy(&options->arena, text, strlen(text) + 1);
        return STATUS_OK;
    case OPTION_SWITCH:
        if (!switch_parse(text, field)) {
            return fail(out_error, "%s: \"%s\" is neither true nor false", source, text);
        }
        return STATUS_OK;
    case OPTION_NUMBER:
        if (!number_parse(text, &number)) {
            return fail(out_error, "%s: \"%s\" is not a whole number; give digits alone", source,
                        text);
        }
        if (number < option->min || number > option->max) {
            return fail(out_error, "%s: %s is not between %llu and %llu", source, text,
                        (unsigned long long)option->min, (unsigned long long)option->max);
        }
        *(uint64_t *)field = number;
        return STATUS_OK;
    case OPTION_DURATION:
        if (*text == '\0') {
            *(int64_t *)field = -1;
            return STATUS_OK;
        }
        if (duration_parse(text, DURATION_BARE_REFUSED, field) != STATUS_OK) {
            return fail(out_error, "%s: \"%s\" is not a duration such as 30s or 5m", source, text);
        }
        return STATUS_OK;
    case OPTION_URLS:
        if (*text == '\0') {
            memset(field, 0, sizeof(struct url_list));
            return STATUS_OK;
        }
        if (url_list_parse(text, &options->arena, field, reason, sizeof reason) != STATUS_OK) {
            return fail(out_error, "%s: %s", source, reason);
        }
        return STATUS_OK;
    case OPTION_ADDRESSES:
        if (*text == '\0') {
            memset(field, 0, sizeof(struct url_list));
            return STATUS_OK;
        }
        if (listen_address_list_parse(text, &options->arena, field, reason, sizeof reason) !=
            STATUS_OK) {
            return fail(out_error, "%s: %s", source, reason);
        }
        return STATUS_OK;
    }
    assert(!"every kind is handled");
    return STATUS_INVALID;
}

static enum status value_take(struct options *options, const struct option *option,
                              const struct raw_value *raw, char *out_error) {
    const char *text = raw->text == NULL ? option->fallback : raw->text;
    bool is_on = false;

    switch (option->effect) {
    case OPTION_USED:
        return value_store(options, option, text, raw->source, out_error);
    case OPTION_NO_EFFECT:
        if (raw->text != NULL) {
            options_notice(options, LOG_INFO, "%s is accepted and has no effect", raw->source);
        }
        return STATUS_OK;
    case OPTION_REFUSED:
        if (*text == '\0' || strcmp(text, option->fallback) == 0) {
            return STATUS_OK;
        }
        if (option->kind == OPTION_SWITCH && switch_parse(text, &is_on) && !is_on) {
            return STATUS_OK;
        }
        return fail(out_error, "%s: %s", raw->source, option->reason);
    }
    assert(!"every effect is handled");
    return STATUS_INVALID;
}

/* --- Where values come from. --- */

static const char *variable_value(char *const *environment, const char *name) {
    size_t size = strlen(name);
    for (; *environment != NULL; environment++) {
        if (strncmp(*environment, name, size) == 0 && (*environment)[size] == '=') {
            return *environment + size + 1;
        }
    }
    return NULL;
}

static void take_environment(const struct option_set *set, struct raw_value *values,
                             char *const *environment) {
    static const char *const prefixes[] = {"ETCD_", "LEASED_"}; /* the later one wins */
    for (size_t i = 0; i < set->n; i++) {
        for (size_t j = 0; j < sizeof prefixes / sizeof prefixes[0]; j++) {
            char name[OPTION_VARIABLE_SIZE];
            option_variable(&set->options[i], prefixes[j], name);
            const char *text = variable_value(environment, name);
            /* An empty variable counts as not set, as in etcd. */
            if (text != NULL && *text != '\0') {
                values[i].text = text;
                snprintf(values[i].source, sizeof values[i].source, "%s", name);
            }
        }
    }
}

static bool variable_is_known(const struct option_set *set, const char *entry, const char *prefix) {
    size_t size = strcspn(entry, "=");
    for (size_t i = 0; i < set->n; i++) {
        char name[OPTION_VARIABLE_SIZE];
        option_variable(&set->options[i], prefix, name);
        if (strlen(name) == size && memcmp(name, entry, size) == 0) {
            return true;
        }
    }
    return false;
}

/* Settings of the command `lease`, which may be set for a whole machine. */
static bool variable_is_of_lease(const char *entry) {
    static const char *const names[] = {"LEASED_ENDPOINT",
                                        "LEASED_ENDPOINTS",
                                        "LEASED_CACERT",
                                        "LEASED_CERT",
                                        "LEASED_KEY",
                                        "LEASED_USER",
                                        "LEASED_PASSWORD",
                                        "LEASED_TIMEOUT",
                                        "LEASED_JSON",
                                        "LEASED_VERBOSE",
                                        "LEASED_INSECURE_TRANSPORT",
                                        "LEASED_INSECURE_SKIP_TLS_VERIFY"};
    size_t size = strcspn(entry, "=");
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strlen(names[i]) == size && memcmp(names[i], entry, size) == 0) {
            return true;
        }
    }
    return false;
}

/* A misspelt variable would otherwise be a setting that silently does not hold. */
static void notice_unknown_variables(const struct option_set *set, struct options *options,
                                     char *const *environment) {
    static const char *const prefixes[] = {"ETCD_", "LEASED_"};
    for (; *environment != NULL; environment++) {
        for (size_t j = 0; j < sizeof prefixes / sizeof prefixes[0]; j++) {
            if (strncmp(*environment, prefixes[j], strlen(prefixes[j])) == 0 &&
                !variable_is_known(set, *environment, prefixes[j]) &&
                !variable_is_of_lease(*environment)) {
                options_notice(options, LOG_WARNING,
                               "environment variable %.*s is ignored: no flag has that name; "
                               "leased --help lists them",
                               (int)strcspn(*environment, "="), *environment);
            }
        }
    }
}

static enum status fail_unknown(const struct option_set *set, const char *name, char *out_error) {
    const struct option *nearest = option_set_nearest(set, name);
    if (nearest == NULL) {
        return fail(out_error, "unknown flag --%s; leased --help lists them", name);
    }
    return fail(out_error, "unknown flag --%s; did you mean --%s?", name, nearest->name);
}

/* Reads one flag at *position and moves past it and its value. */
static enum status take_flag(const struct option_set *set, struct raw_value *values,
                             struct options *options, int argc, char *const *argv, int *position,
                             enum options_result *out_result, char *out_error) {
    const char *argument = argv[*position];
    if (argument[0] != '-' || argument[1] == '\0') {
        return fail(out_error, "\"%s\" is not a flag; leased --help lists them", argument);
    }
    const char *name = argument + (argument[1] == '-' ? 2 : 1);
    size_t name_size = strcspn(name, "=");
    (*position)++;

    if (strcmp(name, "help") == 0 || strcmp(name, "h") == 0) {
        *out_result = OPTIONS_HELP;
        return STATUS_OK;
    }
    if (strcmp(name, "version") == 0) {
        *out_result = OPTIONS_VERSION;
        return STATUS_OK;
    }
    if (strcmp(name, "list-requests") == 0) {
        *out_result = OPTIONS_LIST_REQUESTS;
        return STATUS_OK;
    }

    const struct option *option = option_set_find(set, name, name_size);
    if (option == NULL) {
        char *bare = arena_copy(&options->arena, name, name_size + 1);
        bare[name_size] = '\0';
        return fail_unknown(set, bare, out_error);
    }
    struct raw_value *value = &values[option - set->options];
    if (name[name_size] == '=') {
        value->text = name + name_size + 1;
    } else if (option->kind == OPTION_SWITCH) {
        value->text = "true";
    } else if (*position < argc) {
        value->text = argv[(*position)++];
    } else {
        return fail(out_error, "--%s needs a value", option->name);
    }
    snprintf(value->source, sizeof value->source, "--%s", option->name);
    return STATUS_OK;
}

static enum status take_flags(const struct option_set *set, struct raw_value *values,
                              struct options *options, int argc, char *const *argv,
                              enum options_result *out_result, char *out_error) {
    int position = 1;
    while (position < argc) {
        enum status status =
            take_flag(set, values, options, argc, argv, &position, out_result, out_error);
        if (status != STATUS_OK || *out_result != OPTIONS_RUN) {
            return status;
        }
    }
    return STATUS_OK;
}

/* --- The configuration file. --- */

struct file_values {
    struct options *options;
    const struct option_set *set;
    struct raw_value *values;
};

/* Unknown keys are told of and otherwise ignored, as etcd ignores them. */
static enum status take_from_file(void *data, const char *name, const char *value, char *out_error,
                                  size_t error_size) {
    struct file_values *file = data;
    const struct option *option = option_set_find(file->set, name, strlen(name));
    if (option == NULL) {
        options_notice(file->options, LOG_WARNING, "unknown key %.60s in the configuration file",
                       name);
        return STATUS_OK;
    }
    if (strcmp(name, "config-file") == 0) {
        snprintf(out_error, error_size, "a configuration file cannot name another");
        return STATUS_INVALID;
    }
    struct raw_value *raw = &file->values[option - file->set->options];
    raw->text = value;
    snprintf(raw->source, sizeof raw->source, "%s", name);
    return STATUS_OK;
}

/* As in etcd the file is all that counts: flags and variables beside it are ignored. */
static enum status take_config_file(const struct option_set *set, struct raw_value *values,
                                    struct options *options, char *out_error) {
    const struct option *option = option_set_find(set, "config-file", strlen("config-file"));
    const char *path = values[option - set->options].text;
    if (path == NULL || *path == '\0') {
        return STATUS_OK;
    }
    for (size_t i = 0; i < set->n; i++) {
        if (values[i].text != NULL && &set->options[i] != option) {
            options_notice(options, LOG_WARNING,
                           "%s is ignored: the configuration file alone counts", values[i].source);
        }
    }
    memset(values, 0, set->n * sizeof *values);
    values[option - set->options].text = path;
    options_notice(options, LOG_INFO,
                   "loaded server configuration, other configuration command line flags and "
                   "environment variables will be ignored if provided: %s",
                   path);
    struct file_values file = {.options = options, .set = set, .values = values};
    return config_file_read(path, &options->arena, take_from_file, &file, out_error,
                            OPTIONS_ERROR_SIZE);
}

/* Installed under the name of etcd it has etcd's defaults where ours are stricter or other: whoever
 * starts it so cannot know of our flags. See docs/decisions/0040 and 0042. */
static void take_name(const struct option_set *set, struct raw_value *values, const char *program) {
    static const struct {
        const char *flag;
        const char *value;
    } defaults[] = {
        {"allow-insecure", "true"}, {"log-format", "json"}, {"auto-compaction-retention", "0"}};
    const char *slash = strrchr(program, '/');
    if (strcmp(slash != NULL ? slash + 1 : program, "etcd") != 0) {
        return;
    }
    for (size_t i = 0; i < sizeof defaults / sizeof defaults[0]; i++) {
        const struct option *option =
            option_set_find(set, defaults[i].flag, strlen(defaults[i].flag));
        struct raw_value *raw = &values[option - set->options];
        if (raw->text == NULL) {
            raw->text = defaults[i].value;
            snprintf(raw->source, sizeof raw->source, "%s", defaults[i].flag);
        }
    }
}

enum options_result options_parse(struct options *options, const struct door_list *doors, int argc,
                                  char *const *argv, char *const *environment,
                                  char out_error[OPTIONS_ERROR_SIZE]) {
    memset(options, 0, sizeof *options);
    arena_init(&options->arena);
    options->doors = doors;

    const struct option_set *set = option_set_create(doors, &options->arena);
    struct raw_value values[OPTION_SET_MAX];
    memset(values, 0, sizeof values);
    take_environment(set, values, environment);
    enum options_result result = OPTIONS_RUN;
    if (take_flags(set, values, options, argc, argv, &result, out_error) != STATUS_OK) {
        return OPTIONS_INVALID;
    }
    if (result != OPTIONS_RUN) {
        return result;
    }
    if (take_config_file(set, values, options, out_error) != STATUS_OK) {
        return OPTIONS_INVALID;
    }
    take_name(set, values, argc > 0 ? argv[0] : "");
    for (size_t i = 0; i < set->n; i++) {
        if (value_take(options, &set->options[i], &values[i], out_error) != STATUS_OK) {
            return OPTIONS_INVALID;
        }
    }
    notice_unknown_variables(set, options, environment);
    if (options_check(options, out_error) != STATUS_OK) {
        return OPTIONS_INVALID;
    }
    return OPTIONS_RUN;
}

void options_clear(struct options *options) {
    arena_clear(&options->arena);
}
