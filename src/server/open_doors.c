#include "server/open_doors.h"

static const struct door *door_at(const struct open_doors *doors, size_t i) {
    return doors->options->doors->doors[i];
}

const struct rule_set *open_doors_rules(const struct door_list *doors, struct arena *arena) {
    size_t n = 0;
    for (size_t i = 0; i < doors->n_doors; i++) {
        n += doors->doors[i]->n_rules;
    }
    struct rule_set *set = arena_alloc(arena, sizeof *set);
    const struct rule **rules = arena_calloc(arena, n, sizeof(struct rule *));
    *set = (struct rule_set){.rules = rules, .n = n};
    for (size_t i = 0; i < doors->n_doors; i++) {
        for (size_t j = 0; j < doors->doors[i]->n_rules; j++) {
            *rules++ = doors->doors[i]->rules[j];
        }
    }
    return set;
}

void open_doors_open(struct open_doors *doors, const struct options *options,
                     const struct door_environment *environment) {
    *doors = (struct open_doors){.options = options};
    for (size_t i = 0; i < options->doors->n_doors; i++) {
        const struct options_door *settings = &options->door_settings[i];
        if (settings->is_chosen || settings->listen.n > 0) {
            const struct door *door = door_at(doors, i);
            struct door_environment *own = &doors->environments[i];
            *own = *environment;
            own->values = settings->values;
            doors->instances[i] = door->open != NULL ? door->open(own) : own;
        }
    }
}

void open_doors_serve(struct open_doors *doors, struct net_server *server) {
    for (size_t i = 0; i < doors->options->doors->n_doors; i++) {
        if (doors->options->door_settings[i].is_chosen) {
            door_at(doors, i)->serve(doors->instances[i], net_server_main_scope(server));
        }
    }
}

struct net_scope *open_doors_own_scope(struct open_doors *doors, struct net_server *server,
                                       size_t i) {
    if (doors->options->door_settings[i].listen.n == 0) {
        return NULL;
    }
    struct net_scope *scope = net_server_add_scope(server);
    door_at(doors, i)->serve(doors->instances[i], scope);
    return scope;
}

void open_doors_write_metrics(const struct open_doors *doors, struct buffer *out) {
    for (size_t i = 0; i < doors->options->doors->n_doors; i++) {
        const struct door *door = door_at(doors, i);
        if (doors->instances[i] != NULL && door->write_metrics != NULL) {
            door->write_metrics(doors->instances[i], out);
        }
    }
}

void open_doors_close(struct open_doors *doors) {
    for (size_t i = 0; i < doors->options->doors->n_doors; i++) {
        if (doors->instances[i] != NULL && door_at(doors, i)->close != NULL) {
            door_at(doors, i)->close(doors->instances[i]);
        }
        doors->instances[i] = NULL;
    }
}
