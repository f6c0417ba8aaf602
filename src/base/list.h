/*
 * An intrusive, circular, doubly linked list. A node that is in no list links to itself.
 */
#ifndef LEASED_BASE_LIST_H
#define LEASED_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next;
    struct list *previous;
};

#define list_entry(node, type, member) ((type *)(void *)((char *)(node)-offsetof(type, member)))

static inline void list_init(struct list *list) {
    list->next = list;
    list->previous = list;
}

static inline bool list_is_empty(const struct list *list) {
    return list->next == list;
}

static inline void list_append(struct list *list, struct list *node) {
    node->previous = list->previous;
    node->next = list;
    list->previous->next = node;
    list->previous = node;
}

static inline void list_prepend(struct list *list, struct list *node) {
    list_append(list->next, node);
}

/* Takes a node out and leaves it linked to itself, so removing twice is harmless. */
static inline void list_remove(struct list *node) {
    node->previous->next = node->next;
    node->next->previous = node->previous;
    list_init(node);
}

static inline struct list *list_pop_first(struct list *list) {
    struct list *first = list->next;
    if (first == list) {
        return NULL;
    }
    list_remove(first);
    return first;
}

/* Moves every node of `from` to the end of `to`; `from` is empty afterwards. */
static inline void list_append_all(struct list *to, struct list *from) {
    if (list_is_empty(from)) {
        return;
    }
    from->next->previous = to->previous;
    to->previous->next = from->next;
    from->previous->next = to;
    to->previous = from->previous;
    list_init(from);
}

#endif
