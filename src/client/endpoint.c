#include "client/endpoint.h"

#include <assert.h>
#include <string.h>

enum status endpoint_list_parse(const char *text, struct endpoint_list *out_list) {
    struct endpoint_list list = {.n_items = 0};
    for (;;) {
        const char *comma = strchrnul(text, ',');
        if (list.n_items == ENDPOINTS_MAX) {
            return STATUS_INVALID;
        }
        enum status status =
            endpoint_text_parse(bytes_of(text, (size_t)(comma - text)), &list.items[list.n_items]);
        if (status != STATUS_OK) {
            return status;
        }
        list.n_items++;
        if (*comma == 0) {
            break;
        }
        text = comma + 1;
    }
    *out_list = list;
    return STATUS_OK;
}

const char *endpoint_format(const struct endpoint *endpoint, char room[ENDPOINT_TEXT_SIZE_MAX]) {
    return endpoint_text_format(endpoint, room);
}

struct grpc_client_options endpoint_options(const struct endpoint_list *list, size_t index) {
    assert(index < list->n_items);
    const struct endpoint *endpoint = &list->items[index];
    bool is_path = endpoint->path[0] != '\0';
    assert(endpoint->security != ENDPOINT_TLS || list->tls != NULL);
    return (struct grpc_client_options){
        .host = is_path ? NULL : endpoint->host,
        .port = endpoint->port,
        .socket_path = is_path ? endpoint->path : NULL,
        .tls = endpoint->security == ENDPOINT_PLAIN ? NULL : list->tls,
    };
}
