/* --help, made from the table so that it cannot leave a flag out. */
#include "server/option_set.h"
#include "server/options.h"

#include <string.h>

enum { HELP_COLUMNS = 92, HELP_INDENT = 6, HELP_HANGING = 2 };

static void print_wrapped(FILE *stream, const char *text, int indent) {
    int column = 0;
    while (*text != '\0') {
        int size = (int)strcspn(text, " ");
        if (column > 0 && column + 1 + size > HELP_COLUMNS) {
            fputc('\n', stream);
            column = 0;
        }
        column += column == 0 ? fprintf(stream, "%*s%.*s", indent, "", size, text)
                              : fprintf(stream, " %.*s", size, text);
        text += size;
        text += strspn(text, " ");
    }
    fputc('\n', stream);
}

static void print_used(FILE *stream, const struct option *option) {
    fprintf(stream, "  --%s", option->name);
    if (option->choices != NULL) {
        /* A last choice that is empty is the default, which is shown. */
        size_t size = strlen(option->choices);
        fprintf(stream, " %.*s", (int)(size - (option->choices[size - 1] == '|')), option->choices);
    }
    const char *shown = option->shown != NULL ? option->shown : option->fallback;
    if (option->kind != OPTION_SWITCH) {
        fprintf(stream, "  (%s)", shown);
    } else if (strcmp(option->fallback, "true") == 0) {
        fputs("=false  (true)", stream);
    }
    fputc('\n', stream);
    print_wrapped(stream, option->help, HELP_INDENT);
}

/* The names of one effect, as running text. */
static void print_names(const struct option_set *set, FILE *stream, enum option_effect effect,
                        enum option_group group) {
    int column = 0;
    for (size_t i = 0; i < set->n; i++) {
        const struct option *option = &set->options[i];
        if (option->effect != effect || option->group != group) {
            continue;
        }
        int size = (int)strlen(option->name) + 2;
        if (column > 0 && column + 1 + size > HELP_COLUMNS) {
            fputc('\n', stream);
            column = 0;
        }
        column += fprintf(stream, "%*s--%s", column == 0 ? HELP_HANGING : 1, "", option->name);
    }
    fputc('\n', stream);
}

void options_print_help(const struct door_list *doors, FILE *stream) {
    struct arena arena;
    arena_init(&arena);
    const struct option_set *set = option_set_create(doors, &arena);
    fputs("Usage: leased [flags]\n"
          "       leased restore FILE [flags]    make a data directory from a backup\n\n"
          "A lease server. Without flags: one durable node that serves etcd's v3 API, its own API\n"
          "and the service registry on 127.0.0.1:2379, and keeps its data in ./default.leased.\n\n"
          "Flags are etcd's own, and some more. --flag value and --flag=value are the same. Each\n"
          "can be given as an environment variable too, LEASED_DATA_DIR or ETCD_DATA_DIR for\n"
          "--data-dir; a flag wins over LEASED_..., and that over ETCD_.... The default stands in\n"
          "parentheses.\n",
          stream);
    for (int group = 0; group < OPTION_GROUP_OTHER; group++) {
        fprintf(stream, "\n%s:\n", option_group_title((enum option_group)group));
        for (size_t i = 0; i < set->n; i++) {
            if ((int)set->options[i].group == group && set->options[i].effect == OPTION_USED) {
                print_used(stream, &set->options[i]);
            }
        }
    }
    fputs("\nOther:\n"
          "  --help\n      This text.\n"
          "  --version\n      The versions of leased and of its libraries.\n",
          stream);
    fprintf(stream, "\n%s, refused with a reason when set:\n",
            option_group_title(OPTION_GROUP_OTHER));
    print_names(set, stream, OPTION_REFUSED, OPTION_GROUP_OTHER);
    fprintf(stream, "\n%s, accepted without effect:\n", option_group_title(OPTION_GROUP_OTHER));
    print_names(set, stream, OPTION_NO_EFFECT, OPTION_GROUP_OTHER);
    arena_clear(&arena);
}
