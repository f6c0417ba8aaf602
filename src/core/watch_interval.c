#include "core/watch_interval.h"

#include <assert.h>

static int compare_ends(const struct watch_interval *a, const struct watch_interval *b) {
    return bytes_compare(a->high, b->high);
}

static int compare(const struct watch_interval *a, const struct watch_interval *b) {
    int order = bytes_compare(a->low, b->low);
    return order != 0 ? order : compare_ends(a, b);
}

static int height_of(const struct watch_interval *node) {
    return node == NULL ? 0 : node->height;
}

static int balance_of(const struct watch_interval *node) {
    return height_of(node->left) - height_of(node->right);
}

static const struct watch_interval *farther(const struct watch_interval *a,
                                            const struct watch_interval *below) {
    const struct watch_interval *b = below != NULL ? below->farthest : NULL;
    if (a == NULL || b == NULL) {
        return a == NULL ? b : a;
    }
    return compare_ends(b, a) > 0 ? b : a;
}

static void update_reach(struct watch_interval *node) {
    node->farthest = farther(farther(node->is_asleep ? NULL : node, node->left), node->right);
}

/* Computes anew what a node knows of its subtree. */
static void update(struct watch_interval *node) {
    int left = height_of(node->left);
    int right = height_of(node->right);
    node->height = 1 + (left > right ? left : right);
    update_reach(node);
}

static struct watch_interval *rotate_right(struct watch_interval *node) {
    struct watch_interval *top = node->left;
    node->left = top->right;
    top->right = node;
    update(node);
    update(top);
    return top;
}

static struct watch_interval *rotate_left(struct watch_interval *node) {
    struct watch_interval *top = node->right;
    node->right = top->left;
    top->left = node;
    update(node);
    update(top);
    return top;
}

static struct watch_interval *balance(struct watch_interval *node) {
    update(node);
    if (balance_of(node) > 1) {
        if (balance_of(node->left) < 0) {
            node->left = rotate_left(node->left);
        }
        return rotate_right(node);
    }
    if (balance_of(node) < -1) {
        if (balance_of(node->right) > 0) {
            node->right = rotate_right(node->right);
        }
        return rotate_left(node);
    }
    return node;
}

struct watch_interval *watch_interval_find(struct watch_interval *root,
                                           const struct watch_interval *interval) {
    while (root != NULL) {
        int order = compare(interval, root);
        if (order == 0) {
            return root;
        }
        root = order < 0 ? root->left : root->right;
    }
    return NULL;
}

static struct watch_interval *insert(struct watch_interval *node, struct watch_interval *interval) {
    if (node == NULL) {
        interval->left = NULL;
        interval->right = NULL;
        interval->is_asleep = false;
        update(interval);
        return interval;
    }
    int order = compare(interval, node);
    assert(order != 0);
    if (order < 0) {
        node->left = insert(node->left, interval);
    } else {
        node->right = insert(node->right, interval);
    }
    return balance(node);
}

void watch_interval_insert(struct watch_interval **root, struct watch_interval *interval) {
    *root = insert(*root, interval);
}

/* Takes the first node of a subtree out. */
static struct watch_interval *take_first(struct watch_interval *node,
                                         struct watch_interval **out_first) {
    if (node->left == NULL) {
        *out_first = node;
        return node->right;
    }
    node->left = take_first(node->left, out_first);
    return balance(node);
}

static struct watch_interval *remove_from(struct watch_interval *node,
                                          struct watch_interval *interval) {
    assert(node != NULL);
    int order = compare(interval, node);
    if (order < 0) {
        node->left = remove_from(node->left, interval);
        return balance(node);
    }
    if (order > 0) {
        node->right = remove_from(node->right, interval);
        return balance(node);
    }
    assert(node == interval);
    if (node->left == NULL) {
        return node->right;
    }
    if (node->right == NULL) {
        return node->left;
    }
    struct watch_interval *first;
    struct watch_interval *right = take_first(node->right, &first);
    first->left = node->left;
    first->right = right;
    return balance(first);
}

void watch_interval_remove(struct watch_interval **root, struct watch_interval *interval) {
    *root = remove_from(*root, interval);
    interval->left = NULL;
    interval->right = NULL;
}

void watch_interval_set_asleep(struct watch_interval *root, struct watch_interval *interval,
                               bool is_asleep) {
    assert(root != NULL);
    int order = compare(interval, root);
    if (order == 0) {
        assert(root == interval);
        root->is_asleep = is_asleep;
    } else {
        watch_interval_set_asleep(order < 0 ? root->left : root->right, interval, is_asleep);
    }
    update_reach(root);
}

void watch_interval_refresh(struct watch_interval *root) {
    if (root != NULL) {
        watch_interval_refresh(root->left);
        watch_interval_refresh(root->right);
        update_reach(root);
    }
}

void watch_interval_visit(struct watch_interval *root, struct bytes key,
                          void (*visit)(void *context, struct watch_interval *interval),
                          void *context) {
    while (root != NULL) {
        if (root->farthest == NULL || bytes_compare(root->farthest->high, key) <= 0) {
            return;
        }
        watch_interval_visit(root->left, key, visit, context);
        if (bytes_compare(root->low, key) > 0) {
            return; /* and so is all to the right */
        }
        if (!root->is_asleep && bytes_compare(key, root->high) < 0) {
            visit(context, root);
        }
        root = root->right;
    }
}

size_t watch_interval_validate(const struct watch_interval *root) {
    if (root == NULL) {
        return 0;
    }
    size_t count = 1 + watch_interval_validate(root->left) + watch_interval_validate(root->right);
    struct watch_interval copy = *root;
    update(&copy);
    const struct watch_interval *farthest = copy.farthest == &copy ? root : copy.farthest;
    assert(copy.height == root->height);
    assert((farthest == NULL) == (root->farthest == NULL));
    assert(farthest == NULL || compare_ends(farthest, root->farthest) == 0);
    assert(balance_of(root) >= -1);
    assert(balance_of(root) <= 1);
    if (root->left != NULL) {
        assert(compare(root->left, root) < 0);
    }
    if (root->right != NULL) {
        assert(compare(root, root->right) < 0);
    }
    return count;
}
