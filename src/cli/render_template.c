#include "cli/render_template.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct open_block {
    size_t node;
    size_t line;
    bool has_else;
};

struct parser {
    struct bytes text;
    size_t at;
    size_t line;
    struct arena *arena;
    struct render_node *nodes;
    size_t n_nodes;
    size_t capacity;
    struct open_block blocks[RENDER_DEPTH_MAX];
    size_t n_blocks;
    bool trims_next; /* the action before ended with -}} */
    char *error;
};

static bool fail(struct parser *parser, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool fail(struct parser *parser, const char *format, ...) {
    int size = snprintf(parser->error, RENDER_ERROR_SIZE, "line %zu: ", parser->line);
    va_list list;
    va_start(list, format);
    vsnprintf(parser->error + size, RENDER_ERROR_SIZE - (size_t)size, format, list);
    va_end(list);
    return false;
}

static struct render_node *add_node(struct parser *parser, enum render_kind kind) {
    if (parser->n_nodes == RENDER_NODES_MAX) {
        fail(parser, "more than %d pieces", RENDER_NODES_MAX);
        return NULL;
    }
    if (parser->n_nodes == parser->capacity) {
        size_t capacity = parser->capacity == 0 ? 64 : parser->capacity * 2;
        struct render_node *grown = arena_calloc(parser->arena, capacity, sizeof *grown);
        if (parser->n_nodes > 0) {
            memcpy(grown, parser->nodes, parser->n_nodes * sizeof *grown);
        }
        parser->nodes = grown;
        parser->capacity = capacity;
    }
    struct render_node *node = &parser->nodes[parser->n_nodes++];
    *node = (struct render_node){.kind = kind};
    return node;
}

/* ---- words of an action ---- */

struct words {
    struct parser *parser;
    const char *at;
    const char *end;
};

static void skip_space(struct words *words) {
    while (words->at < words->end && isspace((unsigned char)*words->at)) {
        words->at++;
    }
}

static bool is_over(struct words *words) {
    skip_space(words);
    return words->at == words->end;
}

static bool is_name_byte(char byte) {
    return isalnum((unsigned char)byte) || strchr("_-.:/", byte) != NULL;
}

/* A bare word: `each`, `tag`, `==`. False: another one comes, and it is left there. */
static bool take_word(struct words *words, const char *word) {
    size_t size = strlen(word);
    skip_space(words);
    bool is_name = isalpha((unsigned char)word[0]) != 0;
    if ((size_t)(words->end - words->at) < size || memcmp(words->at, word, size) != 0 ||
        (is_name && words->at + size < words->end && is_name_byte(words->at[size]))) {
        return false;
    }
    words->at += size;
    return true;
}

/* "text" with \" \\ \n \t. */
static bool take_text(struct words *words, struct render_value *out_value) {
    char *text = arena_alloc(words->parser->arena, (size_t)(words->end - words->at));
    size_t size = 0;
    for (words->at++; words->at < words->end && *words->at != '"'; words->at++) {
        char byte = *words->at;
        if (byte == '\\' && words->at + 1 < words->end) {
            byte = *++words->at;
            byte = byte == 'n' ? '\n' : byte == 't' ? '\t' : byte;
        }
        text[size++] = byte;
    }
    if (words->at == words->end) {
        return fail(words->parser, "a text has no closing quote");
    }
    words->at++;
    text[size] = '\0';
    *out_value = (struct render_value){.text = text};
    return true;
}

static bool take_field(struct words *words, struct render_value *out_value) {
    const char *begin = ++words->at;
    while (words->at < words->end && is_name_byte(*words->at)) {
        words->at++;
    }
    size_t size = (size_t)(words->at - begin);
    if (size == 0) {
        return fail(words->parser, "a field has a name: .address");
    }
    char *name = arena_alloc(words->parser->arena, size + 1);
    memcpy(name, begin, size);
    name[size] = '\0';
    *out_value = (struct render_value){.is_field = true, .text = name};
    return true;
}

static bool take_value(struct words *words, const char *what, struct render_value *out_value) {
    skip_space(words);
    if (words->at < words->end && *words->at == '"') {
        return take_text(words, out_value);
    }
    if (words->at < words->end && *words->at == '.') {
        return take_field(words, out_value);
    }
    return fail(words->parser, "%s is needed: \"text\" or .field", what);
}

static bool at_end(struct words *words) {
    enum { SHOWN_MAX = 20 };
    if (is_over(words)) {
        return true;
    }
    int left = words->end - words->at < SHOWN_MAX ? (int)(words->end - words->at) : SHOWN_MAX;
    return fail(words->parser, "unexpected \"%.*s\"", left, words->at);
}

/* ---- actions ---- */

static bool open_block(struct parser *parser) {
    if (parser->n_blocks == RENDER_DEPTH_MAX) {
        return fail(parser, "more than %d blocks in each other", RENDER_DEPTH_MAX);
    }
    parser->blocks[parser->n_blocks++] =
        (struct open_block){.node = parser->n_nodes - 1, .line = parser->line};
    return true;
}

static bool take_service_options(struct words *words, struct render_node *node) {
    while (!is_over(words)) {
        if (take_word(words, "tag")) {
            if (node->n_tags == RENDER_TAGS_MAX) {
                return fail(words->parser, "more than %d tags", RENDER_TAGS_MAX);
            }
            if (!take_value(words, "a tag", &node->tags[node->n_tags])) {
                return false;
            }
            node->n_tags++;
        } else if (take_word(words, "zone")) {
            node->has_zone = true;
            if (!take_value(words, "a zone", &node->zone)) {
                return false;
            }
        } else if (take_word(words, "all")) {
            node->with_all = true;
        } else {
            return fail(words->parser, "each service NAME is followed by tag, zone or all");
        }
    }
    return true;
}

static bool parse_each(struct words *words) {
    struct parser *parser = words->parser;
    struct render_node *node = NULL;
    bool is_well = false;
    if (take_word(words, "services")) {
        node = add_node(parser, RENDER_EACH_SERVICES);
        is_well = node != NULL &&
                  (is_over(words) ? (node->value = (struct render_value){.text = ""}, true)
                                  : take_value(words, "a prefix", &node->value)) &&
                  at_end(words);
    } else if (take_word(words, "service")) {
        node = add_node(parser, RENDER_EACH_SERVICE);
        is_well = node != NULL && take_value(words, "a service", &node->value) &&
                  take_service_options(words, node);
    } else if (take_word(words, "keys")) {
        node = add_node(parser, RENDER_EACH_KEYS);
        is_well = node != NULL && take_value(words, "a prefix", &node->value) && at_end(words);
    } else {
        return fail(parser, "each is followed by service, services or keys");
    }
    return is_well && open_block(parser);
}

static bool parse_if(struct words *words) {
    struct render_node *node = add_node(words->parser, RENDER_IF);
    if (node == NULL) {
        return false;
    }
    node->is_negated = take_word(words, "not");
    if (!take_value(words, "what is tested", &node->value)) {
        return false;
    }
    bool is_equal = take_word(words, "==");
    if (is_equal || take_word(words, "!=")) {
        node->test = is_equal ? RENDER_IS_EQUAL : RENDER_IS_UNEQUAL;
        if (!take_value(words, "what it is compared with", &node->other)) {
            return false;
        }
    }
    return at_end(words) && open_block(words->parser);
}

static bool parse_key(struct words *words) {
    struct render_node *node = add_node(words->parser, RENDER_KEY);
    if (node == NULL || !take_value(words, "a key", &node->value)) {
        return false;
    }
    node->has_other = take_word(words, "or");
    if (node->has_other && !take_value(words, "another value", &node->other)) {
        return false;
    }
    return at_end(words);
}

static bool parse_else(struct parser *parser) {
    struct open_block *block = parser->n_blocks > 0 ? &parser->blocks[parser->n_blocks - 1] : NULL;
    if (block == NULL || block->has_else) {
        return fail(parser, "else without a block, or a second one");
    }
    block->has_else = true;
    parser->nodes[block->node].otherwise = parser->n_nodes;
    return true;
}

static bool parse_end(struct parser *parser) {
    if (parser->n_blocks == 0) {
        return fail(parser, "end without a block");
    }
    struct open_block *block = &parser->blocks[--parser->n_blocks];
    struct render_node *node = &parser->nodes[block->node];
    node->end = parser->n_nodes;
    if (!block->has_else) {
        node->otherwise = node->end;
    }
    return true;
}

static bool parse_action(struct parser *parser, const char *begin, const char *end) {
    struct words words = {.parser = parser, .at = begin, .end = end};
    if (is_over(&words) || *words.at == '#') {
        return true; /* a comment */
    }
    if (take_word(&words, "each")) {
        return parse_each(&words);
    }
    if (take_word(&words, "if")) {
        return parse_if(&words);
    }
    if (take_word(&words, "key")) {
        return parse_key(&words);
    }
    if (take_word(&words, "else")) {
        return at_end(&words) && parse_else(parser);
    }
    if (take_word(&words, "end")) {
        return at_end(&words) && parse_end(parser);
    }
    struct render_value value;
    if (*words.at != '.' && *words.at != '"') {
        return fail(parser, "each, if, else, end, key, \"text\" or .field is needed");
    }
    if (!take_value(&words, "a value", &value) || !at_end(&words)) {
        return false;
    }
    struct render_node *node = add_node(parser, RENDER_FIELD);
    if (node != NULL) {
        node->value = value;
    }
    return node != NULL;
}

/* ---- text between actions ---- */

static struct bytes trim(struct bytes text, bool at_begin, bool at_its_end) {
    while (at_begin && text.size > 0 && isspace(text.data[0])) {
        text = bytes_of(text.data + 1, text.size - 1);
    }
    while (at_its_end && text.size > 0 && isspace(text.data[text.size - 1])) {
        text.size--;
    }
    return text;
}

static bool add_text(struct parser *parser, struct bytes text, bool trims_end) {
    text = trim(text, parser->trims_next, trims_end);
    if (text.size == 0) {
        return true;
    }
    struct render_node *node = add_node(parser, RENDER_TEXT);
    if (node != NULL) {
        node->text = text;
    }
    return node != NULL;
}

static const char *find(const struct parser *parser, size_t from, const char *mark) {
    return memmem(parser->text.data + from, parser->text.size - from, mark, 2);
}

/* An action ends at }} outside of quotes. */
static const char *find_end(const struct parser *parser, const char *from) {
    const char *end = (const char *)parser->text.data + parser->text.size;
    bool is_quoted = false;
    bool is_comment = from < end && *from == '#';
    for (const char *at = from; at + 1 < end; at++) {
        if (*at == '"' && !is_comment) {
            is_quoted = !is_quoted;
        } else if (is_quoted && *at == '\\') {
            at++;
        } else if (!is_quoted && at[0] == '}' && at[1] == '}') {
            return at;
        }
    }
    return NULL;
}

static void count_lines(struct parser *parser, const char *from, const char *to) {
    for (; from < to; from++) {
        parser->line += *from == '\n';
    }
}

/* The text up to the next action, and that action. False: an error, or the end. */
static bool parse_piece(struct parser *parser, bool *out_failed) {
    const char *begin = (const char *)parser->text.data + parser->at;
    const char *open = find(parser, parser->at, "{{");
    if (open == NULL) {
        struct bytes rest =
            bytes_of(parser->text.data + parser->at, parser->text.size - parser->at);
        *out_failed = !add_text(parser, rest, false);
        return false;
    }
    const char *action = open + 2;
    const char *limit = (const char *)parser->text.data + parser->text.size;
    bool trims_before = action < limit && *action == '-';
    action += trims_before;
    while (action < limit && isspace((unsigned char)*action)) {
        action++;
    }
    const char *close = find_end(parser, action);
    count_lines(parser, begin, open);
    if (close == NULL) {
        *out_failed = !fail(parser, "an action has no }}");
        return false;
    }
    bool trims_after = close > action && close[-1] == '-';
    *out_failed = !add_text(parser, bytes_of(begin, (size_t)(open - begin)), trims_before) ||
                  !parse_action(parser, action, close - trims_after);
    parser->trims_next = trims_after;
    count_lines(parser, open, close);
    parser->at = (size_t)(close + 2 - (const char *)parser->text.data);
    return !*out_failed;
}

bool render_template_parse(struct bytes text, struct arena *arena,
                           struct render_template *out_template,
                           char out_error[RENDER_ERROR_SIZE]) {
    struct parser parser = {.text = text, .line = 1, .arena = arena, .error = out_error};
    bool failed = false;
    if (text.size > RENDER_TEMPLATE_SIZE_MAX) {
        return fail(&parser, "a template has at most %d bytes", RENDER_TEMPLATE_SIZE_MAX);
    }
    if (text.size > 0 && memchr(text.data, 0, text.size) != NULL) {
        return fail(&parser, "a template is text, and this has a zero byte");
    }
    while (text.size > 0 && parse_piece(&parser, &failed)) {
    }
    if (failed) {
        return false;
    }
    if (parser.n_blocks > 0) {
        parser.line = parser.blocks[parser.n_blocks - 1].line;
        return fail(&parser, "the block that begins here has no end");
    }
    *out_template = (struct render_template){.nodes = parser.nodes, .n_nodes = parser.n_nodes};
    return true;
}
