#include "doors/zookeeper/zk_jute_model.h"

static const uint8_t *take(struct reader *reader, size_t size) {
    if (reader->failed || size > reader_left(reader)) {
        reader->failed = true;
        return NULL;
    }
    const uint8_t *bytes = reader->data + reader->position;
    reader->position += size;
    return bytes;
}

static uint64_t get_number(struct reader *reader, size_t size) {
    const uint8_t *bytes = take(reader, size);
    uint64_t number = 0;
    for (size_t i = 0; bytes != NULL && i < size; i++) {
        number = number << 8 | bytes[i];
    }
    return number;
}

int32_t zk_jute_get_int(struct reader *reader) {
    return (int32_t)(uint32_t)get_number(reader, 4);
}

int64_t zk_jute_get_long(struct reader *reader) {
    return (int64_t)get_number(reader, 8);
}

bool zk_jute_get_bool(struct reader *reader) {
    return get_number(reader, 1) != 0;
}

struct bytes zk_jute_get_bytes(struct reader *reader, bool *out_is_null) {
    int32_t size = zk_jute_get_int(reader);
    if (out_is_null != NULL) {
        *out_is_null = size == -1;
    }
    if (size < 0) {
        reader->failed |= size != -1;
        return bytes_of(NULL, 0);
    }
    const uint8_t *bytes = take(reader, (size_t)size);
    return bytes_of(bytes, bytes == NULL ? 0 : (size_t)size);
}

size_t zk_jute_get_count(struct reader *reader, size_t element_min) {
    int32_t count = zk_jute_get_int(reader);
    if (count < -1 || (count > 0 && (size_t)count > reader_left(reader) / element_min)) {
        reader->failed = true;
    }
    return reader->failed || count < 0 ? 0 : (size_t)count;
}
