#include "core/caller.h"

const struct caller caller_anonymous = {.kind = CALLER_CLIENT};
const struct caller caller_server = {.kind = CALLER_SERVER};

void caller_encode(struct buffer *buffer, const struct caller *caller) {
    buffer_put_u8(buffer, (uint8_t)caller->kind);
    buffer_put_varint(buffer, caller->user_id);
    buffer_put_varint(buffer, caller->auth_version);
}

void caller_decode(struct reader *reader, struct caller *out_caller) {
    out_caller->kind = (enum caller_kind)reader_get_u8(reader);
    out_caller->user_id = reader_get_varint(reader);
    out_caller->auth_version = reader_get_varint(reader);
    if (out_caller->kind > CALLER_SERVER) {
        reader->failed = true;
    }
}
