#include "server/option_set.h"

#include "server/options.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_SIZE_MAX = 512 };

/* --- What doors add. --- */

__attribute__((format(printf, 2, 3))) static const char *text_in(struct arena *arena,
                                                                 const char *format, ...) {
    char text[TEXT_SIZE_MAX];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    assert(size >= 0);
    assert((size_t)size < sizeof text);
    return arena_copy(arena, text, (size_t)size + 1);
}

static struct option *add(struct option_set *set, const struct option *option) {
    assert(set->n < OPTION_SET_MAX);
    assert(option_set_find(set, option->name, strlen(option->name)) == NULL);
    set->options[set->n] = *option;
    return &set->options[set->n++];
}

static enum option_kind kind_of(enum door_flag_kind kind) {
    static const enum option_kind kinds[] = {
        [DOOR_FLAG_TEXT] = OPTION_TEXT,         [DOOR_FLAG_WORD] = OPTION_WORD,
        [DOOR_FLAG_SWITCH] = OPTION_SWITCH,     [DOOR_FLAG_NUMBER] = OPTION_NUMBER,
        [DOOR_FLAG_DURATION] = OPTION_DURATION,
    };
    return kinds[kind];
}

static void add_flag(struct option_set *set, const struct door_flag *flag, size_t offset) {
    const struct option option = {
        .name = flag->name,
        .group = OPTION_GROUP_DOORS,
        .kind = kind_of(flag->kind),
        .effect = OPTION_USED,
        .offset = offset,
        .fallback = flag->fallback,
        .shown = flag->shown,
        .choices = flag->choices,
        .min = flag->min,
        .max = flag->max,
        .help = flag->help,
    };
    add(set, &option);
}

static void add_door(struct option_set *set, const struct door *door, size_t settings_offset,
                     struct arena *arena) {
    const struct option listen = {
        .name = text_in(arena, "listen-%s", door->name),
        .group = OPTION_GROUP_DOORS,
        .kind = OPTION_ADDRESSES,
        .effect = OPTION_USED,
        .offset = settings_offset + offsetof(struct options_door, listen),
        .fallback = "",
        .shown = text_in(arena, "none; clients look on port %u", door->default_port),
        .help =
            text_in(arena, "Listeners for %s%s alone: host:port, several with commas between them.",
                    strchr(door->title, ' ') != NULL ? "the " : "", door->title),
    };
    add(set, &listen);
    assert(door->n_flags <= DOOR_FLAGS_MAX);
    for (size_t i = 0; i < door->n_flags; i++) {
        add_flag(set, &door->flags[i],
                 settings_offset + offsetof(struct options_door, values) +
                     i * sizeof(union door_value));
    }
}

/* "etcd" or "etcd,redis": all of them, or those that are served by default. */
static const char *names_of(const struct door_list *doors, bool only_default, struct arena *arena) {
    const char *names = "";
    for (size_t i = 0; i < doors->n_doors; i++) {
        const struct door *door = doors->doors[i];
        if (door->is_default || !only_default) {
            names = text_in(arena, "%s%s%s", names, *names == '\0' ? "" : ",", door->name);
        }
    }
    return names;
}

const struct option_set *option_set_create(const struct door_list *doors, struct arena *arena) {
    assert(doors->n_doors <= DOORS_MAX);
    struct option_set *set = arena_alloc(arena, sizeof *set);
    set->n = 0;
    for (size_t i = 0; i < option_table_size; i++) {
        add(set, &option_table[i]);
    }
    const struct option chosen = {
        .name = "doors",
        .group = OPTION_GROUP_DOORS,
        .kind = OPTION_TEXT,
        .effect = OPTION_USED,
        .offset = offsetof(struct options, doors_text),
        .fallback = names_of(doors, true, arena),
        .help =
            text_in(arena,
                    "The protocols that are served, with commas between them, of: %s. The client "
                    "URLs serve all of these whose first bytes tell which protocol a connection "
                    "speaks; dns has listeners of its own alone.",
                    names_of(doors, false, arena)),
    };
    add(set, &chosen);
    for (size_t i = 0; i < doors->n_doors; i++) {
        add_door(set, doors->doors[i],
                 offsetof(struct options, door_settings) + i * sizeof(struct options_door), arena);
    }
    return set;
}

/* --- Looking up. --- */

const struct option *option_set_find(const struct option_set *set, const char *name,
                                     size_t name_size) {
    for (size_t i = 0; i < set->n; i++) {
        const char *candidate = set->options[i].name;
        if (strlen(candidate) == name_size && memcmp(candidate, name, name_size) == 0) {
            return &set->options[i];
        }
    }
    return NULL;
}

/* The number of letters to insert, delete or change; both texts are shorter than `SIZE`. */
static size_t edit_distance(const char *a, const char *b) {
    enum { SIZE = OPTION_VARIABLE_SIZE };
    size_t previous[SIZE + 1];
    size_t current[SIZE + 1];
    size_t b_size = strlen(b);
    for (size_t j = 0; j <= b_size; j++) {
        previous[j] = j;
    }
    for (size_t i = 0; a[i] != '\0'; i++) {
        current[0] = i + 1;
        for (size_t j = 0; j < b_size; j++) {
            size_t best = previous[j] + (a[i] == b[j] ? 0 : 1);
            best = previous[j + 1] + 1 < best ? previous[j + 1] + 1 : best;
            best = current[j] + 1 < best ? current[j] + 1 : best;
            current[j + 1] = best;
        }
        memcpy(previous, current, sizeof previous);
    }
    return previous[b_size];
}

const struct option *option_set_nearest(const struct option_set *set, const char *name) {
    if (strlen(name) >= OPTION_VARIABLE_SIZE) {
        return NULL;
    }
    const struct option *nearest = NULL;
    size_t nearest_distance = 2 + strlen(name) / 5;
    for (size_t i = 0; i < set->n; i++) {
        size_t distance = edit_distance(name, set->options[i].name);
        if (distance < nearest_distance) {
            nearest = &set->options[i];
            nearest_distance = distance;
        }
    }
    /* A name cut short ("--listen-client") is far by letters but plain to a reader. */
    for (size_t i = 0; i < set->n && nearest == NULL && strlen(name) >= 3; i++) {
        if (strncmp(name, set->options[i].name, strlen(name)) == 0) {
            nearest = &set->options[i];
        }
    }
    return nearest;
}
