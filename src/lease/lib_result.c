#include "lease/lib_result.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE_MAX = 256 };

struct lib_result {
    struct arena arena;
    alignas(max_align_t) uint8_t value[];
};

struct lib_result *lib_result_create(size_t size) {
    struct lib_result *result = calloc(1, sizeof *result + size);
    if (result == NULL) {
        abort();
    }
    arena_init(&result->arena);
    return result;
}

struct arena *lib_result_arena(struct lib_result *result) {
    return &result->arena;
}

void *lib_result_value(struct lib_result *result) {
    return result->value;
}

void lease_free(const void *value) {
    if (value == NULL) {
        return;
    }
    struct lib_result *result =
        (struct lib_result *)((uint8_t *)value - offsetof(struct lib_result, value));
    arena_clear(&result->arena);
    free(result);
}

enum lease_status lib_look(struct lease_connection *connection, struct lib_request *request,
                           size_t size, lib_result_read *read, void *context,
                           const void **out_value) {
    struct buffer answer;
    enum lease_status status = lib_ask(connection, request, &answer);
    if (status != LEASE_OK) {
        return status;
    }
    struct lib_result *result = lib_result_create(size);
    if (!read(&result->arena, bytes_of(answer.data, answer.size), result->value, context)) {
        lease_free(result->value);
        status = lib_error(LEASE_PROTOCOL, "the server's answer is malformed");
    } else {
        *out_value = result->value;
    }
    buffer_clear(&answer);
    return status;
}

enum lease_status lib_check_name(const char *name) {
    if (name == NULL || name[0] == '\0' || strlen(name) > NAME_SIZE_MAX) {
        return lib_error(LEASE_INVALID, "a name has 1 to %d bytes", NAME_SIZE_MAX);
    }
    return LEASE_OK;
}

enum lease_status lib_need_native(struct lease_connection *connection, const char *sentence) {
    enum lease_protocol protocol;
    enum lease_status status = lib_know_protocol(connection, &protocol);
    if (status == LEASE_OK && protocol == LEASE_PROTOCOL_ETCD) {
        status = lib_error(LEASE_UNSUPPORTED, "%s", sentence);
    }
    return status;
}
