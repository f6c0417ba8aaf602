#include "doors/eureka/eureka_tree.h"

static struct bytes copy(struct arena *arena, struct bytes bytes) {
    return bytes_of(arena_copy(arena, bytes.data, bytes.size), bytes.size);
}

struct eureka_node *eureka_tree_add(struct eureka_tree *tree, struct eureka_node *parent,
                                    struct bytes name, struct bytes text) {
    if (tree->n_nodes == EUREKA_TREE_NODES_MAX) {
        return NULL;
    }
    tree->n_nodes++;
    struct eureka_node *node = arena_calloc(tree->arena, 1, sizeof *node);
    node->name = copy(tree->arena, name);
    node->text = copy(tree->arena, text);
    if (parent == NULL) {
        tree->root = node;
    } else if (parent->last == NULL) {
        parent->first = node;
        parent->last = node;
    } else {
        parent->last->next = node;
        parent->last = node;
    }
    return node;
}

const struct eureka_node *eureka_node_child(const struct eureka_node *node, const char *name) {
    const struct eureka_node *found = NULL;
    struct bytes wanted = bytes_from_text(name);
    for (const struct eureka_node *child = node == NULL ? NULL : node->first; child != NULL;
         child = child->next) {
        if (!child->is_null && bytes_equal(child->name, wanted)) {
            found = child;
        }
    }
    return found;
}

struct bytes eureka_node_text(const struct eureka_node *node, const char *name) {
    const struct eureka_node *child = eureka_node_child(node, name);
    return child == NULL ? bytes_of(NULL, 0) : child->text;
}
