#include "net/http_fields.h"

#include <assert.h>
#include <string.h>

void http_fields_add(struct buffer *fields, struct bytes name, struct bytes value) {
    assert(name.size <= HTTP_FIELD_PART_MAX);
    assert(value.size <= HTTP_FIELD_PART_MAX);
    const uint16_t sizes[2] = {(uint16_t)name.size, (uint16_t)value.size};
    buffer_append(fields, sizes, sizeof sizes);
    buffer_append(fields, name.data, name.size);
    buffer_append(fields, value.data, value.size);
}

bool http_fields_next(const struct buffer *fields, size_t *position, struct bytes *out_name,
                      struct bytes *out_value) {
    if (*position >= fields->size) {
        return false;
    }
    uint16_t sizes[2];
    memcpy(sizes, fields->data + *position, sizeof sizes);
    const uint8_t *at = fields->data + *position + sizeof sizes;
    *out_name = bytes_of(at, sizes[0]);
    *out_value = bytes_of(at + sizes[0], sizes[1]);
    *position += sizeof sizes + sizes[0] + sizes[1];
    return true;
}

bool http_fields_find(const struct buffer *fields, const char *name, struct bytes *out_value) {
    struct bytes wanted = bytes_from_text(name);
    size_t position = 0;
    struct bytes found;
    struct bytes value;
    while (http_fields_next(fields, &position, &found, &value)) {
        if (bytes_equal(found, wanted)) {
            *out_value = value;
            return true;
        }
    }
    return false;
}
