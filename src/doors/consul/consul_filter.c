#include "doors/consul/consul_filter.h"

enum {
    FILTER_SIZE_MAX = 4096,
    FILTER_DEPTH_MAX = 64,
    SELECTOR_PARTS_MAX = 8,
    PARTS_STEP = 2,
    BYTES_A_RECORD = 256 /* of what is left out of a list: as much work as a record */
};

enum filter_kind {
    FILTER_AND,
    FILTER_OR,
    FILTER_NOT,
    FILTER_EQUAL,    /* selector == value */
    FILTER_CONTAINS, /* selector contains value, value in selector */
    FILTER_EMPTY     /* selector is empty */
};

struct consul_filter {
    enum filter_kind kind;
    const struct consul_filter *left; /* of AND, OR, NOT */
    const struct consul_filter *right;
    size_t n_parts; /* of the selector */
    struct bytes *parts;
    struct bytes value;
};

/* --- Words. --- */

struct token {
    struct bytes text;
    bool is_quoted;
};

struct parser {
    struct bytes rest;
    struct arena *arena;
    struct token token; /* the next one; empty at the end */
    bool is_end;
    const char *why;
    unsigned depth;
};

static bool is_space(uint8_t c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_word(uint8_t c) {
    return !is_space(c) && c != '(' && c != ')' && c != '=' && c != '!' && c != '"' && c != '`' &&
           c != '[' && c != ']';
}

static void drop(struct parser *parser, size_t n) {
    parser->rest = bytes_of(parser->rest.data + n, parser->rest.size - n);
}

static void read_quoted(struct parser *parser) {
    uint8_t quote = parser->rest.data[0];
    size_t end = 1;
    while (end < parser->rest.size && parser->rest.data[end] != quote) {
        end += quote == '"' && parser->rest.data[end] == '\\' ? 2 : 1;
    }
    uint8_t *text = arena_alloc(parser->arena, end);
    size_t size = 0;
    size_t i = 1;
    for (; i < parser->rest.size && parser->rest.data[i] != quote; i++) {
        if (quote == '"' && parser->rest.data[i] == '\\' && i + 1 < parser->rest.size) {
            i++;
        }
        text[size++] = parser->rest.data[i];
    }
    if (i >= parser->rest.size) {
        parser->why = "a quoted text has no end";
        i = parser->rest.size - 1;
    }
    parser->token = (struct token){.text = bytes_of(text, size), .is_quoted = true};
    drop(parser, i + 1);
}

static void advance(struct parser *parser) {
    while (parser->rest.size > 0 && is_space(parser->rest.data[0])) {
        drop(parser, 1);
    }
    parser->token = (struct token){0};
    parser->is_end = parser->rest.size == 0;
    if (parser->is_end) {
        return;
    }
    const uint8_t *data = parser->rest.data;
    if (data[0] == '"' || data[0] == '`') {
        read_quoted(parser);
        return;
    }
    size_t size = 0;
    while (size < parser->rest.size && is_word(data[size])) {
        size++;
    }
    if (size == 0) {
        bool is_pair =
            (data[0] == '=' || data[0] == '!') && parser->rest.size > 1 && data[1] == '=';
        size = is_pair ? 2 : 1;
    }
    parser->token.text = bytes_of(data, size);
    drop(parser, size);
}

static bool is_next(const struct parser *parser, const char *word) {
    return !parser->token.is_quoted && !parser->is_end &&
           bytes_equal(parser->token.text, bytes_from_text(word));
}

static bool take(struct parser *parser, const char *word) {
    bool is_it = is_next(parser, word);
    if (is_it) {
        advance(parser);
    }
    return is_it;
}

/* --- Expressions. --- */

static const struct consul_filter *parse_or(struct parser *parser);

static struct consul_filter *node(struct parser *parser, enum filter_kind kind) {
    struct consul_filter *filter = arena_calloc(parser->arena, 1, sizeof *filter);
    filter->kind = kind;
    return filter;
}

static const struct consul_filter *negate(struct parser *parser, const struct consul_filter *inner,
                                          bool is_negated) {
    if (!is_negated) {
        return inner;
    }
    struct consul_filter *filter = node(parser, FILTER_NOT);
    filter->left = inner;
    return filter;
}

static void add_part(struct parser *parser, struct consul_filter *filter, struct bytes part) {
    if (filter->n_parts == SELECTOR_PARTS_MAX) {
        parser->why = "a selector has too many parts";
        return;
    }
    if (filter->n_parts % PARTS_STEP == 0) {
        struct bytes *parts =
            arena_calloc(parser->arena, filter->n_parts + PARTS_STEP, sizeof *parts);
        for (size_t i = 0; i < filter->n_parts; i++) {
            parts[i] = filter->parts[i];
        }
        filter->parts = parts;
    }
    filter->parts[filter->n_parts++] = part;
}

/* A.B.C, also with ["key"] for a part. */
static void parse_selector(struct parser *parser, struct consul_filter *filter,
                           struct token first) {
    struct bytes text = first.text;
    if (first.is_quoted || text.size == 0) {
        parser->why = "a selector is missing";
        return;
    }
    while (text.size > 0) {
        const uint8_t *dot = memchr(text.data, '.', text.size);
        size_t size = dot != NULL ? (size_t)(dot - text.data) : text.size;
        if (size > 0) {
            add_part(parser, filter, bytes_of(text.data, size));
        }
        size_t used = dot != NULL ? size + 1 : size;
        text = bytes_of(text.data + used, text.size - used);
    }
    while (parser->why == NULL && take(parser, "[")) {
        add_part(parser, filter, parser->token.text);
        advance(parser);
        if (!take(parser, "]")) {
            parser->why = "a bracket has no end";
        } else if (!parser->token.is_quoted && parser->token.text.size > 1 &&
                   parser->token.text.data[0] == '.') {
            add_part(parser, filter,
                     bytes_of(parser->token.text.data + 1, parser->token.text.size - 1));
            advance(parser);
        }
    }
}

static void parse_value(struct parser *parser, struct consul_filter *filter) {
    if (parser->is_end) {
        parser->why = "a value is missing";
        return;
    }
    filter->value = parser->token.text;
    advance(parser);
}

static const struct consul_filter *parse_contains(struct parser *parser,
                                                  struct consul_filter *filter, bool is_negated) {
    filter->kind = FILTER_CONTAINS;
    parse_value(parser, filter);
    return negate(parser, filter, is_negated);
}

static const struct consul_filter *parse_in(struct parser *parser, struct consul_filter *filter,
                                            struct token value, bool is_negated) {
    struct token selector = parser->token;
    filter->kind = FILTER_CONTAINS;
    filter->n_parts = 0;
    filter->value = value.text;
    advance(parser);
    parse_selector(parser, filter, selector);
    return negate(parser, filter, is_negated);
}

static const struct consul_filter *parse_match(struct parser *parser) {
    struct token first = parser->token;
    struct consul_filter *filter = node(parser, FILTER_EQUAL);
    advance(parser);
    if (take(parser, "in")) {
        return parse_in(parser, filter, first, false);
    }
    if (!first.is_quoted) {
        parse_selector(parser, filter, first);
    }
    bool is_not = take(parser, "not");
    if (is_not && take(parser, "in")) {
        return parse_in(parser, filter, first, true);
    }
    if (first.is_quoted) {
        parser->why = "a value is followed by \"in\" or \"not in\"";
    } else if (take(parser, "contains")) {
        return parse_contains(parser, filter, is_not);
    } else if (is_next(parser, "matches")) {
        parser->why = "\"matches\" is not served";
    } else if (is_not) {
        parser->why = "\"not\" is followed by \"in\" or \"contains\"";
    } else if (take(parser, "is")) {
        bool is_negated = take(parser, "not");
        filter->kind = FILTER_EMPTY;
        if (!take(parser, "empty")) {
            parser->why = "\"is\" is followed by \"empty\" or \"not empty\"";
        }
        return negate(parser, filter, is_negated);
    } else if (take(parser, "==")) {
        parse_value(parser, filter);
    } else if (take(parser, "!=")) {
        parse_value(parser, filter);
        return negate(parser, filter, true);
    } else {
        parser->why = "an operator is missing";
    }
    return filter;
}

static const struct consul_filter *parse_not(struct parser *parser) {
    if (parser->why != NULL || ++parser->depth > FILTER_DEPTH_MAX) {
        parser->why = parser->why != NULL ? parser->why : "it is nested too deeply";
        return node(parser, FILTER_EMPTY);
    }
    const struct consul_filter *filter;
    if (take(parser, "not")) {
        filter = negate(parser, parse_not(parser), true);
    } else if (take(parser, "(")) {
        filter = parse_or(parser);
        if (!take(parser, ")")) {
            parser->why = parser->why != NULL ? parser->why : "a parenthesis has no end";
        }
    } else {
        filter = parse_match(parser);
    }
    parser->depth--;
    return filter;
}

static const struct consul_filter *join(struct parser *parser, enum filter_kind kind,
                                        const struct consul_filter *left,
                                        const struct consul_filter *right) {
    struct consul_filter *filter = node(parser, kind);
    filter->left = left;
    filter->right = right;
    return filter;
}

static const struct consul_filter *parse_and(struct parser *parser) {
    const struct consul_filter *filter = parse_not(parser);
    while (parser->why == NULL && take(parser, "and")) {
        filter = join(parser, FILTER_AND, filter, parse_not(parser));
    }
    return filter;
}

static const struct consul_filter *parse_or(struct parser *parser) {
    const struct consul_filter *filter = parse_and(parser);
    while (parser->why == NULL && take(parser, "or")) {
        filter = join(parser, FILTER_OR, filter, parse_and(parser));
    }
    return filter;
}

const struct consul_filter *consul_filter_parse(struct bytes text, struct arena *arena,
                                                const char **out_why) {
    struct parser parser = {.rest = text, .arena = arena};
    if (text.size > FILTER_SIZE_MAX) {
        *out_why = "it is too long";
        return NULL;
    }
    advance(&parser);
    const struct consul_filter *filter = parse_or(&parser);
    if (parser.why == NULL && !parser.is_end) {
        parser.why = "something follows its end";
    }
    *out_why = parser.why;
    return parser.why == NULL ? filter : NULL;
}

/* --- Matching. --- */

static json_t *member(const json_t *object, struct bytes name) {
    char text[256];
    if (name.size >= sizeof text) {
        return NULL;
    }
    memcpy(text, name.data, name.size);
    text[name.size] = 0;
    return json_object_get(object, text);
}

/* A key of a map (metadata) may be missing; any other member may not. */
static json_t *select_value(const struct consul_filter *filter, const json_t *object,
                            bool *out_is_unknown) {
    json_t *value = (json_t *)(uintptr_t)object;
    for (size_t i = 0; i < filter->n_parts; i++) {
        json_t *next = member(value, filter->parts[i]);
        bool is_map = i > 0 && json_is_object(value);
        if (next == NULL && !is_map) {
            *out_is_unknown = true;
        }
        if (next == NULL) {
            return NULL;
        }
        value = next;
    }
    return value;
}

static bool equals(const json_t *value, struct bytes text) {
    char number[32];
    if (json_is_string(value)) {
        return bytes_equal(bytes_of(json_string_value(value), json_string_length(value)), text);
    }
    if (json_is_boolean(value)) {
        return bytes_equal(bytes_from_text(json_is_true(value) ? "true" : "false"), text);
    }
    if (json_is_integer(value)) {
        snprintf(number, sizeof number, "%lld", (long long)json_integer_value(value));
        return bytes_equal(bytes_from_text(number), text);
    }
    return false;
}

static bool contains(const json_t *value, struct bytes text) {
    if (json_is_object(value)) {
        return member(value, text) != NULL;
    }
    if (json_is_string(value)) {
        return text.size == 0 || memmem(json_string_value(value), json_string_length(value),
                                        text.data, text.size) != NULL;
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        if (equals(json_array_get(value, i), text)) {
            return true;
        }
    }
    return false;
}

static bool is_empty(const json_t *value) {
    if (value == NULL || json_is_null(value)) {
        return true;
    }
    return json_is_object(value)   ? json_object_size(value) == 0
           : json_is_array(value)  ? json_array_size(value) == 0
           : json_is_string(value) ? json_string_length(value) == 0
                                   : false;
}

bool consul_filter_matches(const struct consul_filter *filter, const json_t *object,
                           bool *out_is_unknown) {
    const json_t *value;
    switch (filter->kind) {
    case FILTER_AND:
        return consul_filter_matches(filter->left, object, out_is_unknown) &&
               consul_filter_matches(filter->right, object, out_is_unknown);
    case FILTER_OR:
        return consul_filter_matches(filter->left, object, out_is_unknown) ||
               consul_filter_matches(filter->right, object, out_is_unknown);
    case FILTER_NOT:
        return !consul_filter_matches(filter->left, object, out_is_unknown);
    case FILTER_EQUAL:
        value = select_value(filter, object, out_is_unknown);
        return value != NULL && equals(value, filter->value);
    case FILTER_CONTAINS:
        value = select_value(filter, object, out_is_unknown);
        return value != NULL && contains(value, filter->value);
    default:
        return is_empty(select_value(filter, object, out_is_unknown));
    }
}

/* --- Of a request. --- */

bool consul_filter_read(struct consul_call *call) {
    const char *why = NULL;
    call->filter_text = consul_call_keep(call, consul_call_text(call, "filter"));
    if (call->filter_text.size == 0) {
        return true;
    }
    call->filter = consul_filter_parse(call->filter_text, &call->filter_arena, &why);
    if (call->filter == NULL) {
        consul_call_fail(call, 400, "Failed to create boolean expression evaluator: %s", why);
    }
    return call->filter != NULL;
}

void consul_filter_forget(struct consul_call *call) {
    call->filter = NULL;
    arena_clear(&call->filter_arena);
}

void consul_filter_remember(struct consul_call *call) {
    const char *ignored = NULL; /* it was parsed before */
    if (call->filter == NULL && call->filter_text.size > 0) {
        call->filter = consul_filter_parse(call->filter_text, &call->filter_arena, &ignored);
    }
}

struct consul_mark consul_filter_begin(struct consul_call *call, const struct bytes *key) {
    struct consul_mark mark = {.size = call->body.size, .needs_comma = call->json.needs_comma};
    if (key != NULL) {
        consul_json_key(&call->json, *key);
    }
    mark.object = call->body.size;
    return mark;
}

void consul_filter_end(struct consul_call *call, const struct consul_mark *mark) {
    if (call->filter == NULL) {
        return;
    }
    const char *text = (const char *)call->body.data + mark->object;
    size_t size = call->body.size - mark->object;
    if (size > 0 && text[0] == ',') {
        text++;
        size--;
    }
    json_t *object = json_loadb(text, size, JSON_ALLOW_NUL, NULL);
    if (object == NULL ||
        !consul_filter_matches(call->filter, object, &call->has_unknown_selector)) {
        call->body.size = mark->size;
        call->json.needs_comma = mark->needs_comma;
        call->position.n_looked_at += size / BYTES_A_RECORD;
    }
    json_decref(object);
}
