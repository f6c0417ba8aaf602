#include "cli/cli_settings.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILE_SIZE_MAX = 65536, VARIABLE_SIZE_MAX = 64, PATH_SIZE_MAX = 4096 };

/* ---- the file ---------------------------------------------------------------------------------
 */

static bool config_path(char path[PATH_SIZE_MAX], bool *out_is_named) {
    const char *named = getenv("LEASE_CONFIG");
    const char *folder = getenv("XDG_CONFIG_HOME");
    const char *home = getenv("HOME");
    int size;
    *out_is_named = named != NULL;
    if (named != NULL) {
        size = snprintf(path, PATH_SIZE_MAX, "%s", named);
    } else if (folder != NULL && folder[0] == '/') {
        size = snprintf(path, PATH_SIZE_MAX, "%s/lease/config", folder);
    } else if (home != NULL && home[0] == '/') {
        size = snprintf(path, PATH_SIZE_MAX, "%s/.config/lease/config", home);
    } else {
        return false;
    }
    return size > 0 && size < PATH_SIZE_MAX;
}

/* The file's text with its end, or NULL with errno set. */
static char *read_file(const char *path, bool *out_is_private) {
    struct stat stat;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) {
        return NULL;
    }
    char *text = NULL;
    if (fstat(file, &stat) != 0 || !S_ISREG(stat.st_mode)) {
        errno = EINVAL;
    } else if (stat.st_size > FILE_SIZE_MAX) {
        errno = EFBIG;
    } else if ((text = calloc(1, FILE_SIZE_MAX + 1)) != NULL) {
        ssize_t got = read(file, text, FILE_SIZE_MAX);
        if (got < 0 || memchr(text, '\0', (size_t)got) != NULL) {
            free(text);
            text = NULL;
            errno = got < 0 ? errno : EINVAL;
        }
    }
    *out_is_private = (stat.st_mode & (S_IRWXG | S_IRWXO)) == 0;
    int error = errno;
    close(file);
    errno = error;
    return text;
}

static char *trim(char *text) {
    text += strspn(text, " \t\r");
    for (size_t size = strlen(text); size > 0 && strchr(" \t\r", text[size - 1]) != NULL; size--) {
        text[size - 1] = '\0';
    }
    return text;
}

static const struct option_entry *find_option(const struct option_entry *table, const char *name) {
    for (; table->name != NULL; table++) {
        if (strcmp(table->name + 2, name) == 0) {
            return table;
        }
    }
    return NULL;
}

static const char *take_line(struct cli_settings *settings, const struct option_entry *table,
                             char *line) {
    char *equals = strchr(line, '=');
    if (equals == NULL) {
        return "a line is `name = value`";
    }
    *equals = '\0';
    const struct option_entry *option = find_option(table, trim(line));
    if (option == NULL || strcmp(option->name, "--help") == 0 ||
        strcmp(option->name, "--version") == 0) {
        return "there is no such setting; the names are those of `lease --help`, without the "
               "dashes";
    }
    char *value = trim(equals + 1);
    if (option->value == NULL && strcmp(value, "true") != 0 && strcmp(value, "false") != 0) {
        return "true or false is needed";
    }
    if (settings->n_items == CLI_SETTINGS_MAX) {
        return "too many settings";
    }
    settings->items[settings->n_items].name = option->name + 2;
    settings->items[settings->n_items++].value = value;
    return NULL;
}

enum status cli_settings_parse(struct cli_settings *settings, const struct option_entry *table,
                               char *text, const char *path,
                               char error[CLI_SETTINGS_ERROR_SIZE_MAX]) {
    char *rest = text;
    char *line;
    for (unsigned number = 1; (line = strsep(&rest, "\n")) != NULL; number++) {
        line = trim(line);
        if (line[0] == '\0' || line[0] == '#') {
            continue;
        }
        const char *problem = take_line(settings, table, line);
        if (problem != NULL) {
            snprintf(error, CLI_SETTINGS_ERROR_SIZE_MAX, "%s line %u, %.64s: %s", path, number,
                     line, problem);
            return STATUS_MALFORMED;
        }
    }
    return STATUS_OK;
}

enum status cli_settings_load(struct cli_settings *settings, const struct option_entry *table,
                              char error[CLI_SETTINGS_ERROR_SIZE_MAX]) {
    char path[PATH_SIZE_MAX];
    bool is_named;
    bool is_private = false;
    if (!config_path(path, &is_named) || path[0] == '\0') {
        return STATUS_OK;
    }
    settings->text = read_file(path, &is_private);
    if (settings->text == NULL) {
        if (!is_named && (errno == ENOENT || errno == ENOTDIR || errno == EACCES)) {
            return STATUS_OK;
        }
        snprintf(error, CLI_SETTINGS_ERROR_SIZE_MAX, "%.400s cannot be read: %s", path,
                 errno == EINVAL  ? "it is not a text file"
                 : errno == EFBIG ? "it is larger than 64 KiB"
                                  : strerror(errno));
        return STATUS_IO;
    }
    enum status status = cli_settings_parse(settings, table, settings->text, path, error);
    for (size_t i = 0; status == STATUS_OK && i < settings->n_items; i++) {
        if (strcmp(settings->items[i].name, "password") == 0 && !is_private) {
            snprintf(error, CLI_SETTINGS_ERROR_SIZE_MAX,
                     "%.400s holds a password and others may read it: chmod 600 it", path);
            return STATUS_MALFORMED;
        }
    }
    return status;
}

void cli_settings_clear(struct cli_settings *settings) {
    free(settings->text);
    settings->text = NULL;
    settings->n_items = 0;
}

/* ---- looking one up ---------------------------------------------------------------------------
 */

/* "--cacert" as LEASED_CACERT. NULL: not set, or empty. */
static const char *variable(const char *prefix, const char *option) {
    char name[VARIABLE_SIZE_MAX];
    int size = snprintf(name, sizeof name, "%s%s", prefix, option + 2);
    for (int i = 0; i < size && i < (int)sizeof name; i++) {
        name[i] = name[i] == '-' ? '_' : (char)toupper((unsigned char)name[i]);
    }
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : NULL;
}

const char *cli_setting(const struct cli_settings *settings, const struct arguments *arguments,
                        const char *option) {
    const char *value = arguments_global_value(arguments, option);
    if (value == NULL) {
        value = variable("LEASED_", option);
    }
    if (value == NULL) {
        value = variable("ETCDCTL_", option);
    }
    for (size_t i = settings->n_items; value == NULL && i > 0; i--) {
        if (strcmp(settings->items[i - 1].name, option + 2) == 0) {
            value = settings->items[i - 1].value;
        }
    }
    return value != NULL && *value != '\0' ? value : NULL;
}

bool cli_setting_is_true(const struct cli_settings *settings, const struct arguments *arguments,
                         const char *option) {
    const char *value = cli_setting(settings, arguments, option);
    return value != NULL && (strcmp(value, "true") == 0 || strcmp(value, "1") == 0);
}
