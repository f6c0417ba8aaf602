#include "raft/write_order.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void write_order_init(struct write_order *order, uint64_t stored) {
    *order = (struct write_order){.stored = stored};
}

void write_order_clear(struct write_order *order) {
    free(order->spans);
    write_order_init(order, 0);
}

static void make_room(struct write_order *order) {
    if (order->begin + order->n < order->capacity) {
        return;
    }
    if (order->begin > order->capacity / 2) {
        memmove(order->spans, order->spans + order->begin, order->n * sizeof *order->spans);
        order->begin = 0;
        return;
    }
    order->capacity = order->capacity == 0 ? 16 : order->capacity * 2;
    order->spans = realloc(order->spans, order->capacity * sizeof *order->spans);
    if (order->spans == NULL) {
        abort();
    }
}

void write_order_begin(struct write_order *order, uint64_t first, uint64_t last) {
    assert(first > 0);
    assert(first <= last);
    make_room(order);
    order->spans[order->begin + order->n++] =
        (struct write_order_span){.first = first, .last = last};
}

bool write_order_end(struct write_order *order) {
    if (order->n == 0) {
        return false;
    }
    struct write_order_span span = order->spans[order->begin++];
    if (--order->n == 0) {
        order->begin = 0;
    }
    if (span.last < span.first || span.last <= order->stored) {
        return false;
    }
    order->stored = span.last;
    return true;
}

void write_order_truncate(struct write_order *order, uint64_t from) {
    assert(from > 0);
    for (size_t i = order->begin; i < order->begin + order->n; i++) {
        if (order->spans[i].last >= from) {
            order->spans[i].last = from - 1;
        }
    }
    if (order->stored >= from) {
        order->stored = from - 1;
    }
}

void write_order_void(struct write_order *order) {
    for (size_t i = order->begin; i < order->begin + order->n; i++) {
        order->spans[i].last = 0;
    }
    order->stored = 0;
}
