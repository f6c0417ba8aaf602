#include "disk_directory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void copy_name(char *to, const char *from) {
    size_t size = strlen(from) + 1;
    assert(size <= DISK_SIM_NAME_SIZE);
    memcpy(to, from, size);
}

/* --- one table of names --- */

static struct disk_name *names_find(const struct disk_names *names, const char *name) {
    for (size_t i = 0; i < names->n; i++) {
        if (strcmp(names->items[i].name, name) == 0) {
            return &names->items[i];
        }
    }
    return NULL;
}

static void names_remove(struct disk_names *names, const char *name) {
    struct disk_name *found = names_find(names, name);
    if (found == NULL) {
        return;
    }
    disk_node_unref(found->node);
    size_t position = (size_t)(found - names->items);
    memmove(found, found + 1, (names->n - position - 1) * sizeof(*found));
    names->n--;
}

static void names_put(struct disk_names *names, const char *name, struct disk_node *node) {
    disk_node_ref(node);
    names_remove(names, name);
    if (names->n == names->capacity) {
        names->capacity = names->capacity == 0 ? 8 : 2 * names->capacity;
        names->items = realloc(names->items, names->capacity * sizeof(*names->items));
        if (names->items == NULL) {
            abort();
        }
    }
    struct disk_name *item = &names->items[names->n++];
    copy_name(item->name, name);
    item->node = node;
}

static void names_rename(struct disk_names *names, const char *from, const char *to) {
    struct disk_name *found = names_find(names, from);
    if (found == NULL || strcmp(from, to) == 0) {
        return;
    }
    struct disk_node *node = disk_node_ref(found->node);
    names_remove(names, from);
    names_put(names, to, node);
    disk_node_unref(node);
}

static void names_clear(struct disk_names *names) {
    for (size_t i = 0; i < names->n; i++) {
        disk_node_unref(names->items[i].node);
    }
    free(names->items);
    *names = (struct disk_names){0};
}

static void names_apply(struct disk_names *names, const struct disk_operation *operation) {
    switch (operation->kind) {
    case DISK_LINK:
        names_put(names, operation->name, operation->node);
        break;
    case DISK_RENAME:
        names_rename(names, operation->name, operation->to);
        break;
    case DISK_UNLINK:
        names_remove(names, operation->name);
        break;
    }
}

/* --- the directory --- */

static void drop_operations(struct disk_directory *directory) {
    for (size_t i = 0; i < directory->n_operations; i++) {
        disk_node_unref(directory->operations[i].node);
    }
    directory->n_operations = 0;
}

void disk_directory_clear(struct disk_directory *directory) {
    drop_operations(directory);
    free(directory->operations);
    names_clear(&directory->current);
    names_clear(&directory->durable);
    *directory = (struct disk_directory){0};
}

struct disk_node *disk_directory_find(const struct disk_directory *directory, const char *name) {
    struct disk_name *found = names_find(&directory->current, name);
    return found == NULL ? NULL : found->node;
}

static void add_operation(struct disk_directory *directory, enum disk_operation_kind kind,
                          const char *name, const char *to, struct disk_node *node) {
    if (directory->n_operations == directory->operations_capacity) {
        size_t capacity = directory->operations_capacity == 0 ? 8 : directory->n_operations * 2;
        directory->operations =
            realloc(directory->operations, capacity * sizeof(struct disk_operation));
        if (directory->operations == NULL) {
            abort();
        }
        directory->operations_capacity = capacity;
    }
    struct disk_operation *operation = &directory->operations[directory->n_operations++];
    operation->kind = kind;
    copy_name(operation->name, name);
    copy_name(operation->to, to);
    operation->node = node == NULL ? NULL : disk_node_ref(node);
    operation->is_lost = false;
    names_apply(&directory->current, operation);
}

void disk_directory_link(struct disk_directory *directory, const char *name,
                         struct disk_node *node) {
    assert(disk_directory_find(directory, name) == NULL);
    add_operation(directory, DISK_LINK, name, "", node);
}

void disk_directory_rename(struct disk_directory *directory, const char *from, const char *to) {
    assert(disk_directory_find(directory, from) != NULL);
    add_operation(directory, DISK_RENAME, from, to, NULL);
}

void disk_directory_unlink(struct disk_directory *directory, const char *name) {
    assert(disk_directory_find(directory, name) != NULL);
    add_operation(directory, DISK_UNLINK, name, "", NULL);
}

void disk_directory_sync(struct disk_directory *directory) {
    for (size_t i = 0; i < directory->n_operations; i++) {
        names_apply(&directory->durable, &directory->operations[i]);
    }
    drop_operations(directory);
}

static bool shares_name(const struct disk_operation *a, const struct disk_operation *b) {
    return strcmp(a->name, b->name) == 0 || strcmp(a->name, b->to) == 0 ||
           (a->to[0] != '\0' && (strcmp(a->to, b->name) == 0 || strcmp(a->to, b->to) == 0));
}

static bool needs_a_lost_one(const struct disk_directory *directory, size_t position) {
    for (size_t i = 0; i < position; i++) {
        if (directory->operations[i].is_lost &&
            shares_name(&directory->operations[position], &directory->operations[i])) {
            return true;
        }
    }
    return false;
}

void disk_directory_crash(struct disk_directory *directory, disk_node_random random, void *data) {
    for (size_t i = 0; i < directory->n_operations; i++) {
        struct disk_operation *operation = &directory->operations[i];
        operation->is_lost =
            random == NULL || needs_a_lost_one(directory, i) || random(data, 2) == 0;
        if (!operation->is_lost) {
            names_apply(&directory->durable, operation);
        }
    }
    drop_operations(directory);
    names_clear(&directory->current);
    for (size_t i = 0; i < directory->durable.n; i++) {
        struct disk_name *item = &directory->durable.items[i];
        names_put(&directory->current, item->name, item->node);
    }
}

/* --- a copy --- */

/* The first to ask for the copy of a file makes it; `node->clone` finds it again. */
static struct disk_node *copy_of(struct disk_node *node) {
    if (node->clone == NULL) {
        node->clone = disk_node_clone(node);
        return node->clone;
    }
    return disk_node_ref(node->clone);
}

static void names_copy(struct disk_names *names, const struct disk_names *from) {
    for (size_t i = 0; i < from->n; i++) {
        struct disk_node *copy = copy_of(from->items[i].node);
        names_put(names, from->items[i].name, copy);
        disk_node_unref(copy);
    }
}

static void forget_copies(const struct disk_directory *from) {
    for (size_t i = 0; i < from->current.n; i++) {
        from->current.items[i].node->clone = NULL;
    }
    for (size_t i = 0; i < from->durable.n; i++) {
        from->durable.items[i].node->clone = NULL;
    }
    for (size_t i = 0; i < from->n_operations; i++) {
        if (from->operations[i].node != NULL) {
            from->operations[i].node->clone = NULL;
        }
    }
}

void disk_directory_copy(struct disk_directory *directory, const struct disk_directory *from) {
    names_copy(&directory->current, &from->current);
    names_copy(&directory->durable, &from->durable);
    directory->operations = calloc(from->n_operations + 1, sizeof(struct disk_operation));
    if (directory->operations == NULL) {
        abort();
    }
    directory->operations_capacity = from->n_operations + 1;
    directory->n_operations = from->n_operations;
    for (size_t i = 0; i < from->n_operations; i++) {
        directory->operations[i] = from->operations[i];
        if (from->operations[i].node != NULL) {
            directory->operations[i].node = copy_of(from->operations[i].node);
        }
    }
    forget_copies(from);
}
