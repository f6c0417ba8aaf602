/* Bodies in XML, read by expat. A document type is refused where it begins, so that there are no
 * entities but XML's own five, and nothing is ever fetched or expanded. */
#include "doors/eureka/eureka_tree.h"

#include "base/buffer.h"
#include "doors/eureka/eureka_text.h"

#include <expat.h>

struct xml_reading {
    struct eureka_tree *tree;
    XML_Parser parser;
    struct eureka_node *open[EUREKA_TREE_DEPTH_MAX];
    size_t depth;
    struct buffer text; /* of the innermost element, so far */
    struct buffer name;
    const char *error; /* NULL: none yet */
};

static void stop(struct xml_reading *reading, const char *error) {
    reading->error = error;
    (void)XML_StopParser(reading->parser, XML_FALSE);
}

static bool add_attributes(struct xml_reading *reading, struct eureka_node *node,
                           const XML_Char **attributes) {
    for (size_t i = 0; attributes[i] != NULL; i += 2) {
        reading->name.size = 0;
        buffer_put_u8(&reading->name, '@');
        buffer_append(&reading->name, attributes[i], strlen(attributes[i]));
        if (eureka_tree_add(reading->tree, node, bytes_of(reading->name.data, reading->name.size),
                            bytes_from_text(attributes[i + 1])) == NULL) {
            return false;
        }
    }
    return true;
}

static void on_start(void *context, const XML_Char *name, const XML_Char **attributes) {
    struct xml_reading *reading = context;
    if (reading->error != NULL) {
        return;
    }
    if (reading->depth == EUREKA_TREE_DEPTH_MAX) {
        stop(reading, "the body is too deep");
        return;
    }
    struct eureka_node *parent = reading->depth == 0 ? NULL : reading->open[reading->depth - 1];
    reading->name.size = 0;
    eureka_text_decode_name(&reading->name, bytes_from_text(name));
    struct eureka_node *node = eureka_tree_add(
        reading->tree, parent, bytes_of(reading->name.data, reading->name.size), bytes_of(NULL, 0));
    if (node == NULL || !add_attributes(reading, node, attributes)) {
        stop(reading, "the body has too many elements");
        return;
    }
    reading->open[reading->depth++] = node;
    reading->text.size = 0;
}

/* The text of an element that has others in it is the white space between them. */
static bool has_elements(const struct eureka_node *node) {
    return node->last != NULL && (node->last->name.size == 0 || node->last->name.data[0] != '@');
}

static void on_end(void *context, const XML_Char *name) {
    struct xml_reading *reading = context;
    (void)name;
    /* An empty element that was refused ends all the same. */
    if (reading->error != NULL) {
        return;
    }
    struct eureka_node *node = reading->open[--reading->depth];
    if (!has_elements(node)) {
        node->text =
            bytes_of(arena_copy(reading->tree->arena, reading->text.data, reading->text.size),
                     reading->text.size);
    }
    reading->text.size = 0;
}

static void on_text(void *context, const XML_Char *text, int size) {
    struct xml_reading *reading = context;
    buffer_append(&reading->text, text, (size_t)size);
}

static void on_doctype(void *context, const XML_Char *name, const XML_Char *system_id,
                       const XML_Char *public_id, int has_subset) {
    (void)name;
    (void)system_id;
    (void)public_id;
    (void)has_subset;
    stop(context, "document types are refused");
}

static bool run(struct xml_reading *reading, struct bytes body) {
    XML_SetUserData(reading->parser, reading);
    XML_SetElementHandler(reading->parser, on_start, on_end);
    XML_SetCharacterDataHandler(reading->parser, on_text);
    XML_SetStartDoctypeDeclHandler(reading->parser, on_doctype);
    bool is_read =
        XML_Parse(reading->parser, (const char *)body.data, (int)body.size, 1) == XML_STATUS_OK;
    if (!is_read && reading->error == NULL) {
        reading->error = "the body is not well-formed XML";
    }
    return is_read;
}

bool eureka_tree_read_xml(struct eureka_tree *tree, struct arena *arena, struct bytes body,
                          const char **out_error) {
    *tree = (struct eureka_tree){.arena = arena};
    if (body.size > EUREKA_BODY_SIZE_MAX) {
        *out_error = "the body is too large";
        return false;
    }
    struct xml_reading reading = {.tree = tree, .parser = XML_ParserCreate(NULL)};
    if (reading.parser == NULL) {
        *out_error = "out of memory";
        return false;
    }
    buffer_init(&reading.text);
    buffer_init(&reading.name);
    bool is_read = run(&reading, body);
    *out_error = reading.error;
    buffer_clear(&reading.text);
    buffer_clear(&reading.name);
    XML_ParserFree(reading.parser);
    return is_read;
}
