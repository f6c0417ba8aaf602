#include "server/open_doors.h"

#include "base/log.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { REQUEST_NAME_SIZE = 256 };

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

static bool is_listed(const struct door *door, const char *name) {
    for (const struct door_request *at = door->requests; at->name != NULL; at++) {
        if (strcmp(at->name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Adds what one door serves. A route or method that its table does not list would escape the test
 * of rights: such a door does not start. `out_again` is one that another door serves already, or
 * "". */
static void serve_door(const struct door *door, void *instance, struct net_scope *scope,
                       char out_again[REQUEST_NAME_SIZE]) {
    const struct net_request *requests = NULL;
    size_t i = net_scope_requests(scope, &requests);
    door->serve(instance, scope);
    size_t n = net_scope_requests(scope, &requests);
    out_again[0] = '\0';
    for (; i < n; i++) {
        char name[REQUEST_NAME_SIZE];
        bool is_grpc = requests[i].method == NULL;
        snprintf(name, sizeof name, "%s%s%s", is_grpc ? "" : requests[i].method, is_grpc ? "" : " ",
                 requests[i].path);
        if (!is_listed(door, name)) {
            log_error("a door serves a request that its table does not list",
                      LOG_TEXT("door", door->name), LOG_TEXT("request", name));
        }
        assert(is_listed(door, name));
        if (requests[i].is_again) {
            memcpy(out_again, name, sizeof name);
        }
    }
}

enum status open_doors_serve(struct open_doors *doors, struct net_server *server, char *out_error,
                             size_t error_size) {
    for (size_t i = 0; i < doors->options->doors->n_doors; i++) {
        char again[REQUEST_NAME_SIZE];
        if (!doors->options->door_settings[i].is_chosen) {
            continue;
        }
        const struct door *door = door_at(doors, i);
        serve_door(door, doors->instances[i], net_server_main_scope(server), again);
        if (again[0] != '\0') {
            snprintf(
                out_error, error_size,
                "--doors: %s cannot share a port with what comes before it, because both serve "
                "%s; leave it out there and give --listen-%s",
                door->name, again, door->name);
            return STATUS_INVALID;
        }
    }
    return STATUS_OK;
}

struct net_scope *open_doors_own_scope(struct open_doors *doors, struct net_server *server,
                                       size_t i) {
    if (doors->options->door_settings[i].listen.n == 0) {
        return NULL;
    }
    struct net_scope *scope = net_server_add_scope(server);
    char again[REQUEST_NAME_SIZE];
    serve_door(door_at(doors, i), doors->instances[i], scope, again);
    assert(again[0] == '\0');
    return scope;
}

const struct datagram_handler *open_doors_datagrams(struct open_doors *doors, size_t i,
                                                    void **out_door) {
    const struct door *door = door_at(doors, i);
    *out_door = doors->instances[i];
    return *out_door != NULL && door->datagrams != NULL ? door->datagrams(*out_door) : NULL;
}

void open_doors_write_metrics(const struct open_doors *doors, struct buffer *out) {
    for (size_t i = 0; i < doors->options->doors->n_doors; i++) {
        const struct door *door = door_at(doors, i);
        if (doors->instances[i] != NULL && door->write_metrics != NULL) {
            door->write_metrics(doors->instances[i], out);
        }
    }
}

void open_doors_stop(struct open_doors *doors) {
    for (size_t i = 0; i < doors->options->doors->n_doors; i++) {
        if (doors->instances[i] != NULL && door_at(doors, i)->stop != NULL) {
            door_at(doors, i)->stop(doors->instances[i]);
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
