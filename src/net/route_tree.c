#include "net/route_tree.h"

#include "net/http_fields.h"
#include "net/http_target.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct route_entry {
    const struct http_route *route;
    void *context;
};

struct route_node {
    struct bytes text; /* of this segment, in the pattern; unused for parameters */
    struct route_node *texts;
    struct route_node *next; /* the next text of the same parent */
    struct route_node *parameter;
    struct route_node *rest;
    struct route_entry *entries; /* of patterns that end here */
    size_t n_entries;
};

struct segments {
    size_t n;
    struct bytes items[HTTP_SEGMENTS_MAX];
};

static struct route_node *node_create(struct bytes text) {
    struct route_node *node = calloc(1, sizeof *node);
    if (node == NULL) {
        abort();
    }
    node->text = text;
    return node;
}

static void node_destroy(struct route_node *node) {
    while (node != NULL) {
        struct route_node *next = node->next;
        node_destroy(node->texts);
        node_destroy(node->parameter);
        node_destroy(node->rest);
        free(node->entries);
        free(node);
        node = next;
    }
}

void route_tree_init(struct route_tree *tree) {
    *tree = (struct route_tree){0};
}

void route_tree_clear(struct route_tree *tree) {
    node_destroy(tree->root);
    route_tree_init(tree);
}

/* "/a/b/" is "a", "b" and an empty one. False: no slash in front, or too many. */
static bool split(struct bytes path, struct segments *out) {
    out->n = 0;
    if (path.size == 0 || path.data[0] != '/') {
        return false;
    }
    size_t start = 1;
    for (size_t i = 1; i <= path.size; i++) {
        if (i < path.size && path.data[i] != '/') {
            continue;
        }
        if (out->n == HTTP_SEGMENTS_MAX) {
            return false;
        }
        out->items[out->n++] = bytes_of(path.data + start, i - start);
        start = i + 1;
    }
    return true;
}

/* --- patterns ------------------------------------------------------------------------------ */

static bool is_parameter(struct bytes segment) {
    return segment.size > 2 && segment.data[0] == '{' && segment.data[segment.size - 1] == '}';
}

static bool is_rest(struct bytes segment) {
    return is_parameter(segment) && segment.size > 5 &&
           memcmp(segment.data + segment.size - 4, "...}", 4) == 0;
}

static struct bytes name_of(struct bytes segment) {
    size_t around = is_rest(segment) ? 5 : 2;
    return bytes_of(segment.data + 1, segment.size - around);
}

static struct route_node *child_of(struct route_node *node, struct bytes segment) {
    if (is_parameter(segment)) {
        struct route_node **slot = is_rest(segment) ? &node->rest : &node->parameter;
        if (*slot == NULL) {
            *slot = node_create(bytes_of(NULL, 0));
        }
        return *slot;
    }
    assert(segment.size == 0 || memchr(segment.data, '{', segment.size) == NULL);
    struct route_node **slot = &node->texts;
    while (*slot != NULL && !bytes_equal((*slot)->text, segment)) {
        slot = &(*slot)->next;
    }
    if (*slot == NULL) {
        *slot = node_create(segment);
    }
    return *slot;
}

static bool is_same_method(const char *a, const char *b) {
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static bool add_entry(struct route_node *node, struct route_entry entry) {
    for (size_t i = 0; i < node->n_entries; i++) {
        if (is_same_method(node->entries[i].route->method, entry.route->method)) {
            node->entries[i] = entry;
            return true;
        }
    }
    struct route_entry *entries =
        realloc(node->entries, (node->n_entries + 1) * sizeof *node->entries);
    if (entries == NULL) {
        abort();
    }
    node->entries = entries;
    entries[node->n_entries++] = entry;
    return false;
}

bool route_tree_add(struct route_tree *tree, const struct http_route *route, void *context) {
    assert(route->on_request != NULL || route->on_body != NULL);
    struct segments segments;
    bool is_path = split(bytes_from_text(route->pattern), &segments);
    assert(is_path);
    assert(segments.n < HTTP_SEGMENTS_MAX);
    if (tree->root == NULL) {
        tree->root = node_create(bytes_of(NULL, 0));
    }
    struct route_node *node = tree->root;
    size_t n_parameters = 0;
    for (size_t i = 0; i < segments.n; i++) {
        assert(!is_rest(segments.items[i]) || i + 1 == segments.n);
        n_parameters += is_parameter(segments.items[i]);
        node = child_of(node, segments.items[i]);
    }
    assert(n_parameters <= HTTP_PARAMETERS_MAX);
    return add_entry(node, (struct route_entry){.route = route, .context = context});
}

/* --- paths --------------------------------------------------------------------------------- */

/* The node that the decoded segments from `at` on lead to; NULL: none. */
static const struct route_node *walk(const struct route_node *node, const struct segments *segments,
                                     size_t at) {
    if (at == segments->n) {
        return node->n_entries > 0 ? node : NULL;
    }
    struct bytes segment = segments->items[at];
    const struct route_node *found = NULL;
    for (const struct route_node *child = node->texts; child != NULL; child = child->next) {
        if (bytes_equal(child->text, segment)) {
            found = walk(child, segments, at + 1);
            break;
        }
    }
    if (found == NULL && node->parameter != NULL && segment.size > 0) {
        found = walk(node->parameter, segments, at + 1);
    }
    return found != NULL ? found : node->rest;
}

static const struct route_entry *entry_for(const struct route_node *node, const char *method) {
    const struct route_entry *any = NULL;
    const struct route_entry *get = NULL;
    for (size_t i = 0; i < node->n_entries; i++) {
        const char *own = node->entries[i].route->method;
        if (own == NULL) {
            any = &node->entries[i];
        } else if (strcmp(own, method) == 0) {
            return &node->entries[i];
        } else if (strcmp(own, "GET") == 0) {
            get = &node->entries[i];
        }
    }
    return get != NULL && strcmp(method, "HEAD") == 0 ? get : any;
}

/* What the parameters of the pattern stand for in this path. */
static void add_parameters(const struct http_route *route, const struct segments *segments,
                           struct bytes decoded, struct buffer *out) {
    struct segments pattern;
    split(bytes_from_text(route->pattern), &pattern);
    for (size_t i = 0; i < pattern.n; i++) {
        struct bytes segment = pattern.items[i];
        if (!is_parameter(segment)) {
            continue;
        }
        struct bytes value = segments->items[i];
        if (is_rest(segment)) {
            value.size = (size_t)(decoded.data + decoded.size - value.data);
        }
        http_fields_add(out, name_of(segment), value);
    }
}

/* Decodes each segment, so that "%2F" stays inside of its own; between them come the slashes. */
static bool decode(struct segments *segments, struct buffer *out) {
    size_t starts[HTTP_SEGMENTS_MAX];
    for (size_t i = 0; i < segments->n; i++) {
        if (i > 0) {
            buffer_put_u8(out, '/');
        }
        starts[i] = out->size;
        if (!http_target_decode(segments->items[i], false, out)) {
            return false;
        }
    }
    for (size_t i = 0; i < segments->n; i++) {
        size_t end = i + 1 < segments->n ? starts[i + 1] - 1 : out->size;
        segments->items[i] = bytes_of(out->data + starts[i], end - starts[i]);
    }
    return true;
}

/* No pattern has so many segments, but one may end with the rest of the path, which may. */
static bool split_path(struct bytes path, struct segments *out) {
    if (split(path, out)) {
        return true;
    }
    if (path.size == 0 || path.data[0] != '/') {
        return false;
    }
    struct bytes last = out->items[HTTP_SEGMENTS_MAX - 1];
    last.size = (size_t)(path.data + path.size - last.data);
    out->items[HTTP_SEGMENTS_MAX - 1] = last;
    return true;
}

bool route_tree_find(const struct route_tree *tree, const char *method, struct bytes path,
                     struct route_match *out_match, struct buffer *parameters) {
    *out_match = (struct route_match){0};
    struct segments segments;
    if (!split_path(path, &segments)) {
        return false;
    }
    struct buffer decoded;
    buffer_init(&decoded);
    buffer_reserve(&decoded, path.size);
    bool is_valid = decode(&segments, &decoded);
    if (is_valid && tree->root != NULL) {
        out_match->node = walk(tree->root, &segments, 0);
    }
    const struct route_entry *entry =
        out_match->node != NULL ? entry_for(out_match->node, method) : NULL;
    if (entry != NULL) {
        out_match->route = entry->route;
        out_match->context = entry->context;
        add_parameters(entry->route, &segments, bytes_of(decoded.data, decoded.size), parameters);
    }
    buffer_clear(&decoded);
    return is_valid;
}

static void append_method(struct buffer *out, const char *method) {
    if (out->size > 0) {
        buffer_append(out, ", ", 2);
    }
    buffer_append(out, method, strlen(method));
}

void route_tree_allowed(const struct route_node *node, struct buffer *out) {
    for (size_t i = 0; i < node->n_entries; i++) {
        const char *method = node->entries[i].route->method;
        append_method(out, method);
        if (strcmp(method, "GET") == 0) {
            append_method(out, "HEAD");
        }
    }
}
