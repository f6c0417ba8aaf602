/* Templates of `lease render`, from a file that somebody else may have written: parsed, and run
 * with items that have every field and with a source that knows nothing. */
#include "cli/render_template.h"

#include <assert.h>
#include <stdint.h>

enum { ITEMS = 3 };

static bool items(void *context, const struct render_query *query, struct arena *arena,
                  const struct render_item **out_items, size_t *out_n) {
    static const struct render_field fields[] = {
        {"name", "web"}, {"zone", "a"}, {"port", "80"}, {"meta.k", "v"}, {"key", "k"}};
    static const struct render_item all[ITEMS] = {{fields, 5}, {fields, 3}, {fields, 0}};
    (void)arena;
    assert(query->name != NULL && query->n_tags <= RENDER_TAGS_MAX);
    *out_items = all;
    *out_n = query->kind == RENDER_EACH_SERVICE ? ITEMS : 0;
    return context == NULL;
}

static bool key(void *context, const char *name, struct arena *arena, const char **out_value) {
    (void)arena;
    *out_value = name[0] == 'k' ? "value" : NULL;
    return context == NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct render_template template;
    char error[RENDER_ERROR_SIZE];
    struct arena arena;
    arena_init(&arena);
    if (render_template_parse(bytes_of(data, size), &arena, &template, error)) {
        struct render_source source = {.items = items, .key = key};
        struct buffer out;
        buffer_init(&out);
        enum render_result result = render_template_run(&template, &source, &arena, &out);
        assert(result != RENDER_WAITS && out.size <= RENDER_OUTPUT_SIZE_MAX);
        out.size = 0;
        source.context = &source;
        (void)render_template_run(&template, &source, &arena, &out);
        buffer_clear(&out);
    } else {
        assert(error[0] != '\0');
    }
    arena_clear(&arena);
    return 0;
}
