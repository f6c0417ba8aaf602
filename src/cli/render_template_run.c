/* Running a template: the pieces of a block for each item. */
#include "cli/render_template.h"

#include <string.h>

struct running {
    const struct render_template *template;
    const struct render_source *source;
    struct arena *arena;
    struct buffer *out;
    size_t n_work;
    /* The items that are being shown, the outermost first. */
    const struct render_item *items[RENDER_DEPTH_MAX];
    size_t n_items;
};

/* A field of the innermost item that has it; "" without one. */
static const char *field_of(const struct running *running, const char *name) {
    for (size_t i = running->n_items; i > 0; i--) {
        const struct render_item *item = running->items[i - 1];
        for (size_t k = 0; k < item->n_fields; k++) {
            if (strcmp(item->fields[k].name, name) == 0) {
                return item->fields[k].value;
            }
        }
    }
    return "";
}

static const char *text_of(const struct running *running, const struct render_value *value) {
    return value->is_field ? field_of(running, value->text) : value->text;
}

static enum render_result put(struct running *running, const char *text, size_t size) {
    if (running->out->size + size > RENDER_OUTPUT_SIZE_MAX) {
        return RENDER_TOO_LARGE;
    }
    buffer_append(running->out, text, size);
    return RENDER_DONE;
}

static enum render_result run_range(struct running *running, size_t from, size_t to);

static enum render_result run_key(struct running *running, const struct render_node *node) {
    const char *value = NULL;
    if (!running->source->key(running->source->context, text_of(running, &node->value),
                              running->arena, &value)) {
        return RENDER_WAITS;
    }
    if (value == NULL) {
        value = node->has_other ? text_of(running, &node->other) : "";
    }
    return put(running, value, strlen(value));
}

static bool is_true(const struct running *running, const struct render_node *node) {
    const char *text = text_of(running, &node->value);
    bool holds = node->test == RENDER_IS_SET ? text[0] != '\0'
                                             : strcmp(text, text_of(running, &node->other)) == 0;
    holds = node->test == RENDER_IS_UNEQUAL ? !holds : holds;
    return node->is_negated ? !holds : holds;
}

static enum render_result run_if(struct running *running, size_t index) {
    const struct render_node *node = &running->template->nodes[index];
    return is_true(running, node) ? run_range(running, index + 1, node->otherwise)
                                  : run_range(running, node->otherwise, node->end);
}

static enum render_result run_each(struct running *running, size_t index) {
    const struct render_node *node = &running->template->nodes[index];
    struct render_query query = {.kind = node->kind,
                                 .name = text_of(running, &node->value),
                                 .n_tags = node->n_tags,
                                 .with_all = node->with_all};
    for (size_t i = 0; i < node->n_tags; i++) {
        query.tags[i] = text_of(running, &node->tags[i]);
    }
    query.zone = node->has_zone ? text_of(running, &node->zone) : NULL;
    const struct render_item *items = NULL;
    size_t n = 0;
    if (!running->source->items(running->source->context, &query, running->arena, &items, &n)) {
        return RENDER_WAITS;
    }
    if (n == 0) {
        return run_range(running, node->otherwise, node->end);
    }
    enum render_result result = RENDER_DONE;
    for (size_t i = 0; i < n && result == RENDER_DONE; i++) {
        running->items[running->n_items++] = &items[i];
        result = run_range(running, index + 1, node->otherwise);
        running->n_items--;
    }
    return result;
}

/* The depth of blocks is that of the template, and so is this one's. */
static enum render_result run_range(struct running *running, size_t from, size_t to) {
    enum render_result result = RENDER_DONE;
    for (size_t i = from; i < to && result == RENDER_DONE;) {
        const struct render_node *node = &running->template->nodes[i];
        const char *text;
        if (++running->n_work > RENDER_WORK_MAX) {
            return RENDER_TOO_LARGE;
        }
        switch (node->kind) {
        case RENDER_TEXT:
            result = put(running, (const char *)node->text.data, node->text.size);
            break;
        case RENDER_FIELD:
            text = text_of(running, &node->value);
            result = put(running, text, strlen(text));
            break;
        case RENDER_KEY:
            result = run_key(running, node);
            break;
        case RENDER_IF:
            result = run_if(running, i);
            break;
        case RENDER_EACH_SERVICE:
        case RENDER_EACH_SERVICES:
        case RENDER_EACH_KEYS:
            result = run_each(running, i);
            break;
        }
        i = node->kind >= RENDER_EACH_SERVICE ? node->end : i + 1;
    }
    return result;
}

enum render_result render_template_run(const struct render_template *template,
                                       const struct render_source *source, struct arena *arena,
                                       struct buffer *out) {
    struct running running = {.template = template, .source = source, .arena = arena, .out = out};
    return run_range(&running, 0, template->n_nodes);
}
