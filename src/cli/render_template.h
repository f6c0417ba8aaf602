/*
 * The templates of `lease render` (docs/lease-cli.md has the language): text with actions in double
 * braces. Parsing and running are pure; what services, keys and instances there are comes from a
 * source. Everything is bounded: sizes, depth, work.
 *
 *     {{each service "web" tag "v2"}}server {{.address}}:{{.port}};
 *     {{else}}server 127.0.0.1:1 down;
 *     {{end}}
 */
#ifndef LEASED_CLI_RENDER_TEMPLATE_H
#define LEASED_CLI_RENDER_TEMPLATE_H

#include "base/arena.h"
#include "base/buffer.h"
#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    RENDER_TEMPLATE_SIZE_MAX = 1024 * 1024,
    RENDER_NODES_MAX = 20 * 1000,
    RENDER_DEPTH_MAX = 8,
    RENDER_TAGS_MAX = 8,
    RENDER_OUTPUT_SIZE_MAX = 64 * 1024 * 1024,
    RENDER_WORK_MAX = 4 * 1000 * 1000, /* nodes that are run */
    RENDER_ERROR_SIZE = 256
};

/* A text of the template, or a field of the item that is being shown. */
struct render_value {
    bool is_field;
    const char *text;
};

enum render_kind {
    RENDER_TEXT,
    RENDER_FIELD, /* `value` */
    RENDER_KEY,   /* the key `value`, or `other` */
    RENDER_EACH_SERVICE,
    RENDER_EACH_SERVICES,
    RENDER_EACH_KEYS,
    RENDER_IF
};

enum render_test { RENDER_IS_SET, RENDER_IS_EQUAL, RENDER_IS_UNEQUAL };

struct render_node {
    enum render_kind kind;
    struct bytes text; /* of RENDER_TEXT */
    struct render_value value;
    struct render_value other; /* of a key: what is shown without it; of a test: compared with */
    bool has_other;
    enum render_test test;
    bool is_negated;
    struct render_value tags[RENDER_TAGS_MAX];
    size_t n_tags;
    struct render_value zone;
    bool has_zone;
    bool with_all;    /* also instances that do not serve */
    size_t otherwise; /* of a block: where its else begins; its end without one */
    size_t end;       /* one behind the last node of the block */
};

struct render_template {
    const struct render_node *nodes;
    size_t n_nodes;
};

/* The text must outlive the template, which is in the arena. False: `out_error` says what is wrong,
 * and in which line. */
bool render_template_parse(struct bytes text, struct arena *arena,
                           struct render_template *out_template, char out_error[RENDER_ERROR_SIZE]);

/* ---- running ---- */

struct render_field {
    const char *name;
    const char *value;
};
struct render_item {
    const struct render_field *fields;
    size_t n_fields;
};

struct render_query {
    enum render_kind kind; /* RENDER_EACH_… */
    const char *name;      /* of the service; a prefix of services or keys */
    const char *tags[RENDER_TAGS_MAX];
    size_t n_tags;
    const char *zone; /* NULL: any */
    bool with_all;
};

/* Where items come from, in arena memory. False: not known yet, and the whole is run again when it
 * is. */
struct render_source {
    void *context;
    bool (*items)(void *context, const struct render_query *query, struct arena *arena,
                  const struct render_item **out_items, size_t *out_n);
    /* NULL as the value: there is no such key. */
    bool (*key)(void *context, const char *name, struct arena *arena, const char **out_value);
};

enum render_result {
    RENDER_DONE,
    RENDER_WAITS,    /* for the source */
    RENDER_TOO_LARGE /* more output or work than there may be */
};
enum render_result render_template_run(const struct render_template *template,
                                       const struct render_source *source, struct arena *arena,
                                       struct buffer *out);

#endif
