/*
 * A command line against tables of options: "--name value", "--name=value", "-n value", flags (also
 * "--flag=false"), and positional words, in any order; "--" ends the options, or all that is
 * parsed. Everything is borrowed from argv.
 */
#ifndef LEASED_BASE_ARGUMENTS_H
#define LEASED_BASE_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define ARGUMENTS_WORDS_MAX 16
#define ARGUMENTS_OPTIONS_MAX 32
#define ARGUMENTS_TABLES_MAX 2
#define ARGUMENTS_ERROR_SIZE_MAX 256

/* A table ends with an entry whose name is NULL. */
struct option_entry {
    const char *name;  /* "--timeout" */
    char letter;       /* 't' for "-t", 0: none */
    const char *value; /* what --help calls the value, NULL: a flag */
    const char *help;
};

struct arguments {
    /* Where two have the same option, the later one counts while it is there. */
    const struct option_entry *tables[ARGUMENTS_TABLES_MAX];
    const char *words[ARGUMENTS_WORDS_MAX];
    size_t n_words;
    struct {
        const struct option_entry *option;
        const char *value;
    } given[ARGUMENTS_OPTIONS_MAX];
    size_t n_given;
    bool stops_at_dashes; /* set before parsing: what follows "--" is a command, not ours */
    bool has_dashes;      /* and it was there */
    char error[ARGUMENTS_ERROR_SIZE_MAX]; /* for people, when parsing failed */
};

/* Adds what argv[0..argc) holds to `arguments` (zeroed before the first call). With
 * `first_word_only` it stops after the first word. Gives how much of argv it took, "--" included,
 * or -1 with `error` set. */
int arguments_parse(struct arguments *arguments, int argc, char **argv, bool first_word_only);

/* The last value given, or NULL. `name` must be in a table. A flag's value is "true" unless
 * "--flag=false" was given. */
const char *arguments_value(const struct arguments *arguments, const char *name);
/* The same of the first table, also where a later one has an option of that name. */
const char *arguments_global_value(const struct arguments *arguments, const char *name);
/* True when the option was given, and for a flag, when it is not "false". */
bool arguments_has(const struct arguments *arguments, const char *name);

/* A whole number in [min, max]; `fallback` when the option was not given. False: `error` is set. */
struct arguments_range {
    int64_t min;
    int64_t max;
};
bool arguments_number(struct arguments *arguments, const char *name, int64_t fallback,
                      struct arguments_range range, int64_t *out_number);

/* One aligned line for each option. */
void arguments_print_options(const struct option_entry *table, FILE *out);

#endif
