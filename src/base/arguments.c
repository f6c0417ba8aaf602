#include "base/arguments.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct option_entry *find_in(const struct option_entry *table, const char *name,
                                          size_t name_size) {
    for (const struct option_entry *each = table; each != NULL && each->name != NULL; each++) {
        bool is_long = strlen(each->name) == name_size && memcmp(each->name, name, name_size) == 0;
        bool is_short = name_size == 2 && name[1] == each->letter && each->letter != 0;
        if (is_long || is_short) {
            return each;
        }
    }
    return NULL;
}

/* The last table wins: a command's own options over those of all. */
static const struct option_entry *find(const struct arguments *arguments, const char *name,
                                       size_t name_size) {
    const struct option_entry *found = NULL;
    for (size_t i = ARGUMENTS_TABLES_MAX; i > 0 && found == NULL; i--) {
        found = find_in(arguments->tables[i - 1], name, name_size);
    }
    return found;
}

/* Takes the option at argv[0] and its value; gives how many arguments that was, or -1. */
static int take_option(struct arguments *arguments, int argc, char **argv) {
    const char *equals = strncmp(argv[0], "--", 2) == 0 ? strchr(argv[0], '=') : NULL;
    size_t name_size = equals != NULL ? (size_t)(equals - argv[0]) : strlen(argv[0]);
    const struct option_entry *option = find(arguments, argv[0], name_size);
    if (option == NULL) {
        snprintf(arguments->error, sizeof arguments->error, "there is no option %.*s",
                 (int)name_size, argv[0]);
        return -1;
    }
    if (arguments->n_given == ARGUMENTS_OPTIONS_MAX) {
        snprintf(arguments->error, sizeof arguments->error, "more than %d options",
                 ARGUMENTS_OPTIONS_MAX);
        return -1;
    }
    const char *value = equals != NULL ? equals + 1 : NULL;
    int taken = 1;
    if (option->value == NULL && value != NULL && strcmp(value, "true") != 0 &&
        strcmp(value, "false") != 0) {
        snprintf(arguments->error, sizeof arguments->error, "%s takes no value but true or false",
                 option->name);
        return -1;
    }
    if (option->value == NULL && value == NULL) {
        value = "true";
    }
    if (option->value != NULL && value == NULL) {
        if (argc < 2) {
            snprintf(arguments->error, sizeof arguments->error, "%s needs a value: %s",
                     option->name, option->value);
            return -1;
        }
        value = argv[1];
        taken = 2;
    }
    arguments->given[arguments->n_given].option = option;
    arguments->given[arguments->n_given].value = value;
    arguments->n_given++;
    return taken;
}

int arguments_parse(struct arguments *arguments, int argc, char **argv, bool first_word_only) {
    int at = 0;
    bool options_end = false;
    while (at < argc) {
        if (!options_end && strcmp(argv[at], "--") == 0) {
            options_end = true;
            arguments->has_dashes = true;
            at++;
            if (arguments->stops_at_dashes) {
                break;
            }
        } else if (!options_end && argv[at][0] == '-' && argv[at][1] != 0) {
            int taken = take_option(arguments, argc - at, argv + at);
            if (taken < 0) {
                return -1;
            }
            at += taken;
        } else {
            if (arguments->n_words == ARGUMENTS_WORDS_MAX) {
                snprintf(arguments->error, sizeof arguments->error, "more than %d words",
                         ARGUMENTS_WORDS_MAX);
                return -1;
            }
            arguments->words[arguments->n_words++] = argv[at++];
            if (first_word_only) {
                break;
            }
        }
    }
    return at;
}

static size_t last_given(const struct arguments *arguments, const struct option_entry *option) {
    assert(option != NULL);
    for (size_t i = arguments->n_given; i > 0; i--) {
        if (arguments->given[i - 1].option == option) {
            return i;
        }
    }
    return 0;
}

const char *arguments_value(const struct arguments *arguments, const char *name) {
    size_t found = last_given(arguments, find(arguments, name, strlen(name)));
    return found > 0 ? arguments->given[found - 1].value : NULL;
}

const char *arguments_global_value(const struct arguments *arguments, const char *name) {
    size_t found = last_given(arguments, find_in(arguments->tables[0], name, strlen(name)));
    return found > 0 ? arguments->given[found - 1].value : NULL;
}

bool arguments_has(const struct arguments *arguments, const char *name) {
    size_t found = last_given(arguments, find(arguments, name, strlen(name)));
    if (found == 0) {
        return false;
    }
    bool is_flag = arguments->given[found - 1].option->value == NULL;
    return !is_flag || strcmp(arguments->given[found - 1].value, "true") == 0;
}

bool arguments_number(struct arguments *arguments, const char *name, int64_t fallback,
                      struct arguments_range range, int64_t *out_number) {
    const char *text = arguments_value(arguments, name);
    if (text == NULL) {
        *out_number = fallback;
        return true;
    }
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != 0 || number < range.min || number > range.max) {
        snprintf(arguments->error, sizeof arguments->error,
                 "%s %s: a whole number from %lld to %lld is needed", name, text,
                 (long long)range.min, (long long)range.max);
        return false;
    }
    *out_number = number;
    return true;
}

void arguments_print_options(const struct option_entry *table, FILE *out) {
    for (const struct option_entry *each = table; each->name != NULL; each++) {
        char left[64];
        const char *value = each->value != NULL ? each->value : "";
        if (each->letter != 0) {
            snprintf(left, sizeof left, "-%c, %s %s", each->letter, each->name, value);
        } else {
            snprintf(left, sizeof left, "    %s %s", each->name, value);
        }
        fprintf(out, "  %-34s %s\n", left, each->help);
    }
}
