/* Bodies in JSON. jansson reads them; how deep they are is looked at before, since it recurses. */
#include "doors/eureka/eureka_tree.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

static bool is_shallow(struct bytes body) {
    size_t depth = 0;
    bool is_in_text = false;
    for (size_t i = 0; i < body.size; i++) {
        uint8_t byte = body.data[i];
        if (is_in_text && byte == '\\') {
            i++;
        } else if (byte == '"') {
            is_in_text = !is_in_text;
        } else if (!is_in_text && (byte == '{' || byte == '[')) {
            depth++;
            if (depth > EUREKA_TREE_DEPTH_MAX) {
                return false;
            }
        } else if (!is_in_text && (byte == '}' || byte == ']') && depth > 0) {
            depth--;
        }
    }
    return true;
}

static bool add(struct eureka_tree *tree, struct eureka_node *parent, struct bytes name,
                const json_t *value);

static bool add_members(struct eureka_tree *tree, struct eureka_node *node, const json_t *object) {
    /* jansson's functions for walking an object want it without const. */
    for (void *at = json_object_iter((json_t *)object); at != NULL;
         at = json_object_iter_next((json_t *)object, at)) {
        if (!add(tree, node, bytes_from_text(json_object_iter_key(at)),
                 json_object_iter_value(at))) {
            return false;
        }
    }
    return true;
}

static bool add_elements(struct eureka_tree *tree, struct eureka_node *parent, struct bytes name,
                         const json_t *array) {
    for (size_t i = 0; i < json_array_size(array); i++) {
        if (!add(tree, parent, name, json_array_get(array, i))) {
            return false;
        }
    }
    return true;
}

static struct bytes text_of(const json_t *value, char memory[64]) {
    switch (json_typeof(value)) {
    case JSON_STRING:
        return bytes_of(json_string_value(value), json_string_length(value));
    case JSON_INTEGER:
        snprintf(memory, 64, "%" PRId64, (int64_t)json_integer_value(value));
        return bytes_from_text(memory);
    case JSON_REAL:
        snprintf(memory, 64, "%.17g", json_real_value(value));
        return bytes_from_text(memory);
    case JSON_TRUE:
        return bytes_from_text("true");
    case JSON_FALSE:
        return bytes_from_text("false");
    default:
        return bytes_of(NULL, 0);
    }
}

static bool add(struct eureka_tree *tree, struct eureka_node *parent, struct bytes name,
                const json_t *value) {
    char memory[64];
    if (json_is_array(value)) {
        return add_elements(tree, parent, name, value);
    }
    struct eureka_node *node = eureka_tree_add(tree, parent, name, text_of(value, memory));
    if (node == NULL) {
        return false;
    }
    node->is_null = json_is_null(value);
    return !json_is_object(value) || add_members(tree, node, value);
}

static bool add_root(struct eureka_tree *tree, const json_t *root, const char **out_error) {
    if (!json_is_object(root) || json_object_size(root) != 1) {
        *out_error = "the body is not an object with one member";
        return false;
    }
    void *first = json_object_iter((json_t *)root);
    const json_t *value = json_object_iter_value(first);
    if (!json_is_object(value)) {
        *out_error = "the body's only member is not an object";
        return false;
    }
    if (!add(tree, NULL, bytes_from_text(json_object_iter_key(first)), value)) {
        *out_error = "the body has too many members";
        return false;
    }
    return true;
}

bool eureka_tree_read_json(struct eureka_tree *tree, struct arena *arena, struct bytes body,
                           const char **out_error) {
    *tree = (struct eureka_tree){.arena = arena};
    if (body.size > EUREKA_BODY_SIZE_MAX || !is_shallow(body)) {
        *out_error = "the body is too large or too deep";
        return false;
    }
    json_t *root = json_loadb((const char *)body.data, body.size, 0, NULL);
    if (root == NULL) {
        *out_error = "the body is not JSON";
        return false;
    }
    bool is_read = add_root(tree, root, out_error);
    json_decref(root);
    return is_read;
}
