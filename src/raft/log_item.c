#include "raft/log_item.h"

#include <assert.h>
#include <stdlib.h>

struct log_item *log_item_create(enum log_item_type type, uint64_t index, uint64_t term,
                                 uint8_t *bytes, size_t size) {
    assert(bytes != NULL || size == 0);
    struct log_item *item = malloc(sizeof *item);
    if (item == NULL) {
        abort();
    }
    *item = (struct log_item){
        .index = index,
        .term = term,
        .type = type,
        .n_references = 1,
        .size = size,
        .bytes = bytes,
    };
    return item;
}

struct log_item *log_item_reference(struct log_item *item) {
    assert(item->n_references > 0);
    assert(item->n_references < UINT32_MAX);
    item->n_references++;
    return item;
}

void log_item_release(struct log_item *item) {
    if (item == NULL) {
        return;
    }
    assert(item->n_references > 0);
    item->n_references--;
    if (item->n_references == 0) {
        free(item->bytes);
        free(item);
    }
}
