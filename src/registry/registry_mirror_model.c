#include "registry/registry_mirror_model.h"

static void put_text(struct buffer *out, const char *text) {
    buffer_append(out, text, strlen(text));
}

const char *registry_state_text(enum registry_state state) {
    switch (state) {
    case REGISTRY_STARTING:
        return "starting";
    case REGISTRY_UP:
        return "up";
    case REGISTRY_DRAINING:
        return "draining";
    case REGISTRY_OUT_OF_SERVICE:
        return "out-of-service";
    case REGISTRY_DOWN:
        return "down";
    default:
        return "none";
    }
}

const char *registry_health_text(enum registry_health health) {
    switch (health) {
    case REGISTRY_PASSING:
        return "passing";
    case REGISTRY_WARNING:
        return "warning";
    default:
        return "critical";
    }
}

/* RFC 8259, section 7. The text is UTF-8. */
static void put_string(struct buffer *out, struct bytes text) {
    static const char digits[] = "0123456789abcdef";
    buffer_put_u8(out, '"');
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.data[i];
        if (byte == '"' || byte == '\\') {
            buffer_put_u8(out, '\\');
            buffer_put_u8(out, byte);
        } else if (byte < 0x20) {
            put_text(out, "\\u00");
            buffer_put_u8(out, (uint8_t)digits[byte >> 4]);
            buffer_put_u8(out, (uint8_t)digits[byte & 15]);
        } else {
            buffer_put_u8(out, byte);
        }
    }
    buffer_put_u8(out, '"');
}

static void put_number(struct buffer *out, uint64_t number) {
    uint8_t digits[20];
    size_t n = 0;
    do {
        digits[n++] = (uint8_t)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (n > 0) {
        buffer_put_u8(out, digits[--n]);
    }
}

static void put_member(struct buffer *out, const char *name, struct bytes value) {
    put_text(out, name);
    put_string(out, value);
}

static void put_tags(struct buffer *out, const struct registry_instance *instance) {
    put_text(out, ",\"tags\":[");
    for (size_t i = 0; i < instance->n_tags; i++) {
        put_text(out, i > 0 ? "," : "");
        put_string(out, instance->tags[i]);
    }
    put_text(out, "],\"metadata\":{");
    for (size_t i = 0; i < instance->n_metadata; i++) {
        put_text(out, i > 0 ? "," : "");
        put_string(out, instance->metadata[i].key);
        put_text(out, ":");
        put_string(out, instance->metadata[i].value);
    }
    put_text(out, "}");
}

void registry_mirror_write(struct buffer *out, const struct registry_instance *instance,
                           enum registry_health health) {
    put_member(out, "{\"id\":", instance->id);
    put_member(out, ",\"service\":", instance->service);
    put_member(out, ",\"address\":", instance->address);
    put_text(out, ",\"port\":");
    put_number(out, instance->port);
    put_tags(out, instance);
    put_member(out, ",\"zone\":", instance->zone);
    put_member(out, ",\"version\":", instance->version);
    put_text(out, ",\"weight\":");
    put_number(out, instance->weight);
    put_member(out, ",\"state\":",
               bytes_from_text(registry_state_text(registry_instance_state(instance))));
    put_member(out, ",\"health\":", bytes_from_text(registry_health_text(health)));
    put_text(out, ",\"token\":");
    put_number(out, (uint64_t)instance->token);
    put_text(out, "}");
}
