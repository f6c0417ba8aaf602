/* What clients of the Consul API send: filters, JSON, durations, base64; and what rules decode. The
 * first byte says which. */
#include "doors/consul/consul_filter.h"
#include "doors/consul/consul_json.h"
#include "doors/consul/consul_model.h"
#include "doors/consul/consul_rules.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_filter(struct bytes text, struct arena *arena) {
    static const char object[] = "{\"A\":{\"B\":\"c\",\"D\":[\"e\"]},\"F\":1,\"G\":true}";
    const char *why = NULL;
    const struct consul_filter *filter = consul_filter_parse(text, arena, &why);
    assert((filter == NULL) == (why != NULL));
    if (filter != NULL) {
        bool is_unknown = false;
        json_t *value = json_loadb(object, sizeof object - 1, 0, NULL);
        (void)consul_filter_matches(filter, value, &is_unknown);
        json_decref(value);
    }
}

static void try_json(struct bytes text, struct arena *arena) {
    char why[160];
    struct bytes found = {0};
    int64_t number = 0;
    const struct bytes *texts = NULL;
    size_t n = 0;
    json_t *value = consul_json_parse(text, why, sizeof why);
    (void)consul_json_get_text(value, "Name", &found);
    (void)consul_json_get_duration(value, "TTL", &number);
    (void)consul_json_get_number(value, "Port", &number);
    (void)consul_json_get_texts(value, "Tags", arena, &texts, &n);
    json_decref(value);
}

/* Whatever the bytes are, what is written of them is JSON. */
static void try_text(struct bytes text) {
    struct buffer out;
    struct consul_json json;
    buffer_init(&out);
    consul_json_init(&json, &out);
    consul_json_begin(&json, '[');
    consul_json_text(&json, text);
    consul_json_base64(&json, text);
    consul_json_end(&json, ']');
    json_t *value = json_loadb((const char *)out.data, out.size, JSON_ALLOW_NUL, NULL);
    assert(value != NULL);
    json_decref(value);
    buffer_clear(&out);
}

static void try_records(struct bytes bytes, struct arena *arena) {
    struct consul_value value;
    struct consul_lock lock;
    struct consul_session session;
    struct consul_event event;
    struct consul_results results;
    struct consul_check_name name;
    (void)consul_value_decode(bytes, &value);
    (void)consul_lock_decode(bytes, &lock);
    if (consul_session_decode(bytes, arena, &session)) {
        (void)consul_session_is_valid(&session);
    }
    (void)consul_event_decode(bytes, &event);
    (void)consul_check_name_decode(bytes, &name);
    (void)consul_results_decode(bytes, arena, &results);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct arena arena;
    struct bytes decoded;
    int64_t ms = 0;
    char text[48];
    if (size == 0) {
        return 0;
    }
    struct bytes rest = bytes_of(data + 1, size - 1);
    arena_init(&arena);
    switch (data[0] % 5) {
    case 0:
        try_filter(rest, &arena);
        break;
    case 1:
        try_json(rest, &arena);
        break;
    case 2:
        try_text(rest);
        break;
    case 3:
        try_records(rest, &arena);
        break;
    default:
        (void)consul_base64_decode(rest, &arena, &decoded);
        if (consul_duration_read(rest, &ms) && ms >= 0) {
            (void)consul_duration_text(ms, text);
        }
    }
    arena_clear(&arena);
    return 0;
}
